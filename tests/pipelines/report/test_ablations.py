"""Ablations in the report: claims are judged by the rule, and each that was not run is named."""

from dataclasses import replace
from pathlib import Path

import pytest

from electra.config import build
from electra.files import write_json
from pipelines import report
from pipelines.config.ablation_config import AblationConfig
from pipelines.config.params import settings_digest
from pipelines.report import claims, load_results, paper
from pipelines.sources import LocalTasks, SampleTasks
from tests.support import made_up_results

LOCAL = LocalTasks(kind="local", glue="g")
GAIN = "ELECTRA's gain over BERT grows as models shrink"
BASE = {"model": "tiny", "tokens": "sample_world", "data": "sample_world", "recipe": "tiny"}
OBJECTIVES = {"electra": {"label": "ELECTRA"}, "mlm": {"label": "BERT", "objective.name": "mlm"}}
SIZES = {"h64": {"label": "64 wide", "encoder.hidden": 64}, "h128": {"label": "128 wide"}}
GRID = {
    "title": "Sizes",
    "base": BASE,
    "grid": {"objective": OBJECTIVES, "size": SIZES},
    "reference": "mlm-h128",
}
SCORES = {
    "electra-h64": [50.0, 50.4],
    "electra-h128": [52.0, 52.2],
    "mlm-h64": [40.0, 40.2],
    "mlm-h128": [51.9, 52.5],
}


def write(name, config, scores, **facts):
    """A record of an ablation whose arms have these scores."""
    made = build(AblationConfig, config, name)
    arms = {}
    for arm, settings in made.settings.items():
        arms[arm] = {
            "label": made.label(arm),
            "settings": settings,
            "values": list(made.values(arm)),
            "parameters": {"discriminator": 15_000 if "h128" in arm else 5_000},
        }
        if of := scores.get(arm):
            arms[arm] |= {"status": "ok", "glue": {"cola": of}, "average": {"scores": of}}
        else:
            arms[arm] |= {"status": "failed: loss nan", "failed": ["seed 1: loss nan"]}
    record = {"recorded": "2026-01-02", "commit": "abc", "seconds": 120.0, "machine": "two cores"}
    values = {"name": name, "arms": arms, "reference": made.compared, "record": record, **facts}
    write_json(Path(f"benchmarks/results/ablations/{name}.json"), values)
    return replace(made_up_results.params(), ablations={name: made})


def only(made):
    (ablation,) = load_results.load(made).ablations
    return ablation


@pytest.mark.parametrize(
    "changed, place, said",
    [
        ({}, 0, "64 wide (Table 5: +2.8; Figures 1, 4): came out (+10.1 points, 95 % interval"),
        ({}, 2, "(Figure 4): came out (+10.2 points, 95 % interval +9.2 to +11.2)."),
        ({"electra-h64": [45.0, 55.0], "electra-h128": [57.0, 58.0]}, 2, ": cannot tell yet ("),
        ({"electra-h64": [50.0], "mlm-h64": [40.1]}, 0, "cannot tell yet (+9.9 points)."),
        ({"electra-h128": [40.0, 40.2]}, 1, "reversed"),
    ],
)
def test_a_pair_is_judged_by_its_interval(changed, place, said):
    assert said in claims.sentences(only(write("sizes", GRID, SCORES | changed)))[place]


def test_the_page_shows_records_failures_and_what_is_not_run():
    made = write("sizes", GRID, SCORES | {"mlm-h128": []})
    made.ablations["other"] = build(AblationConfig, {**GRID, "title": "Not yet"}, "other")
    report.build(made, Path("out"))
    page = Path("out/index.html").read_text()
    assert "Recorded 2026-01-02 at commit abc in 2 minutes, on two cores.</p>" in page
    inputs = load_results.load(made)
    assert "ablation sizes, BERT, 128 wide: failed, seed 1: loss nan" in inputs.unrun
    assert "ablation other: Not yet: not run" in page and 'class="pill"' not in page
    assert 'id="ablation-other"' not in page and "4 arms of 2 seeds; " in page
    # its mean is over other tasks than a model's
    assert "(ours" not in Path("out/tables/paper-1.csv").read_text()


def test_a_record_of_other_settings_is_called_so():
    made = write("sizes", GRID, SCORES)
    same = {"settings_digest": settings_digest("sizes", made)}
    assert only(write("sizes", GRID, SCORES, provenance=same)).origin == "sample world, recorded"
    report.build(write("sizes", GRID, SCORES, provenance={"settings_digest": "a"}), Path("out"))
    page = Path("out/index.html").read_text()
    assert "Its settings were others" in page
    said = "sample world, recorded with other settings"
    assert f"Sizes: each task ({said})" in page
    assert f"<span>{said}; 4 arms of 2 seeds; 2 of 3 claims decided" in page


def test_statements_are_sorted_by_verdict_and_a_pair_that_ablations_share_counts_once():
    sample = only(write("sizes", GRID, SCORES))
    again = replace(
        sample, arms=tuple(replace(arm, label=f"{arm.label} again") for arm in sample.arms)
    )
    single = [replace(arm, scores=arm.scores[:1], tasks={"sst2": ()}) for arm in sample.arms]
    here = replace(sample, record={}, arms=tuple(single))
    rows = [list(row.values()) for row in claims.table([sample, again, here]).rows]
    assert [(row[0], row[2].text, row[3], row[6]) for row in rows] == [
        ("ELECTRA above BERT", "came out", "+10.1", "sample world, recorded, 1 task"),
        (GAIN, "came out", "+10.2", "sample world, recorded, 1 task"),
        ("ELECTRA above BERT", "cannot tell yet", "−0.1", "sample world, recorded, 1 task"),
        ("ELECTRA above BERT", "cannot tell yet", "+10.0", "sample world, 1 task"),
        ("ELECTRA above BERT", "cannot tell yet", "+0.1", "sample world, 1 task"),
        (GAIN, "cannot tell yet", "+9.9", "sample world, 1 task"),
    ]
    counted = "Of 6 comparisons that the paper makes, 2 came out here, none reversed, and 4 are"
    assert claims.count([sample, again, here]).startswith(counted)


def test_a_pair_of_the_papers_table_and_figures_is_one_statement():
    """And a grid of one axis has no pair of Figure 4."""
    scores = {"electra": [50.0, 50.2], "mlm": [40.0, 40.2]}
    for arms in ({"arms": OBJECTIVES}, {"grid": {"objective": OBJECTIVES}}):
        ablation = only(write("alone", {"title": "Alone", "base": BASE, **arms}, scores))
        (statement,) = claims.statements(ablation)
        assert statement.source == "Table 5: +2.8; Figures 1, 4"


@pytest.mark.parametrize(
    "rows, source, expected",
    [
        ({"cola": 8551}, LOCAL, "GLUE and SQuAD, local"),
        ({"cola": 8551, "sst2": 8000}, LOCAL, "GLUE and SQuAD, local subsets"),
        ({"sst2": 8000}, SampleTasks(kind="sample"), "sample world"),
    ],
)
def test_subsets_are_called_subsets_and_the_sample_world_stays_itself(rows, source, expected):
    made = write("sizes", GRID, SCORES, train_rows=rows)
    here = replace(made, tasks=made.tasks | {"sample_world": source})
    assert only(here).data == expected


def test_the_paper_is_set_beside_its_own_arms_only():
    table = paper.find_scores(
        {"a": {"x": 1}, "b": {"x": 1, "objective.name": "mlm"}, "c": {"x": 1, "encoder.hidden": 64}}
    )
    assert table and table.arms == {"a": ("ELECTRA", 85.0), "b": ("BERT", 82.2)}
    assert (
        paper.find_scores({"a": {}, "b": {"objective.name": "mlm", "encoder.hidden": 64}}) is None
    )
