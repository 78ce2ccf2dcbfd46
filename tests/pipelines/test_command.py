"""`electra` on the path: the same command line under its own name, with completion as the shell itself sees it."""

import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

import electra
from pipelines import command
from pipelines.__main__ import main
from pipelines.arguments import COMMANDS
from tests.conftest import ROOT, SMOKE, environment

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture
def installed(tmp_path: Path) -> list[str]:
    """The script that pip would write."""
    module, _, name = PROJECT["project"]["scripts"]["electra"].partition(":")
    script = tmp_path / "bin" / "electra"
    script.parent.mkdir()
    script.write_text(f"import sys\nfrom {module} import {name}\nif __name__ == '__main__':\n    sys.exit({name}())\n")
    return [sys.executable, str(script)]


def run(words: list[str], folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=folder, env=environment(ROOT), capture_output=True, text=True, check=False)


def test_the_script_is_the_command_line_under_its_own_name(installed: list[str], tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text(SMOKE)
    assert run([*installed, "--version"]).stdout == f"electra {electra.__version__}\n"
    assert run([*installed, "params", "--help"]).stdout.startswith("usage: electra params ")
    module = [sys.executable, "-m", "pipelines"]
    assert run([*module, "params", "--help"]).stdout.startswith("usage: python -m pipelines params ")
    ours, same = (run([*words, "params", "smoke"], tmp_path) for words in (installed, module))
    assert ours.returncode == 0 and ours.stdout == same.stdout != ""
    wrong = run([*installed, "corpus", "smokey"], tmp_path)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (64, 1) and "did you mean smoke?" in wrong.stderr


def test_the_version_stands_in_one_place() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"] and "version" not in PROJECT["project"]
    module, _, name = PROJECT["tool"]["setuptools"]["dynamic"]["version"]["attr"].rpartition(".")
    assert getattr(importlib.import_module(module), name) == electra.__version__


def test_signals_are_left_to_others_once_the_command_is_no_stage(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        monkeypatch.setattr(sys, "argv", ["electra", "completion", "bash"])
        assert command.main() == 0
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGTERM, ours := lambda number, frame: None)
        assert main(["completion", "bash"]) == 0
        assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_stop_while_it_is_loaded_is_a_sentence(installed: list[str], tmp_path: Path) -> None:
    """The script's own way to the handlers: `python -m pipelines` has another."""
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "ruamel").mkdir()
    (slow / "ruamel" / "__init__.py").write_text("import time\nprint('here', flush=True)\ntime.sleep(60)\n")
    (tmp_path / "params.yaml").write_text(SMOKE)
    where = environment(ROOT, PYTHONPATH=f"{slow}{os.pathsep}{ROOT}")
    with subprocess.Popen(
        [*installed, "corpus", "smoke"],
        cwd=tmp_path,
        env=where,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        assert started.stdout is not None and started.stdout.readline() == "here\n"
        time.sleep(0.1)
        started.send_signal(signal.SIGTERM)
        _, said = started.communicate(timeout=30)
    assert (started.returncode, said) == (75, "error: stopped by signal 15; run the same command to go on\n")


def offered(shell: str, folder: Path, *words: str) -> set[str]:
    """What the shell would offer for the last of the words, asked of its own function."""
    code = subprocess.run(
        [sys.executable, "-m", "pipelines", "completion", shell], env=environment(ROOT), capture_output=True, check=True
    ).stdout.decode()
    line = " ".join(f"'{word}'" for word in words)
    if shell == "zsh":
        code = f"autoload -U compinit && compinit -u -d {folder}/dump\n{code}\nemulate sh\n"
        code += "setopt kshglob noshglob braceexpand\n"
    asked = (
        f"{code}\nCOMP_WORDS=({line})\nCOMP_CWORD={len(words) - 1}\n_electra\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
    )
    script = folder / f"ask.{shell}"
    script.write_text(asked)
    done = subprocess.run([shell, str(script)], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return {
        found for found in done.stdout.split() if found.startswith(words[-1]) or shell == "bash"
    }  # zsh does it later


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_shell_offers_what_the_command_line_takes(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "params.yaml").write_text(SMOKE.replace("published: {}", "published:\n  theirs: {folder: x}"))
    (tmp_path / "runs" / "pretrain-smoke").mkdir(parents=True)
    assert offered(shell, tmp_path, "electra", "") == set(COMMANDS)
    assert offered(shell, tmp_path, "electra", "pre") == {"pretrain", "predict"}
    assert offered(shell, tmp_path, "electra", "--v") == {"--version"}
    assert offered(shell, tmp_path, "electra", "pretrain", "") == {"smoke", "base"}
    assert offered(shell, tmp_path, "electra", "pretrain", "--n") == {"--nproc-per-node", "--nnodes"}
    assert offered(shell, tmp_path, "electra", "glue", "") == {"smoke", "base"}
    assert offered(shell, tmp_path, "electra", "corpus", "a") == {"absent"}
    assert offered(shell, tmp_path, "electra", "flow", "") == {"pretrain", "finetune", "ablations", "workflow"}
    assert offered(shell, tmp_path, "electra", "flow", "pretrain", "s") == {"smoke"}
    assert offered(shell, tmp_path, "electra", "runs", "remove", "") == {"pretrain-smoke"}
    assert offered(shell, tmp_path, "electra", "gpu-check", "--device", "") == {"cpu", "cuda"}
    assert offered(shell, tmp_path, "electra", "predict", "") == set()  # the shell's own files
