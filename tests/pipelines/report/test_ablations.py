"""Ablations in the report: grids and points drawn, claims judged by the rule, and each that was not
run named.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from electra.config import build
from electra.files import write_json
from pipelines import report
from pipelines.config.ablation_config import AblationConfig
from pipelines.config.params import settings_digest
from pipelines.report import claims, figures, load_results, paper
from pipelines.report.comparison import compare_scores
from pipelines.sources import LocalTasks, SampleTasks
from tests.pipelines.report import made_up

GAIN = "ELECTRA's gain over BERT grows as models shrink"
BASE = {"model": "tiny", "tokens": "sample_world", "data": "sample_world", "recipe": "tiny"}
SIZES = {
    "h64": {"label": "64 wide", "encoder.hidden": 64},
    "h128": {"label": "128 wide"},
}
OBJECTIVES = {
    "electra": {"label": "ELECTRA"},
    "mlm": {"label": "BERT", "objective.name": "mlm"},
}
AXES = {"objective": OBJECTIVES, "size": SIZES}
GRID = {
    "title": "Sizes",
    "base": BASE,
    "grid": AXES,
    "reference": "mlm-h128",
    "protocol": {"points": [0.5]},
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
        part = {
            "label": made.label(arm),
            "settings": settings,
            "values": list(made.values(arm)),
        }
        arms[arm] = part | {"status": "failed: loss nan", "failed": ["seed 1: loss nan"]}
        if of := scores.get(arm):
            points = [
                {"fraction": f, "flops": f * 1e12, "scores": [f * score for score in of]}
                for f in (0.5, 1.0)
            ]
            size = {"discriminator": 10_000 * int("h128" in arm) + 5_000}
            arms[arm] = part | {
                "status": "ok",
                "steps": 10,
                "flops": 1e12,
                "parameters": size,
                "glue": {"cola": of},
            }
            arms[arm] |= {
                "points": points if config.get("protocol", {}).get("points") else [],
                "average": {"scores": of},
            }
    record = {"recorded": "2026-01-02", "commit": "abc", "seconds": 120.0, "machine": "two cores"}
    values = {"name": name, "arms": arms, "reference": made.compared, "record": record, **facts}
    write_json(Path(f"benchmarks/results/ablations/{name}.json"), values)
    return replace(made_up.params(), ablations={name: made})


def only(made):
    (found,) = load_results.load(made).ablations
    return found


@pytest.mark.parametrize(
    "changed, place, said",
    [
        ({}, 0, "ELECTRA, 64 wide above BERT, 64 wide (Table 5: +2.8; Figures 1, 4): came out"),
        (
            {},
            1,
            "ELECTRA, 128 wide above BERT, 128 wide (Table 5: +2.8; Figures 1, 4): cannot tell yet (",
        ),
        (
            {},
            2,
            "64 wide above 128 wide (Figure 4): came out (+10.2 points, 95 % interval +9.2 to +11.2).",
        ),
        (
            {"electra-h64": [45.0, 55.0], "electra-h128": [57.0, 58.0]},
            2,
            "128 wide (Figure 4): cannot tell yet (",
        ),
        ({"electra-h64": [50.0], "mlm-h64": [40.1]}, 0, "cannot tell yet (+9.9 points)."),
        ({"electra-h128": [40.0, 40.2]}, 1, "reversed"),
    ],
)
def test_a_pair_is_judged_by_its_interval(changed, place, said):
    ablation = only(write("sizes", GRID, SCORES | changed))
    assert said in claims.sentences(ablation)[place]


def test_points_and_lines_are_drawn():
    ((name, _, figure),) = figures.draw_ablation(only(write("a", GRID, SCORES)))
    assert name == "ablation-a-points" and len(figure.axes[0].containers) == 4
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == [
        "5.0 × 10¹¹",
        "1.0 × 10¹²",
    ]
    flat = only(write("b", {**GRID, "protocol": {}}, SCORES))
    ((name, _, figure),) = figures.draw_ablation(flat)
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["ELECTRA", "BERT"]
    assert [pytest.approx(list(of[0].get_ydata())) for of in axes.containers] == [
        [50.2, 40.1],
        [52.1, 52.2],
    ]
    (bar, _), _ = (of[2][0].get_segments() for of in axes.containers)
    assert list(bar[:, 1]) == pytest.approx([50.2 - 0.2 * 2**0.5, 50.2 + 0.2 * 2**0.5])
    (chance,) = [line for line in axes.lines if line.get_label() == "chance"]
    assert set(chance.get_ydata()) == {0.0}, "of CoLA"


def test_differences_are_drawn_with_their_intervals_beside_the_papers():
    made_up.write_ablation()
    (ablation,) = load_results.load(made_up.params(ablations=("table5",))).ablations
    axes = figures.draw_differences(ablation).axes[0]
    ours = compare_scores(ablation.arms[0].scores, ablation.reference.scores)
    (bar,) = axes.containers[0][2][0].get_segments()
    assert ours and list(bar[:, 0]) == pytest.approx([ours.low, ours.high])
    assert axes.get_xlabel() == "points above BERT"
    assert axes.texts[0].get_text() == "+2.8 in the paper"


def test_the_page_shows_records_failures_and_what_is_not_run():
    made = write(
        "sizes",
        GRID,
        {arm: SCORES[arm] for arm in ("electra-h64", "electra-h128", "mlm-h64")},
    )
    made.ablations["other"] = build(AblationConfig, {**GRID, "title": "Not yet"}, "other")
    report.build(made, Path("out"))
    page = Path("out/index.html").read_text()
    assert "Recorded 2026-01-02 at commit abc in 2 minutes, on two cores." in page
    assert "ablation sizes, BERT, 128 wide: failed, seed 1: loss nan" in page
    assert "ablation other: Not yet: not run" in page
    assert 'id="ablation-other"' not in page
    header, *rows = Path("out/tables/paper-1.csv").read_text().splitlines()
    assert "GLUE dev" in header
    # its mean is over other tasks than a model's
    assert not [row for row in rows if "(ours)" in row]


def test_a_record_of_other_settings_is_called_so():
    made = write("sizes", GRID, SCORES)
    for settings, other in (
        (None, False),
        ("of another day", True),
        (settings_digest("sizes", made), False),
    ):
        made = write(
            "sizes",
            GRID,
            SCORES,
            provenance={"settings_digest": settings} if settings else {},
        )
        report.build(made, Path("out"))
        page = Path("out/index.html").read_text()
        assert ("Its settings were others" in page) is other, settings
        said = "sample world, recorded with other settings" if other else "sample world, recorded"
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
    alone = {"title": "Alone", "base": BASE}
    for name, config in (
        ("arms", {**alone, "arms": AXES["objective"]}),
        ("grid", {**alone, "grid": {"objective": AXES["objective"]}}),
    ):
        (statement,) = claims.statements(only(write(name, config, scores)))
        assert statement.source == "Table 5: +2.8; Figures 1, 4"


@pytest.mark.parametrize(
    "rows, source, expected",
    [
        ({"cola": 8551}, LocalTasks(kind="local", glue="g"), "GLUE and SQuAD, local"),
        (
            {"cola": 8551, "sst2": 8000},
            LocalTasks(kind="local", glue="g"),
            "GLUE and SQuAD, local subsets",
        ),
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
