import json
import re
from pathlib import Path

import pytest

from electra.files import read_json, write_json
from electra.storage.manifest import write_checksummed
from pipelines import report
from pipelines.stages import TIMINGS
from tests.support import made_up_results

PARAMS = made_up_results.params("tiny", ablations=("table5",))
STAGES = {"pretrain-tiny": {"seconds": 61.0, "clock": {"0": 1.5}}}


def text_of(page):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.read_text()))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("pipelines.report.page.printed", lambda git, command, *_: command)
        made_up_results.write()
        made_up_results.write_ablation(failed="replace_mlm")
        write_checksummed(TIMINGS, STAGES)
        report.build(PARAMS, Path("out"))
    return folder / "out"


@pytest.fixture(scope="module")
def page(root):
    return (root / "index.html").read_text()


def test_what_differs_from_run_to_run_is_in_a_file_of_its_own(root):
    """All other bytes are those of test_committed.py, wherever and whenever they are written."""
    script = (root / "run.js").read_text()
    run = json.loads(script.removeprefix("window.electraRun = ").rstrip().removesuffix(";"))
    assert run["date"][:2] == "20" and run["stages"] == STAGES
    assert (run["commit"], run["changed"]) == ("rev-parse", True)


def test_the_page_needs_nothing_but_itself_and_escapes_text(page, root):
    used = [name for name in re.findall(r'(?:src|href)="([^"]*)"', page) if name[0] != "#"]
    assert len(used) > 1 and all((root / name).is_file() for name in used)
    assert "@import" not in page and "url(http" not in page
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]*)"', page)) <= set(ids)
    assert "&lt;Marlow&gt;" in page and "<Marlow>" not in page
    assert page.count("Higher and lower mean ") == 1  # a note is shown once
    assert "build/models/tiny/MANIFEST.json" in page


def test_sample_world_is_named_wherever_a_table_or_figure_holds_a_number_of_it(page):
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page)
    scores = [caption for caption in captions if re.search("task|[Ss]core|answering", caption)]
    assert len(scores) > 4 and all("sample world" in caption for caption in scores)
    assert "they are not GLUE or SQuAD scores" in page


def test_noise_is_not_called_a_win_and_a_failed_arm_is_shown_as_failed(root):
    text = text_of(root / "index.html")
    assert "it is undecided whether pre-training helps on MRPC, WNLI" in text
    assert "failed: loss was not finite at step 310" in text
    assert "ablation table5, Replace MLM: failed, seed 1" in text


def test_what_is_missing_failed_or_broken_is_named():
    report.build(PARAMS, Path("out"))
    index = Path("out/index.html")
    text = text_of(index)
    assert "No fine-tuning results yet" in text
    for path in ("results/tiny/glue.json", "results/table5/ablation.json"):
        assert f"{path}: there is no such file" in text
    assert "results/curves/tiny.csv: cannot be read (No such file or directory)" in text
    assert list(Path("out/figures").iterdir()) == []

    made_up_results.write()
    path = Path("results/tiny/glue.json")
    glue = read_json(path)
    glue["tasks"] = {task: glue["tasks"][task] for task in ("cola", "rte")}
    glue["tasks"]["cola"]["pretrained"]["failed"] = ["seed 2: loss was not finite"]
    glue["tasks"]["rte"].pop("scratch")
    write_json(path, glue)
    Path("results/tiny/squad.json").write_text("{")
    report.build(PARAMS, Path("out"))
    text = text_of(index)
    assert "tiny, CoLA, pre-trained: failed, seed 2: loss was not finite" in text
    assert "tiny, RTE, from scratch: no scores" in text
    assert "results/tiny/squad.json: is malformed" in text


def test_a_model_whose_name_begins_with_anothers_has_its_own_curves():
    made_up_results.write()
    made_up_results.write("tiny-own")
    models = PARAMS.models | {"tiny-own": PARAMS.models["tiny"]}
    finetunings = PARAMS.finetunings | {"tiny-own": PARAMS.finetunings["tiny"]}
    both = made_up_results.params("tiny", "tiny-own", models=models, finetunings=finetunings)
    report.build(both, Path("out"))
    page = Path("out/index.html").read_text()
    assert "(tiny-own: hidden 128" in page and "<figcaption>Tiny-own" not in page
    assert page.count("<figcaption>Discriminator: area under the ROC curve") == 2
