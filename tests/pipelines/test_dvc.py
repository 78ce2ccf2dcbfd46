"""The two dvc.yaml files: what they name exists, what they select is what params.yaml says, and a
copy really runs.
"""

import contextlib
import os
import re
import signal
import stat
import subprocess
import sys

import pytest
from ruamel.yaml import YAML

from pipelines.config.params import load
from pipelines.stages import STAGES
from pipelines.versioning.merge_lock import merge
from tests.support.project import (
    ROOT,
    commit,
    copy_project,
    edit,
    environment,
    files_of,
    git,
    git_project,
    read_text,
    run,
    until,
)


def read_yaml(name):
    return YAML(typ="safe").load(read_text(name))


EVERY = read_yaml("pipelines/dvc.yaml")["stages"]
LOOKS = {"code", "corpus_files", "tasks_files"}  # stages that always run
PIPELINE = {name: definition["do"] for name, definition in EVERY.items() if name not in LOOKS}
SELECTION = read_yaml("dvc.yaml")["stages"]


def stages_run(said):
    """The stages that DVC ran, but for those that always run."""
    found = re.findall(r"Running stage 'pipelines/dvc\.yaml:(.+)'", said)
    return {name for name in found if name.partition("@")[0] not in LOOKS}


def dvc(folder, command, *words, code=0):
    done = run(folder, "-m", "dvc", *command.split(), *words, code=code)
    return done.stdout + done.stderr


@contextlib.contextmanager
def killed_repro(folder, *words):
    """Run `dvc repro`, and kill it at the end of the block."""
    command = [sys.executable, "-m", "dvc", "repro", *words]
    with subprocess.Popen(
        command, cwd=folder, env=environment(folder), stdout=subprocess.DEVNULL, process_group=0
    ) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_every_stage_of_the_list_is_a_dvc_stage():
    assert set(PIPELINE) == set(STAGES) - {"report"}
    for name, do in PIPELINE.items():
        stage = STAGES[name]
        assert EVERY[name]["foreach"] == f"${{{stage.section}}}"
        assert do["cmd"] == f"python -m pipelines {name} ${{key}}"
        assert do["outs"] == [f"build/{stage.folder}/${{key}}"]
        (code,) = (param["build/code.json"] for param in do["params"] if isinstance(param, dict))
        assert name in code
        assert (ROOT / "pipelines" / "stages" / f"{name}.py").is_file()


def test_dvc_knows_what_a_stage_reads():
    """The folders of its inputs are deps, for a name of each stage."""
    params = load(ROOT / "params.yaml")
    written = read_yaml("params.yaml")
    for name, do in PIPELINE.items():
        for entry in getattr(params, STAGES[name].section):
            item = written[STAGES[name].section][entry]
            deps = {filled(dep, entry, item) for dep in do.get("deps", [])}
            for key in STAGES[name].inputs(params, entry):
                stage, _, of = key.partition("@")
                assert f"build/{STAGES[stage].folder}/{of}" in deps, (name, entry)


def filled(template, key, item):
    """A path as DVC writes it for an entry."""
    for name in re.findall(r"\$\{(.+?)\}", template):
        value = item
        for part in name.split(".")[1:]:
            value = value[part]
        template = template.replace(f"${{{name}}}", key if name == "key" else str(value))
    return template


def test_dvcs_site_cache_is_ours_alone(tmp_path):
    """It holds pickles, and a folder that DVC makes for it is open to all users."""
    project = copy_project(tmp_path / "project")
    dvc(project, "stage list --all")
    made = [path for path in (project / ".dvc-site").rglob("*") if path.is_dir()]
    assert len([path for path in made if path.parent.name == "repo"]) == 1
    for path in (project / ".dvc-site", *made):
        assert not path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH), path


def test_numbers_stay_in_git_and_folders_in_the_cache():
    """A number that git does not have cannot be compared with the last commit."""
    for definition in SELECTION.values():
        for kind in ("outs", "metrics", "plots"):
            for out in definition.get(kind, []):
                ((path, options),) = out.items()
                assert path.startswith("results/") and options["cache"] is False
                assert options["persist"], f"{path}: a stopped stage would have deleted it"


def test_dvc_sees_every_stage_of_every_name():
    """One broken dvc.yaml breaks every DVC command, so this is the test to look at first."""
    listed = {line.split()[0] for line in dvc(ROOT, "stage list --all").splitlines()}
    params = load(ROOT / "params.yaml")
    expected = {"report"}
    expected |= {f"summarize_model@{name}" for name in params.run.models}
    expected |= {f"summarize_ablation@{name}" for name in params.run.ablations}
    for name in PIPELINE:
        section = getattr(params, STAGES[name].section)
        expected |= {f"pipelines/dvc.yaml:{name}@{entry}" for entry in section}
    assert expected <= listed


TARGET = "pipelines/dvc.yaml:pretrain@smoke"


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A small copy of the project whose `dvc repro` was killed and run again, and what that one
    said.
    """
    folder = copy_project(tmp_path_factory.mktemp("dvc") / "project")
    edit(folder / "params.yaml", "steps: 20", "steps: 200")
    with killed_repro(folder, TARGET):
        until(lambda: list((folder / "runs/pretrain").glob("*/step-*")))
    assert not (folder / "build/models/smoke").exists()
    return folder, dvc(folder, "repro", TARGET)


@pytest.fixture
def project(killed):
    """That copy with everything up to date; its own files are put back."""
    folder = killed[0]
    files = ("params.yaml", "text/a.txt")
    before = {name: (folder / name).read_bytes() for name in files}
    dvc(folder, "repro", TARGET)
    yield folder
    for name, content in before.items():
        (folder / name).write_bytes(content)


@pytest.mark.slow
def test_a_killed_repro_resumes_and_ends_in_the_same_bytes(killed):
    folder, said = killed
    assert "Running stage 'pipelines/dvc.yaml:pretrain@smoke'" in said
    assert "Running stage 'pipelines/dvc.yaml:tokens@smoke'" not in said
    assert "resum" in said.lower(), said
    lock = (folder / "pipelines/dvc.lock").read_text()
    assert merge(lock, lock, lock) == merge("", lock, lock) == lock
    resumed = files_of(folder / "build/models")
    dvc(folder, "repro --force --single-item", TARGET)
    assert files_of(folder / "build/models") == resumed


@pytest.mark.slow
def test_a_setting_runs_its_stage_alone_and_put_back_nothing(project):
    first = files_of(project / "build/models")
    edit(project / "params.yaml", "paper: {}", "paper: {workers: 1}")
    assert not stages_run(dvc(project, "repro", TARGET))
    edit(project / "params.yaml", "1.0e-3", "2.0e-3")
    assert stages_run(dvc(project, "repro", TARGET)) == {"pretrain@smoke"}
    edit(project / "params.yaml", "2.0e-3", "1.0e-3")
    assert not stages_run(dvc(project, "repro", TARGET))
    assert first == files_of(project / "build/models")


@pytest.mark.slow
def test_own_text_that_changes_is_seen(project):
    with (project / "text/a.txt").open("a") as file:
        file.write("\n\nA new sentence about the miller.")
    target = "pipelines/dvc.yaml:corpus@smoke"
    assert stages_run(dvc(project, "repro", target)) == {"corpus@smoke"}
    assert stages_run(dvc(project, "repro", target)) == set()


@pytest.mark.slow
def test_comment_runs_nothing_and_code_runs_its_stage_alone(project):
    stage = project / "pipelines/stages/pretrain.py"
    corpus = project / "pipelines/stages/corpus.py"
    edit(stage, "EXAMPLES = 12", "EXAMPLES = 12  # A comment.")
    edit(corpus, '"""Run the stage: ', '"""Collect: ')
    assert not stages_run(dvc(project, "repro", TARGET))
    edit(stage, "EXAMPLES = 12", "EXAMPLES = 11")
    output = dvc(project, "repro", TARGET)
    assert stages_run(output) == {"pretrain@smoke"}
    assert "resuming at step 200 of 200" in output, "the training code is the same"
    edit(stage, "EXAMPLES = 11", "EXAMPLES = 12")


@pytest.mark.slow
def test_a_second_model_runs_beside_the_first(project):
    """As docs/operate.md says: single stages of two models in two terminals."""
    edit(project / "params.yaml", "1.0e-3", "4.0e-3")
    edit(project / "params.yaml", "steps: 200", "steps: 200000")
    edit(project / "params.yaml", "tokens: absent", "tokens: smoke")
    before = len(list((project / "runs/pretrain").glob("*")))
    with killed_repro(project, "-s", TARGET) as first:
        until(lambda: len(list((project / "runs/pretrain").glob("*/step-*"))) > before)
        base = dvc(project, "repro -s pipelines/dvc.yaml:pretrain@base")
        assert stages_run(base) == {"pretrain@base"}
        assert "busy" in dvc(project, "repro", TARGET, code=None) and first.poll() is None
        again = run(project, "-m", "pipelines", "pretrain", "smoke", code=73)
        assert "is in use by pid" in again.stderr and again.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_temporary_experiment_runs_and_says_what_it_does_not_have(reported):
    said = dvc(reported, "exp run --temp -S models.smoke.pretrain.steps=21", TARGET)
    assert "Running stage 'pipelines/dvc.yaml:pretrain@smoke'" in said
    (reported / "build/own").mkdir()
    (reported / "text/a.txt").rename(reported / "build/own/a.txt")
    edit(reported / "params.yaml", "text/*.txt", "build/own/*.txt")
    commit(reported, "Text that git ignores")
    said = dvc(reported, "exp run --temp pipelines/dvc.yaml:corpus@smoke", code=None)
    assert "copy only what git and DVC track" in said and "Traceback" not in said
    git(reported, "reset", "-q", "--hard", "HEAD~1")


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    """A copy of the project, in git, after a bare `dvc repro`, with what it made committed."""
    folder = git_project(tmp_path_factory.mktemp("reported") / "project")
    (folder / "benchmarks/results").mkdir(parents=True)
    (folder / "benchmarks/results/.gitkeep").touch()
    rows = "the old cat\ta\ngood bread\tb\n" * 8
    (folder / "text/mood.tsv").write_text("sentence\tlabel\n" + rows)
    mood = "{mood: {train: text/mood.tsv, dev: text/mood.tsv, labels: [a, b]}}"
    params = folder / "params.yaml"
    edit(params, "{kind: sample, seed: 1}", f"{{kind: custom, tasks: {mood}}}")
    edit(params, "paper: {}", "paper: {defaults: {}, tasks: {}, squad: {}}")
    edit(params, "smoke: {}\nmodels", "smoke: {defaults: {length: 16}}\nmodels")
    dvc(folder, "repro")
    commit(folder, "Results")
    return folder


@pytest.mark.slow
def test_curves_are_all_that_dvc_plots_shows(reported):
    dvc(reported, "plots show")
    page = (reported / "dvc_plots/index.html").read_text()
    assert "results/curves/smoke.csv" in page and page.count('class="plot"') <= 1
    assert "results/summary" not in page and ".svg" not in page
    shown = dvc(reported, "metrics show")
    assert "results/summary/smoke.json" in shown and "pretrained.average" in shown
    assert not stages_run(dvc(reported, "repro")) and not git(reported, "status", "--porcelain")
