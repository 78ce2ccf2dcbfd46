import pytest

from pipelines.report.page import environment
from pipelines.report.table import Column, Mark, Spread, Table, flops, signed

html = environment().get_template("table.html").module.table
TASK, METRIC = Column("task", align="left"), Column("metric", under="task", align="left")
SCORE, READING = Column("score", 1, group="ours"), Column("reading", align="left", group="ours")
TABLE = Table(
    name="tasks",
    title="Tasks <sample world>",
    rows=(
        {
            TASK: "CoLA | a",
            METRIC: "Matthews",
            SCORE: Spread((30.0, 32.0)),
            READING: Mark("higher", "good"),
        },
        {TASK: "<b>", METRIC: None, SCORE: Spread(())},
    ),
    notes=("A note.",),
    strong={1},
)


def test_markdown_keeps_its_columns_when_a_cell_has_a_pipe_and_lets_no_html_through():
    line = TABLE.markdown().splitlines()[4]
    assert line == "| CoLA \\| a | Matthews | 31.0 ± 1.4 | higher       |"
    assert "<" not in TABLE.markdown() and "&lt;b&gt;" in TABLE.markdown()


def test_html_escapes_and_shows_what_is_missing():
    shown = html(TABLE)
    assert "<b>" not in shown and "&lt;b&gt;" in shown
    assert "Tasks &lt;sample world&gt;" in shown
    assert "CoLA | a<small>Matthews</small>" in shown
    # no score; no reading at all
    assert shown.count("–") == 1 and shown.count('<td class="left"></td>') == 1


def test_small_columns_repeat_no_name_and_are_not_announced_where_they_are_empty():
    columns = (
        Column("arm"),
        Column("score"),
        Column("score, on train", under="score"),
        Column("seen", under="score"),
    )
    for seen, announced in ((None, "on train"), (3, "on train, seen")):
        table = Table("t", "t", [dict(zip(columns, ("a", 1, 2, seen), strict=True))])
        assert f"score<small>{announced}</small>" in html(table)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.4e18, "1.4 × 10¹⁸"), (0.25, "0.25"), (-3.0, "−3"), (1e-7, "1.0 × 10⁻⁷"), (None, "–")],
)
def test_numbers_have_a_true_minus_and_no_negative_zero(value, text):
    assert flops(value) == text
    assert [signed(-0.04), signed(-0.06), signed(2.0)] == ["0.0", "−0.1", "+2.0"]
