"""Which code each stage's results depend on: the one table behind fingerprints and DVC's `deps`.

A room is a file or a folder. No room holds what only keeps or tells: the files at the top of `electra` and `pipelines`
(but seeds), `electra/storage` and `pipelines/tracking`. `tests/pipelines/stages/test_code_deps.py` follows the imports
of each stage and holds the table to them, and pipelines/dvc.yaml to the table. DVC takes a room as it is and runs
a stage again for a comment, too; that costs seconds, since fingerprints do without comments and plumbing and
the stage finds its work done.
"""

import functools

from electra.config import digest
from electra.storage.fingerprint import of_code
from pipelines import ROOT

NETWORKS = ("electra/nn",)
FINETUNING = (
    *NETWORKS,
    "electra/data/byte_level.py",
    "electra/data/tokenizer.py",
    "electra/data/word_cache.py",
    "electra/finetuning",
    "electra/optim",
    "electra/seeds.py",
)
PRETRAINING = (
    *NETWORKS,
    "electra/data/byte_level.py",
    "electra/data/order.py",
    "electra/data/shards.py",
    "electra/data/tokenizer.py",
    "electra/data/word_cache.py",
    "electra/optim",
    "electra/pretraining",
    "electra/seeds.py",
    "pipelines/stages/pretrain.py",
)
ROOMS = {
    "corpus": (
        "electra/data/duplicates.py",
        "electra/data/text.py",
        "electra/seeds.py",
        "pipelines/sources",
        "pipelines/stages/collecting.py",
        "pipelines/stages/corpus.py",
    ),
    "tasks": (
        "electra/data/text.py",
        "electra/finetuning/labels.py",
        "electra/finetuning/spans.py",
        "electra/finetuning/tasks.py",
        "electra/seeds.py",
        "pipelines/sources",
        "pipelines/stages/tasks.py",
    ),
    "tokens": ("electra/data", "electra/seeds.py", "pipelines/stages/tokens.py"),
    "pretrain": PRETRAINING,
    "published": (
        *NETWORKS,
        "electra/data/byte_level.py",
        "electra/data/tokenizer.py",
        "electra/data/word_cache.py",
        "pipelines/stages/published.py",
    ),
    "glue": (*FINETUNING, "pipelines/stages/baselines.py", "pipelines/stages/glue.py"),
    "squad": (
        *FINETUNING,
        "pipelines/stages/baselines.py",
        "pipelines/stages/glue.py",
        "pipelines/stages/squad.py",
    ),
    "ablation": (
        *dict.fromkeys((*PRETRAINING, *FINETUNING)),
        "pipelines/stages/ablation.py",
        "pipelines/stages/arms.py",
    ),
}


@functools.cache
def code(stage: str) -> dict[str, str]:
    """The hash of each room of a stage, for the fingerprint of its results."""
    return of_code(ROOT, ROOMS[stage])


@functools.cache
def finetuning() -> str:
    """One hash of the code that a fine-tuning run's result depends on, whichever stage asks for it."""
    return digest(of_code(ROOT, FINETUNING))
