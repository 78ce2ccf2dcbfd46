"""The sample world: its rows ask what its articles tell, and no article or training row gives an
answer away.

tests/test_golden.py pins its bytes.
"""

import itertools
import json
import re
from collections import Counter

import pytest

from pipelines.sources import sample_world
from pipelines.sources.sample_world import articles, glue
from pipelines.sources.sample_world.lexicon import BLAME, PRAISE
from pipelines.sources.sample_world.world import build
from pipelines.sources.squad import read_questions

SPLITS = {task: glue.splits(task) for task in glue.TASKS}
JUDGEMENT = {*PRAISE, *BLAME}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    sample_world.write_tasks(folder, seed=1)
    return folder


def test_a_review_is_all_praise_or_all_blame_and_fills_its_row():
    world = build(1)
    for _ in range(100):
        text = "\n".join(articles.review(world))
        assert 18 < articles.length(text) <= articles.ROOM
        opinions = words(re.sub("(not|found the [a-z]+) [a-z]+", "", text))
        assert bool(opinions & set(PRAISE)) != bool(opinions & set(BLAME)), text


def words(text):
    return set(re.findall("[a-z]+", text.lower()))


@pytest.mark.slow
def test_no_article_says_what_a_dev_or_test_row_says(tmp_path):
    """Neither all texts of a pair nor a sentence to be judged; without the redrawing hundreds of
    rows are there.
    """
    sample_world.write_articles(tmp_path, seed=1)
    texts = [
        json.loads(line)["text"] for line in (tmp_path / "articles.jsonl").read_text().splitlines()
    ]
    questions = list(sample_world.held_out(1))
    assert len(questions) == 10 * 500 + 2 * 390  # MNLI has two splits of each kind
    assert repeated_rows(questions, texts) == []
    plain = articles.documents(build(1), 1, sample_world.ARTICLES)
    assert len(repeated_rows(questions, [document["text"] for document in plain])) > 300


def repeated_rows(rows, texts):
    """The rows all of whose sentences are in one of the texts."""
    where = {}
    for number, text in enumerate(texts):
        for sentence in parted(text):
            where.setdefault(sentence, set()).add(number)
    return [
        row
        for row in rows
        if set.intersection(*(where.get(sentence, set()) for sentence in parted(row)))
    ]


def parted(text):
    return re.split(r"(?<=[.?!])\s+", text.lower().strip())


def test_texts_beings_and_words_of_dev_rows_occur_in_no_training_row(tasks):
    kinds = ("home", "friend", "food", "music", "thing", "spot")
    trained, other = (
        words(str([build(1).part(split).pool[kind] for kind in kinds]))
        for split in ("train", "dev")
    )
    assert not trained & other and len(trained | other) > 100
    for task, splits in SPLITS.items():
        known = texts_of(task, "train")
        for split in splits:
            vocabulary = words((tasks / "glue" / task / f"{split}.tsv").read_text())
            vocabulary -= {"train", "index"}
            ours, theirs = (trained, other) if split == "train" else (other, trained)
            assert vocabulary & ours and not vocabulary & theirs, (task, split)
            assert split == "train" or not known & texts_of(task, split), (task, split)
    train, dev = (
        words((tasks / f"glue/SST-2/{split}.tsv").read_text()) & JUDGEMENT
        for split in ("train", "dev")
    )
    assert len(train) >= 10 and not train & dev


def texts_of(task, split):
    pairs = [(a, b) for a, b, _ in glue.rows(1, task, split)]
    return set(itertools.chain.from_iterable(pairs)) - {""}


@pytest.mark.parametrize("task", glue.TASKS)
def test_glue_is_balanced(tasks, task):
    for split in SPLITS[task]:
        kind = split.split("_")[0]
        text = (tasks / "glue" / task / f"{split}.tsv").read_text()
        rows = [line.split("\t") for line in text.splitlines()]
        rows = rows[kind == "test" or task != "CoLA" :]
        assert len(rows) == glue.SIZES[kind]
        if kind != "test":
            labels = Counter(row[{"CoLA": 1, "MRPC": 0}.get(task, -1)] for row in rows)
            assert max(labels.values()) - min(labels.values()) <= 1, labels


@pytest.mark.parametrize("version, least, most", [("1.1", 0, 0), ("2.0", 0.25, 0.5)])
@pytest.mark.parametrize("split", ["train", "dev"])
def test_squad_answers_stand_in_their_contexts(tasks, version, least, most, split):
    rows = list(read_questions(tasks / "squad" / f"{split}-v{version}.json"))
    good = [row for row in rows if isinstance(row, dict)]
    assert len(good) == len(rows) >= 300
    for row in good:
        for answer in row["answers"]:
            end = answer["start"] + len(answer["text"])
            assert not f"{row['context']} "[end].isalpha()
    assert least <= sum(row["impossible"] for row in good) / len(good) <= most
