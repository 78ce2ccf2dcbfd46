"""The table of code is what stages import and what dvc.yaml lists."""

import ast

import pytest
from ruamel.yaml import YAML

from pipelines.runtime import code_deps
from pipelines.runtime.code_deps import DEPS
from tests.conftest import ROOT
from tests.test_architecture import SOURCES, imports, name_of, tree

MODULES = {name_of(path): path for path in SOURCES}
PIPELINE = YAML(typ="safe").load((ROOT / "pipelines" / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
PIPELINE = {name: stage for name, stage in PIPELINE.items() if not name.endswith("_files")}  # looked at every time
TELLERS = tuple(f"pipelines/stages/{name}.py" for name in ("__init__", "verified_inputs", "required_files"))
KEEPERS = ("electra/storage", "pipelines/commands", "pipelines/config", "pipelines/runtime", "pipelines/tracking")
READERS = ("pipelines/sources",)  # some stages list them; the others only read settings, or one file, through them


def inside(path: str, among: tuple[str, ...]) -> bool:
    return any(path == room or path.startswith(f"{room}/") for room in among)


def keeps(path: str) -> bool:
    """Whether a file only keeps, tells or reads settings, by where it stands."""
    top = path.count("/") == 1 or inside(path, ("pipelines/sources/__init__.py", *TELLERS))
    return (top and path != "electra/seeds.py") or inside(path, KEEPERS)


def is_empty(module: str) -> bool:
    """Whether a module holds a docstring and nothing that is executed."""
    body = tree(MODULES[module]).body
    return all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in body)


def followed(stage: str) -> dict[str, str]:
    """The modules that a stage imports, directly or not, and what imports each; what only keeps ends the walk."""
    own = tuple(path for path in DEPS[stage] if path.startswith("pipelines/stages"))
    reads = any(inside(path, READERS) for path in DEPS[stage])
    found: dict[str, str] = {}
    waiting = [(name, "dvc.yaml") for name, path in MODULES.items() if inside(str(path.relative_to(ROOT)), own)]
    while waiting:
        name, importer = waiting.pop()
        path = str(MODULES[name].relative_to(ROOT))
        if name in found or is_empty(name) or keeps(path) or (inside(path, READERS) and not reads):
            continue
        found[name] = importer
        waiting += [(target, name) for target in imports(MODULES[name], functions=True) & set(MODULES)]
    return found


@pytest.mark.parametrize("stage", DEPS)
def test_what_a_stage_imports_stands_in_the_table(stage: str) -> None:
    found = {str(MODULES[name].relative_to(ROOT)): importer for name, importer in followed(stage).items()}
    missing = {path: importer for path, importer in found.items() if not inside(path, DEPS[stage])}
    assert not missing


@pytest.mark.parametrize("stage", DEPS)
def test_a_stage_needs_what_the_table_lists(stage: str) -> None:
    found = {str(MODULES[name].relative_to(ROOT)) for name in followed(stage)}
    assert not [listed for listed in DEPS[stage] if not any(inside(path, (listed,)) for path in found)]


def test_dvc_lists_the_code_of_each_stage() -> None:
    for name, definition in PIPELINE.items():
        deps = [path for path in definition["do"]["deps"] if path.startswith(("electra", "pipelines"))]
        assert deps == sorted(DEPS[name]), name
    assert set(PIPELINE) == set(DEPS)


def test_the_table_lists_nothing_that_only_keeps() -> None:
    for path in SOURCES:
        name = str(path.relative_to(ROOT))
        assert not keeps(name) or name not in {path for listed in DEPS.values() for path in listed}


def test_code_is_recorded_file_by_file_without_what_only_exports_it() -> None:
    code = code_deps.code("pretrain")
    assert "electra/nn/encoder.py" in code and "electra/seeds.py" in code
    assert not [file for file in code if file.startswith("pipelines") or "card" in file]
    assert len(code_deps.version("finetune")) == 16 and code_deps.version("finetune") != code_deps.version("pretrain")
