"""The command line: a sentence and an exit code for a user, a traceback for a bug, nothing heavy
for `--help`.
"""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
import types

import pytest
from ruamel.yaml import YAML

import electra
from electra.errors import BadConfig, BadInput, Stopped
from electra.files import read_json
from pipelines.cli import main, run_stage
from pipelines.stages import Stage
from tests.conftest import ROOT, SMOKE, environment

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MODULE = [sys.executable, "-m", "pipelines"]


@pytest.fixture
def installed(tmp_path):
    """The script that pip would write."""
    module, _, name = PROJECT["project"]["scripts"]["electra"].partition(":")
    script = tmp_path / "bin" / "electra"
    script.parent.mkdir()
    script.write_text(
        f"import sys\nfrom {module} import {name}\nif __name__ == '__main__':\n    sys.exit({name}())\n"
    )
    return [sys.executable, str(script)]


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
    assert " code " not in done.stdout and run([*MODULE, "code", "--help"]).returncode == 0, (
        "hidden"
    )


def test_stages_on_text_do_without_torch():
    modules = "pipelines.cli.run_stage, pipelines.stages.corpus, pipelines.stages.tasks, pipelines.stages.tokens"
    assert (
        run([sys.executable, "-c", f"import sys, {modules}\nprint('torch' in sys.modules)"]).stdout
        == "False\n"
    )


def test_a_bare_call_is_help(run_command):
    assert "electra new mine" in run_command() == run_command("--help")


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["train", "smoke"], "No such command 'train'. Did you mean 'pretrain'?"),
        (["pretrain"], "Missing argument 'name'"),
        (["pretrain", "smoke", "--nproc-per-node", "0"], "greater than or equal to 1"),
        (["flow", "train", "smoke"], "Invalid value for 'flow': 'train' is not one of"),
    ],
)
def test_bad_usage_is_one_sentence_and_code_64(words, sentence, refuse):
    assert sentence in refuse(64, *words)


def test_finetune_runs_glue_then_squad(here, monkeypatch):
    ran = []
    monkeypatch.setattr(run_stage, "run", lambda stage, *_: ran.append(stage) or 0)
    assert main(["finetune", "smoke"]) == 0 and ran == ["glue", "squad"]


def test_the_script_is_the_command_line_under_its_own_name(installed, here):
    version = run([*installed, "--version"])
    assert (version.returncode, version.stdout) == (0, f"electra {electra.__version__}\n")
    assert "Usage: electra params " in run([*installed, "params", "--help"]).stdout
    assert "Usage: python -m pipelines params " in run([*MODULE, "params", "--help"]).stdout
    ours, same = (run([*words, "params", "smoke"], here) for words in (installed, MODULE))
    assert ours.returncode == 0 and ours.stdout == same.stdout != ""


def test_a_stage_runs_and_its_duration_is_noted(here, monkeypatch):
    ran = stage_that(None, monkeypatch)
    assert main(["tasks", "smoke"]) == 0
    assert ran == ["smoke"]
    noted = read_json(here / "runs" / "timings.json")["tasks-smoke"]
    assert noted["seconds"] >= noted["clock"]["0"] >= 0
    (here / "runs" / "timings.json").write_text("broken")
    assert main(["tasks", "smoke"]) == 0


@pytest.mark.parametrize(
    "error, code, sentence",
    [
        (BadConfig("a.b: is 1"), 64, "a.b: is 1"),
        (BadInput("file: is empty"), 65, "file: is empty"),
        (Stopped("run: was stopped"), 75, "run: was stopped"),
        (
            MemoryError(),
            71,
            "tasks: the system says: out of memory; fix that and run the same command again",
        ),
        (OSError(1, "Too long", "a file"), 71, "a file: the system says: Too long; fix that"),
    ],
)
def test_a_mistake_is_one_line_and_its_code(
    error, code, sentence, here, monkeypatch, capsys, refuse
):
    stage_that(error, monkeypatch)
    assert refuse(code, "tasks", "smoke").startswith(f"error: {sentence}")
    assert not (here / "runs" / "timings.json").exists()
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
    assert repr(error).split("(")[0] in capsys.readouterr().err


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


@pytest.mark.parametrize(
    "words, code, sentence",
    [
        (["flow", "pretrain", "smoky"], 64, "no models entry 'smoky'; did you mean smoke?"),
        (["check", "base"], 69, "nowhere/*.jsonl"),
    ],
)
def test_a_wrong_name_is_one_line(words, code, sentence, here, refuse):
    assert sentence in refuse(code, *words)


def test_a_deleted_folder_is_one_line(tmp_path, monkeypatch, refuse):
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    assert "the working folder cannot be found" in refuse(65, "predict", "model", "rows.jsonl")


def test_params_shows_what_a_run_would_use(here, run_command):
    settings = json.loads(run_command("params", "smoke"))
    assert settings["objective"]["discriminator_weight"] == 50.0
    assert set(json.loads(run_command("params"))["models"]) == {"smoke", "base"}


MINE = """
models:
  mine: {tokens: smoke, encoder: smoke, pretrain: {length: 16, batch: 8, learning_rate: 1e-3, steps: 9, warmup: 0}}
"""


def test_a_flow_takes_a_file_of_entries_that_are_laid_over_params(here, monkeypatch, refuse):
    from pipelines import flows

    started = []
    monkeypatch.setattr(flows, "start", lambda *given: started.append(given) or 0)
    (here / "mine.yaml").write_text(MINE)
    assert main(["flow", "pretrain", "mine", "--settings", "mine.yaml"]) == 0
    assert started == [("pretrain", "mine", YAML(typ="safe").load(MINE))]
    (here / "mine.yaml").write_text(MINE.replace("batch", "bach"))
    error = refuse(64, "flow", "pretrain", "mine", "--settings", "mine.yaml")
    assert error.startswith("error: params.yaml with mine.yaml: ") and len(started) == 1
    assert "models.mine.pretrain.bach: no such setting; did you mean batch?" in error


def test_signals_are_left_to_others_once_the_command_is_no_stage(here, monkeypatch, capsys):
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        monkeypatch.setattr(sys, "argv", ["electra", "runs"])
        assert main() == 0
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGTERM, ours := lambda number, frame: None)
        assert main(["runs"]) == 0
        assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("module", [False, True], ids=["electra", "python -m pipelines"])
def test_a_stop_while_it_is_loaded_is_a_sentence(module, installed, here):
    (here / "slow" / "ruamel").mkdir(parents=True)
    slow = "import time\nprint('here', flush=True)\ntime.sleep(60)\n"
    (here / "slow" / "ruamel" / "__init__.py").write_text(slow)
    where = environment(ROOT, PYTHONPATH=f"{here / 'slow'}{os.pathsep}{ROOT}")
    words = [*(MODULE if module else installed), "corpus", "smoke"]
    with subprocess.Popen(
        words, env=where, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout.readline() == "here\n"
        time.sleep(0.1)
        started.send_signal(signal.SIGTERM)
        _, said = started.communicate(timeout=30)
    assert (started.returncode, said) == (
        75,
        "error: stopped by signal 15; run the same command to continue\n",
    )


def offered(folder, words):
    """What bash would offer for the last of the words, asked of the completion as Typer's script
    asks it.
    """
    count = str(words.count(" "))
    question = {"_ELECTRA_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": count}
    code = "import sys; sys.argv[0] = 'electra'; from pipelines.cli import main; main()"
    return set(run([sys.executable, "-c", code], folder, **question).stdout.split())


@pytest.mark.parametrize(
    "words, expected",
    [
        ("electra pre", {"pretrain", "predict"}),
        ("electra pretrain ", {"smoke", "base"}),
        ("electra params ", {"smoke", "base", "theirs"}),
    ],
)
def test_completion_offers_commands_options_and_names(words, expected, here):
    (here / "params.yaml").write_text(
        SMOKE.replace("published: {}", "published:\n  theirs: {folder: x}")
    )
    assert offered(here, words) == expected
    (here / "params.yaml").unlink()
    assert "smoke" not in offered(here, words)


@pytest.mark.parametrize(
    "more",
    [
        {"PYTHONOPTIMIZE": "2"},
        {"LC_ALL": "C", "LANG": "C"},
        {"PYTHONIOENCODING": "ascii"},
        {"TERM": "dumb"},
        {"COLUMNS": "10"},
    ],
    ids=str,
)
def test_help_and_errors_survive_any_terminal(more, here):
    (here / "params.yaml").write_text(SMOKE.replace("smoke", "größe"))
    for words, code in (
        (["--help"], 0),
        (["params"], 64),
        (["corpus", "größer"], 64),
    ):
        done = run([*MODULE, *words], here, **more)
        assert done.returncode == code and "Traceback" not in done.stderr, done.stderr
        assert done.stderr.count("\n") == int(code > 0), done.stderr


@pytest.mark.parametrize(
    "more", [{"PYTHONIOENCODING": "latin-1"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0"}], ids=str
)
def test_output_for_programs_is_utf8(more, here):
    (here / "params.yaml").write_text(SMOKE.replace("text/*.txt", "größe/*.txt"))
    done = run([*MODULE, "params"], here, **more)
    assert json.loads(done.stdout)["corpora"]["smoke"]["sources"][0]["files"] == ["größe/*.txt"]


def test_an_option_takes_all_words_up_to_the_next(monkeypatch, capsys):
    from pipelines.cli import new

    given = []
    monkeypatch.setattr(new, "add_entries", lambda *values, **_: given.append(values) or "")
    assert main(["new", "mine", "--text", "a", "b", "--task", "c", "d", "--a", "x"]) == 0
    assert given == [("mine", ["a", "b"], ["c", "d"], {"a": "x", "b": "", "label": ""})]


@pytest.mark.parametrize(
    "words, origin",
    [
        (["--continue"], ""),
        (["--continue", "1a2b"], "1a2b"),
        (["--continue", "--restart"], ""),
        ([], None),
    ],
)
def test_continue_takes_a_run_or_nothing(words, origin, monkeypatch):
    given = []
    monkeypatch.setattr(run_stage, "run", lambda *_, **options: given.append(options) or 0)
    assert main(["pretrain", "smoke", *words]) == 0
    assert given[0]["origin"] == origin
