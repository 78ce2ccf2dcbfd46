"""The list of stages: what each reads, what data its numbers are of, and that its code is what it
imports.
"""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from electra.errors import Busy
from electra.files import lock_folder
from pipelines.config.params import load
from pipelines.stages import LOCKS, STAGES, ancestors, data_label
from pipelines.tracking import Tracker
from tests.conftest import ROOT

SOURCES = [path for room in ("electra", "pipelines") for path in (ROOT / room).rglob("*.py")]


def name_of(path):
    """`electra/data/shards.py` as it is imported: `electra.data.shards`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def tree(path):
    return ast.parse(path.read_text())


def imported(node):
    """Everything that is imported when code runs; `from a import b` counts as a and a.b."""
    names = set()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Import):
            names.update(alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            names.add(str(child.module))
            names.update(f"{child.module}.{alias.name}" for alias in child.names)
        names |= imported(child)
    return names


MODULES = {name_of(path): path for path in SOURCES}
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


def is_empty(module):
    """Whether a module holds a docstring and nothing that is executed."""
    body = tree(MODULES[module]).body
    return all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in body)


def followed(stage):
    """The modules that a stage imports, directly or not, and what imports each; what only keeps
    ends the walk.
    """
    own = tuple(path for path in CODE[stage] if path.startswith("pipelines/stages"))
    reads = any(inside(path, READERS) for path in CODE[stage])
    found = {}
    waiting = [
        (name, "the stage")
        for name, path in MODULES.items()
        if inside(str(path.relative_to(ROOT)), own)
    ]
    while waiting:
        name, importer = waiting.pop()
        path = str(MODULES[name].relative_to(ROOT))
        if name in found or is_empty(name) or keeps(path) or (inside(path, READERS) and not reads):
            continue
        found[name] = importer
        waiting += [(target, name) for target in imported(tree(MODULES[name])) & set(MODULES)]
    return found


@pytest.mark.parametrize("stage", CODE)
def test_what_a_stage_imports_is_its_code(stage):
    found = {
        str(MODULES[name].relative_to(ROOT)): importer for name, importer in followed(stage).items()
    }
    assert not {path: found[path] for path in found if not inside(path, CODE[stage])}, "missing"
    assert not [code for code in CODE[stage] if not any(inside(path, (code,)) for path in found)]
