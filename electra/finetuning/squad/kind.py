"""SQuAD as a kind of task: windows, the span head, answers and the official figures."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from electra.card import Use
from electra.config import build, to_jsonable
from electra.data.tokenizer import Tokenizer
from electra.errors import BadInput, short_repr
from electra.finetuning.heads import Network, OutputArrays
from electra.finetuning.squad import answers as spans
from electra.finetuning.squad import official, windows
from electra.finetuning.squad.head import SpanFinder
from electra.finetuning.task_kind import (
    FOLDER_ADVICE,
    Exported,
    Row,
    SplitResult,
    Stored,
    TaskKind,
    require_texts,
)
from electra.finetuning.tasks import SQUAD_1, SQUAD_2, FinetuneConfig, SquadConfig, SquadTask, Task
from electra.nn.encoder import Encoder
from electra.nn.huggingface import SPANS, TASK
from electra.storage.tensors import Tensors, load_exactly

_KEPT = {  # settings that a folder's answers depend on
    *("length", "stride", "question_length"),
    *("beam", "answer_length", "n_best", "null_threshold"),
    *("head", "answerability"),
}


class QuestionAnswering(TaskKind):
    """Questions about a context: a span of it, or that it holds no answer."""

    architecture = "ElectraForQuestionAnswering"
    example = "windows"
    label = "answers"

    def __init__(self, task: Task) -> None:
        assert isinstance(task, SquadTask)
        super().__init__(task)
        self.version = task.version

    def column_names(self, official: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        return (("question", "context"),)

    def parse_row(self, values: Mapping[str, Any], where: str) -> Row:
        question, context = require_texts(values, where)
        return {"question": question, "context": context, "answers": [], "impossible": True}

    def display(self, row: Mapping[str, Any]) -> tuple[list[Any], Any]:
        texts = [answer["text"] for answer in row["answers"]] or ["no answer"]
        return [row["question"], row["context"]], texts[0]

    def check_row(self, row: Row, where: str, *, labelled: bool) -> None:
        windows.check_row(row, where)

    def encode(
        self, rows: list[Row], tokenizer: Tokenizer, config: FinetuneConfig
    ) -> windows.EncodedQuestions:
        assert isinstance(config, SquadConfig)
        return windows.encode(rows, tokenizer, config)

    def network(self, encoder: Encoder, config: FinetuneConfig) -> Network:
        assert isinstance(config, SquadConfig)
        return SpanFinder(encoder, config)

    def score_split(
        self,
        outputs: OutputArrays,
        encoded: Any,
        config: Any,
        *,
        labelled: bool,
    ) -> SplitResult:
        candidates = spans.candidates(encoded, outputs, config)
        return dataclasses.replace(
            self.score_candidates(candidates, encoded, config),
            finite=bool(np.isfinite(outputs["null"]).all()),
            ensemble={"-candidates.safetensors": candidates.tensors()},
        )

    def score_candidates(
        self, candidates: spans.Candidates, encoded: windows.EncodedQuestions, config: SquadConfig
    ) -> SplitResult:
        """Return every official figure and file of the candidates."""
        ids = [row["id"] for row in encoded.rows]
        answers = dict(zip(ids, spans.choose(encoded, candidates, config), strict=True))
        best = {key: answer.best for key, answer in answers.items()}
        null = {key: answer.null for key, answer in answers.items()}
        given = {key: self._given(answer, config) for key, answer in answers.items()}
        n_best = {
            key: [[span.text, span.score] for span in answer.spans]
            for key, answer in answers.items()
        }
        files = {".json": given, "-null-odds.json": null, "-nbest.json": n_best}
        scores = official.evaluate(encoded.rows, best, null, self.version, config.null_threshold)
        fault = None
        if len(ids) > 1 and len(set(given.values())) == 1:
            fault = f"{given[ids[0]]!r} was the answer to every question"
        return SplitResult(files, scores, fault)

    def _given(self, answer: spans.Answer, config: SquadConfig) -> str:
        """Return the answer as handed in: version 2.0 leaves a question unanswered if its null
        score is above the threshold, 1.1 never does.
        """
        blank = self.version == "2.0" and answer.null > config.null_threshold
        return "" if blank else answer.best

    def answers(self, outputs: OutputArrays, encoded: Any, config: Any) -> Iterator[Row]:
        candidates = spans.candidates(encoded, outputs, config)
        answers = spans.choose(encoded, candidates, config)
        for row, answer in zip(encoded.rows, answers, strict=True):
            yield {
                "id": row["id"],
                "prediction": self._given(answer, config),
                "best": answer.best,
                "start": answer.spans[0].begin if answer.spans else None,
                "null_score": answer.null,
                "n_best": spans.official(answer, candidates, outputs),
            }

    def score(
        self, rows: Sequence[Row], answers: Mapping[str, Any], where: Path
    ) -> dict[str, float]:
        """Return exact match and F1 as the official scripts give them. Answers are as handed in,
        empty where there is none.
        """
        for key, text in answers.items():
            if not isinstance(text, str):
                raise BadInput(f"{where}: answers {short_repr(text)} to {key}; expected text")
        figures = official.evaluate(rows, answers, dict.fromkeys(answers, 0.0), self.version, 0.0)
        return {name: value for name, value in figures.items() if not name.startswith("best_")}

    def export(self, network: Any, config: FinetuneConfig) -> Exported:
        kept = {key: value for key, value in to_jsonable(config).items() if key in _KEPT}
        task_json = {"squad": {"versions": [self.version], **kept}}
        extra_files: dict[str, Tensors] = {SPANS: _head(network).state_dict()}
        if network.conditional or not network.encoder.config.has_hf_task_head:
            return Exported("ElectraModel", task_json, extra_files=extra_files)
        start = network.start.state_dict()
        end = network.end_alone.state_dict()
        pair = {f"qa_outputs.{kind}": torch.cat([start[kind], end[kind]]) for kind in start}
        return Exported(self.architecture, task_json, tensors=pair, extra_files=extra_files)

    def restore(self, stored: Stored) -> tuple[Network, FinetuneConfig]:
        """Return a head from the file of its own, or from transformers' two rows, which are the
        independent head.

        A folder from elsewhere is answered as run_squad answers: 0 is the threshold.
        """
        usual = {
            "head": "independent",
            "answerability": False,
            "null_threshold": 0.0,
            "question_length": min(64, stored.length // 2),
            "stride": min(128, stored.length // 4),
        }
        where = f"{stored.path / TASK}: squad"
        squad = stored.task_json.get("squad")
        values = squad if isinstance(squad, dict) else usual
        config = build(SquadConfig, {**values, "length": stored.length}, where)
        config.check_merged(where)
        network = SpanFinder(stored.encoder, config)
        head = _head(network)
        if (stored.path / SPANS).is_file():
            tensors = stored.extra_file(SPANS)
        else:
            pair = nn.Linear(network.start.in_features, 2)
            stored.load_exactly(nn.ModuleDict({"qa_outputs": pair}), stored.heads)
            tensors = {}
            for kind, value in pair.state_dict().items():
                tensors[f"start.{kind}"], tensors[f"end_alone.{kind}"] = value.chunk(2)
        load_exactly(head, tensors, stored.path / SPANS, FOLDER_ADVICE)
        return network, config

    @staticmethod
    def task_of(stored: Stored) -> Task:
        squad = stored.task_json.get("squad")
        old = isinstance(squad, dict) and squad.get("versions") == ["1.1"]
        return SQUAD_1 if old else SQUAD_2

    def card_example(self) -> Use:
        return "question"


def _head(network: SpanFinder) -> nn.ModuleDict:
    return nn.ModuleDict(
        {name: part for name, part in network.named_children() if name != "encoder"}
    )
