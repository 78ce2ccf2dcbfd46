"""The models of the page: a generator, a discriminator and fine-tuned models, by a name of params.yaml or a folder.

A name means what its stages wrote under build/, a folder itself or the models in it. Pre-trained networks are
loaded at once, so that damage is an error of the command; fine-tuned models at their first request.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from tokenizers import decoders

import electra
from electra.data.word_cache import CONTINUATION
from electra.errors import BadInput
from electra.files import read_json
from electra.finetuning.folder import is_finetuned
from electra.finetuning.reading import kind_of, read_rows
from electra.finetuning.task_kind import Row
from electra.finetuning.tasks import SQUAD
from electra.inference import InputSchema, Model, answer, as_row
from electra.nn.huggingface import ModelFolder
from pipelines.config.params import load
from pipelines.report.examples import named
from pipelines.report.records import TITLES
from pipelines.sources import predict_rows

TEXTS, ROWS = 12, 12  # examples that the page offers
FIRST_SEED = "*/pretrained-seed*/config.json"


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """A fine-tuned model, and the folder of its task's rows if there may be one."""

    title: str
    folder: Path
    rows: Path | None = None


@dataclass(frozen=True, kw_only=True)
class ModelRegistry:
    """The models that the page may use, and some held-out texts."""

    name: str
    data: str  # what they were trained on
    models: dict[str, Model]  # discriminator and generator, those that exist
    tuned: dict[str, Tuned]
    texts: Sequence[str] = ()
    commands: Sequence[str] = ()  # that fine-tune it, where the model has a name
    load: Any = field(default_factory=lambda: lru_cache(maxsize=4)(electra.load), repr=False)

    @staticmethod
    def open(wanted: str | None) -> "ModelRegistry":
        """The models of a name in params.yaml (by default the first of `run.models`), or of a folder."""
        if wanted is not None and (folder := Path(wanted)).is_dir():
            folders = [folder] if (folder / "config.json").is_file() else _folders(folder, "*/config.json")
            return _registry(folder.absolute().name, "", folders, {})
        params = load()
        name = wanted or next(iter(params.run.models), "tiny")
        tuned: dict[str, Tuned] = {}
        if config := params.finetunings.get(name):
            model, data, tasks = config.model, params.data("glue", name), Path("build/tasks") / config.tasks
            kinds = ("glue", "squad") if params.squad_versions(name) else ("glue",)
            for each in [path for kind in kinds for path in _folders(Path("build") / kind / name, FIRST_SEED)]:
                task = SQUAD.get(each.parent.name, each.parent.name)  # build/squad/NAME has the versions of SQuAD
                title = TITLES.get(task, task)
                tuned.setdefault(title, Tuned(title=title, folder=each, rows=tasks / task))
            commands = [f"electra {kind} {name}" for kind in kinds]
        else:
            if name not in params.published:
                params.require("models", name)
            model, data = name, "" if name in params.published else params.data("pretrain", name)
            commands = [f"electra new NAME --task FILE --model {name}"]
        pretrained, stage = Path("build/models") / model, "published" if model in params.published else "pretrain"
        if not (folders := _folders(pretrained, "*/config.json")) and not tuned:
            do = f"make it: dvc repro pipelines/dvc.yaml:{stage}@{model}"
            raise BadInput(pretrained, "there is no such model", "what a stage has left there", do)
        return _registry(name, data, folders, tuned, commands)

    def need(self, kind: str) -> Model:
        """The discriminator or the generator."""
        if kind not in self.models:
            raise BadInput(self.name, f"has no {kind}", "a model that was pre-trained with one")
        return self.models[kind]

    def chosen(self, title: object) -> Tuned:
        """A fine-tuned model by its title."""
        if not isinstance(title, str) or title not in self.tuned:
            expected = f"one of {', '.join(self.tuned) or 'none: nothing is fine-tuned'}"
            raise BadInput("task", f"is {title!r:.80}", expected)
        return self.tuned[title]

    def about(self, tuned: Tuned) -> Row:
        """The input form of a fine-tuned model, and examples with their labels."""
        form = form_of(self.load(tuned.folder))
        fields, task = form.names[0], form.task
        labels = {each: named(task.name, each) for each in task.labels}
        use = kind_of(task).use()
        kind = use if use in {"question", "words"} else "classes" if task.labels else "number"
        return {"kind": kind, "fields": fields, "labels": labels, "examples": list(_examples(tuned, form))}

    def answer(self, tuned: Tuned, row: Row) -> Row:
        """A fine-tuned model's answer to a row by the names of its columns."""
        model = self.load(tuned.folder)
        (found,) = answer(model.ready, [as_row(form_of(model), row, "0", "row")], model.device)
        return found


def form_of(model: Model) -> InputSchema:
    """The columns of a fine-tuned model's rows."""
    assert model.ready is not None
    return predict_rows.of(model.ready.task)


def _folders(root: Path, pattern: str) -> list[Path]:
    """Folders of models, those of low seeds first."""

    def order(path: Path) -> list[int | str]:
        return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", str(path))]

    return sorted((path.parent for path in root.glob(pattern)), key=order)


def _registry(
    name: str, data: str, folders: Iterable[Path], tuned: dict[str, Tuned], commands: Sequence[str] = ()
) -> ModelRegistry:
    models: dict[str, Model] = {}
    texts: Sequence[str] = ()
    for folder in folders:
        if is_finetuned(ModelFolder(folder)):
            tuned.setdefault(folder.name, Tuned(title=folder.name, folder=folder))
            continue
        model = electra.load(folder)
        if model.kind in {"discriminator", "generator"} and model.kind not in models:
            models[model.kind] = model
            texts = texts or _texts(folder.parent / "examples.json", model)
    if not models and not tuned:
        raise BadInput(name, "holds nothing to play with", "a discriminator, a generator or a fine-tuned model")
    return ModelRegistry(name=name, data=data, models=models, tuned=tuned, texts=texts, commands=commands)


def _texts(path: Path, model: Model) -> list[str]:
    """The held-out texts that pre-training saved as examples, joined from their tokens."""
    if not path.is_file():
        return []
    special = {"[CLS]", "[SEP]", "[PAD]"}
    rows = [[piece for piece in row["original"] if piece not in special] for row in read_json(path)[:TEXTS]]
    return [decoders.WordPiece(prefix=CONTINUATION).decode(pieces) for pieces in rows if pieces]


def _examples(tuned: Tuned, form: InputSchema) -> Iterable[Row]:
    """Rows of the dev split by column name, with their labels; none if the split is not there."""
    path = tuned.rows / "dev.jsonl" if tuned.rows else None
    if path is None or not path.is_file():
        return
    for row in islice(read_rows(path, form.task), ROWS):
        texts, wanted = kind_of(form.task).show(row)
        if wanted is row.get("label"):
            wanted = named(form.task.name, wanted) if form.task.labels else f"{wanted:.1f}"
        yield {"row": dict(zip(form.names[0], texts, strict=False)), "wanted": wanted}
