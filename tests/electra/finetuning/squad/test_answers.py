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

QUESTION = {
    "id": "q",
    "question": "the?",
    "context": "the red cat sleeps in the old house",
    "answers": [{"text": "old house", "start": 26}],
    "impossible": False,
}
CONFIG = SquadConfig(
    length=40,
    stride=12,
    question_length=10,
    beam=18,
    n_best=3,
    answer_length=3,
    answerability_weight=0.25,
)
BERT = dataclasses.replace(CONFIG, answerability=False, null_threshold=0.0)
# (start, its score, end, its score)
SPANS = ((5, -1.0, 6, -1.0), (10, -0.5, 11, -2.0), (5, -1.0, 5, -3.0), (10, -0.5, 10, -4.0))


@pytest.fixture
def reading(tokenizer):
    """One window: [CLS] the ? [SEP] the red cat sleeps in the old house [SEP]; the context begins
    at position 4.
    """
    return encode([QUESTION], tokenizer, CONFIG)


def make_outputs(*spans, null=0.0):
    """Make the head's outputs for one window, with one end for each start."""
    start, start_score, end, end_score = np.array(spans).T
    return {
        "start": start[None].astype(int),
        "start_score": start_score[None],
        "end": end[None, :, None].astype(int),
        "end_score": end_score[None, :, None],
        "null": np.array([null]),
    }


def find(reading, outputs, config=CONFIG):
    return choose(reading, candidates(reading, outputs, config), config)[0]


def texts(answer):
    return [span.text for span in answer.spans]


def test_the_best_sums_win_and_their_texts_are_cut_from_the_context(reading):
    (answer,) = QuestionAnswering(SQUAD_2).answers(make_outputs(*SPANS), reading, CONFIG)
    assert (answer["best"], answer["start"]) == ("red cat", 4)
    best = [(span["text"], span["start_logit"], span["end_logit"]) for span in answer["n_best"]]
    # three at most
    assert best == [("red cat", -1.0, -1.0), ("old house", -0.5, -2.0), ("red", -1.0, -3.0)]
    shares = np.exp([-2.0, -2.5, -4.0])
    probabilities = [span["probability"] for span in answer["n_best"]]
    assert probabilities == pytest.approx(shares / shares.sum(), rel=1e-5)


@pytest.mark.parametrize(
    "start, score, end",
    [
        (0, 0.0, 0),  # [CLS]
        (1, 0.0, 2),  # the question
        (6, 0.0, 5),  # ends before it begins
        (5, 0.0, 8),  # four pieces, three allowed
        (11, 0.0, 12),  # reaches into the last [SEP]
        (4, -np.inf, 4),  # a place in the beam beyond the end of a short row
        (4, np.nan, 4),  # training has failed
    ],
)
def test_what_is_no_answer_is_passed_over(reading, start, score, end):
    outputs = make_outputs((start, score, end, 0.0), (5, -9.0, 5, -9.0))
    assert texts(find(reading, outputs)) == ["red"]


def test_equal_texts_appear_once_and_nothing_at_all_is_the_empty_answer(reading):
    twice = ((4, -1.0, 4, -1.0), (9, -1.0, 9, -2.0), (4, -1.0, 5, -8.0), (9, -1.0, 10, -9.0))
    assert texts(find(reading, make_outputs(*twice))) == ["the", "the red", "the old"]
    nothing = find(reading, make_outputs((0, 0.0, 0, 0.0)), BERT)
    assert (nothing.best, nothing.spans, nothing.null) == ("", [], 1e9)
    # three pieces, as many as are allowed, and one
    equal = make_outputs((5, -1.0, 5, -1.0), (4, -1.0, 6, -1.0))
    assert texts(find(reading, equal)) == ["the red cat", "red"], "the first in the text"


def test_an_answer_begins_only_where_its_piece_has_its_max_context(tokenizer):
    # room for five pieces
    config = dataclasses.replace(CONFIG, length=10, stride=3)
    reading = encode([QUESTION], tokenizer, config)
    assert [(window.first, window.count) for window in reading.windows] == [(0, 5), (3, 5)]
    # piece 3 ("sleeps") in both: the first owns it, with one piece on its right against none
    first = make_outputs((7, -1.0, 7, -1.0), null=-1.0)
    second = make_outputs((4, -0.5, 4, -0.5), null=2.0)
    answer = find(reading, {key: np.concatenate([first[key], second[key]]) for key in first})
    assert [(span.text, span.score) for span in answer.spans] == [("sleeps", -2.0)]
    assert answer.null == -1.0  # the least over windows


@pytest.mark.parametrize(
    "config, null, difference",
    [(CONFIG, -2.75, -2.75), (CONFIG, -2.0, -2.0), (BERT, -3.0, -2.5)],
)
def test_training_and_predict_leave_the_same_questions_unanswered(
    reading, config, null, difference
):
    """With and without the answerability head, whose absence makes the null score a difference."""
    outputs = make_outputs((10, -0.5, 11, 0.0), null=null)
    for task in (SQUAD_1, SQUAD_2):
        kind = QuestionAnswering(task)
        (answer,) = kind.answers(outputs, reading, config)
        scored = kind.score_split(outputs, reading, config, labelled=True)
        assert answer["null_score"] == scored.files["-null-odds.json"]["q"] == difference
        blank = task is SQUAD_2 and difference > config.null_threshold
        assert answer["prediction"] == scored.files[".json"]["q"] == ("" if blank else "old house")
        best = scored.scores.get("best_exact", 100)  # with another threshold
        assert (scored.scores["exact"], best) == (0 if blank else 100, 100)
    failed = kind.score_split(make_outputs(*SPANS, null=np.nan), reading, CONFIG, labelled=True)
    assert not failed.finite and failed.files["-null-odds.json"] == {"q": 0}


@pytest.mark.parametrize("answered, said", [([], "''"), ([0], None), ([0, 1], "'the'")])
def test_one_answer_to_every_question_is_a_fault(tokenizer, answered, said):
    two = encode([QUESTION | {"id": key} for key in "ab"], tokenizer, CONFIG)
    first_C = np.full(len(answered), 4)
    found = Candidates(np.array(answered, int), first_C, first_C, first_C * -1.0, np.zeros(2))
    fault = QuestionAnswering(SQUAD_1).score_candidates(found, two, CONFIG).fault
    assert fault == (said and f"{said} was the answer to every question")


def test_runs_answer_together_by_mean_probabilities(reading):
    """Each run prefers a span that the other does not know; both like "the" second, which wins: .4
    against .55 / 2.
    """
    likely, second = np.log([0.55, 0.4])
    the = (4, second, 4, 0.0)
    outputs = [
        make_outputs((5, likely, 5, 0.0), the, null=2.0),
        make_outputs((6, likely, 6, 0.0), the, null=-1.0),
    ]
    runs = [candidates(reading, output, CONFIG) for output in outputs]
    (together,) = choose(reading, mean(runs, CONFIG), CONFIG)
    assert texts(together) == ["the", "red", "cat"]
    shares = np.exp([span.score for span in together.spans])
    assert shares == pytest.approx([0.4, 0.275, 0.275], rel=1e-4)
    no_answer = (1 / (1 + np.exp(-2)) + 1 / (1 + np.exp(1))) / 2
    assert together.null == pytest.approx(np.log(no_answer / (1 - no_answer)), abs=1e-5)
    assert mean(runs, BERT).null_W == pytest.approx([np.log((np.exp(2) + np.exp(-1)) / 2)])


@torch.no_grad()
def test_the_conditional_head_and_its_loss_equal_their_equations(model, reading):
    torch.manual_seed(1)
    network = SpanFinder(load_encoder(model), CONFIG).eval()
    batch = reading.examples.batch(np.array([0]))
    outputs = network.outputs(batch)
    hidden = network.encoder(batch.ids_BT, batch.segments_BT, batch.lengths_B)[0]
    length = len(hidden)
    forbidden = torch.tensor([0.0, *[1000.0] * 3, *[0.0] * (length - 4)])

    def score_ends(start):
        pair = torch.cat([hidden[start].expand_as(hidden), hidden], dim=1)
        end = network.end.out(F.gelu(network.end.both(pair)))[:, 0]
        return (end - forbidden).log_softmax(0)

    start = (network.start(hidden)[:, 0] - forbidden).log_softmax(0)
    best_starts = outputs["start"][0, :length]
    assert torch.allclose(outputs["start_score"][0, :length], start[best_starts], atol=1e-4)
    assert best_starts[0] == start.argmax()
    end = score_ends(best_starts[0])[outputs["end"][0, 0, :length]]
    assert torch.allclose(outputs["end_score"][0, 0, :length], end, atol=1e-4)
    summary = torch.cat([hidden[0], start.exp() @ hidden])
    null = network.null.out(F.gelu(network.null.both(summary)))
    assert torch.allclose(outputs["null"], null, atol=1e-4)
    assert outputs["start"].shape == (1, 18) and outputs["end"].shape == (1, 18, 18)
    assert (outputs["start_score"][0, length:] == float("-inf")).all()
    # "old house" at positions 10 and 11; -log sigmoid(-null): the question has an answer
    loss = -(start[10] + score_ends(10)[11]) / 2 + 0.25 * F.softplus(null)
    assert torch.allclose(network.losses(batch), loss, atol=1e-4)
    network.answerability = False
    both_at_cls = start[0] + score_ends(0)[0]
    assert torch.allclose(network.outputs(batch)["null"], both_at_cls, atol=1e-4)


@torch.no_grad()
def test_the_independent_head_has_one_end_for_all_starts(model, reading):
    network = SpanFinder(load_encoder(model), dataclasses.replace(BERT, head="independent")).eval()
    outputs = network.outputs(reading.examples.batch(np.array([0])))
    assert torch.equal(outputs["end_score"][0, 0], outputs["end_score"][0, 3])
    assert {name for name, _ in network.named_children()} == {"encoder", "start", "end_alone"}
    cls_start = outputs["start"][0].tolist().index(0)
    cls_end = outputs["end"][0, 0].tolist().index(0)
    null = outputs["start_score"][0, cls_start] + outputs["end_score"][0, 0, cls_end]
    assert outputs["null"][0] == null
