"""The command line: a sentence and an exit code for a user, a traceback for a bug, nothing heavy
for `--help`.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path
from unittest.mock import Mock

import pytest

import electra
from electra.errors import Stopped
from electra.files import read_json
from pipelines import tracking
from pipelines.cli import main, run_stage
from pipelines.config.settings_file import read
from pipelines.stages import Stage
from pipelines.tracking import Tracker
from tests.support.command_lines import parse
from tests.support.project import ROOT, SMOKE, copy_text, edit, environment

INSTALLED = [
    sys.executable,
    "-c",
    "import sys; sys.argv[0] = 'electra'; from pipelines.cli import main; sys.exit(main())",
]
MODULE = [sys.executable, "-m", "pipelines"]


def run(words, folder=ROOT, **variables):
    return subprocess.run(
        words,
        cwd=folder,
        env=environment(ROOT, **variables),
        capture_output=True,
        encoding="utf-8",
    )


def stage_that(error, monkeypatch):
    """Replace every stage by one that notes its name and raises."""
    ran = []

    def run(name, params, tracker):
        ran.append(name)
        tracker.metrics(0, {"valid/loss": 2.5})
        if error is not None:
            raise error

    monkeypatch.setattr(Stage, "module", types.SimpleNamespace(run=run))
    return ran


def test_help_imports_nothing_heavy_and_lists_commands_by_group():
    heavy = ("torch", "mlflow", "datasets", "prefect", "matplotlib", "numpy", "dvc", "gradio")
    code = (
        "import sys\nfrom pipelines.cli import main\nmain(['--help'])\n"
        f"print('HEAVY', [name for name in {heavy!r} if name in sys.modules])"
    )
    done = run([sys.executable, "-c", code])
    assert done.stdout.endswith("HEAVY []\n"), done.stdout + done.stderr
    listed = ("Set up", " new ", "Train", " pretrain ", "Use", " play ", "Maintain")
    places = [done.stdout.index(word) for word in listed]
    assert places == sorted(places)
    assert " code " not in done.stdout, "hidden"


def test_stages_on_text_do_without_torch():
    modules = "pipelines.cli.run_stage, pipelines.stages.corpus, pipelines.stages.tasks, pipelines.stages.tokens"
    code = f"import sys, {modules}\nprint('torch' in sys.modules)"
    assert run([sys.executable, "-c", code]).stdout == "False\n"


def test_a_bare_call_is_help(run_command):
    assert "electra new mine" in run_command("") == run_command("--help")


@pytest.mark.parametrize(
    "words, code, sentence",
    [
        ("train smoke", 64, "No such command 'train'. Did you mean 'pretrain'?"),
        ("pretrain", 64, "Missing argument 'name'"),
        ("pretrain smoke --nproc-per-node 0", 64, "greater than or equal to 1"),
        ("flow train smoke", 64, "Invalid value for 'flow': 'train' is not one of"),
        ("flow pretrain smoky", 64, "no models entry 'smoky'; did you mean smoke?"),
        ("params smoky", 64, "no models entry 'smoky'; did you mean smoke?"),
        ("check base", 69, "nowhere/*.jsonl"),
    ],
)
def test_bad_usage_is_one_sentence(words, code, sentence, here, refuse):
    assert sentence in refuse(code, words)


def test_finetune_runs_glue_then_squad(here, monkeypatch):
    ran = []
    monkeypatch.setattr(run_stage, "run", lambda stage, *_: ran.append(stage) or 0)
    assert main(["finetune", "smoke"]) == 0 and ran == ["glue", "squad"]


def test_the_script_is_the_command_line_under_its_own_name():
    done = run([*INSTALLED, "--version"])
    assert (done.returncode, done.stdout) == (0, f"electra {electra.__version__}\n")
    assert "Usage: electra params " in run([*INSTALLED, "params", "--help"]).stdout
    assert "Usage: python -m pipelines params " in run([*MODULE, "params", "--help"]).stdout


def test_a_stage_runs_and_its_duration_is_noted(here, monkeypatch, run_command):
    ran = stage_that(None, monkeypatch)
    edit(here / "params.yaml", "tracking: none", "tracking: mlflow")
    opened = Mock(return_value=contextlib.nullcontext(Tracker(None)))
    monkeypatch.setattr(tracking, "open_run", opened)
    run_command("tasks smoke")
    assert opened.call_args.kwargs["tracking"] == "mlflow"
    timings = here / "runs/timings.json"
    noted = read_json(timings)["tasks-smoke"]
    assert noted["seconds"] >= noted["clock"]["0"] >= 0
    timings.write_text("broken")
    run_command("tasks smoke")
    assert ran == ["smoke", "smoke"]


@pytest.mark.parametrize(
    "error, code, sentence",
    [
        (Stopped("run: was stopped"), 75, "run: was stopped\n"),
        (MemoryError(), 71, "tasks: the system says: out of memory; fix that and run the same"),
        (OSError(1, "Too long", "a file"), 71, "a file: the system says: Too long; fix that"),
    ],
)
def test_a_mistake_is_one_line_and_its_code(
    error, code, sentence, here, monkeypatch, capsys, refuse
):
    stage_that(error, monkeypatch)
    assert refuse(code, "tasks smoke").startswith(f"error: {sentence}")
    assert not Path("runs/timings.json").exists()
    assert main(["--debug", "tasks", "smoke"]) == code
    assert "Traceback" in capsys.readouterr().err


def test_a_python_without_our_packages_is_told_what_to_do(here):
    """As of `.venv/bin/dvc repro` without the environment: DVC starts whatever `python` is on the
    path.
    """
    done = run([sys.executable, "-S", "-m", "pipelines", "runs"])
    assert done.returncode == 69
    assert "source .venv/bin/activate" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("error", [ZeroDivisionError("x"), EOFError("marshal data too short")])
def test_a_bug_keeps_its_traceback(error, here, monkeypatch, capsys):
    stage_that(error, monkeypatch)
    assert main(["tasks", "smoke"]) == 70
    assert type(error).__name__ in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, streams, code",
    [
        ("corpus smoke", ">&- 2>&-", 0),
        ("corpus smoke", ">/dev/full 2>&1", 0),
        ("corpus smoky", "2>&-", 64),
        ("corpus smoky", "2>/dev/full", 64),
    ],
)
def test_streams_that_take_nothing_leave_the_exit_code(words, streams, code, project):
    done = run(["sh", "-c", f'"$0" -m pipelines {words} {streams}', sys.executable], project)
    assert done.returncode == code, done
    assert (project / "build/corpus/smoke/results.json").exists() == (code == 0)


def test_restart_of_what_never_ran_is_refused(here, refuse):
    copy_text(here)
    assert "holds nothing of corpus smoke; leave" in refuse(64, "corpus smoke --restart")


def test_a_deleted_folder_is_one_line(tmp_path, monkeypatch, refuse):
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    assert "the working folder cannot be found" in refuse(65, "predict model rows.jsonl")


def test_params_shows_what_a_run_would_use(here, run_command):
    settings = json.loads(run_command("params smoke"))
    assert settings["objective"]["discriminator_weight"] == 50.0
    assert settings["finetunings"].keys() == {"smoke"}
    assert set(json.loads(run_command("params"))["models"]) == {"smoke", "base"}


MINE = """
models:
  mine: {tokens: smoke, encoder: smoke, pretrain: {length: 16, batch: 8, learning_rate: 1e-3, steps: 9, warmup: 0}}
"""


def test_a_flow_takes_a_file_of_entries_that_are_laid_over_params(
    here, monkeypatch, run_command, refuse
):
    started = Mock(return_value=0)
    monkeypatch.setattr("pipelines.flows.start", started)
    settings = here / "mine.yaml"
    settings.write_text(MINE)
    command = "flow pretrain mine --settings mine.yaml"
    run_command(command)
    started.assert_called_once_with("pretrain", "mine", read(settings))
    settings.write_text(MINE.replace("batch", "bach"))
    error = refuse(64, command)
    assert error.startswith("error: params.yaml with mine.yaml: ")
    assert "models.mine.pretrain.bach: no such setting; did you mean batch?" in error
    started.assert_called_once()


def test_signals_are_left_to_others_once_the_command_is_no_stage(here, monkeypatch):
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        monkeypatch.setattr(sys, "argv", ["electra", "runs"])
        assert main() == 0
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGTERM, ours := Mock())
        assert main(["runs"]) == 0
        assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("words", [INSTALLED, MODULE], ids=["electra", "python -m pipelines"])
def test_a_stop_while_it_is_loaded_is_a_sentence(words, here):
    (here / "slow/ruamel").mkdir(parents=True)
    slow = "import time\nprint('here', flush=True)\ntime.sleep(60)\n"
    (here / "slow/ruamel/__init__.py").write_text(slow)
    with subprocess.Popen(
        [*words, "corpus", "smoke"],
        env=environment(ROOT, PYTHONPATH=f"{here}/slow{os.pathsep}{ROOT}"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        assert started.stdout.readline() == "here\n"
        time.sleep(0.1)
        started.send_signal(signal.SIGTERM)
        _, error = started.communicate(timeout=30)
    assert started.returncode == 75
    assert error == "error: stopped by signal 15; run the same command to continue\n"


def offered(folder, words):
    """What bash would offer for the last of the words, asked of the completion as Typer's script
    asks it.
    """
    count = str(words.count(" "))
    question = {"_ELECTRA_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": count}
    return set(run(INSTALLED, folder, **question).stdout.split())


@pytest.mark.parametrize(
    "words, expected",
    [
        ("electra pre", {"pretrain", "predict"}),
        ("electra pretrain ", {"smoke", "base"}),
        ("electra params ", {"smoke", "base", "theirs"}),
    ],
)
def test_completion_offers_commands_options_and_names(words, expected, here):
    edit(here / "params.yaml", "published: {}", "published: {theirs: {folder: x}}")
    assert offered(here, words) == expected
    (here / "params.yaml").unlink()
    assert "smoke" not in offered(here, words)


@pytest.mark.parametrize(
    "variables",
    [
        "PYTHONOPTIMIZE=2",
        "LC_ALL=C LANG=C",
        "LC_ALL=POSIX PYTHONUTF8=0",
        "PYTHONIOENCODING=latin-1",
        "TERM=dumb",
        "COLUMNS=10",
    ],
)
def test_help_output_and_errors_survive_any_terminal(variables, here):
    (here / "params.yaml").write_text(SMOKE.replace("text/*.txt", "größe/*.txt"))
    command = ["env", *variables.split(), *MODULE]
    assert run([*command, "--help"], here).returncode == 0
    done = run([*command, "params"], here)
    assert json.loads(done.stdout)["corpora"]["smoke"]["sources"][0]["files"] == ["größe/*.txt"]
    done = run([*command, "corpus", "größer"], here)
    assert (done.returncode, done.stderr.count("\n")) == (64, 1), done.stderr


def test_an_option_takes_all_words_up_to_the_next():
    given = parse("new mine --text a b --task c d --a x".split())
    assert [given[key] for key in ("name", "text", "task", "a")] == [
        "mine",
        ["a", "b"],
        ["c", "d"],
        "x",
    ]


def test_continue_takes_a_run_or_nothing():
    for words, origin in (
        ("--continue", ""),
        ("--continue 1a2b", "1a2b"),
        ("--continue --restart", ""),
        ("", None),
    ):
        assert parse(["pretrain", "smoke", *words.split()])["origin"] == origin
