import csv
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from electra.files import read_json, write_json
from electra.storage.manifest import write_sealed
from pipelines import report
from tests.conftest import files_of
from tests.pipelines.report import made_up


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    made_up.write(folder)
    made_up.write_ablation(folder, failed="replace_mlm")
    write_sealed(
        folder / "runs/timings.json", {"pretrain-tiny": {"seconds": 61.0, "clock": {"0": 1.5}}}
    )
    report.build(made_up.params("tiny", ablations=("table5",)), folder / "results/report", folder)
    return folder


@pytest.fixture(scope="module")
def page(root):
    return (root / "results/report/index.html").read_text(encoding="utf-8")


def text(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_same_inputs_same_bytes(root, tmp_path):
    """Everything but run.js; a second place on the disk, a second time of the day."""
    for part in ("results/tiny", "results/table5", "results/curves", "build"):
        shutil.copytree(root / part, tmp_path / part)
    report.build(
        made_up.params("tiny", ablations=("table5",)), tmp_path / "results/report", tmp_path
    )
    first, second = files_of(root / "results/report"), files_of(tmp_path / "results/report")
    clock = first.pop("run.js").decode()
    assert clock != second.pop("run.js").decode()
    run = json.loads(clock.removeprefix("window.electraRun = ").rstrip().removesuffix(";"))
    assert run["durations"] == {"pretrain-tiny": 61.0} and "CPU cores" in run["machine"]
    assert run["clocks"] == {"pretrain-tiny": {"0": 1.5}}
    assert set(first) == set(second)
    assert [name for name in first if first[name] != second[name]] == []
    assert {Path(name).suffix for name in first} == {".html", ".svg", ".csv"}


def test_the_page_needs_nothing_but_itself_and_escapes_text(page, root):
    used = [each for each in re.findall(r'(?:src|href)="([^"]*)"', page) if each[0] != "#"]
    tables = [each for each in used if each != "run.js"]
    assert len(used) == len(tables) + 1 and tables
    assert all((root / "results/report" / table).is_file() for table in tables)
    assert "@import" not in page and "url(http" not in page
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]*)"', page)) <= set(ids)
    assert "&lt;Marlow&gt;" in page and "<Marlow>" not in page
    assert page.count("Higher and lower mean ") == 1  # a note is shown once


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


def test_noise_is_not_called_a_win_and_a_failed_arm_is_shown_as_failed(page):
    row = text(re.search(r"<tr><th scope=row[^>]*>WNLI.*?</tr>", page)[0])
    assert "cannot tell yet" in row and "higher" not in row
    assert "cannot tell yet whether pre-training moves MRPC, WNLI" in text(page)
    assert "failed: loss was not finite at step 310" in text(page)
    assert "ablation table5, Replace MLM: failed" in text(page)


def test_beside_each_score_stands_the_ground_it_stands_on(root, page):
    tables = root / "results/report/tables"
    mean, cola, *_, squad = csv.DictReader((tables / "tiny-tasks.csv").read_text().splitlines())
    columns = re.findall(
        r"<th scope=col[^>]*>([\w -]*)", page[page.index('id="table-tiny-tasks"') :]
    )
    assert columns[:4] == [
        "task",
        "pre-trained is",
        "from scratch",
        "pre-trained",
    ]  # what a phone shows
    names = ("task", "chance", "without a network", "what reached it")
    assert [cola[name] for name in names] == ["CoLA", "41.25", "44.25", "word overlap"]
    assert [mean[name] for name in names[1:]] == ["41.25", "44.25", "the best of each"]
    assert (squad["task"], squad["metric"], squad["chance"]) == (
        "SQuAD 2.0",
        "F1 (chance: never answering)",
        "33.25",
    )


def test_the_page_begins_with_what_was_done_and_what_came_out_and_how_to_repeat_it(page):
    """A picture of the model's tasks is above every section, and no ablation's mean over others."""
    hero, _, sections = page.partition("<section>")
    assert hero.count("<svg") == 1 and "The mean of the tasks and each task" in hero
    assert hero.index("A network of 3 layers") < hero.index('<p class="say">The mean over nine')
    assert re.search(r"<dt>pretrain.learning_rate</dt><dd>[\d.e-]+</dd>", sections)
    assert "<dt>torch</dt><dd>2." in sections and "dvc repro</code>" in sections


def test_several_pretrainings_of_a_record_have_a_column_and_say_where_another_falls(tmp_path):
    made_up.write(tmp_path)
    part = {"pretrained": {"scores": [80.0, 82.0, 84.0]}}
    tasks = {"cola": {**part, "metric": "matthews"}, "squad2": {**part, "metric": "f1"}}
    write_json(
        tmp_path / "benchmarks/results/tiny-marks.json", {"tasks": tasks, "mean_of_nine": part}
    )
    report.build(made_up.params("tiny"), tmp_path / "out", tmp_path)
    rows = csv.DictReader((tmp_path / "out/tables/tiny-tasks.csv").read_text().splitlines())
    shown = text((tmp_path / "out/index.html").read_text(encoding="utf-8"))
    # 82 ± 4.30 · 2 · √(4/3)
    assert "By a record of 3, the mean of another is 72.1 to 91.9, 95 times in 100" in shown
    column = "a record, 3 pre-trainings"
    marks = [
        (row["task"], row["metric"], row[f"{column} mean"], row[f"{column} sd"]) for row in rows
    ]
    assert [mark for mark in marks if mark[2]] == [
        ("mean over nine tasks (sample world)", "", "82", "2"),
        ("CoLA", "Matthews correlation", "82", "2"),
        ("SQuAD 2.0", "F1 (chance: never answering)", "82", "2"),
    ]


def test_tables_set_the_paper_apart(root):
    head, electra, *_ = (
        (root / "results/report/tables/ablation-table5.csv")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    assert head.startswith("arm,against BERT,difference,95 % interval,mean of the tasks mean,")
    assert '"paper, Table 5: GLUE dev"' in head and ",85," in electra


def test_what_is_missing_failed_or_broken_is_named(tmp_path):
    params = made_up.params("tiny", ablations=("table5",))
    report.build(params, tmp_path / "out", tmp_path)
    shown = text((tmp_path / "out/index.html").read_text(encoding="utf-8"))
    assert "No fine-tuning results yet" in shown
    for path in ("results/tiny/glue.json", "results/table5/ablation.json"):
        assert f"{path}: there is no such file" in shown
    assert "results/curves/tiny.csv: cannot be read (No such file or directory)" in shown
    assert list((tmp_path / "out/figures").iterdir()) == []

    made_up.write(tmp_path)
    glue = read_json(tmp_path / "results/tiny/glue.json")
    glue["tasks"] = {task: glue["tasks"][task] for task in ("cola", "rte")}
    glue["tasks"]["cola"]["pretrained"]["failed"] = ["seed 2: loss was not finite"]
    glue["tasks"]["rte"].pop("scratch")
    write_json(tmp_path / "results/tiny/glue.json", glue)
    (tmp_path / "results/tiny/squad.json").write_text("{")
    report.build(params, tmp_path / "out", tmp_path)
    shown = text((tmp_path / "out/index.html").read_text(encoding="utf-8"))
    assert "tiny, CoLA, pre-trained: failed, seed 2: loss was not finite" in shown
    assert "tiny, RTE, from scratch: no scores" in shown
    assert "results/tiny/squad.json: is malformed" in shown


def test_a_model_whose_name_begins_with_anothers_has_its_own_curves(tmp_path):
    made_up.write(tmp_path)
    made_up.write(tmp_path, "tiny-own")
    made = made_up.params("tiny")
    more = {
        key: getattr(made, key) | {"tiny-own": getattr(made, key)["tiny"]}
        for key in ("models", "finetunings")
    }
    more["run"] = replace(made.run, models=("tiny", "tiny-own"))
    report.build(replace(made, **more), tmp_path / "out", tmp_path)
    page = (tmp_path / "out/index.html").read_text(encoding="utf-8")
    assert "(tiny-own: hidden 128" in page
    assert (
        page.count("<figcaption>Discriminator: area under the ROC curve") == 2
        and "<figcaption>Tiny-own" not in page
    )
