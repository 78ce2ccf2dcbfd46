"""The sample world: its rows ask what its articles tell, and no article or training row gives an
answer away.

tests/test_golden.py pins its bytes.
"""

import itertools
import re
from collections import Counter

import pytest

from pipelines.sources import sample_world
from pipelines.sources.sample_world import articles, glue
from pipelines.sources.sample_world.lexicon import BLAME, PRAISE
from pipelines.sources.sample_world.world import build

JUDGEMENT = {*PRAISE, *BLAME}


def words(text):
    return set(re.findall("[a-z]+", text.lower()))


@pytest.mark.slow
def test_no_article_says_what_a_dev_or_test_row_says():
    """Neither all texts of a pair nor a sentence to be judged; without the redrawing hundreds of
    rows are there.
    """
    rows = list(sample_world.held_out(1))
    assert len(rows) == 10 * 500 + 2 * 390  # MNLI has two splits of each kind
    assert count_repeated(rows, held_out=rows) == 0
    assert count_repeated(rows, held_out=()) > 300


def count_repeated(rows, held_out):
    """Count the rows all of whose sentences are in one of the articles."""
    where = {}
    for document in articles.documents(build(1), 1, sample_world.ARTICLES, held_out):
        for sentence in parted(document["text"]):
            where.setdefault(sentence, set()).add(document["id"])
    return sum(
        bool(set.intersection(*(where.get(sentence, set()) for sentence in parted(row))))
        for row in rows
    )


def parted(text):
    return re.split(r"(?<=[.?!])\s+", text.lower().strip())


def test_texts_beings_and_words_of_dev_rows_occur_in_no_training_row():
    kinds = ("home", "friend", "food", "music", "thing", "spot")
    trained, other = (
        words(str([build(1).part(split).pool[kind] for kind in kinds]))
        for split in ("train", "dev")
    )
    assert not trained & other and len(trained | other) > 100
    for task in glue.TASKS:
        known, *others = (texts_of(task, split) for split in glue.splits(task))
        vocabulary = words(" ".join(known))
        assert vocabulary & trained and not vocabulary & other, task
        for texts in others:
            vocabulary = words(" ".join(texts))
            assert vocabulary & other and not vocabulary & trained, task
            assert not known & texts, task
    train, dev = (words(" ".join(texts_of("SST-2", split))) for split in ("train", "dev"))
    assert len(train & JUDGEMENT) >= 10 and not train & dev & JUDGEMENT


def texts_of(task, split):
    pairs = [(a, b) for a, b, _ in glue.rows(1, task, split)]
    return set(itertools.chain.from_iterable(pairs)) - {""}


@pytest.mark.parametrize("task", glue.TASKS)
def test_glue_is_balanced(task):
    for split in glue.splits(task):
        labels = Counter(label for _, _, label in glue.rows(1, task, split))
        assert labels.total() == glue.SIZES[split.split("_")[0]]
        assert max(labels.values()) - min(labels.values()) <= 1, labels
