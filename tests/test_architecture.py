"""House rules that neither ruff nor import-linter (pyproject.toml) checks, read off the syntax
tree.
"""

import ast
import re
import sys

import pytest

from tests.support.project import read_text
from tests.support.syntax_trees import imports, parse

CORE_LIBRARIES = {"electra", "torch", "numpy", "tokenizers", "safetensors", "pydantic"}
NETWORK = ("aiohttp", "datasets", "distributed", "fsspec", "http", "httpx", "huggingface_hub")
NETWORK += ("requests", "socket", "urllib.request")
DOORS = {  # file -> what it may import of NETWORK
    "electra/files.py": {"socket"},  # the host's name, in a lock
    "pipelines/cli/play.py": {"socket"},  # listens
    "pipelines/flows/__init__.py": {"socket"},  # asks whether the server is there
    "pipelines/stages/dask_cluster.py": {"distributed"},
    "pipelines/stages/mirror.py": {"fsspec"},
    "pipelines/cli/processes.py": {"socket"},  # where machines meet
    "pipelines/stages/cards.py": {"huggingface_hub"},  # writes YAML
    "pipelines/tracking/__init__.py": {"socket"},  # the host's name
}
COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def calls(tree):
    """Yield every call with the name of what is called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def contains(nodes, kind):
    return any(isinstance(inner, kind) for node in nodes for inner in ast.walk(node))


def packed(tree):
    """Yield the line and the rule of whatever packs several thoughts into one expression."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            target = node.targets[0]
            if isinstance(target, ast.Tuple):
                names = {ast.unparse(element) for element in target.elts}
                if names.isdisjoint(map(ast.unparse, node.value.elts)):  # else a swap
                    yield node.lineno, "one assignment of several values"
        elif isinstance(node, COMPREHENSIONS):
            loops = node.generators
            if len(loops) > 1 or len(loops[0].ifs) > 1:
                yield node.lineno, "a comprehension of several loops or conditions"
            if contains(iter([node]), ast.NamedExpr):
                yield node.lineno, "a walrus in a comprehension"
        elif isinstance(node, ast.IfExp) and contains(ast.iter_child_nodes(node), ast.IfExp):
            yield node.lineno, "a conditional expression in another"


def test_code_is_plain():
    faults = []
    for name, tree in parse("electra", "pipelines", "benchmarks").items():
        faults += [f"{name}:{line}: {rule}" for line, rule in packed(tree)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    "code",
    [
        "a, b = 1, 2",
        "[x for y in z for x in y]",
        "[(w := x) for x in y]",
        "a if b else c if d else e",
    ],
)
def test_packed_code_is_seen(code):
    assert list(packed(ast.parse(code)))
    assert not list(packed(ast.parse("a, b = b, a; c = [x for x in y if x]; d = 1 if c else 2")))


def test_electra_imports_only_its_libraries():
    for name, tree in parse("electra", "pipelines").items():
        if name.startswith("electra/"):
            roots = {module.partition(".")[0] for module in imports(tree)}
            assert roots <= CORE_LIBRARIES | sys.stdlib_module_names, name


def test_only_sources_reach_the_network():
    for name, tree in parse("electra", "pipelines").items():
        if not name.startswith("pipelines/sources/"):
            faults = {each for each in NETWORK if each in imports(tree)}
            assert faults <= DOORS.get(name, set()), name


def test_only_files_renames_and_deletes():
    """Of the functions of os and shutil: TID251 in pyproject.toml."""
    for name, tree in parse("electra", "pipelines").items():
        for called, node in calls(tree):
            owner, _, method = called.rpartition(".")
            if name != "electra/files.py" and owner not in {"", "files"}:
                place = f"{name}:{node.lineno}: {called}"
                assert method not in {"unlink", "rename", "rmdir"}, place
                # Path.replace; str.replace has two
                assert method != "replace" or len(node.args) != 1 or node.keywords, place


def test_nothing_can_execute_data():
    """Beside what ruff's S and TID251 refuse."""
    for name, tree in parse("electra", "pipelines").items():
        banned = {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}
        assert not imports(tree) & banned, name
        for called, node in calls(tree):
            place = f"{name}:{node.lineno}: {called}"
            assert called not in {"compile", "__import__"}, place
            assert called != "YAML" or ast.unparse(node) in {"YAML(typ='safe')", "YAML()"}, place
            given = {key.arg: ast.unparse(key.value) for key in node.keywords}
            for option in ("allow_pickle", "shell", "trust_remote_code"):
                assert given.get(option, "False") == "False", place


def test_differences_between_encoders_are_methods_of_theirs():
    for name in parse("electra", "pipelines"):
        text = read_text(name)
        asked = re.search(r"isinstance\([^)]*\b(ModernBert|BertConfig)", text)
        assert not asked or name.endswith("/hf_names.py"), name  # which knows both formats
