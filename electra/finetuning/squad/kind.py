"""SQuAD as a kind of task: windows, the span head, answers and the official figures behind one
door.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from electra.card import Use
from electra.config import build, plain
from electra.data.tokenizer import Tokenizer
from electra.errors import BadInput, shown
from electra.finetuning.heads import Network, OutputArrays
from electra.finetuning.squad import answers as spans
from electra.finetuning.squad import official, windows
from electra.finetuning.squad.head import SpanFinder
from electra.finetuning.task_kind import (
    DO,
    Exported,
    Row,
    SplitResult,
    Stored,
    TaskKind,
    require_texts,
)
from electra.finetuning.tasks import SQUAD_2, FinetuneConfig, SquadConfig, SquadTask, Task
from electra.nn.encoder import Encoder
from electra.nn.huggingface import SPANS, TASK
from electra.storage.tensors import Tensors, fill

_READ, _CHOSEN = (
    {"length", "stride", "question_length"},
    {"beam", "answer_length", "n_best", "null_threshold"},
)
_KEPT = _READ | _CHOSEN | {"head", "answerability"}  # settings that a folder's answers depend on


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
        return [row["question"], row["context"]], row["answers"][0]["text"] if row[
            "answers"
        ] else "no answer"

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
        encoded: windows.EncodedQuestions,
        config: SquadConfig,
        *,
        labelled: bool,
    ) -> SplitResult:
        candidates = spans.candidates(encoded, outputs, config)
        judged = score_candidates(candidates, encoded, self.version, config)
        complete = bool(np.isfinite(outputs["null"]).all())
        return dataclasses.replace(
            judged, finite=complete, ensemble={"-candidates.safetensors": candidates.tensors()}
        )

    def answers(
        self, outputs: OutputArrays, encoded: windows.EncodedQuestions, config: SquadConfig
    ) -> Iterator[Row]:
        candidates = spans.candidates(encoded, outputs, config)
        threshold = config.null_threshold if config.answerability else None
        for row, answer in zip(
            encoded.rows, spans.choose(encoded, candidates, config), strict=True
        ):
            yield {
                "id": row["id"],
                "prediction": answer.given(threshold),
                "best": answer.best,
                "start": answer.spans[0].begin if answer.spans else None,
                "null_score": answer.null,
                "n_best": spans.official(answer, candidates, outputs),
            }

    def score(
        self, rows: Sequence[Row], answers: Mapping[str, Any], where: Path
    ) -> dict[str, float]:
        """Exact match and F1 as the official scripts give them; answers are as handed in, empty
        where there is none.
        """
        for key, text in answers.items():
            if not isinstance(text, str):
                raise BadInput(f"{where}: answers {shown(text)} to {key}; expected text")
        figures = official.evaluate(rows, answers, dict.fromkeys(answers, 0.0), self.version, 0.0)
        return {name: value for name, value in figures.items() if not name.startswith("best_")}

    def export(self, network: Any, config: FinetuneConfig) -> Exported:
        task_json = {"squad": {key: value for key, value in plain(config).items() if key in _KEPT}}
        beside: dict[str, Tensors] = {SPANS: _head(network).state_dict()}
        if network.conditional or not network.encoder.config.has_hf_task_head:
            return Exported("ElectraModel", task_json, beside=beside)
        parts = [part.state_dict() for part in (network.start, network.end_alone)]
        pair = {
            f"qa_outputs.{kind}": torch.cat([part[kind] for part in parts])
            for kind in ("weight", "bias")
        }
        return Exported(self.architecture, task_json, tensors=pair, beside=beside)

    def restore(self, stored: Stored) -> tuple[Network, FinetuneConfig]:
        """From the file of the head's own, or from transformers' two rows, which are the
        independent head.
        """
        usual = {"head": "independent", "answerability": False, "length": stored.length}
        config = build(
            SquadConfig, stored.task_json.get("squad") or usual, f"{stored.path / TASK}: squad"
        )
        network = SpanFinder(stored.encoder, config)
        pair, head = nn.Linear(network.start.in_features, 2), _head(network)
        beside = (stored.path / SPANS).is_file()
        if stored.heads or not beside:
            stored.fill({"qa_outputs": pair}, stored.heads)
        rows = {kind: value.chunk(2) for kind, value in pair.state_dict().items()}
        both = {
            f"{name}.{kind}": rows[kind][i]
            for i, name in enumerate(("start", "end_alone"))
            for kind in rows
        }
        fill(head, stored.beside(SPANS) if beside else both, stored.path / SPANS, DO)
        return network, config

    @staticmethod
    def task_of(stored: Stored) -> Task:
        return SQUAD_2

    def card_example(self) -> Use:
        return "question"


def score_candidates(
    candidates: spans.Candidates,
    encoded: windows.EncodedQuestions,
    version: official.Version,
    config: SquadConfig,
) -> SplitResult:
    """Return every official figure and file of the candidates."""
    ids = [row["id"] for row in encoded.rows]
    answers = dict(zip(ids, spans.choose(encoded, candidates, config), strict=True))
    threshold = config.null_threshold if version == "2.0" else None
    given = {key: answer.given(threshold) for key, answer in answers.items()}
    best, null = (
        {key: getattr(a, name) for key, a in answers.items()} for name in ("best", "null")
    )
    n_best = {
        key: [[span.text, span.score] for span in answer.spans] for key, answer in answers.items()
    }
    files = {".json": given, "-null-odds.json": null, "-nbest.json": n_best}
    scores = official.evaluate(encoded.rows, best, null, version, config.null_threshold)
    first, *others = given.values()
    alike = bool(others) and all(text == first for text in others)
    return SplitResult(
        files, scores, f"{first!r} was the answer to every question" if alike else None
    )


def _head(network: SpanFinder) -> nn.ModuleDict:
    return nn.ModuleDict(
        {name: part for name, part in network.named_children() if name != "encoder"}
    )
