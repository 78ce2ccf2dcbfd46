"""Every preset and every way to train, on a stand-in GPU: what is launched, recorded, waited for and held. One JSON.

    python benchmarks/rehearsal.py FOLDER                     # all that benchmarks/results/rehearsal.json does not hold
    python benchmarks/rehearsal.py FOLDER --only base large   # anew: cases with one of these in their names, in order

FOLDER holds the stand-in: a CUDA build of torch and the project's packages in `venv/`, and `libfakegpu.so` and
`libcuda.so.1`, which take the place of the CUDA runtime and the driver. PyTorch's dispatcher, allocator, streams and
graph API, Inductor and Triton are the real ones; kernels do nothing. So device mix-ups, host reads, illegal work in a
recording, empty graphs, recompilations, launches a step and memory are seen; numbers, cuDNN, NCCL and speed are not.

Each case is a process of its own (benchmarks/rehearsal_case.py), written when it has ended, with its commit. The first
of a network and a mode in a start has empty caches of Inductor and Triton; its repetitions on other memory and GPUs
find what that one compiled, and the variants of small share theirs. A case has a fault where it ends in an error, works
on another stream or GPU than its own, does what a recording forbids, records nothing or a graph without operations,
compiles after the warm-up, or lets the host wait in a step that neither logs, evaluates nor saves.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import ROOT, arguments, provenance, write_record
from electra.files import read_json, remove
from pipelines.commands.estimate import PUBLISHED_VOCABULARY as VOCABULARY
from pipelines.config.params import load
from pipelines.runtime.roofline import slices_that_fit

NEEDED = ("venv/bin/python", "libfakegpu.so", "libcuda.so.1")
PRESETS, MODES = ("small", "small_plus", "base", "large"), ("eager", "recorded", "compiled recorded", "compiled")
MODERN = ("modern-small", "modern-base")  # on one GPU of 80 GB
MEMORY = {"80 GB": 79.2, "141 GB": 140.0}  # GiB that torch sees
SMALL_CARDS = {"8 GB": 7.6, "16 GB": 15.5, "24 GB": 23.5}
SHARINGS = ("none", "tokens", "embeddings", "all", "gradient_disentangled")
SECONDS = 1800  # of a case
QUICK: dict[str, Any] = {"encoder.layers": 4, "generator.width": 1.0}
VARIANTS: dict[str, dict[str, Any]] = {
    **{name: {"objective.name": name} for name in ("electra_15", "replace_mlm", "all_tokens_mlm", "mlm")},
    **{f"sharing {of}": {"objective.sharing": of} for of in ("none", "tokens", "all", "gradient_disentangled")},
    "two_stage": {"objective.sharing": "none", "objective.training": "two_stage", "pretrain.steps": 24},
    "adversarial": {"objective.training": "adversarial"},
    "accumulate 4": {"pretrain.accumulate": 4},
    "faithful masking": {"objective.faithful_masking": True},
    "muon": {"pretrain.optimizer": "muon"},
    "deterministic": {"pretrain.deterministic": True},
}


@dataclass(frozen=True)
class Case:
    """What one process does. `kind`: pretrain; killed, then resumed; arms or finetune in two workers."""

    name: str
    kind: str
    model: str
    mode: str
    memory: str = "80 GB"
    gpus: int = 1
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def caches(self) -> str:
        """Names the folder of compiled code that this case shares with its repetitions."""
        return hashlib.sha256(json.dumps([self.model, self.mode, bool(self.changes)]).encode()).hexdigest()[:12]


def cases() -> Iterator[Case]:
    """All of them, those without a compiler first, then the default way."""
    for mode in MODES:
        for preset, memory, gpus in (*product(PRESETS, MEMORY, (1, 2)), *product(MODERN, ["80 GB"], [1])):
            yield Case(f"{preset}, {mode}, {memory}, {gpus} GPU", "pretrain", preset, mode, memory, gpus)
        if mode in {"eager", "compiled recorded"}:
            for name, changes in VARIANTS.items():
                yield Case(f"{name}, {mode}", "pretrain", "small", mode, changes=QUICK | changes)
        if mode in {"eager", "recorded", "compiled recorded"}:
            for of in SHARINGS:
                changes = QUICK | {"objective.sharing": of}
                yield Case(f"modern sharing {of}, {mode}", "pretrain", "modern-small", mode, changes=changes)
        if mode == "compiled recorded":
            for preset, memory in product(("small", "base"), SMALL_CARDS):
                yield Case(
                    f"{preset} in slices, {memory}", "pretrain", preset, mode, memory, changes=sliced(preset, memory)
                )
        if "recorded" in mode:
            yield Case(f"killed and resumed, {mode}", "killed", "small", mode, changes=QUICK)
            yield Case(f"two arms, {mode}", "arms", "small", mode, gpus=2, changes=QUICK)
        if mode == "eager":
            yield Case("fine-tuning jobs", "finetune", "small", "recorded", gpus=2)


def sliced(preset: str, memory: str) -> dict[str, Any]:
    """The `pretrain.accumulate` that `estimate` gives a card of so much memory."""
    config = load().models[preset].electra()
    return {"pretrain.accumulate": slices_that_fit(config, VOCABULARY, SMALL_CARDS[memory] * 2**30)}


def run(case: Case, folder: Path, work: Path, seen: set[str]) -> dict[str, Any]:
    """The case's facts and faults; a killed run is started twice."""
    environment = surroundings(folder, case, work / case.caches)
    cold = case.caches not in seen
    seen.add(case.caches)
    out, place = work / "out.json", work / "run"
    found: list[dict[str, Any]] = []
    begun, error = time.monotonic(), ""
    for kind in ("killed", "pretrain") if case.kind == "killed" else (case.kind,):
        words = [str(folder / "venv/bin/python"), str(ROOT / "benchmarks/rehearsal_case.py"), "--folder", str(place)]
        words += ["--out", str(out), "--case", json.dumps(asdict(case) | {"kind": kind})]
        try:
            done = subprocess.run(
                words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            error = f"did not end within {SECONDS} s"
            break
        if done.returncode:
            error = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:400]
            break
        if kind != "killed":
            found = read_json(out)
    remove(place)
    facts = {"case": asdict(case), "caches": "cold" if cold else "of an earlier case", "processes": found}
    return facts | {"faults": [error] if error else faults(case, found), "seconds": round(time.monotonic() - begun)}


def surroundings(folder: Path, case: Case, caches: Path) -> dict[str, str]:
    """The environment in which torch finds the stand-in."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("FAKE_", "TORCH", "TRITON", "CUDA"))
    }
    return kept | {
        "PATH": f"{folder / 'venv/bin'}:{kept.get('PATH', os.defpath)}",
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "LD_PRELOAD": str(folder / "libfakegpu.so"),
        "LD_LIBRARY_PATH": str(folder),
        "FAKE_GPU_GIB": str((MEMORY | SMALL_CARDS)[case.memory]),
        "FAKE_GPUS": str(case.gpus),
        "TRITON_LIBCUDA_PATH": str(folder),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TORCH_CUDNN_SDPA_DEPRIORITIZED": "1",  # there is no stand-in for cuDNN
    }


def faults(case: Case, processes: list[dict[str, Any]]) -> list[str]:
    """What is wrong with what a case's processes counted."""
    found = []
    for number, one in enumerate(processes):
        wrong = [f"{one[word]} times {text}" for word, text in WRONG.items() if one.get(word)]
        if case.kind == "finetune" and not one["steps of replays alone"]:
            wrong.append("no step was all replayed")
        if one["bytes elsewhere"]:
            wrong.append(f"{one['bytes elsewhere']:,} bytes on another GPU than {one['device']}")
        if "recorded" in case.mode and case.kind != "finetune":
            graphs = one["graphs"]
            wrong += (
                ["nothing was recorded"] if not graphs else ["a graph without operations"] if not all(graphs) else []
            )
            wrong += ["no graph in a late step"] if not one["late step"].get("graph") else []
        if one.get("late step", {}).get("sync") or one.get("late step", {}).get("d2h"):
            wrong.append("the host waits in a late step")
        found += [f"process {number}: {text}" for text in wrong]
    if case.kind == "killed" and not processes[0]["resumed at step"]:
        found.append("the second start began anew")
    if case.kind in {"arms", "finetune"} and len({one["device"] for one in processes}) != case.gpus:
        found.append(f"{case.gpus} GPUs, and work on {sorted({one['device'] for one in processes})}")
    return found


WRONG = {
    "wrong": "work on another stream than the recorded one",
    "illegal": "work that a recording forbids",
    "compiled after the warm-up": "a graph compiled after the warm-up",
}


def main() -> int:
    parse = arguments(__doc__, "rehearsal.json")
    parse.add_argument("folder", type=Path, metavar="FOLDER", help="the prepared stand-in")
    parse.add_argument("--only", nargs="+", default=[], help="cases with one of these in their names, measured anew")
    options = parse.parse_args()
    folder = options.folder.resolve()
    if missing := [name for name in NEEDED if not (folder / name).exists()]:
        what = f"has no {missing[0]}; expected a folder with a stand-in GPU ({', '.join(NEEDED)})"
        do = "run the stand-in's set-up script on it first, or try a real GPU with `python -m pipelines gpu-check`"
        print(f"error: {options.folder}: {what}; {do}", file=sys.stderr)
        return 69
    origin = {**provenance(), "torch": version(folder)}
    results: dict[str, Any] = read_json(options.output)["cases"] if options.output.is_file() else {}
    chosen = [case for case in cases() if case.name not in results]
    if options.only:
        chosen = list({case.name: case for text in options.only for case in cases() if text in case.name}.values())
    seen: set[str] = set()
    with tempfile.TemporaryDirectory() as work:
        for case in chosen:
            results[case.name] = {**run(case, folder, Path(work), seen), "commit": origin["commit"]}
            print(f"{case.name}: {'; '.join(results[case.name]['faults']) or 'no fault'}", flush=True)
            write_record(options.output, {"cases": results}, origin)
    wrong = {name: result["faults"] for name, result in results.items() if result["faults"]}
    print(f"{len(results)} of {len(list(cases()))} cases, {len(wrong)} with a fault")
    return 1 if wrong else 0


def version(folder: Path) -> str:
    words = [str(folder / "venv/bin/python"), "-c", "from importlib.metadata import version; print(version('torch'))"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
