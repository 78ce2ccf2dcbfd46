"""Compute digests of what each byte-bearing room makes of fixed small inputs: `python -m
tests.golden` prints them all.

`tests/golden.json` holds the committed ones. A refactor leaves them; a change of numbers must be
meant, is announced in CHANGELOG.md, and renews the file: `python -m tests.golden >
tests/golden.json`. Floating point is computed by the kernels that every x86-64 processor has, so
that the digests are the same on all of them; `init: mimetic` is left to tests/electra/nn, since MKL
has no such kernel for a singular value decomposition.
"""

import contextlib
import hashlib
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

PORTABLE = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "OMP_NUM_THREADS": "1",
    "ELECTRA_WORKERS": "1",
    "CUDA_VISIBLE_DEVICES": "",
}
FEW = {
    "pretrain__steps": 5,
    "pretrain__warmup": 1,
    "pretrain__log_every": 1,
    "pretrain__eval_every": 5,
    "pretrain__save_every": 5,
    "pretrain__learning_rate": 2e-3,
}
PACKING = {
    "rows": {},
    "rows of paragraphs": {"lines": "paragraphs"},
    "rows, carried": {"overflow": "carry"},
    "rows, many short": {"short_rate": 0.5, "shortest": 9, "single_segment_rate": 0.5},
    "rows, packed": {"rule": "packed"},
}
TWIN = {"objective__sharing": "none", "generator__width": 1.0}
PRETRAINING: dict[str, dict[str, Any]] = {
    "electra": {},
    "electra_15": {"objective__name": "electra_15"},
    "replace_mlm": {"objective__name": "replace_mlm"},
    "all_tokens_mlm": {"objective__name": "all_tokens_mlm"},
    "mlm": {"objective__name": "mlm"},
    "two_stage": {"objective__training": "two_stage", **TWIN},
    "adversarial": {"objective__training": "adversarial"},
    "gradient_disentangled": {"objective__sharing": "gradient_disentangled"},
    "bias correction": {
        "pretrain__bias_correction": True,
        "pretrain__schedule": "warmup_stable_decay",
    },
    "a faster generator": {"pretrain__generator_lr_scale": 4.0},
    "modern": {"modern": True, "objective__sharing": "tokens"},
    "accumulated": {"pretrain__accumulate": 2},
}


def digest(value):
    """Return 16 hex digits of bytes, a tensor, JSON, or a folder: its files but manifests, cards
    and results.
    """
    state = hashlib.sha256()
    if isinstance(value, Path):
        for file in sorted(path for path in value.rglob("*") if path.is_file()):
            if file.name not in {"MANIFEST.json", "README.md", "results.json"}:
                name = file.relative_to(value).as_posix()
                state.update(name.encode() + b"\0" + file.read_bytes())
    elif isinstance(value, bytes):
        state.update(value)
    elif hasattr(value, "detach"):
        state.update(value.detach().contiguous().numpy().tobytes())
    elif isinstance(value, dict) and any(hasattr(item, "detach") for item in value.values()):
        lines = (f"{name} {digest(tensor)}\n" for name, tensor in sorted(value.items()))
        state.update("".join(lines).encode())
    else:
        state.update(json.dumps(value, sort_keys=True).encode())
    return state.hexdigest()[:16]


def data(folder):
    """electra/data and the data stages: documents, rows of tasks, tokenizer, packed rows, order."""
    from electra.config import build
    from electra.data.order import row_indices
    from electra.data.packing import TokensConfig
    from pipelines.sources import CorpusConfig, SampleTasks
    from pipelines.stages import corpus, tasks, tokens

    text = folder / "text.txt"
    paragraphs = [
        " ".join(f"Sentence {i * j} of é! " for j in range(1 + i % 11)) for i in range(600)
    ]
    repeated = "\nA paragraph that comes again and again.\n"
    documents = ["\n".join(paragraphs[i : i + 1 + i % 3]) for i in range(0, 600, 3)]
    text.write_text("\n\n".join(document + repeated for document in documents))
    cleaning = {"duplicate_paragraphs": "drop", "shortest_paragraph": 10}
    local = {
        "sources": [{"kind": "local", "files": [str(text)], "documents": "blank_lines"}],
        "cleaning": cleaning,
    }
    sample = {"sources": [{"kind": "sample", "seed": 3}]}
    digests = {}
    for name, settings in {"local": local, "sample": sample}.items():
        config = build(CorpusConfig, settings, f"corpora.{name}")
        with contextlib.chdir(folder):
            corpus.gather(config, name)
        digests[f"corpus, {name}"] = digest(folder / "build/corpus" / name)
    rows = {
        "corpus": "local",
        "tokenizer": {"kind": "train", "vocab_size": 80},
        "lengths": [32, 64],
        "valid_fraction": 0.1,
    }
    for name, packing in PACKING.items():
        config = build(TokensConfig, {**rows, "packing": packing}, f"tokens.{name}")
        with contextlib.chdir(folder):
            tokens.make_rows(config, "local")
        digests[name] = digest(folder / "build/tokens/local")
    tasks.gather(SampleTasks(kind="sample", seed=1), "tasks.sample", folder / "tasks")
    digests["tasks, sample"] = digest(folder / "tasks")
    digests["order"] = digest(
        row_indices(1, 7, 16, 50).tobytes() + row_indices(2, 0, 64, 50).tobytes()
    )
    return digests


def pretraining(folder):
    """electra/nn, electra/optim and electra/pretraining: the curve of five steps and the weights
    after them.
    """
    import torch

    from electra.pretraining.trainer import pretrain
    from tests.support.pretraining import MODERN, config
    from tests.support.pretraining import data as made_up

    digests = {}
    for name, case in PRETRAINING.items():
        changes = FEW | case
        if changes.pop("modern", False):
            changes = {f"encoder__{key}": value for key, value in MODERN.items()} | changes
        torch.set_num_threads(1)
        run = pretrain(
            config(**changes), made_up(), folder / name, {}, log=lambda step, numbers: None
        )
        digests[name] = digest([run.history, digest(run.model.state_dict())])
    return digests


def finetuning(folder):
    """electra/finetuning: scores and predictions of one short run of each kind of task."""
    from electra.files import write_jsonl
    from electra.finetuning.tasks import FinetuneConfig, SquadConfig
    from pipelines.finetuning_runs.plan import plan_jobs, run
    from tests.support import tasks
    from tests.support.models import write_encoder

    settings = {"learning_rate": 1e-3, "epochs": 2, "batch": 16, "length": 40}
    settings |= {"seeds": (1,), "keep_models": "none"}
    squad = SquadConfig(**settings, stride=12, question_length=10)
    tokenizer = tasks.make_tokenizer()
    models = {"": tasks.CONFIG, "modern ": tasks.MODERN}
    digests = {}
    for kind, encoder in models.items():
        model = write_encoder(encoder, folder / f"model{kind}", tokenizer)
        for task in ("cola", "stsb", "mnli", "squad2"):
            rows = folder / "rows" / task
            for split, count, seed in (("train", 60, 1), ("dev", 24, 2), ("dev_mismatched", 24, 3)):
                if task == "squad2":
                    labelled = tasks.squad_rows(count, seed, impossible=True)
                else:
                    labelled = tasks.glue_rows(task, count, seed)
                if task == "mnli" or split != "dev_mismatched":
                    write_jsonl(rows / f"{split}.jsonl", labelled)
            config = squad if task == "squad2" else FinetuneConfig(**settings)
            for job in plan_jobs(
                task, config, rows=rows, model=model, runs=folder / f"jobs {kind}"
            ):
                run(job)
                digests[f"{kind}{task}, {job.arm}"] = digest(job.folder)
    return digests


ROOMS = {
    "data": data,
    "pretraining": pretraining,
    "finetuning": finetuning,
}


def main():
    """Print every digest as JSON, with the machine that computed them."""
    import torch

    digests = {
        "torch": torch.__version__.partition("+")[0],
        "machine": platform.machine(),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, room in ROOMS.items():
            (place := Path(folder) / name).mkdir()
            digests[name] = room(place)
    sys.stdout.write(json.dumps(digests, indent=1) + "\n")


if __name__ == "__main__":
    if PORTABLE.items() <= os.environ.items():
        main()
    else:  # before torch reads them
        os.execve(sys.executable, [sys.executable, "-m", "tests.golden"], os.environ | PORTABLE)
