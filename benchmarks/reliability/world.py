"""A small project whose stages take tenths of a second, and forks of this process that run them.

Importing torch takes longer than a stage of this project. So `import_stages` imports everything
once, and a forked child that changes into a copy of the project calls the command line's `main`.
The parent runs no stage itself, since data that a stage keeps in memory could hide damage from the
children.
"""

import importlib
import json
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

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
    defaults: {length: 16, epochs: 1, batch: 8, seeds: [1], keep_models: first}
    squad: {length: 24, stride: 8, question_length: 8}
models:
  micro:
    tokens: micro
    encoder: micro
    generator: {width: 0.5}
    objective: {}
    pretrain: {length: 24, batch: 8, steps: 20, warmup: 2, learning_rate: 1.0e-3, threads: 1,
               precision: fp32, log_every: 5, eval_every: 5, eval_batches: 2, save_every: 5,
               keep_checkpoints: 2}
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
OUTPUTS = {  # stage -> its folder in build/
    "corpus": "corpus",
    "tokens": "tokens",
    "tasks": "tasks",
    "pretrain": "models",
    "glue": "glue",
    "squad": "squad",
    "ablation": "ablation",
}
STAGES = tuple(OUTPUTS)
IMPORTS = (  # that stages need only later
    "huggingface_hub.repocard",
    "numpy.ma",
    "pipelines.finetuning_runs.plan",
    "pipelines.stages.baselines",
    "pipelines.stages.cards",
    "pipelines.tracking",
    "ruamel.yaml",
    "sklearn.ensemble",
    "sklearn.feature_extraction.text",
    "sklearn.linear_model",
    "torch._dynamo",
)
PATIENCE = 600  # seconds after which a process is taken to hang
REFUSALS = {  # the exit codes of errors with a sentence
    kind.exit_code
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.UserError) and kind.exit_code > 1
}
# A signal may come before a stage handles it. 128 + number: Python's shutdown.
KILLED = {-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, 130, 143}
OUTCOMES = ("same", "refused")  # any other text describes a bug

Prepare = Callable[[], Callable[[], object] | None]


@dataclass(frozen=True)
class Ended:
    """The end of a process: exit code (negative: the signal that killed it), output and seconds."""

    code: int
    output: str
    seconds: float

    @property
    def refused(self) -> bool:
        """Whether it ended with a sentence for the user and the exit code of one."""
        sentence = any(line.startswith("error: ") for line in self.output.splitlines())
        bug = "Traceback" in self.output or "this is a bug" in self.output
        return sentence and self.code in REFUSALS and not bug

    @property
    def stopped(self) -> bool:
        """Whether a signal ended it, with unfinished work kept."""
        return self.code in KILLED or (self.refused and self.code == errors.Stopped.exit_code)


@dataclass(frozen=True)
class Verdict:
    """One attack: its description, and its outcome: one of OUTCOMES, or a bug."""

    kind: str
    what: str
    outcome: str


def hash_files(folder: Path) -> dict[str, str]:
    """Return the hash of every file below a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): sha256_file(path) for path in files}


class World:
    """The project as it is before each stage, the files that each stage writes without an attack,
    and room for copies.
    """

    def __init__(self, folder: Path, stages: tuple[str, ...] = STAGES) -> None:
        self.folder = folder
        self.before: dict[str, Path] = {}
        self.expected: dict[str, dict[str, str]] = {}
        self.seconds: dict[str, float] = {}
        self.changes: dict[str, int] = {}  # to files, of a whole stage
        project = folder / "project"
        write_project(project)
        for stage in stages:
            self.before[stage] = self.copy(project)
            number = folder / "number"
            counted = run(self.copy(project), stage, partial(disk.count_changes, number))
            ended = run(project, stage)
            assert counted.code == ended.code == 0, counted.output + ended.output
            self.changes[stage] = int(number.read_text())
            self.expected[stage] = self.outputs(project, stage)
            self.seconds[stage] = ended.seconds

    def copy(self, folder: Path) -> Path:
        """Return a copy that may be spoilt."""
        target = Path(tempfile.mkdtemp(dir=self.folder)) / "copy"
        return Path(shutil.copytree(folder, target, symlinks=True))

    def outputs(self, project: Path, stage: str) -> dict[str, str]:
        """Return the hashes of the files that a stage has written, but for temporary ones: a disk
        that fails may not let a run remove them, and `finish` looks for them.
        """
        hashes = hash_files(project / "build" / OUTPUTS[stage])
        return {name: sha256 for name, sha256 in hashes.items() if ".tmp-" not in name}

    def attack(
        self,
        kind: str,
        what: str,
        stage: str,
        start: Callable[[Path], Ended],
        before: Path | None = None,
        damaged: Path | None = None,
    ) -> Verdict:
        """Run `start` in a copy of `before`, and then the stage without the attack.

        The folder of a damaged file is first put back as it was.
        """
        before = before or self.before[stage]
        project = self.copy(before)
        outcome = self.judge(start(project), stage, project)
        if damaged:
            top = Path(*damaged.parts[:2])
            shutil.rmtree(project / top)
            shutil.copytree(before / top, project / top, symlinks=True)
        if outcome in OUTCOMES:
            later = self.finish(stage, project)
            if later != "same":
                outcome = f"{outcome}, and then, without the attack: {later}"
        shutil.rmtree(project.parent)
        return Verdict(kind, f"{stage}: {what}", outcome)

    def judge(self, ended: Ended, stage: str, project: Path) -> str:
        """Return the outcome of a run, or its fault."""
        if ended.stopped:
            return "same"  # if the next run ends well
        if ended.code:
            return "refused" if ended.refused else f"exit code {ended.code}: {ended.output[-600:]}"
        different = self.outputs(project, stage).items() ^ self.expected[stage].items()
        names = sorted({name for name, _ in different})
        return f"other bytes: {', '.join(names)}" if names else "same"

    def finish(self, stage: str, project: Path) -> str:
        """Run a stage without an attack and judge it, and whether temporary files are left."""
        outcome = self.judge(run(project, stage), stage, project)
        left = sorted(str(path.relative_to(project)) for path in project.rglob(".*tmp*"))
        return f"left behind: {', '.join(left)}" if outcome == "same" and left else outcome

    def kill_at(self, stage: str, share: float) -> Path:
        """Return the project after a stage was killed at a share of its changes to files."""
        project = self.copy(self.before[stage])
        place = int(share * self.changes[stage])
        run(project, stage, partial(disk.watch_from, place, disk.kill_process))
        return project


def run(
    project: Path,
    stage: str,
    prepare: Prepare | None = None,
    interrupt: Callable[[int], object] | None = None,
) -> Ended:
    """Run a stage in a fork of this process.

    `prepare` runs in the child before the stage, and returns a function to run after it.
    `interrupt` runs in the parent meanwhile, with the child's process id.
    """
    with tempfile.TemporaryFile() as output:
        started = time.monotonic()
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _run_child(project, stage, prepare, output.fileno())
        if interrupt:
            interrupt(child)
        handle = os.pidfd_open(child)
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        hangs = not waiting.poll(PATIENCE * 1000)
        if hangs:
            os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.close(handle)
        output.seek(0)
        text = output.read().decode(errors="replace")
        return Ended(1 if hangs else code, text, time.monotonic() - started)


def _run_child(project: Path, stage: str, prepare: Prepare | None, output: int) -> None:
    """Run the stage in the forked child. Never returns."""
    code = 1
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(project)
        os.environ[VARIABLE] = "1"
        stopping.exit_on_signals()
        finish = prepare and prepare()
        code = main([stage, "pair" if stage == "ablation" else "micro"])
        if finish:
            finish()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def import_stages() -> None:
    """Import the modules of every stage. One step of torch on one thread starts no thread that a
    fork would lack.
    """
    torch.set_num_threads(1)
    for stage in STAGES:
        importlib.import_module(f"pipelines.stages.{stage}")
    for name in IMPORTS:
        importlib.import_module(name)
    layer = torch.nn.Linear(2, 2)
    layer(torch.zeros(1, 2)).sum().backward()


def write_project(folder: Path) -> None:
    """Write settings, text with repetitions, two GLUE tasks and SQuAD 2.0's layout, all made up."""
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefgh", k=draw.randrange(2, 6))) for _ in range(60)]
    sentences = [" ".join(draw.choices(words, k=draw.randrange(5, 12))) for _ in range(400)]
    for name in ("text", "glue/CoLA", "glue/STS-B", "squad"):
        (folder / name).mkdir(parents=True)
    (folder / "params.yaml").write_text(PARAMS)
    for number in range(2):
        texts = [".\n".join(draw.choices(sentences, k=draw.randrange(1, 6))) for _ in range(100)]
        lines = [json.dumps({"text": text}) for text in texts]
        (folder / "text" / f"{number}.jsonl").write_text("\n".join(lines) + "\n")
    for split, rows in (("train", 16), ("dev", 8)):
        first = draw.sample(sentences, rows)
        second = draw.sample(sentences, rows)
        cola = [f"x\t{row % 2}\t\t{first[row]}" for row in range(rows)]
        stsb = [f"{first[row]}\t{second[row]}\t{row % 6}.0" for row in range(rows)]
        (folder / f"glue/CoLA/{split}.tsv").write_text("\n".join(cola) + "\n")
        table = ["sentence1\tsentence2\tscore", *stsb]
        (folder / f"glue/STS-B/{split}.tsv").write_text("\n".join(table) + "\n")
        questions = []
        for row in range(rows):
            answer = first[row].split()[0]
            answers = {"text": [answer], "answer_start": [0]} if row % 2 else {}
            question = {"id": str(row), "question": second[row], "context": first[row]}
            questions.append(json.dumps(question | {"answers": answers}))
        (folder / f"squad/{split}-v2.0.jsonl").write_text("\n".join(questions) + "\n")
