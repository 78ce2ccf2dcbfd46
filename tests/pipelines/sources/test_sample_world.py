"""The sample world: its rows ask what its articles tell, and no article or training row gives an
answer away.

tests/test_golden.py pins its bytes.
"""

import csv
import json
import re
from pathlib import Path

import pytest

from pipelines.sources import sample_world
from pipelines.sources.sample_world import articles, glue
from pipelines.sources.sample_world.lexicon import BLAME, PRAISE
from pipelines.sources.sample_world.world import build, restart

OFFICIAL = Path(__file__).parents[4] / "shared" / "data" / "glue"
SPLITS = {task: glue.splits(task) for task in glue.TASKS}
JUDGEMENT = {*PRAISE, *BLAME}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    sample_world.write_tasks(folder, seed=1)
    return folder


def lines(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().splitlines()]


def words(text: str) -> set[str]:
    return set(re.findall("[a-z]+", text.lower()))


def test_another_seed_is_another_world() -> None:
    one, again, other = (articles.documents(build(seed), seed, 20) for seed in (1, 1, 2))
    assert one == again != other and len({document["id"] for document in one}) == 20


def test_reports_tell_each_fact_again_and_reviews_judge_throughout() -> None:
    world = build(1)
    for i in range(300):
        restart(1, "article", i)
        report = articles.report(world)
        first, again = report[: len(report) // 2], report[len(report) // 2 :]
        assert len(report) in {4, 6} and not set(first) & set(again)  # two or three facts twice
        assert articles.length(" ".join(report)) <= articles.ROOM
        review = articles.review(world)
        plain = set().union(
            *(words(line) for line in review if not words(line) & {"not", "nobody"})
        )
        assert not (plain & {*PRAISE} and plain & {*BLAME}), review
        assert sum(bool(words(line) & JUDGEMENT) for line in review) >= 2


@pytest.mark.slow
def test_no_article_says_what_a_dev_or_test_row_says(tmp_path: Path) -> None:
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


def repeated_rows(rows: list[str], texts: list[str]) -> list[str]:
    """The rows all of whose sentences stand in one of the texts."""
    where: dict[str, set[int]] = {}
    for number, text in enumerate(texts):
        for sentence in parted(text):
            where.setdefault(sentence, set()).add(number)
    return [
        row
        for row in rows
        if set.intersection(*(where.get(sentence, set()) for sentence in parted(row)))
    ]


def parted(text: str) -> list[str]:
    return re.split(r"(?<=[.?!])\s+", text.lower().strip())


def test_texts_beings_and_words_of_dev_rows_occur_in_no_training_row(tasks: Path) -> None:
    kinds = ("home", "friend", "food", "music", "thing", "spot")
    trained, other = (
        words(str([build(1).part(split).pool[kind] for kind in kinds]))
        for split in ("train", "dev")
    )
    assert not trained & other and len(trained | other) > 100
    for task, splits in SPLITS.items():
        known = {text for a, b, _ in glue.rows(1, task, "train") for text in (a, b) if text}
        for split in splits:
            vocabulary = words((tasks / "glue" / task / f"{split}.tsv").read_text()) - {
                "train",
                "index",
            }
            assert vocabulary & (trained if split == "train" else other), (task, split)
            assert not vocabulary & (other if split == "train" else trained), (task, split)
            if split != "train":
                assert not known & {
                    text for a, b, _ in glue.rows(1, task, split) for text in (a, b)
                }, (task, split)
    train, dev = (
        words((tasks / f"glue/SST-2/{split}.tsv").read_text()) & JUDGEMENT
        for split in ("train", "dev")
    )
    assert len(train) >= 10 and not train & dev


@pytest.mark.parametrize("task", glue.TASKS)
def test_glue_is_balanced_and_has_the_official_columns(tasks: Path, task: str) -> None:
    for split in SPLITS[task]:
        kind, rows = split.split("_")[0], lines(tasks / "glue" / task / f"{split}.tsv")
        if (official := OFFICIAL / task / f"{split}.tsv").is_file():
            with official.open(encoding="utf-8-sig") as file:
                theirs = next(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
            assert {len(row) for row in rows} == {len(theirs)} and (
                rows[0] == theirs or task == "CoLA"
            )
        rows = rows[kind == "test" or task != "CoLA" :]
        assert len(rows) == glue.SIZES[kind]
        if kind != "test":
            labels = [row[{"CoLA": 1, "MRPC": 0}.get(task, -1)] for row in rows]
            counts = [labels.count(label) for label in set(labels)]
            assert max(counts) - min(counts) <= 1, counts


@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_squad_answers_stand_in_their_contexts(tasks: Path, version: str) -> None:
    for split in ("train", "dev"):
        data = json.loads((tasks / "squad" / f"{split}-v{version}.json").read_text())["data"]
        questions = [
            (paragraph["context"], row)
            for article in data
            for paragraph in article["paragraphs"]
            for row in paragraph["qas"]
        ]
        for context, question in questions:
            for answer in question["answers"]:
                start, text = answer["answer_start"], answer["text"]
                assert (
                    context[start : start + len(text)] == text
                    and not (context + " ")[start + len(text)].isalpha()
                )
            assert question.get("is_impossible", False) == (not question["answers"])
        impossible = sum(not question["answers"] for _, question in questions)
        assert len({question["id"] for _, question in questions}) == len(questions) >= 300
        assert (0.25 < impossible / len(questions) < 0.5) if version == "2.0" else impossible == 0
