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
from pipelines.report import findings
from tests.pipelines.report import made_up


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


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
    first, second = content(root / "results/report"), content(tmp_path / "results/report")
    clock = first.pop("run.js").decode()
    assert clock != second.pop("run.js").decode()
    run = json.loads(clock.removeprefix("window.electraRun = ").rstrip().removesuffix(";"))
    assert run["durations"] == {"pretrain-tiny": 61.0} and "CPU cores" in run["machine"]
    assert run["clocks"] == {"pretrain-tiny": {"0": 1.5}}
    assert set(first) == set(second)
    assert [name for name in first if first[name] != second[name]] == []
    assert {Path(name).suffix for name in first} == {".html", ".md", ".svg", ".csv"}


def test_the_page_needs_nothing_but_itself_and_escapes_text(page):
    used = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert [address for address in used if not address.startswith("#")] == ["run.js"]
    assert "@import" not in page and "url(http" not in page
    assert "not recorded" in page
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]*)"', page)) <= set(ids)
    assert "&lt;Marlow&gt;" in page and "<Marlow>" not in page
    assert page.count("Higher and lower: ") == 1  # a note is shown once


def test_no_html_of_a_name_reaches_the_markdown(tmp_path, monkeypatch):
    made_up.write(tmp_path)
    bad = "<img src=x onerror=alert(1)>"
    monkeypatch.setattr(findings, "all_shortfalls", lambda inputs: [bad])
    monkeypatch.setattr(findings, "headline", lambda *_, **__: bad)
    report.build(
        made_up.params("tiny", ablations=("table5",)), tmp_path / "results/report", tmp_path
    )
    written = (tmp_path / "results/report/report.md").read_text(encoding="utf-8")
    assert written.count("&lt;img src=x") >= 2 and "<img" not in written


def test_sample_world_is_named_wherever_a_table_or_figure_holds_a_number_of_it(page):
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page)
    scores = [
        caption for caption in captions if re.search(r"task|score|answering|mean", caption.lower())
    ]
    assert len(scores) > 6
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
    assert columns[:4] == ["task", "from scratch", "pre-trained", "chance"]  # what a phone shows
    names = ("task", "chance", "without a network", "what reached it")
    assert [cola[name] for name in names] == ["CoLA", "41.25", "44.25", "word overlap"]
    assert [mean[name] for name in names[1:]] == ["41.25", "44.25", "the best of each"]
    assert (squad["task"], squad["metric"], squad["chance"]) == (
        "SQuAD 2.0",
        "F1, chance: never answering",
        "33.25",
    )
    for arm in ("pre-trained", "from scratch"):  # in the one row of SQuAD
        assert float(squad[f"{arm}, exact match"]) == pytest.approx(
            float(squad[f"{arm} mean"]) - 3.5, abs=1.5
        )


def test_the_page_begins_with_this_runs_own_picture_and_a_sentence_that_counts_what_moved(
    page, root
):
    """Each task of the model, above every section; no ablation's mean over other tasks."""
    hero = page.index("<figure>", page.index('class="hero"'))
    assert (
        hero
        < page.index("The mean of the tasks and each task (sample world)")
        < page.index("<section>")
    )
    above, _, below = (
        (root / "results/report/report.md").read_text().partition("**tiny: tasks, both arms")
    )
    assert above.count("![") == 1 and "![" not in below
    said = re.search(r'<p class="say">(.*?)</p>', page)[1]
    assert said.startswith(
        "Pre-training lifts 7 of 9 tasks by 7.1 to 40.1 points; of 2 we cannot tell yet. The"
    )
    assert "SQuAD 2.0 F1 from" in said and said.endswith("(never answering: 33.2).")


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
    assert "by a record of 3, the mean of another is 72.1 to 91.9, 95 times in 100" in shown
    column = "a record, 3 pre-trainings"
    marks = [
        (row["task"], row["metric"], row[f"{column} mean"], row[f"{column} sd"]) for row in rows
    ]
    assert [mark for mark in marks if mark[2]] == [
        ("mean over nine tasks (sample world)", "", "82", "2"),
        ("CoLA", "Matthews correlation", "82", "2"),
        ("SQuAD 2.0", "F1, chance: never answering", "82", "2"),
    ]


def test_tables_set_the_paper_apart(root):
    head, electra, *_ = (
        (root / "results/report/tables/ablation-table5.csv")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    assert head.startswith(
        'arm,"paper, Table 5 GLUE dev","ours, tiny, sample world mean of the tasks mean"'
    )
    assert electra.startswith("ELECTRA,85,")


def test_nothing_measured_still_gives_a_page_that_says_so(tmp_path):
    report.build(
        made_up.params("tiny", ablations=("table5",)), tmp_path / "results/report", tmp_path
    )
    shown = text((tmp_path / "results/report/index.html").read_text(encoding="utf-8"))
    assert "No fine-tuning results yet" in shown
    for path in ("results/tiny/glue.json", "results/table5/ablation.json"):
        assert f"{path}: there is no such file" in shown
    assert "results/curves/tiny.csv: cannot be read (No such file or directory)" in shown
    assert list((tmp_path / "results/report/figures").iterdir()) == []


def test_failed_seeds_broken_files_and_a_missing_arm_are_named(tmp_path):
    made_up.write(tmp_path)
    glue = read_json(tmp_path / "results/tiny/glue.json")
    glue["tasks"] = {task: glue["tasks"][task] for task in ("cola", "rte")}
    glue["tasks"]["cola"]["pretrained"]["failed"] = ["seed 2: loss was not finite"]
    glue["tasks"]["rte"].pop("scratch")
    write_json(tmp_path / "results/tiny/glue.json", glue)
    (tmp_path / "results/tiny/squad.json").write_text("{")
    (tmp_path / "results/curves/tiny.csv").unlink()
    report.build(made_up.params("tiny"), tmp_path / "results/report", tmp_path)
    shown = text((tmp_path / "results/report/index.html").read_text(encoding="utf-8"))
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
    assert '<p class="say">tiny-own: Pre-training lifts' in page
    assert (
        page.count("<figcaption>Discriminator: area under the ROC curve") == 2
        and "<figcaption>Tiny-own" not in page
    )
