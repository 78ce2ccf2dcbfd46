"""Answers from given head outputs, by hand; the head itself against its equations."""

import dataclasses

import numpy as np
import pytest
import torch

from electra.finetuning.squad.answers import Answer, candidates, choose, mean
from electra.finetuning.squad.head import SpanFinder
from electra.finetuning.squad.kind import QuestionAnswering
from electra.finetuning.squad.windows import encode
from electra.finetuning.tasks import SQUAD_2, SquadConfig
from electra.nn.huggingface import load_encoder

CONTEXT = "the red cat sleeps in the old house"
CONFIG = SquadConfig(length=40, stride=12, question_length=10, beam=2, n_best=3, answer_length=3)
LOW = -50.0


@pytest.fixture
def reading(tokenizer):
    """One window: [CLS] the ? [SEP] the red cat sleeps in the old house [SEP]; the context begins
    at position 4.
    """
    row = {"id": "q", "question": "the?", "context": CONTEXT, "answers": [], "impossible": True}
    return encode([row], tokenizer, CONFIG)


def outputs(
    candidates: list[tuple[int, float, list[tuple[int, float]]]], null: float = 0.0
) -> dict:
    """(start, score, [(end, score), ...]) for each of two starts."""
    return {
        "start": np.array([[c[0] for c in candidates]]),
        "start_score": np.array([[c[1] for c in candidates]], dtype=np.float32),
        "end": np.array([[[e for e, _ in c[2]] for c in candidates]]),
        "end_score": np.array([[[s for _, s in c[2]] for c in candidates]], dtype=np.float32),
        "null": np.array([null], dtype=np.float32),
    }


def find(reading, outputs, config=CONFIG) -> Answer:
    (answer,) = choose(reading, candidates(reading, outputs, config), config)
    return answer


def n_best(answer: Answer) -> list[tuple[str, float]]:
    return [(span.text, span.score) for span in answer.spans]


def test_the_best_sum_wins_and_the_text_is_cut_from_the_context(reading):
    given = outputs([(5, -1.0, [(6, -1.0), (5, -3.0)]), (10, -0.5, [(11, -2.0), (10, -4.0)])])
    answer = find(reading, given)
    assert answer.best == "red cat" and answer.spans[0].begin == 4
    # three at most
    assert n_best(answer) == [("red cat", -2.0), ("old house", -2.5), ("red", -4.0)]


@pytest.mark.parametrize("score", [-np.inf, np.nan])
def test_a_span_without_a_score_is_no_answer(reading, score):
    """As in places of a beam beyond the end of a short row."""
    given = outputs([(5, score, [(5, 0.0), (6, 0.0)]), (10, -3.0, [(11, -2.0), (10, LOW)])])
    (answer,) = QuestionAnswering(SQUAD_2).answers(given, reading, CONFIG)
    assert answer["best"] == "old house"


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (0, 0),  # [CLS]
        (1, 2),  # the question
        (6, 5),  # ends before it begins
        (5, 8),  # four pieces, three allowed
        (11, 12),  # reaches into the last [SEP]
    ],
)
def test_what_is_no_answer_is_passed_over(reading, start, end):
    given = outputs([(start, 0.0, [(end, 0.0), (end, LOW)]), (5, -9.0, [(5, -9.0), (6, LOW)])])
    assert find(reading, given).best == "red"


def test_equal_texts_appear_once_and_nothing_at_all_is_the_empty_answer(reading):
    given = outputs([(4, -1.0, [(4, -1.0), (5, LOW)]), (9, -1.0, [(9, -2.0), (10, LOW)])])
    assert [span.text for span in find(reading, given).spans] == ["the", "the red", "the old"]
    nothing = find(reading, outputs([(0, 0.0, [(0, 0.0), (0, 0.0)])] * 2))
    assert nothing.best == "" and nothing.spans == []


def test_an_answer_begins_only_where_its_piece_has_its_max_context(tokenizer):
    row = {"id": "q", "question": "the?", "context": CONTEXT, "answers": [], "impossible": True}
    # room for five pieces
    reading = encode([row], tokenizer, dataclasses.replace(CONFIG, length=10, stride=3))
    assert [(window.first, window.count) for window in reading.windows] == [(0, 5), (3, 5)]
    at = {first: 4 + 3 - first for first in (0, 3)}  # piece 3 ("sleeps") in either window
    given = {
        "start": np.array([[at[0], 0], [at[3], 0]]),
        "start_score": np.array([[-1.0, LOW], [-5.0, LOW]], dtype=np.float32),
        "end": np.array([[[at[0], 0], [0, 0]], [[at[3], 0], [0, 0]]]),
        "end_score": np.array(
            [[[-1.0, LOW], [LOW, LOW]], [[-5.0, LOW], [LOW, LOW]]], dtype=np.float32
        ),
        "null": np.array([2.0, -1.0], dtype=np.float32),
    }
    answer = find(reading, given)
    # the first window owns it: one piece on its right against none
    assert n_best(answer) == [("sleeps", -2.0)]
    assert answer.null == -1.0  # the least over windows


def test_the_threshold_blanks_and_without_the_classifier_the_null_score_is_a_difference(reading):
    given = outputs(
        [(5, -1.0, [(6, -1.0), (5, -3.0)]), (10, -0.5, [(11, -2.0), (10, -4.0)])], null=-3.0
    )
    answer = find(reading, given)
    assert answer.given(-2.75) == answer.given(None) == "red cat" and answer.given(-3.5) == ""
    assert find(reading, given, dataclasses.replace(CONFIG, answerability=False)).null == -1.0


def test_runs_answer_together_by_mean_probabilities(reading):
    """Each run prefers a span that the other does not know; both like "the" second, which wins: .4
    against .55 / 2.
    """
    p = lambda value: float(np.log(value))  # noqa: E731
    first = outputs(
        [(5, p(0.55), [(5, 0.0), (6, LOW)]), (4, p(0.4), [(4, 0.0), (5, LOW)])], null=2.0
    )
    second = outputs(
        [(6, p(0.55), [(6, 0.0), (7, LOW)]), (4, p(0.4), [(4, 0.0), (5, LOW)])], null=-1.0
    )
    runs = [candidates(reading, one, CONFIG) for one in (first, second)]
    alone = find(reading, first)
    assert alone.best == "red"
    (together,) = choose(reading, mean(runs, CONFIG), CONFIG)
    assert [span.text for span in together.spans] == ["the", "red", "cat"]
    assert [np.exp(span.score) for span in together.spans] == pytest.approx(
        [0.4, 0.275, 0.275], rel=1e-4
    )
    no_answer = (1 / (1 + np.exp(-2)) + 1 / (1 + np.exp(1))) / 2
    assert together.null == pytest.approx(np.log(no_answer / (1 - no_answer)), abs=1e-5)
    plain = dataclasses.replace(CONFIG, answerability=False)
    assert mean(runs, plain).null_W == pytest.approx([np.log((np.exp(2) + np.exp(-1)) / 2)])
    (same,) = choose(reading, mean([runs[0]] * 3, CONFIG), CONFIG)
    assert same.best == alone.best and same.null == pytest.approx(2.0, rel=1e-4)
    assert [span.score for span in same.spans] == pytest.approx(
        [span.score for span in alone.spans], rel=1e-4
    )


@pytest.fixture
def finder(model):
    torch.manual_seed(1)
    return lambda **changes: SpanFinder(
        load_encoder(model), dataclasses.replace(CONFIG, beam=20, **changes)
    ).eval()


def test_the_conditional_head_equals_its_equations(finder, reading):
    network = finder()
    batch = reading.examples.batch(np.array([0]))
    with torch.no_grad():
        out = network.outputs(batch)
        hidden = network.encoder(batch.ids_BT, batch.segments_BT, batch.lengths_B)[0]
        length = len(hidden)
        allowed = torch.tensor([True] + [False] * 3 + [True] * (length - 4))
        start = (network.start(hidden)[:, 0] - 1000.0 * ~allowed).log_softmax(0)
        assert torch.allclose(
            out["start_score"][0, :length], start.sort(descending=True).values, atol=1e-4
        )
        best = int(out["start"][0, 0])
        pair = torch.cat([hidden[best].expand_as(hidden), hidden], dim=1)
        end = network.end.out(torch.nn.functional.gelu(network.end.both(pair)))[:, 0]
        end = (end - 1000.0 * ~allowed).log_softmax(0)
        assert torch.allclose(
            out["end_score"][0, 0, :length], end.sort(descending=True).values, atol=1e-4
        )
        summary = torch.cat([hidden[0], start.exp() @ hidden])
        null = network.null.out(torch.nn.functional.gelu(network.null.both(summary)))
        assert torch.allclose(out["null"], null, atol=1e-4)
    assert out["start"].shape == (1, 20) and out["end"].shape == (1, 20, 20)
    assert (out["start_score"][0, length:] == float("-inf")).all()


def test_the_loss_is_half_start_half_end_and_half_the_answerability(finder, tokenizer):
    answers = [{"text": "old house", "start": 26}]
    row = {
        "id": "q",
        "question": "the?",
        "context": CONTEXT,
        "answers": answers,
        "impossible": False,
    }
    reading = encode([row], tokenizer, CONFIG)
    network = finder()
    batch = reading.examples.batch(np.array([0]))
    gold_start, gold_end = (int(batch.targets[key][0]) for key in ("start", "end"))
    with torch.no_grad():
        out = network.outputs(batch)
        at = out["start"][0].tolist().index(gold_start)
        start = out["start_score"][0, at]
        end = out["end_score"][0, at, out["end"][0, at].tolist().index(gold_end)]
        # -log sigmoid(-logit): the question has an answer
        null = torch.nn.functional.softplus(out["null"][0])
        assert network.losses(batch)[0] == pytest.approx(
            float(-(start + end) / 2 + 0.5 * null), abs=1e-4
        )


def test_the_independent_head_has_one_end_for_all_starts(finder, reading):
    network = finder(head="independent", answerability=False)
    with torch.no_grad():
        out = network.outputs(reading.examples.batch(np.array([0])))
    assert torch.equal(out["end_score"][0, 0], out["end_score"][0, 3])
    names = {name.split(".")[0] for name, _ in network.named_parameters()}
    assert names == {"encoder", "start", "end_alone"}
