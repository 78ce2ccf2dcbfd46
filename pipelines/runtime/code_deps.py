"""Which code each stage's bytes depend on: the one table behind DVC's `deps` and what is recorded with every result.

Code that only reads settings, saves, prints or draws is left out and kept apart: the files at the top of `electra` (but
seeds.py), `electra/storage`, and all of `pipelines` but `text`, the readers of text and the stages named here.
`tests/pipelines/runtime/test_code_deps.py` follows the imports of each stage and holds the table to them, and
pipelines/dvc.yaml to the table. DVC hashes files as they are and runs a stage again for a comment, too; what is
recorded does without comments, so the stage then finds its run finished.
"""

import functools

from electra.config import digest
from electra.storage.fingerprint import Code, of_code
from pipelines import ROOT

TOKENIZER = ("electra/data/byte_level.py", "electra/data/tokenizer.py", "electra/data/word_cache.py")
NETWORKS = ("electra/nn", "electra/seeds.py")
FINETUNING = (*NETWORKS, *TOKENIZER, "electra/finetuning", "electra/optim")
ROWS = ("electra/data/order.py", "electra/data/shards.py")
PRETRAINING = (*NETWORKS, *TOKENIZER, *ROWS, "electra/optim", "electra/pretraining")
TEXT = ("pipelines/text/cleaning.py", "electra/seeds.py")
LABELS = tuple(f"electra/finetuning/{name}.py" for name in ("labels", "tasks"))


def _stages(*names: str) -> tuple[str, ...]:
    return tuple(f"pipelines/stages/{name}.py" for name in names)


READERS = (
    "gigaword.py",
    "hub.py",
    "local.py",
    "paths.py",
    "sample_world",
    "streams.py",
    "warc.py",
    "wikipedia.py",
)


def _sources(*names: str) -> tuple[str, ...]:
    return tuple(f"pipelines/sources/{name}" for name in (*READERS, *names))


DEPS = {
    "corpus": (  # what reads tasks, too: it may leave out documents that have the texts they are scored on
        *TEXT,
        *LABELS,
        *(f"pipelines/text/{name}.py" for name in ("duplicates", "near_duplicates", "ngrams")),
        *_sources("documents.py", "glue.py", "language.py", "own.py", "quality.py", "squad.py"),
        *_stages("benchmark", "collecting", "corpus", "filters", "tasks"),
    ),
    "tasks": (*TEXT, *LABELS, *_sources("glue.py", "own.py", "squad.py"), *_stages("tasks")),
    "tokens": ("electra/data", *TEXT, *_stages("tokens")),
    "pretrain": (*PRETRAINING, *_stages("pretrain")),
    "published": (*NETWORKS, *TOKENIZER, *_stages("published")),
    "glue": (*FINETUNING, *_stages("baselines", "glue")),
    "squad": (*FINETUNING, *_stages("baselines", "glue", "squad")),
    "contamination": ("pipelines/text/ngrams.py", *_stages("benchmark", "contamination")),
    "ablation": (*dict.fromkeys((*PRETRAINING, *FINETUNING)), *_stages("ablation", "arms", "pretrain")),
}
# What the results of one unit of a stage's work are a function of: a run's code. A stage's file only exports them.
RUNS = {stage: DEPS[stage] for stage in ("corpus", "tokens", "contamination")}
RUNS |= {"pretrain": PRETRAINING, "finetune": FINETUNING}


@functools.cache
def code(kind: str) -> Code:
    """The hash of each file that a run of this kind computes with."""
    return of_code(ROOT, RUNS[kind])


def version(kind: str) -> str:
    """One hash for all of them, as results record it."""
    return digest(code(kind))
