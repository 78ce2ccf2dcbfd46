"""A project whose every stage takes well below a second, and one process that is forked for each
attack on it.

Importing torch takes seconds and a stage of this project tenths of one; so everything is imported
once, by `warm_up`, and a child that changes into a copy of the project calls the command line's own
`main`. The parent runs no stage itself: what a stage keeps in memory could hide damage from its
children.
"""

import contextlib
import importlib
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from benchmarks.harness import ROOT
from benchmarks.reliability import disk
from electra import errors, stopping
from electra.files import sha256_file
from electra.workers import VARIABLE
from pipelines.cli import main

PARAMS = """
run: {models: [micro], ablations: [pair]}
tracking: none
corpora:
  micro:
    sources: [{kind: local, files: [text/0.jsonl]}, {kind: local, files: [text/1.jsonl]}]
    cleaning: {duplicate_documents: drop, duplicate_paragraphs: drop, shortest_paragraph: 20}
tokenizers:
  micro: {kind: train, vocab_size: 120}
tokens:
  micro: {corpus: micro, tokenizer: micro, lengths: [16, 24], valid_fraction: 0.4}
tasks:
  micro: {kind: local, glue: glue, squad: squad}
encoders:
  micro: {layers: 1, hidden: 16, heads: 2, ffn: 32, embedding: 16}
recipes:
  paper:
    run: [cola, stsb]
    defaults: {length: 16, epochs: 1, batch: 8, seeds: [1], keep: first}
    squad: {versions: ["1.1"], length: 24, stride: 8, question_length: 8, epochs: 1, beam: 3, seeds: [1]}
models:
  micro:
    tokens: micro
    encoder: micro
    generator: {width: 0.5}
    objective: {}
    pretrain: {length: 24, batch: 8, steps: 20, warmup: 2, learning_rate: 1.0e-3, threads: 1, precision: fp32,
               log_every: 5, eval_every: 5, eval_batches: 2, save_every: 5, keep_checkpoints: 2}
published: {}
finetunings:
  micro: {model: micro, tasks: micro, recipe: paper, arms: [pretrained, scratch]}
protocols:
  micro: {tasks: [cola], steps: 10}
ablations:
  pair:
    title: "Two objectives"
    base: {model: micro, tokens: micro, data: micro, recipe: paper}
    arms: {electra: {}, mlm: {objective.name: mlm}}
"""
MODEL = "micro"
COMMANDS = {
    stage: [stage, MODEL] for stage in ("corpus", "tokens", "tasks", "pretrain", "glue", "squad")
} | {
    "ablation": ["ablation", "pair"],
    "predict": [
        "predict",
        "build/glue/micro/cola/pretrained-seed1",
        "rows.txt",
        "--output",
        "results/predicted.jsonl",
    ],
}
STAGES = tuple(COMMANDS)
LAST = "runs/pretrain/*/step-20"
LEFT = {  # what each leaves; of pre-training the last weights and moments, too
    "corpus": ("build/corpus",),
    "tokens": ("build/tokens",),
    "tasks": ("build/tasks",),
    "pretrain": ("build/models", LAST),
    "glue": ("build/glue",),
    "squad": ("build/squad",),
    "ablation": ("build/ablation",),
    "predict": ("results/predicted.jsonl",),
}
PATIENCE = 600.0  # seconds after which a process is taken to hang
BUG = "this is a bug"
# Of the errors a user can meet, each kind has a code; a subclass from elsewhere may have taken over
# another's.
CODES = {
    kind.exit_code
    for kind in vars(errors).values()
    if isinstance(kind, type) and kind is not errors.UserError
}
FINE = ("same", "refused")  # outcomes; anything else is a bug, in words

Prepare = Callable[[], Callable[[], object] | None]


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code (negative: the signal that killed it), what it printed,
    its seconds.
    """

    code: int
    said: str
    seconds: float

    @property
    def refused(self) -> bool:
        """Whether it ended with a sentence for the user."""
        sentence = any(line.startswith("error: ") for line in self.said.splitlines())
        return (
            self.code in CODES
            and sentence
            and "Traceback" not in self.said
            and BUG not in self.said
        )


@dataclass(frozen=True)
class Verdict:
    """One attack: what was done, and how it ended: one of FINE, or the bug."""

    kind: str
    what: str
    outcome: str


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault to one stage. `start` runs the stage in a copy of `before`, once or several times,
    and says how it went.

    A start that was refused is repaired by `repair`; after every start but a bug the same command
    has to end well.
    """

    kind: str
    what: str
    stage: str
    before: Path
    start: Callable[[Path], str]
    repair: Callable[[Path], object] = lambda here: None


def outputs(folder: Path, stage: str) -> dict[str, str]:
    """The hashes of the files that a stage has left."""
    tops = [top for name in LEFT[stage] for top in folder.glob(name)]
    files = [path for top in tops for path in (top, *top.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): sha256_file(path) for path in files}


def everything(folder: Path) -> dict[str, str]:
    """The hash of every file."""
    return {
        str(path.relative_to(folder)): sha256_file(path)
        for path in folder.rglob("*")
        if path.is_file()
    }


def differing(found: dict[str, str], expected: dict[str, str]) -> str:
    """The names of files that differ, are missing or are too many."""
    return ", ".join(
        sorted(
            name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)
        )
    )


class World:
    """What is attacked: the project before each stage, what each stage leaves undisturbed, and room
    for copies.
    """

    def __init__(self, folder: Path, stages: tuple[str, ...] = STAGES) -> None:
        self.folder, self._copies = folder, 0
        self.before: dict[str, Path] = {}
        self.expected: dict[str, dict[str, str]] = {}
        self.seconds: dict[str, float] = {}
        self._changes: dict[str, int] = {}
        here = folder / "undisturbed"
        write_project(here)
        for stage in stages:
            self.before[stage] = self.copy(here)
            ended = run(here, stage)
            assert ended.code == 0, ended.said
            self.expected[stage], self.seconds[stage] = outputs(here, stage), ended.seconds

    def copy(self, folder: Path) -> Path:
        """A copy to be spoilt."""
        self._copies += 1
        return Path(shutil.copytree(folder, self.folder / f"copy-{self._copies}", symlinks=True))

    @contextlib.contextmanager
    def spoilt(self, folder: Path) -> Iterator[Path]:
        """A copy that is deleted afterwards."""
        copy = self.copy(folder)
        try:
            yield copy
        finally:
            shutil.rmtree(copy)

    def attack(self, fault: Fault) -> Verdict:
        """Start under a fault, and once more without it."""
        with self.spoilt(fault.before) as here:
            outcome = fault.start(here)
            if outcome == "refused":
                fault.repair(here)
            if outcome in FINE and (later := self.again(fault.stage, here)) != "same":
                outcome = f"{outcome}, and then, without the fault: {later}"
        return Verdict(fault.kind, fault.what, outcome)

    def judge(self, ended: Ended, stage: str, here: Path) -> str:
        """The outcome of a stage that ended: the same bytes, a sentence, or what is wrong."""
        if ended.code:
            return "refused" if ended.refused else f"exit code {ended.code}: {ended.said[-600:]}"
        found, expected = outputs(here, stage), self.expected[stage]
        found = {
            name: sha
            for name, sha in found.items()
            if name in expected or not name.startswith("runs/")
        }
        return "same" if found == expected else f"other bytes: {differing(found, expected)}"

    def again(self, stage: str, here: Path) -> str:
        """Run a stage, undisturbed now, and judge it; temporary files that nobody will use again
        count, too.
        """
        outcome = self.judge(run(here, stage), stage, here)
        left = sorted(str(path.relative_to(here)) for path in here.rglob(".*tmp*"))
        return f"left behind: {', '.join(left)}" if outcome == "same" and left else outcome

    def changes(self, stage: str) -> int:
        """How many changes to files a stage makes."""
        if stage not in self._changes:
            with self.spoilt(self.before[stage]) as here, tempfile.TemporaryFile() as letters:
                assert run(here, stage, partial(disk.count, letters.fileno())).code == 0
                self._changes[stage] = letters.seek(0, os.SEEK_END)
        return self._changes[stage]

    def interrupted(self, stage: str, share: float) -> Path:
        """The project as a stage leaves it that is killed at a share of its changes to files."""
        here = self.copy(self.before[stage])
        run(here, stage, partial(disk.watch, disk.At(int(share * self.changes(stage)), disk.die)))
        return here


def run(
    folder: Path,
    stage: str,
    prepare: Prepare | None = None,
    stop: Callable[[int], object] | None = None,
) -> Ended:
    """Run a stage in a fork of this process: `prepare` runs in the child first, `stop(pid)` in the
    parent meanwhile.

    What `prepare` returns, if anything, is called in the child when the stage has ended.
    """
    with tempfile.TemporaryFile() as words:
        started = time.monotonic()
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _become(folder, stage, prepare, words.fileno())
        if stop:
            stop(child)
        ended = os.pidfd_open(child)
        waiting = select.poll()
        waiting.register(ended, select.POLLIN)
        hangs = not waiting.poll(PATIENCE * 1000)
        if hangs:
            os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.close(ended)
        words.seek(0)
        said = words.read().decode(errors="replace")
        return Ended(code, f"it hung; {said}" if hangs else said, time.monotonic() - started)


def _become(folder: Path, stage: str, prepare: Prepare | None, words: int) -> None:
    """The child: never returns."""
    code = 1
    try:
        os.dup2(words, 1)
        os.dup2(words, 2)
        os.chdir(folder)
        os.environ[VARIABLE] = "1"
        stopping.leave_at_once()
        finish = prepare and prepare()
        code = main(COMMANDS[stage])
        if finish:
            finish()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        code = 1
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def stage_command(
    here: Path, stage: str, stop: tuple[float, int] | None = None, root: Path = ROOT, **more: str
) -> Ended:
    """Run a stage as a user does, imports included, from the code under `root`; `stop` is when to
    send which signal.
    """
    env = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", VARIABLE: "1", **more}
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        words = [sys.executable, "-m", "pipelines", *COMMANDS[stage]]
        process = subprocess.Popen(words, cwd=here, env=env, stdout=said, stderr=said)
        timers = [threading.Timer(PATIENCE, process.kill)]
        timers += [threading.Timer(stop[0], process.send_signal, (stop[1],))] if stop else []
        for timer in timers:
            timer.start()
        code = process.wait()
        for timer in timers:
            timer.cancel()
        said.seek(0)
        return Ended(code, said.read(), time.monotonic() - started)


def warm_up() -> None:
    """Import what every stage needs; torch's first work is done on one thread, which leaves no
    other to fork from.
    """
    torch.set_num_threads(1)
    for stage in STAGES[:-1]:
        importlib.import_module(f"pipelines.stages.{stage}")
    modules = ("pipelines.cli.predict", "pipelines.tracking", "pipelines.finetuning_runs.plan")
    for name in (*modules, "ruamel.yaml", "numpy.ma"):
        importlib.import_module(name)
    layer = torch.nn.Linear(2, 2)
    layer(torch.zeros(1, 2)).sum().backward()


def write_project(folder: Path) -> None:
    """Settings, text with repetitions, two GLUE tasks and SQuAD 1.1, all made up."""
    numbers = random.Random(1)
    words = ["".join(numbers.choices("abcdefgh", k=numbers.randrange(2, 6))) for _ in range(60)]

    def sentence(least: int = 5) -> str:
        return " ".join(numbers.choices(words, k=numbers.randrange(least, 12)))

    for name in ("text", "glue/CoLA", "glue/STS-B", "squad"):
        (folder / name).mkdir(parents=True)
    (folder / "params.yaml").write_text(PARAMS)
    (folder / "rows.txt").write_text("".join(sentence() + "\n" for _ in range(6)))
    pool = [sentence() + "." for _ in range(400)]
    for number in range(2):
        texts = ["\n".join(numbers.choices(pool, k=numbers.randrange(1, 6))) for _ in range(100)]
        (folder / "text" / f"{number}.jsonl").write_text(
            "".join(json.dumps({"text": text}) + "\n" for text in texts)
        )
    for split, rows in (("train", 16), ("dev", 8)):
        lines = [f"x\t{row % 2}\t\t{sentence()}" for row in range(rows)]
        (folder / "glue/CoLA" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
        lines = [f"{sentence()}\t{sentence()}\t{row % 6}.0" for row in range(rows)]
        table = "\n".join(["sentence1\tsentence2\tscore", *lines]) + "\n"
        (folder / "glue/STS-B" / f"{split}.tsv").write_text(table)
        asked = []
        for row in range(rows):
            context = sentence(8)
            answer = {
                "text": context.split()[3],
                "answer_start": len(" ".join(context.split()[:3])) + 1,
            }
            question = {"id": f"{split}{row}", "question": sentence(), "answers": [answer]}
            asked.append({"context": context, "qas": [question]})
        content = {"version": "1.1", "data": [{"title": "made up", "paragraphs": asked}]}
        (folder / "squad" / f"{split}-v1.1.json").write_text(json.dumps(content))
