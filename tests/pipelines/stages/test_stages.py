"""The list of stages: what each reads, what data its numbers are of, and that its code is what it
imports.
"""

from dataclasses import replace
from pathlib import Path

import grimp
import pytest

from electra.errors import Busy
from electra.files import lock_folder
from pipelines.config.params import load
from pipelines.stages import LOCKS, STAGES, ancestors, data_label
from pipelines.tracking import Tracker
from tests.support.project import ROOT

GRAPH = grimp.build_graph("electra", "pipelines", exclude_type_checking_imports=True)
CODE = {name: stage.code for name, stage in STAGES.items() if stage.code}
NAMES = (
    "__init__ announce dask_cluster inputs mirror out_of_memory progress_bar summarize work_units"
)
TELLERS = tuple(f"pipelines/stages/{name}.py" for name in NAMES.split())
ROOMS = ("cli", "config", "tracking", "versioning")
KEEPERS = ("electra/storage", *(f"pipelines/{room}" for room in ROOMS))
# some stages list them; the others only read settings, or one file, through them
READERS = ("pipelines/sources",)


def test_what_a_stage_rests_on():
    params = load(ROOT / "params.yaml")
    above = ("tasks@sample_world", "pretrain@tiny", "tokens@sample_world", "corpus@sample_world")
    assert ancestors("glue@tiny", params) == above
    assert data_label("pretrain@small", params) == "wiki_books"
    assert data_label("squad@tiny", params) == "sample world"
    assert data_label("glue@electra-small", params) == "hub"
    assert data_label("report@", params) == ""
    sources = (*params.corpora["sample_world"].sources, *params.corpora["c4"].sources)
    mixed = replace(params.corpora["c4"], sources=sources)
    params = replace(params, corpora=params.corpora | {"wiki_books": mixed})
    assert data_label("pretrain@small", params) == "sample world", "made-up text is never real"


def test_a_stage_that_already_runs_here_is_refused(here):
    params = load()
    with (
        lock_folder(LOCKS / "tasks-smoke"),
        pytest.raises(Busy, match=r"runs/\.locks/tasks-smoke: is in use by pid"),
    ):
        STAGES["tasks"].run("smoke", params, Tracker(None))
    assert not Path("build").exists()


def test_a_stage_sweeps_what_killed_writers_left_next_to_its_folder(here, monkeypatch):
    left = Path("build/tasks/.smoke.tmp-99")
    left.mkdir(parents=True)
    monkeypatch.setattr("pipelines.stages.tasks.run", lambda *_: None)
    STAGES["tasks"].run("smoke", load(), Tracker(None))
    assert not left.exists()


def inside(path, among):
    return any(path == room or path.startswith(f"{room}/") for room in among)


def keeps(path):
    """Whether a file only keeps, tells or reads settings, by where it stands."""
    top = path.count("/") == 1 or inside(path, ("pipelines/sources/__init__.py", *TELLERS))
    return (top and path != "electra/seeds.py") or inside(path, KEEPERS)


def path_of(module):
    """Return the file of a module: `electra/data/shards.py`."""
    path = module.replace(".", "/")
    return f"{path}/__init__.py" if (ROOT / path).is_dir() else f"{path}.py"


def followed(stage):
    """The files that a stage imports, directly or not, and what imports each; what only keeps ends
    the walk.
    """
    own = [path for path in CODE[stage] if path.startswith("pipelines/stages")]
    reads = any(inside(path, READERS) for path in CODE[stage])
    found = {}
    waiting = [(module, "the stage") for module in GRAPH.modules if path_of(module) in own]
    while waiting:
        module, importer = waiting.pop()
        path = path_of(module)
        if path not in found and not keeps(path) and (reads or not inside(path, READERS)):
            found[path] = importer
            targets = GRAPH.find_modules_directly_imported_by(module)
            waiting += [(target, module) for target in targets]
    return found


@pytest.mark.parametrize("stage", CODE)
def test_what_a_stage_imports_is_its_code(stage):
    found = followed(stage)
    assert not {path: found[path] for path in found if not inside(path, CODE[stage])}, "missing"
    assert not [code for code in CODE[stage] if not any(inside(path, (code,)) for path in found)]
