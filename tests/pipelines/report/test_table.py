import pytest

from pipelines.report.page import environment
from pipelines.report.table import Column, Mark, Spread, Table, flops, signed

html = environment().get_template("table.html").module.__dict__["table"]
TASK, METRIC = Column("task", align="left"), Column("metric", under="task", align="left")
SCORE, READING = Column("score", 1), Column("reading", align="left")
TABLE = Table(
    name="tasks",
    title="Tasks <sample world>",
    rows=(
        {
            **{TASK: "CoLA | a", METRIC: "Matthews"},
            **{SCORE: Spread((30.0, 32.0)), READING: Mark("higher", "good")},
        },
        {TASK: "<b>", METRIC: None, SCORE: Spread(())},
    ),
    notes=("A note.",),
    strong={1},
)


def test_html_escapes_and_shows_what_is_missing():
    shown = html(TABLE)
    assert "<b>" not in shown and "&lt;b&gt;" in shown
    assert "Tasks &lt;sample world&gt;" in shown
    # no score; no reading at all
    assert shown.count("–") == 1 and shown.count('<td class="left"></td>') == 1
    unmeasured = Table("t", "t", [{TASK: "a", METRIC: None}])
    assert "<small>" not in html(unmeasured), "an empty column is not announced"


def test_csv_has_every_digit():
    rows = TABLE.csv().splitlines()
    assert rows[0] == "task,metric,score mean,score sd,score seeds,reading"
    assert rows[1] == "CoLA | a,Matthews,31,1.41421,2,higher"
    assert rows[2] == "<b>,,,,0,"


@pytest.mark.parametrize(
    "value, text",
    [(1.4e18, "1.4 × 10¹⁸"), (0.25, "0.25"), (-3.0, "−3"), (1e-7, "1.0 × 10⁻⁷")],
)
def test_numbers_have_a_true_minus_and_no_negative_zero(value, text):
    assert flops(value) == text
    assert Column("score", 1).text(-3.25) == "−3.2"
    assert [signed(-0.04), signed(-0.06), signed(2.0)] == ["0.0", "−0.1", "+2.0"]
