import csv
import json
import re
from pathlib import Path

import pytest

from electra.files import read_json, write_json
from electra.storage.manifest import write_checksummed
from pipelines import report
from pipelines.stages import TIMINGS
from tests.conftest import files_of
from tests.pipelines.report import made_up

PARAMS = made_up.params("tiny", ablations=("table5",))
STAGES = {"pretrain-tiny": {"seconds": 61.0, "clock": {"0": 1.5}}}


def write_results():
    made_up.write()
    made_up.write_ablation(failed="replace_mlm")
    write_checksummed(TIMINGS, STAGES)


def read_page(out="out"):
    """The text of a page."""
    page = Path(out, "index.html").read_text()
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_results()
        report.build(PARAMS, Path("out"))
    return folder / "out"


@pytest.fixture(scope="module")
def page(root):
    return (root / "index.html").read_text()


def test_same_inputs_same_bytes(root, monkeypatch):
    """Everything but run.js; a second place on the disk, a second time of the day."""
    write_results()
    monkeypatch.setattr("pipelines.report.page.printed", lambda git, command, *_: command)
    report.build(PARAMS, Path("out"))
    first, second = files_of(root), files_of(Path("out"))
    clock = first.pop("run.js").decode()
    later = second.pop("run.js").decode()
    assert clock != later
    run = json.loads(later.removeprefix("window.electraRun = ").rstrip().removesuffix(";"))
    assert run["stages"] == STAGES
    assert (run["commit"], run["changed"]) == ("rev-parse", True)
    assert set(first) == set(second)
    assert [name for name in first if first[name] != second[name]] == []
    assert {Path(name).suffix for name in first} == {".html", ".svg", ".csv"}


def test_the_page_needs_nothing_but_itself_and_escapes_text(page, root):
    used = [each for each in re.findall(r'(?:src|href)="([^"]*)"', page) if each[0] != "#"]
    tables = [each for each in used if each != "run.js"]
    assert len(used) == len(tables) + 1 and tables
    assert all((root / table).is_file() for table in tables)
    assert "@import" not in page and "url(http" not in page
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]*)"', page)) <= set(ids)
    assert "&lt;Marlow&gt;" in page and "<Marlow>" not in page
    assert page.count("Higher and lower mean ") == 1  # a note is shown once
    assert "build/models/tiny/MANIFEST.json" in page


def test_sample_world_is_named_wherever_a_table_or_figure_holds_a_number_of_it(page):
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page)
    scores = [
        caption
        for caption in captions
        if re.search(r"task|score|answering|mean", caption.lower()) and "statements" not in caption
    ]
    assert len(scores) > 5
    assert [caption for caption in scores if "sample world" not in caption] == []
    assert "they are not GLUE or SQuAD scores" in page


def test_noise_is_not_called_a_win_and_a_failed_arm_is_shown_as_failed(page, root):
    row = re.search(r"<tr><th scope=row[^>]*>WNLI.*?</tr>", page)[0]
    assert "cannot tell yet" in row and "higher" not in row
    text = read_page(root)
    assert "it is undecided whether pre-training helps on MRPC, WNLI" in text
    assert "failed: loss was not finite at step 310" in text
    assert "ablation table5, Replace MLM: failed, seed 1" in text


def test_several_pretrainings_of_a_record_have_a_column_and_say_where_another_falls():
    made_up.write()
    part = {"pretrained": {"scores": [80.0, 82.0, 84.0]}}
    marks = {"tasks": {"cola": part, "squad2": part}, "mean_of_nine": part}
    write_json(Path("benchmarks/results/tiny-marks.json"), marks)
    report.build(made_up.params("tiny"), Path("out"))
    # 82 ± 4.30 · 2 · √(4/3)
    said = "After another, the mean should be 72.1 to 91.9 (95 % prediction interval of 3 recorded ones)"
    assert said in read_page()
    column = "a record, 3 pre-trainings"
    rows = csv.DictReader(Path("out/tables/tiny-tasks.csv").read_text().splitlines())
    assert [
        (row["task"], row[f"{column} mean"], row[f"{column} sd"])
        for row in rows
        if row[f"{column} mean"]
    ] == [
        ("mean over nine tasks (sample world)", "82", "2"),
        ("CoLA", "82", "2"),
        ("SQuAD 2.0", "82", "2"),
    ]


def test_tables_set_the_paper_apart(root):
    table = (root / "tables/ablation-table5.csv").read_text()
    head, electra, *_ = table.splitlines()
    assert head.startswith("arm,against BERT,difference,95 % interval,mean of the tasks mean,")
    assert '"paper, Table 5: GLUE dev"' in head and ",85," in electra
    assert electra.endswith(',2.1e+14,"1,200 steps"')
    *_, ours = csv.DictReader((root / "tables/paper-1.csv").read_text().splitlines())
    assert (
        ours["model"] == "tiny (ours, 9 tasks)"
        and 60 < float(ours["ours: mean of the tasks mean"]) < 70
    )
    bert, *_, ours = csv.DictReader((root / "tables/paper-4.csv").read_text().splitlines())
    assert (bert["paper: exact, SQuAD 1.1"], bert["paper: F1, SQuAD 1.1"]) == ("80.8", "88.5")
    exact, f1 = (float(ours[f"ours: {metric}, SQuAD 2.0 mean"]) for metric in ("exact", "F1"))
    assert exact < 63 < f1


def test_what_is_missing_failed_or_broken_is_named():
    report.build(PARAMS, Path("out"))
    text = read_page()
    assert "No fine-tuning results yet" in text
    for path in ("results/tiny/glue.json", "results/table5/ablation.json"):
        assert f"{path}: there is no such file" in text
    assert "results/curves/tiny.csv: cannot be read (No such file or directory)" in text
    assert list(Path("out/figures").iterdir()) == []

    made_up.write()
    path = Path("results/tiny/glue.json")
    glue = read_json(path)
    glue["tasks"] = {task: glue["tasks"][task] for task in ("cola", "rte")}
    glue["tasks"]["cola"]["pretrained"]["failed"] = ["seed 2: loss was not finite"]
    glue["tasks"]["rte"].pop("scratch")
    write_json(path, glue)
    Path("results/tiny/squad.json").write_text("{")
    report.build(PARAMS, Path("out"))
    text = read_page()
    assert "tiny, CoLA, pre-trained: failed, seed 2: loss was not finite" in text
    assert "tiny, RTE, from scratch: no scores" in text
    assert "results/tiny/squad.json: is malformed" in text


def test_a_model_whose_name_begins_with_anothers_has_its_own_curves():
    made_up.write()
    made_up.write("tiny-own")
    shipped = made_up.shipped()
    more = {
        key: getattr(shipped, key) | {"tiny-own": getattr(shipped, key)["tiny"]}
        for key in ("models", "finetunings")
    }
    report.build(made_up.params("tiny", "tiny-own", **more), Path("out"))
    page = Path("out/index.html").read_text()
    assert "(tiny-own: hidden 128" in page and "<figcaption>Tiny-own" not in page
    assert page.count("<figcaption>Discriminator: area under the ROC curve") == 2
