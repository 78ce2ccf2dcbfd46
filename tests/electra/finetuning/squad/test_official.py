"""SQuAD's official rules on cases counted by hand."""

import pytest

from electra.finetuning.squad.official import evaluate, f1, normalise, question_scores


def row(key, *answers):
    return {
        "id": key,
        "context": "the words of a context",
        "answers": [{"text": text, "start": 0} for text in answers],
        "impossible": not answers,
    }


@pytest.mark.parametrize(
    "text, normal",
    [
        ("The  Cat.", "cat"),
        ("an apple, a pear; the plum!", "apple pear plum"),
        ("Theatre and another", "theatre and another"),  # articles only as whole words
        ("U.S.A.", "usa"),  # punctuation goes before articles: "a" is not left alone
        ("“Élan”\nvital\u00a0the-end", "“élan” vital theend"),  # only ASCII punctuation
        ("a", ""),
    ],
)
def test_normalisation(text, normal):
    assert normalise(text) == normal


def test_f1_by_hand():
    # two words of three and of four
    assert f1("in the 10th century", "10th and 11th century", "2.0") == pytest.approx(4 / 7)
    # counted with multiplicity
    assert f1("red red blue", "red red green", "2.0") == pytest.approx(2 / 3)
    assert f1("green", "blue", "1.1") == 0


def test_the_best_gold_answer_counts_and_a_missing_prediction_scores_nothing():
    rows = [row("1", "in France", "France"), row("2", "Paris"), row("3")]
    scores = question_scores(rows, {"1": "France", "3": ""}, "2.0")
    assert scores == {"1": (1.0, 1.0), "2": (0.0, 0.0), "3": (1.0, 1.0)}


def test_threshold_search_by_hand():
    """Five questions from the least null score up: right answer, answer where none is, none where
    none is, right answer, wrong answer.
    """
    rows = [
        row("right", "a cat"),
        row("none"),
        row("empty"),
        row("late", "dog"),
        row("wrong", "bird"),
    ]
    spans = {"right": "cat", "none": "fish", "empty": "", "late": "dog", "wrong": "big bird"}
    null = {"right": -4.0, "none": -2.0, "empty": -1.75, "late": -1.0, "wrong": 3.0}
    # nothing answered: 2 right (none, empty). + right: 3. + none: 2. + empty: 2. + late: 3.
    # + wrong: 3. The best is 3 at -4.
    figures = evaluate(rows, spans, null, "2.0", null_threshold=-1.5)
    assert figures["best_exact"] == 60.0 and figures["best_exact_threshold"] == -4.0
    # wrong has an F1 of 2 / 3
    assert figures["best_f1"] == pytest.approx(220 / 3) and figures["best_f1_threshold"] == 3.0
    assert figures["exact"] == 40.0  # none is answered where none is; late and wrong are left empty
    assert figures["HasAns_exact"] == pytest.approx(100 / 3, abs=1e-5)
    assert figures["NoAns_exact"] == 50.0
    at_threshold = evaluate(rows, spans, null, "2.0", null_threshold=-1.0)
    assert at_threshold["exact"] == 60.0  # late, whose null score is the threshold, is answered


@pytest.mark.parametrize(
    # worked out from the official rules by hand
    "answers, span, blank, score_2, exact_1, f1_1",
    [
        (["the"], "cat", True, 0, 0, 0),  # 2.0: it has an answer, and was left blank
        # not left blank, but empty: right, since nothing is asked for
        (["the"], "", False, 1, 1, 0),
        (["the", "cat"], "cat", False, 1, 1, 1),
        (["the", "cat"], "the", False, 0, 1, 0),  # 2.0 leaves "the" out
        (["cat"], "cat", True, 0, 1, 1),  # 1.1 knows no blanks
        ([], "cat", True, 1, 0, 0),
        ([], "cat", False, 0, 0, 0),
        ([], "the", False, 1, 0, 0),
    ],
)
def test_answers_that_normalise_to_nothing(answers, span, blank, score_2, exact_1, f1_1):
    rows = [row("q", *answers)]
    null = {"q": 1.0 if blank else -1.0}
    figures = evaluate(rows, {"q": span}, null, "2.0", null_threshold=0.0)
    part = "HasAns_exact" if answers else "NoAns_exact"
    assert figures["exact"] == figures["f1"] == figures[part] == 100 * score_2
    figures = evaluate(rows, {"q": span}, null, "1.1", null_threshold=0.0)
    assert figures == {"exact": 100 * exact_1, "f1": 100 * f1_1}


def test_a_text_without_spaces_is_said_to_have_no_f1_of_its_own():
    chinese = {**row("q", "北京大学"), "context": "他在北京大学学习了四年"}
    with pytest.warns(UserWarning, match="hardly any, so F1 is exact match"):
        figures = evaluate([chinese], {"q": "北京大学在"}, {"q": 0.0}, "1.1", 0.0)
    assert figures == {"exact": 0.0, "f1": 0.0}
