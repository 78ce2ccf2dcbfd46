"""The command line: a sentence and an exit code for a user, a traceback for a bug, nothing heavy for `--help`."""

import argparse
import errno
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest

from electra import stopping
from electra.errors import BadConfig, BadInput, Refused, Stopped
from pipelines import __main__ as command_line
from pipelines import tracking
from pipelines.__main__ import RUNS, main
from pipelines.arguments import COMMANDS, STAGES
from tests.conftest import ROOT, SMOKE, environment


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with params.yaml as the working folder."""
    (tmp_path / "params.yaml").write_text(SMOKE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def stage_that(error: BaseException | None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Put a stage in place of `corpus` that notes its name and raises."""
    ran: list[str] = []

    def run(name: str, params: object, tracker: object) -> None:
        ran.append(name)
        if error is not None:
            raise error

    module = types.SimpleNamespace(run=run)
    monkeypatch.setattr(command_line.importlib, "import_module", lambda name: module)
    return ran


def test_help_needs_nothing_heavy() -> None:
    heavy = ("torch", "mlflow", "datasets", "prefect", "matplotlib", "numpy", "dvc")
    code = (
        "import sys\nfrom pipelines.__main__ import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        f"print('HEAVY', [name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment(ROOT), capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("HEAVY []\n"), done.stdout
    for command in COMMANDS:
        assert command in done.stdout


def test_every_command_is_a_stage_with_a_module_or_has_a_function() -> None:
    assert set(RUNS) == set(COMMANDS) - set(STAGES)
    for stage in STAGES:
        assert (ROOT / "pipelines" / "stages" / f"{stage}.py").is_file()


def test_a_stage_runs_and_its_duration_is_noted(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = stage_that(None, monkeypatch)
    assert main(["corpus", "smoke"]) == 0
    assert ran == ["smoke"]
    timings = json.loads((here / "runs" / "timings.json").read_text())
    assert timings["corpus-smoke"]["seconds"] >= 0
    for spoilt in ("broken", "[]", "[" * 100_000):
        (here / "runs" / "timings.json").write_text(spoilt)
        assert main(["corpus", "smoke"]) == 0


def test_a_misspelt_name_is_a_sentence(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["corpus", "smokey"]) == 64
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "did you mean smoke?" in said


@pytest.mark.parametrize(
    ("error", "code"),
    [(BadConfig("a.b", "is 1"), 64), (BadInput("file", "is empty"), 65), (Stopped("run", "was stopped"), 75)],
)
def test_a_users_error_is_one_line_and_its_code(
    error: Exception, code: int, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stage_that(error, monkeypatch)
    assert main(["corpus", "smoke"]) == code
    assert capsys.readouterr().err == f"error: {error}\n"
    assert not (here / "runs" / "timings.json").exists()
    assert main(["corpus", "smoke", "--debug"]) == code
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("number", [errno.ENAMETOOLONG, errno.EMFILE, errno.EAGAIN, errno.ENOENT])
def test_what_the_system_refuses_is_one_line(
    number: int, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stage_that(OSError(number, os.strerror(number), "a file"), monkeypatch)
    assert main(["corpus", "smoke"]) == 71
    said = capsys.readouterr().err
    assert said.startswith(f"error: a file: the system says: {os.strerror(number)}; ") and said.count("\n") == 1
    assert main(["corpus", "smoke", "--debug"]) == 71
    assert "Traceback" in capsys.readouterr().err


def test_memory_that_is_not_there_is_one_line(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stage_that(MemoryError(), monkeypatch)
    assert main(["corpus", "smoke"]) == 71
    assert capsys.readouterr().err == (
        "error: corpus: the system says: out of memory; mend that and run the same command again\n"
    )


def test_a_name_that_no_file_system_holds_is_one_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "runs").mkdir()
    assert main(["runs", "remove", "x" * 300]) == 71
    assert capsys.readouterr().err.count("\n") == 1


def test_a_bug_keeps_its_traceback(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stage_that(ZeroDivisionError("x"), monkeypatch)
    assert main(["corpus", "smoke"]) == 70
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_params_shows_what_a_run_would_use(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["params", "smoke"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["objective"]["discriminator_weight"] == 50.0
    assert main(["params"]) == 0
    assert set(json.loads(capsys.readouterr().out)["models"]) == {"smoke", "base"}


def test_a_reader_that_stops_early_is_no_bug() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    found = subprocess.run([sys.executable, "-m", "pipelines", "params"], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (found.returncode, found.stderr) == (141, b"")


def test_check_asks_every_source_of_a_model(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "text").mkdir()
    (here / "text" / "a.txt").write_text("\n\n".join(f"Text number {number}." for number in range(30)))
    assert main(["check", "smoke"]) == 0
    capsys.readouterr()
    assert main(["check", "base"]) in {65, 69}
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "nowhere/*.jsonl" in said


def test_commands_and_options_are_these_and_no_others() -> None:
    """The user's surface is frozen: adding to it means editing this list."""
    choices = next(
        action.choices for action in command_line.parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    assert set(choices) == {
        *("corpus", "tasks", "tokens", "pretrain", "published", "glue", "squad", "ablation", "report"),
        *("params", "summary", "compare", "predict", "score", "estimate", "check", "replay", "runs", "flow", "serve"),
        *("inputs", "sync", "gpu-check", "completion", "play", "new"),
    }
    more = {
        "ablation": {"--only"},
        "pretrain": {"--nproc-per-node", "--nnodes", "--rdzv-endpoint", "--max-restarts", "--continue"},
        "runs": {"--yes"},
        "predict": {"--output"},
        "score": {"--split"},
        "gpu-check": {"--device", "--output", "--seconds"},
        "play": {"--host", "--port", "--remote"},
        "flow": {"--settings"},
        "new": {"--text", "--task", "--a", "--b", "--label", "--encoder", "--model"},
    }
    for name, sub in choices.items():
        options = {option for action in sub._actions for option in action.option_strings}
        assert options == {"-h", "--help", "--debug"} | more.get(name, set())


def test_a_flow_of_a_model_that_is_not_there_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text(SMOKE)
    assert main(["flow", "pretrain", "smoky"]) == 64
    told = capsys.readouterr().err
    assert "models: has no 'smoky'" in told and "did you mean smoke?" in told and "Traceback" not in told


MINE = """
models:
  mine: {tokens: smoke, encoder: smoke, pretrain: {length: 16, batch: 8, learning_rate: 1e-3, steps: 9, warmup: 0}}
"""


def test_a_flow_takes_a_file_of_entries_that_are_laid_over_params(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pipelines import flows

    started: list[tuple[object, ...]] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(flows, "start", lambda *given: started.append(given) or 0)
    (tmp_path / "params.yaml").write_text(SMOKE)
    (tmp_path / "mine.yaml").write_text(MINE)
    assert main(["flow", "pretrain", "mine", "--settings", "mine.yaml"]) == 0
    ((flow, model, settings),) = started
    assert (flow, model) == ("pretrain", "mine") and settings["models"]["mine"]["pretrain"]["steps"] == 9  # type: ignore[index]
    for text, words in (
        (MINE.replace("batch", "bach"), "params.yaml with mine.yaml: models.mine.pretrain.bach"),
        (MINE.replace("tokens: smoke", "tokens: smoko"), "did you mean smoke?"),
        ("- models", "holds no mapping"),
    ):
        (tmp_path / "mine.yaml").write_text(text)
        assert main(["flow", "pretrain", "mine", "--settings", "mine.yaml"]) == 64
        assert words in capsys.readouterr().err and len(started) == 1


FORK = multiprocessing.get_context("fork")


def stop_at(count: int, command: list[str], ended: str) -> None:
    """Run a command, signal this process at its `count`-th writing operation on files; leave with its exit code."""
    calls = iter(range(10**6))

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        opens = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if (opens or event in {"os.rename", "os.mkdir", "os.remove", "os.rmdir"}) and next(calls) == count:
            os.kill(os.getpid(), signal.SIGTERM)

    stopping.leave_at_once()  # as the program does when it starts
    sys.addaudithook(watch)
    code = main(command)
    if code == 0 and next(calls) <= count:
        Path(ended).write_text("")
    os._exit(code)


@pytest.mark.parametrize(("stage", "stride"), [("corpus", 9), ("tokens", 11), ("pretrain", 23)])
def test_a_stage_that_is_stopped_at_any_file_operation_ends_with_75_and_the_same_bytes(
    stage: str, stride: int, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its first folder to its last output; what was stopped is run again, and leaves what one that was not leaves.

    Its precision is named: the probe behind `auto` may answer otherwise on a busy machine, before the first checkpoint.
    """
    import torch

    monkeypatch.chdir(project)
    monkeypatch.setenv("ELECTRA_WORKERS", "1")
    torch.set_num_threads(1)
    (project / "params.yaml").write_text(
        SMOKE.replace("steps: 20", "steps: 4").replace("save_every: 5", "save_every: 2")
    )
    outs = {"corpus": "build/corpus", "tokens": "build/tokens", "pretrain": "build/models"}
    for before in list(outs)[: list(outs).index(stage)]:
        assert main([before, "smoke"]) == 0

    def bytes_of() -> dict[str, bytes]:
        found = [*Path(outs[stage]).rglob("*"), *Path("results").rglob("*")]
        return {str(path): path.read_bytes() for path in found if path.is_file()}

    expected: dict[str, bytes] = {}
    codes = set()
    for count in range(0, 10_000, stride):
        for folder in (outs[stage], "results", f"runs/{stage}"):
            shutil.rmtree(folder, ignore_errors=True)
        if not expected:
            assert main([stage, "smoke"]) == 0
            expected = bytes_of()
            continue
        process = FORK.Process(target=stop_at, args=(count, [stage, "smoke"], "ended"))
        process.start()
        process.join()
        codes.add(process.exitcode)
        assert main([stage, "smoke"]) == 0
        assert bytes_of() == expected
        if Path("ended").exists():
            break
    assert codes == {0, 75}


def test_an_arms_run_names_the_command_that_does_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    arm = "  a: {title: t, base: {model: smoke, tokens: smoke, data: smoke, recipe: smoke}, arms: {one: {}}}\n"
    (project / "params.yaml").write_text(SMOKE.replace("ablations: {}\n", f"ablations:\n{arm}"))
    told: list[dict[str, str]] = []

    def opened(start: tracking.Start, **_: object) -> None:
        told.append(start.tags)
        raise Refused("here", "ends", "", "")

    monkeypatch.setattr(tracking, "open_run", opened)
    main(["ablation", "a", "--only", "one-seed1"])
    assert told[0]["mlflow.source.name"] == "python -m pipelines ablation a --only one-seed1"
