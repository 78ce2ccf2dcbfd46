"""The Python of docs/library.md and of the notebook runs as it stands: on made-up models, and after the
demo on its own.
"""

import json
import re
import shutil

import pytest

from tests.support.models import write_finetuned, write_pretrained
from tests.support.project import ROOT, read_text

NOTEBOOK = json.loads(read_text("docs/electra.ipynb"))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A checkout after the demo, as far as models go."""
    root = tmp_path_factory.mktemp("checkout")
    models = root / "build/models/tiny"
    write_pretrained(models)
    write_finetuned(models)
    for name, place in (
        ("cola", "glue/tiny/cola"),
        ("rte", "glue/tiny/rte"),
        ("squad2", "squad/tiny/2.0"),
    ):
        shutil.copytree(models / name, root / "build" / place / "pretrained-seed1")
    return root


def run(source, name, names):
    exec(compile(source, name, "exec"), names)


def read_blocks():
    """Return the Python of docs/library.md."""
    page = read_text("docs/library.md")
    return re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)


def test_page_runs(checkout, monkeypatch):
    monkeypatch.chdir(checkout)
    names = {}
    for number, block in enumerate(read_blocks()):
        run(block, f"docs/library.md, block {number + 1}", names)
    assert names["vectors"].shape == (2, 32) and names["first"].shape == (1, 32)
    answer = names["reader"].answer("Which creature is Vinek?", names["context"])
    assert names["context"][answer["start"] :].startswith(answer["best"])


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / "build/squad/tiny").is_dir(), reason="needs `make demo`")
def test_page_prints_what_it_says(monkeypatch, capsys):
    """On the demo's models, the Python of the page prints its comments `# prints: ...`."""
    monkeypatch.chdir(ROOT)
    names = {}
    for number, block in enumerate(read_blocks()):
        run(block, f"docs/library.md, block {number + 1}", names)
        expected = re.findall(r"^# (prints|for example): (.*)$", block, re.M)
        lines = capsys.readouterr().out.splitlines()
        assert expected and len(lines) == len(expected)
        for line, (kind, text) in zip(lines, expected, strict=True):
            assert kind == "for example" or line == text


def test_the_notebook(checkout, monkeypatch, capsys):
    """Its cells run, and what is kept of them is the output of whole runs, in order."""
    (checkout / "docs").mkdir(exist_ok=True)
    shutil.copytree(ROOT / "results/curves", checkout / "results/curves")
    monkeypatch.chdir(checkout / "docs")  # where Jupyter starts a notebook
    monkeypatch.setenv("MPLBACKEND", "agg")
    names = {}
    cells = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells):
        run("".join(cell["source"]), f"docs/electra.ipynb, cell {number + 1}", names)
        assert cell["execution_count"] == number + 1
        assert all(output["output_type"] != "error" for output in cell["outputs"])
    printed = capsys.readouterr().out
    assert re.search(r"replaced: 0\.\d\d   original: 0\.\d\d   \(\d+ texts\)", printed)
    assert names["curve"][-1][0] < names["curve"][0][0]
    assert len(names["pairs"]) > 2
    assert names["truth"].any()
