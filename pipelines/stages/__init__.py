"""The stages, in one list for the command line, DVC, tracking, flows and the digests of code.

A new stage is a module in this folder with `run(name, params, tracker)`, an entry of `STAGES`, and
an entry of pipelines/dvc.yaml. `run` reads params.yaml and the folders of earlier stages, and
writes the stage's own folder in build/, with the numbers in its results.json. It needs neither DVC
nor Prefect nor MLflow.

Modules of stages import torch, so none is imported before its stage runs.
"""

import importlib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from electra.config import to_jsonable
from electra.files import lock_folder, sweep
from electra.workers import rank
from pipelines.versioning.code import code_digest

if TYPE_CHECKING:
    from pipelines.config.params import Params
    from pipelines.tracking import Tracker

BUILD = Path("build")
RESULTS = "results.json"  # the numbers, in the folder of a stage
LOCKS = Path("runs/.locks")
TIMINGS = Path("runs/timings.json")  # of the last run of each stage here
CURVE = "curve.csv"  # of pre-training, in the same folder
Inputs = Callable[["Params", str], tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage, for all of its names.

    `section` of params.yaml holds its names ("" for the report, which has none). `inputs` gives the
    stages whose folders it reads, as DVC names them (`corpus@c4`). `code` are the files and folders
    that its bytes depend on. `restarts` says whether it keeps unfinished work, which a restart sets
    aside: its module has a `run_folder(name, params)`.
    """

    name: str
    section: str
    help: str
    folder: str  # in build/
    inputs: Inputs = lambda params, name: ()
    code: tuple[str, ...] = ()
    restarts: bool = False
    has_cards: bool = False  # leaves models, which get model cards

    @property
    def module(self) -> ModuleType:
        """The module that does the work."""
        return importlib.import_module(f"pipelines.stages.{self.name}")

    @property
    def digest(self) -> str:
        """The digest of `code`."""
        return code_digest(self.code)

    def run(self, name: str, params: "Params", tracker: "Tracker") -> None:
        """Run the stage in the working folder. Raises Busy where another process runs it there."""
        lock = lock_folder(LOCKS / f"{self.name}-{name}") if is_main() else nullcontext()
        with lock:
            sweep(BUILD / self.folder, ".*")
            self.module.run(name, params, tracker)

    def results(self, name: str) -> Path:
        """Return the path of a name's numbers."""
        return BUILD / self.folder / name / RESULTS

    def settings(self, name: str, params: "Params") -> dict[str, Any]:
        """Return the settings that a name is run with, for its record."""
        config = getattr(params, self.section)[name] if self.section else params.run
        values: dict[str, Any] = to_jsonable(config)
        if self.section == "finetunings":
            values |= self.module.settings(name, params)
        return values


def is_main() -> bool:
    """Return whether this process is the only one, or the first of several: it alone writes and
    prints.
    """
    return rank()[0] == 0


def ancestors(key: str, params: "Params") -> tuple[str, ...]:
    """Return every stage that a stage (`glue@tiny`) rests on, nearest first."""
    stage, _, name = key.partition("@")
    keys: dict[str, None] = {}
    for parent in STAGES[stage].inputs(params, name):
        keys.update(dict.fromkeys((parent, *ancestors(parent, params))))
    return tuple(keys)


def data_label(key: str, params: "Params") -> str:
    """Return a label for the data of a stage's numbers: `sample world`, or the names of the corpora
    and task sources.
    """
    labels: list[str] = []
    for source_key in (key, *ancestors(key, params)):
        stage, _, name = source_key.partition("@")
        if stage in {"corpus", "tasks"}:
            sources = params.corpora[name].sources if stage == "corpus" else (params.tasks[name],)
            is_sample = any(source.kind == "sample" for source in sources)
            labels.append("sample world" if is_sample else name)
    return " + ".join(dict.fromkeys(labels))


def _finetuning_inputs(params: "Params", name: str) -> tuple[str, ...]:
    config = params.finetunings[name]
    source = "published" if config.model in params.published else "pretrain"
    return f"tasks@{config.tasks}", f"{source}@{config.model}"


def _ablation_inputs(params: "Params", name: str) -> tuple[str, ...]:
    base = params.ablations[name].base
    return f"tokens@{base.tokens}", f"tasks@{base.data}"


# Code that only reads settings, saves, prints or draws changes no byte and is left out: the files
# at the top of `electra` (but seeds.py), `electra/storage`, and all of `pipelines` but `text`, the
# readers of text and the stages named here. tests/pipelines/stages/test_stages.py follows the
# imports of each stage and holds these lists to them.
TOKENIZER = (
    "electra/data/byte_level.py",
    "electra/data/tokenizer.py",
    "electra/data/word_cache.py",
)
NETWORKS = ("electra/nn", "electra/seeds.py")
# The code of a pre-training run and of a fine-tuning run; a stage's module only exports their
# results.
PRETRAINING = (
    *NETWORKS,
    *TOKENIZER,
    "electra/data/order.py",
    "electra/data/shards.py",
    "electra/optim",
    "electra/pretraining",
)
FINETUNING = (
    *NETWORKS,
    *TOKENIZER,
    "electra/finetuning",
    "electra/optim",
    "pipelines/finetuning_runs",
)


READERS = (
    "pipelines/text/cleaning.py",
    "electra/finetuning/labels.py",
    "electra/finetuning/tasks.py",
    "electra/seeds.py",
    "pipelines/sources/sample_world",
    "pipelines/sources/gigaword.py",
    "pipelines/sources/glue.py",
    "pipelines/sources/hub.py",
    "pipelines/sources/local.py",
    "pipelines/sources/custom_tasks.py",
    "pipelines/sources/paths.py",
    "pipelines/sources/squad.py",
    "pipelines/sources/streams.py",
    "pipelines/sources/warc.py",
    "pipelines/sources/wikipedia.py",
    "pipelines/stages/tasks.py",
)

STAGES: dict[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage(
            name="corpus",
            section="corpora",
            help="collect, clean and deduplicate the documents of a corpus",
            folder="corpus",
            restarts=True,
            code=(
                *READERS,
                "pipelines/text/duplicates.py",
                "pipelines/text/near_duplicates.py",
                "pipelines/text/ngrams.py",
                "pipelines/sources/documents.py",
                "pipelines/sources/language.py",
                "pipelines/sources/quality.py",
                "pipelines/stages/corpus.py",
            ),
        ),
        Stage(
            name="tasks",
            section="tasks",
            help="read GLUE, SQuAD or your own tasks from a source",
            folder="tasks",
            code=READERS,
        ),
        Stage(
            name="tokens",
            section="tokens",
            help="train or load a tokenizer and pack a corpus into rows of tokens",
            folder="tokens",
            inputs=lambda params, name: (f"corpus@{params.tokens[name].corpus}",),
            restarts=True,
            code=(
                "electra/data",
                "electra/seeds.py",
                "pipelines/stages/tokens.py",
                "pipelines/text/cleaning.py",
            ),
        ),
        Stage(
            name="pretrain",
            section="models",
            help="pre-train a model",
            folder="models",
            inputs=lambda params, name: (f"tokens@{params.models[name].tokens}",),
            restarts=True,
            has_cards=True,
            code=(*PRETRAINING, "pipelines/stages/pretrain.py"),
        ),
        Stage(
            name="published",
            section="published",
            help="load a model that was pre-trained elsewhere",
            folder="models",
            code=(*NETWORKS, *TOKENIZER, "electra/finetuning", "pipelines/stages/published.py"),
        ),
        Stage(
            name="glue",
            section="finetunings",
            help="fine-tune a model on the GLUE tasks or your own",
            folder="glue",
            inputs=_finetuning_inputs,
            has_cards=True,
            code=(*FINETUNING, "pipelines/stages/baselines.py", "pipelines/stages/glue.py"),
        ),
        Stage(
            name="squad",
            section="finetunings",
            help="fine-tune a model on SQuAD",
            folder="squad",
            inputs=_finetuning_inputs,
            has_cards=True,
            code=(
                *FINETUNING,
                "pipelines/stages/baselines.py",
                "pipelines/stages/glue.py",
                "pipelines/stages/squad.py",
            ),
        ),
        Stage(
            name="ablation",
            section="ablations",
            help="pre-train and fine-tune every arm of an ablation",
            folder="ablation",
            inputs=_ablation_inputs,
            code=(
                *PRETRAINING,
                *FINETUNING,
                "pipelines/stages/ablation.py",
                "pipelines/stages/pretrain.py",
            ),
        ),
        Stage(
            name="report",
            section="",
            help="draw the report on what `run` in params.yaml selects, or on one fine-tuning",
            folder="",
        ),
    )
}
