"""The house rules, read off the syntax tree: who may import whom, who may do what."""

import ast
import functools
import graphlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted(
    path for package in ("electra", "pipelines") for path in (ROOT / package).rglob("*.py")
)
CORE = [path for path in SOURCES if path.is_relative_to(ROOT / "electra")]
HEAVY = {
    "mlflow",
    "datasets",
    "prefect",
    "matplotlib",
    "transformers",
    "pandas",
    "pyarrow",
    "dvc",
    "distributed",
}
NETWORK = set(
    "datasets huggingface_hub requests urllib.request http httpx aiohttp socket distributed".split()
)


def name_of(path: Path) -> str:
    """`electra/data/shards.py` as it is imported: `electra.data.shards`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def under_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def statements(node: ast.AST, *, functions: bool) -> Iterator[ast.stmt]:
    """Statements that run when a module is imported; with `functions`, those that run later, too."""
    for child in ast.iter_child_nodes(node):
        later = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if under_type_checking(child) or (later and not functions):
            continue
        if isinstance(child, ast.stmt):
            yield child
        yield from statements(child, functions=functions)


@functools.cache
def imports(path: Path, *, functions: bool) -> frozenset[str]:
    """Everything a file imports, as dotted names; `from a import b` counts as a and a.b."""
    found: set[str] = set()
    for node in statements(tree(path), functions=functions):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; say the whole name"
            found.add(str(node.module))
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


@functools.cache
def calls(path: Path) -> list[tuple[str, ast.Call]]:
    return [
        (ast.unparse(node.func), node)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
    ]


def uses(found: Iterable[str], names: set[str]) -> set[str]:
    return {
        name
        for name in found
        for banned in names
        if name == banned or name.startswith(f"{banned}.")
    }


def where(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"


def test_electra_imports_only_its_six_libraries() -> None:
    import sys

    allowed = set(sys.stdlib_module_names) | {
        "electra",
        "torch",
        "numpy",
        "tokenizers",
        "safetensors",
        "pydantic",
    }
    for path in CORE:
        found = {name.split(".")[0] for name in imports(path, functions=True)}
        assert found <= allowed, f"{path}: {found - allowed}"


ROOMS = {  # room -> the rooms it stands on; all stand on the files at the top of `electra`
    "storage": set[str](),
    "data": {"storage"},
    "nn": {"storage"},
    "optim": {"nn"},
    "pretraining": {"data", "nn", "optim", "storage"},
    "finetuning": {"data", "nn", "optim", "storage"},
}


def test_rooms_stand_on_the_rooms_below_them() -> None:
    core = ROOT / "electra"
    assert {path.parent.name for path in core.glob("*/__init__.py")} == set(ROOMS)
    for room, floors in ROOMS.items():
        for path in (core / room).rglob("*.py"):
            above = {f"electra.{other}" for other in set(ROOMS) - floors - {room}}
            assert not uses(imports(path, functions=True), above), path


# Each room of `pipelines` stands on those named before it; the files at the top of `pipelines`
# start all of them.
LEVELS = (
    "tracking",
    "versioning",
    "finetuning_runs",
    "text",
    "sources",
    "config",
    "report",
    "stages",
    "flows",
    "cli",
)


def test_imports_between_the_rooms_of_the_pipelines_run_one_way() -> None:
    folder = ROOT / "pipelines"
    assert {path.parent.name for path in folder.glob("*/__init__.py")} == set(LEVELS)
    for level, room in enumerate(LEVELS):
        above = {f"pipelines.{other}" for other in LEVELS[level + 1 :]}
        for path in (folder / room).rglob("*.py"):
            named = {
                node.module
                for node in ast.walk(tree(path))  # what stands under TYPE_CHECKING, too
                if isinstance(node, ast.ImportFrom) and node.module
            }
            assert not uses(named | imports(path, functions=True), above), path


def test_no_imports_run_in_a_circle() -> None:
    known, graph = {name_of(path): path for path in SOURCES}, dict[str, set[str]]()
    for name, path in known.items():
        # in functions, too
        found = [node for node in ast.walk(tree(path)) if isinstance(node, ast.ImportFrom)]
        named = {f"{node.module}.{alias.name}" for node in found for alias in node.names}
        graph[name] = {
            each if each in known else each.rpartition(".")[0] for each in named
        } & known.keys()
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError


def test_what_differs_between_the_encoders_is_a_method_of_theirs() -> None:
    for path in SOURCES:
        asked = re.search(
            r"isinstance\([^)]*\b(Modern|EncoderConfig)", path.read_text(encoding="utf-8")
        )
        assert not asked or path.name == "hf_names.py", path  # which knows both formats of a folder


def test_mlflow_prefect_and_dvc_have_a_room_each() -> None:
    for library, room in (("mlflow", "tracking"), ("prefect", "flows"), ("dvc", "versioning")):
        for path in SOURCES:
            if not path.is_relative_to(ROOT / "pipelines" / room):
                assert not uses(imports(path, functions=True), {library}), path


def test_only_sources_reach_the_network() -> None:
    allowed = {
        ROOT / "electra" / "files.py": {"socket.gethostname", "socket"},  # who holds a lock
        ROOT / "pipelines" / "cli" / "processes.py": {  # where machines meet
            "socket",
            "socket.create_connection",
            "socket.create_server",
            "socket.getaddrinfo",
        },
        # names a workflow
        ROOT / "pipelines" / "tracking" / "__init__.py": {"socket.gethostname", "socket"},
        # is the server there
        ROOT / "pipelines" / "flows" / "__init__.py": {"socket.create_connection", "socket"},
        # listens
        ROOT / "pipelines" / "stages" / "cards.py": {  # writes YAML
            "huggingface_hub",
            "huggingface_hub.EvalResult",
            "huggingface_hub.ModelCardData",
        },
        ROOT / "pipelines" / "cli" / "play.py": {"socket.create_server", "socket"},
    }
    stages = ROOT / "pipelines" / "stages"
    doors = {stages / "dask_cluster.py": {"distributed"}, stages / "mirror.py": {"fsspec"}}
    for path in SOURCES:
        if path.is_relative_to(ROOT / "pipelines" / "sources"):
            continue
        found = uses(imports(path, functions=True), NETWORK - doors.get(path, set()))
        assert found <= allowed.get(path, set()), f"{path}: {found}"
        for name, node in calls(path):
            if name.startswith("socket."):
                assert name in allowed.get(path, set()), where(path, node)


def test_heavy_libraries_are_imported_where_they_are_used() -> None:
    """`--help` and a stage must not wait for what they do not need; a flow cannot be written
    without Prefect.
    """
    for path in SOURCES:
        heavy = HEAVY - (
            {"prefect"} if path.is_relative_to(ROOT / "pipelines" / "flows") else set()
        )
        assert not uses(imports(path, functions=False), heavy), path


def test_only_files_renames_fsyncs_and_deletes() -> None:
    banned = {f"os.{name}" for name in ("rename", "replace", "remove", "unlink", "rmdir", "fsync")}
    banned |= {"shutil.rmtree", "shutil.move"}
    methods = {"unlink", "rename", "rmdir", "fsync"}
    for path in SOURCES:
        if path == ROOT / "electra" / "files.py":
            continue
        for name, node in calls(path):
            owner, _, method = name.rpartition(".")
            assert name not in banned, where(path, node)
            if owner not in {"", "files", "electra.files"} and method in methods:
                raise AssertionError(f"{where(path, node)}: {name}")
            # Path.replace; str.replace has two
            if method == "replace" and len(node.args) == 1 and not node.keywords:
                raise AssertionError(f"{where(path, node)}: {name}")


def test_nothing_can_execute_data() -> None:
    names = {
        "eval",
        "exec",
        "compile",
        "__import__",
        "torch.load",
        "torch.save",
        "yaml.load",
        "yaml.unsafe_load",
    }
    for path in SOURCES:
        assert not uses(
            imports(path, functions=True),
            {"pickle", "cPickle", "dill", "joblib", "marshal", "shelve", "cloudpickle"},
        ), path
        for name, node in calls(path):
            method = name.rpartition(".")[2]
            assert name not in names, where(path, node)
            assert method != "extractall" and name not in {"os.system", "os.popen"}, where(
                path, node
            )
            for keyword in node.keywords:
                said_yes = not (
                    isinstance(keyword.value, ast.Constant) and keyword.value.value is False
                )
                banned = keyword.arg in {"shell", "trust_remote_code", "allow_pickle"}
                assert not (banned and said_yes), where(path, node)
            if name == "YAML":
                # The second keeps comments; neither builds Python's objects.
                assert ast.unparse(node) in {"YAML(typ='safe')", "YAML()"}, where(path, node)


def graph() -> dict[str, set[str]]:
    """Which modules each module imports when it is imported."""
    modules = {name_of(path): path for path in SOURCES}
    edges: dict[str, set[str]] = {}
    for name, path in modules.items():
        found = imports(path, functions=False)
        edges[name] = {target for target in modules if target in found and target != name}
    return edges


def test_no_cycles() -> None:
    edges, done = graph(), set[str]()

    def walk(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join([*path, name])
        if name not in done:
            for target in sorted(edges[name]):
                walk(target, (*path, name))
            done.add(name)

    for name in sorted(edges):
        walk(name, ())


def test_every_file_has_a_docstring() -> None:
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        assert not text.strip() or ast.get_docstring(ast.parse(text)), (
            f"{path}: no module docstring"
        )


def test_the_rules_can_fail(tmp_path: Path) -> None:
    """A rule that reads a syntax tree wrongly would pass for ever."""
    path = tmp_path / "bad.py"
    path.write_text(
        "import os\ndef f():\n    from mlflow.entities import Metric\n    os.rename('a', 'b')\n"
    )
    assert uses(imports(path, functions=True), {"mlflow"}) == {
        "mlflow.entities",
        "mlflow.entities.Metric",
    }
    assert imports(path, functions=False) == {"os"}
    assert [name for name, _ in calls(path)] == ["os.rename"]
