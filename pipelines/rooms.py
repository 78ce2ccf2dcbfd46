"""Which code each stage's results depend on: the one table behind fingerprints and DVC's `deps`.

A room is a file or a folder. `tests/pipelines/test_rooms.py` follows the imports of each stage and holds the table to them,
and pipelines/dvc.yaml to the table. DVC takes a room as it is and runs a stage again for a comment, too; that costs
seconds, since fingerprints do without comments and plumbing and the stage finds its work done.
"""

import functools

from electra.config import digest
from electra.fingerprint import of_code
from pipelines import ROOT

# How work is done, kept and told, and not what comes out of it.
PLUMBING = (
    "electra/__init__.py",  # the library's names, imported when asked for
    "electra/devices.py",
    "electra/domains.py",
    "electra/errors.py",
    "electra/files.py",
    "electra/fingerprint.py",
    "electra/manifest.py",
    "electra/progress.py",
    "electra/stopping.py",
    "electra/tensors.py",  # named tensors to a file and back, every byte hashed elsewhere
    "electra/workers.py",
    "electra/finetuning/pool.py",
    "electra/finetuning/preload.py",
    "electra/training/checkpoint.py",
    "electra/training/history.py",
    "electra/training/runs.py",
    "pipelines/needed.py",  # which stage to run for what is missing
    "pipelines/processes.py",
    "pipelines/rooms.py",
    "pipelines/stages/__init__.py",
    "pipelines/stages/inputs.py",  # whether what a stage reads is whole
    "pipelines/stages/resumable.py",
    "pipelines/tracking",
)

# The form of settings. Their values stand in DVC's `params` and in fingerprints, so what only reads them is not followed.
SETTINGS = (
    "electra/config.py",  # a room of its own where networks are built of it
    "pipelines/experiments.py",
    "pipelines/params.py",
    "pipelines/sources/__init__.py",
)

# Rooms of some stages, of which the others only take a reader of one file: not followed where a stage does not list them.
BESIDE = ("pipelines/sources",)

NETWORKS = ("electra/card.py", "electra/config.py", "electra/export.py", "electra/model")
FINETUNING = (
    *NETWORKS,
    "electra/data/tokenizer.py",
    "electra/data/words.py",
    "electra/finetuning",
    "electra/seeds.py",
    "electra/training/optimizer.py",
    "electra/training/precision.py",
    "electra/training/schedule.py",
)
PRETRAINING = (
    *NETWORKS,
    "electra/data/batches.py",
    "electra/data/shards.py",
    "electra/data/tokenizer.py",
    "electra/data/words.py",
    "electra/flops.py",
    "electra/seeds.py",
    "electra/training",
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
    "published": (*NETWORKS, "electra/data/tokenizer.py", "electra/data/words.py", "pipelines/stages/published.py"),
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
    return of_code(ROOT, ROOMS[stage], PLUMBING)


@functools.cache
def finetuning() -> str:
    """One hash of the code that a fine-tuning run's result depends on, whichever stage asks for it."""
    return digest(of_code(ROOT, FINETUNING, PLUMBING))
