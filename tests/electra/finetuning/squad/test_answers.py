"""Answers from given head outputs, by hand; the head itself against its equations."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from electra.finetuning.squad.answers import Candidates, candidates, choose, mean
from electra.finetuning.squad.head import SpanFinder
from electra.finetuning.squad.kind import QuestionAnswering
from electra.finetuning.squad.windows import encode
from electra.finetuning.tasks import SQUAD_1, SQUAD_2, SquadConfig
from electra.nn.huggingface import load_encoder

CONTEXT = "the red cat sleeps in the old house"
CONFIG = SquadConfig(length=40, stride=12, question_length=10, beam=2, n_best=3, answer_length=3)
BERT = dataclasses.replace(CONFIG, answerability=False, null_threshold=0.0)
LOW = -50.0


@pytest.fixture
def reading(tokenizer):
    """One window: [CLS] the ? [SEP] the red cat sleeps in the old house [SEP]; the context begins
    at position 4.
    """
    return encode([question()], tokenizer, CONFIG)


def question(*answers):
    row = {"id": "q", "question": "the?", "context": CONTEXT}
    return row | {"answers": [*answers], "impossible": not answers}


def make_outputs(*starts, null=0.0):
    """Make the head's outputs for two of (start, score, [(end, score), ...])."""
    return {
        "start": np.array([[start for start, _, _ in starts]]),
        "start_score": np.array([[score for _, score, _ in starts]], dtype=np.float32),
        "end": np.array([[[end for end, _ in ends] for _, _, ends in starts]]),
        "end_score": np.array(
            [[[score for _, score in ends] for _, _, ends in starts]], dtype=np.float32
        ),
        "null": np.array([null], dtype=np.float32),
    }


def find(reading, outputs, config=CONFIG):
    (answer,) = choose(reading, candidates(reading, outputs, config), config)
    return answer


TWO = ((5, -1.0, [(6, -1.0), (5, -3.0)]), (10, -0.5, [(11, -2.0), (10, -4.0)]))


def test_the_best_sum_wins_and_the_text_is_cut_from_the_context(reading):
    answer = find(reading, make_outputs(*TWO))
    assert answer.best == "red cat" and answer.spans[0].begin == 4
    # three at most
    scores = [(span.text, span.score) for span in answer.spans]
    assert scores == [("red cat", -2.0), ("old house", -2.5), ("red", -4.0)]


def test_n_best_has_the_scores_of_both_ends(reading):
    (answer,) = QuestionAnswering(SQUAD_2).answers(make_outputs(*TWO), reading, CONFIG)
    first, second, third = answer["n_best"]
    assert (first["start_logit"], first["end_logit"]) == (-1.0, -1.0)
    assert (second["start_logit"], second["end_logit"]) == (-0.5, -2.0)
    assert (third["start_logit"], third["end_logit"]) == (-1.0, -3.0)
    shares = np.exp([-2.0, -2.5, -4.0])
    probabilities = [span["probability"] for span in answer["n_best"]]
    assert probabilities == pytest.approx(shares / shares.sum(), rel=1e-5)


@pytest.mark.parametrize("score", [-np.inf, np.nan])
def test_a_span_without_a_score_is_no_answer(reading, score):
    """As in places of a beam beyond the end of a short row."""
    outputs = make_outputs((5, score, [(5, 0.0), (6, 0.0)]), (10, -3.0, [(11, -2.0), (10, LOW)]))
    (answer,) = QuestionAnswering(SQUAD_2).answers(outputs, reading, CONFIG)
    assert answer["best"] == "old house"


@pytest.mark.parametrize(
    "start, end",
    [
        (0, 0),  # [CLS]
        (1, 2),  # the question
        (6, 5),  # ends before it begins
        (5, 8),  # four pieces, three allowed
        (11, 12),  # reaches into the last [SEP]
    ],
)
def test_what_is_no_answer_is_passed_over(reading, start, end):
    outputs = make_outputs((start, 0.0, [(end, 0.0), (end, LOW)]), (5, -9.0, [(5, -9.0), (6, LOW)]))
    assert find(reading, outputs).best == "red"


def test_equal_texts_appear_once_and_nothing_at_all_is_the_empty_answer(reading):
    outputs = make_outputs((4, -1.0, [(4, -1.0), (5, LOW)]), (9, -1.0, [(9, -2.0), (10, LOW)]))
    assert [span.text for span in find(reading, outputs).spans] == ["the", "the red", "the old"]
    nothing = find(reading, make_outputs(*[(0, 0.0, [(0, 0.0), (0, 0.0)])] * 2))
    assert nothing.best == "" and nothing.spans == []
    # three pieces, as many as are allowed, and one
    equal = make_outputs((5, -1.0, [(5, -1.0), (6, LOW)]), (4, -1.0, [(6, -1.0), (5, LOW)]))
    texts = [span.text for span in find(reading, equal).spans]
    assert texts[:2] == ["the red cat", "red"], "of equal scores the first in the text"


def test_an_answer_begins_only_where_its_piece_has_its_max_context(tokenizer):
    # room for five pieces
    config = dataclasses.replace(CONFIG, length=10, stride=3)
    reading = encode([question()], tokenizer, config)
    assert [(window.first, window.count) for window in reading.windows] == [(0, 5), (3, 5)]
    outputs = []
    for first, score, null in ((0, -1.0, 2.0), (3, -5.0, -1.0)):
        at = 4 + 3 - first  # piece 3 ("sleeps") in this window
        starts = [(at, score, [(at, score), (0, LOW)]), (0, LOW, [(0, LOW), (0, LOW)])]
        outputs.append(make_outputs(*starts, null=null))
    joined = {key: np.concatenate([output[key] for output in outputs]) for key in outputs[0]}
    answer = find(reading, joined)
    # the first window owns it: one piece on its right against none
    assert [(span.text, span.score) for span in answer.spans] == [("sleeps", -2.0)]
    assert answer.null == -1.0  # the least over windows


@pytest.mark.parametrize(
    "config, null, difference",
    [(CONFIG, -3.0, -3.0), (CONFIG, -2.0, -2.0), (BERT, -3.0, -1.0)],
)
def test_training_and_predict_leave_the_same_questions_unanswered(
    reading, config, null, difference
):
    """With and without the answerability head, whose absence makes the null score a difference."""
    outputs = make_outputs(*TWO, null=null)
    for task in (SQUAD_1, SQUAD_2):
        kind = QuestionAnswering(task)
        (answer,) = kind.answers(outputs, reading, config)
        scored = kind.score_split(outputs, reading, config, labelled=True).files
        assert answer["null_score"] == scored["-null-odds.json"]["q"] == difference
        blank = task is SQUAD_2 and difference > config.null_threshold
        assert answer["prediction"] == scored[".json"]["q"] == ("" if blank else "red cat")


@pytest.mark.parametrize("answered, said", [([], "''"), ([0], None), ([0, 1], "'the'")])
def test_one_answer_to_every_question_is_a_fault(tokenizer, answered, said):
    two = encode([question() | {"id": key} for key in "ab"], tokenizer, CONFIG)
    first_C = np.full(len(answered), 4)
    found = Candidates(np.array(answered, int), first_C, first_C, first_C * -1.0, np.zeros(2))
    fault = QuestionAnswering(SQUAD_1).score_candidates(found, two, CONFIG).fault
    assert fault == (said and f"{said} was the answer to every question")


def test_runs_answer_together_by_mean_probabilities(reading):
    """Each run prefers a span that the other does not know; both like "the" second, which wins: .4
    against .55 / 2.
    """
    likely, second = np.log([0.55, 0.4])
    the = (4, second, [(4, 0.0), (5, LOW)])
    outputs = [
        make_outputs((5, likely, [(5, 0.0), (6, LOW)]), the, null=2.0),
        make_outputs((6, likely, [(6, 0.0), (7, LOW)]), the, null=-1.0),
    ]
    runs = [candidates(reading, output, CONFIG) for output in outputs]
    alone = find(reading, outputs[0])
    assert alone.best == "red"
    (together,) = choose(reading, mean(runs, CONFIG), CONFIG)
    assert [span.text for span in together.spans] == ["the", "red", "cat"]
    shares = np.exp([span.score for span in together.spans])
    assert shares == pytest.approx([0.4, 0.275, 0.275], rel=1e-4)
    no_answer = (1 / (1 + np.exp(-2)) + 1 / (1 + np.exp(1))) / 2
    assert together.null == pytest.approx(np.log(no_answer / (1 - no_answer)), abs=1e-5)
    assert mean(runs, BERT).null_W == pytest.approx([np.log((np.exp(2) + np.exp(-1)) / 2)])
    (same,) = choose(reading, mean([runs[0]] * 3, CONFIG), CONFIG)
    assert same.best == alone.best and same.null == pytest.approx(2.0, rel=1e-4)
    scores = [span.score for span in alone.spans]
    assert [span.score for span in same.spans] == pytest.approx(scores, rel=1e-4)


def make_finder(model, **changes):
    torch.manual_seed(1)
    config = dataclasses.replace(CONFIG, beam=20, **changes)
    return SpanFinder(load_encoder(model), config).eval()


@torch.no_grad()
def test_the_conditional_head_equals_its_equations(model, reading):
    network = make_finder(model)
    batch = reading.examples.batch(np.array([0]))
    outputs = network.outputs(batch)
    hidden = network.encoder(batch.ids_BT, batch.segments_BT, batch.lengths_B)[0]
    length = len(hidden)
    forbidden = torch.tensor([0.0, *[1000.0] * 3, *[0.0] * (length - 4)])
    start = (network.start(hidden)[:, 0] - forbidden).log_softmax(0)
    best = int(outputs["start"][0, 0])
    pair = torch.cat([hidden[best].expand_as(hidden), hidden], dim=1)
    end = network.end.out(F.gelu(network.end.both(pair)))[:, 0]
    end = (end - forbidden).log_softmax(0)
    for scores, expected in (
        (outputs["start_score"][0], start),
        (outputs["end_score"][0, 0], end),
    ):
        ordered = expected.sort(descending=True).values
        assert torch.allclose(scores[:length], ordered, atol=1e-4)
    summary = torch.cat([hidden[0], start.exp() @ hidden])
    null = network.null.out(F.gelu(network.null.both(summary)))
    assert torch.allclose(outputs["null"], null, atol=1e-4)
    assert outputs["start"].shape == (1, 20) and outputs["end"].shape == (1, 20, 20)
    assert (outputs["start_score"][0, length:] == float("-inf")).all()


@torch.no_grad()
def test_the_loss_is_half_start_half_end_and_half_the_answerability(model, tokenizer):
    reading = encode([question({"text": "old house", "start": 26})], tokenizer, CONFIG)
    network = make_finder(model)
    batch = reading.examples.batch(np.array([0]))
    outputs = network.outputs(batch)
    at = outputs["start"][0].tolist().index(int(batch.targets["start"][0]))
    end_at = outputs["end"][0, at].tolist().index(int(batch.targets["end"][0]))
    ends = outputs["start_score"][0, at] + outputs["end_score"][0, at, end_at]
    # -log sigmoid(-logit): the question has an answer
    null = F.softplus(outputs["null"][0])
    assert network.losses(batch)[0] == pytest.approx(float(-ends / 2 + 0.5 * null), abs=1e-4)


def test_the_independent_head_has_one_end_for_all_starts(model, reading):
    network = make_finder(model, head="independent", answerability=False)
    with torch.no_grad():
        outputs = network.outputs(reading.examples.batch(np.array([0])))
    assert torch.equal(outputs["end_score"][0, 0], outputs["end_score"][0, 3])
    assert {name for name, _ in network.named_children()} == {"encoder", "start", "end_alone"}
