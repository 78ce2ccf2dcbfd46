import csv
import json
import re
from pathlib import Path

import pytest

from pipelines.sources import sample_world
from pipelines.sources.sample_world import articles, glue
from pipelines.sources.sample_world.lexicon import BLAME, PORTRAIT, PRAISE, RELATIONS
from pipelines.sources.sample_world.world import build

OFFICIAL = Path(__file__).parents[4] / "shared" / "data"
SPLITS = {task: glue.splits(task) for task in glue.TASKS}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    sample_world.write_tasks(folder, seed=1)
    return folder


@pytest.fixture(scope="module")
def few_articles(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    patch = pytest.MonkeyPatch()
    patch.setattr(sample_world, "ARTICLES", 900)
    folder = tmp_path_factory.mktemp("articles")
    sample_world.write_articles(folder, seed=1)
    patch.undo()
    return [json.loads(line) for line in (folder / "articles.jsonl").read_text().splitlines()]


def lines(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().splitlines()]


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_same_seed_same_bytes_and_another_seed_others(
    tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build.cache_clear()
    sample_world.write_tasks(tmp_path / "again", seed=1)
    assert bytes_of(tmp_path / "again") == bytes_of(tasks)
    monkeypatch.setattr(sample_world, "ARTICLES", 20)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        sample_world.write_articles(tmp_path / name, seed=seed)
    assert bytes_of(tmp_path / "a") == bytes_of(tmp_path / "b") != bytes_of(tmp_path / "c")


def test_articles_have_ids_and_about_a_row_of_text(few_articles: list[dict[str, str]]) -> None:
    assert len({document["id"] for document in few_articles}) == len(few_articles) == 900
    sentences = [line for document in few_articles for line in document["text"].split("\n")]
    assert all(line == line.strip() and line[0].isupper() and line[-1] in ".!" for line in sentences)
    words = [len(document["text"].split()) for document in few_articles]
    assert 18 < sum(words) / len(words) < 32


def test_articles_agree_with_the_world(few_articles: list[dict[str, str]]) -> None:
    homes = {being.name: being.facts["home"][0] for being in build(1).beings}
    found = 0
    for line in "\n".join(document["text"] for document in few_articles).split("\n"):
        words = line.split()
        if words[1:3] == ["lives", "in"] and words[0] in homes:
            found += 1
            assert words[3] == f"{homes[words[0]]}."
    assert found > 8


def test_reports_tell_each_fact_again_and_are_no_pair_of_sentences() -> None:
    world = build(1)
    for i in range(300):
        lines = articles.report(world, articles.stream(1, "article", i))
        assert len(lines) in {4, 6}  # two or three facts twice
        told, again = lines[: len(lines) // 2], lines[len(lines) // 2 :]
        assert not set(told) & set(again)
        assert articles.length(" ".join(lines)) <= articles.ROOM


@pytest.mark.parametrize(
    ("left_out", "sign"),
    [
        ("reviews", lambda lines, words: words & {*PRAISE, *BLAME}),
        ("questions", lambda lines, words: any("?" in line for line in lines)),
        ("introductions", lambda lines, words: re.search(rf"[Tt]he ({CALLINGS}) ", " ".join(lines))),
        ("rewording", lambda lines, words: not words & {*PRAISE, *BLAME} and len({*lines}) == len(lines)),
    ],
)
def test_what_is_left_out_does_not_occur(left_out: str, sign) -> None:
    def count(without: tuple[str, ...]) -> int:
        texts = [document["text"].split("\n") for document in articles.documents(build(1), 1, 400, (), without)]
        return sum(bool(sign(lines, set(re.findall("[a-z]+", " ".join(lines).lower())))) for lines in texts)

    others = ("questions",) if left_out == "rewording" else ()  # a question and its answer are other words
    assert count((left_out, *others)) == 0 < 20 < count(others)


CALLINGS = "|".join(word for relation in articles.CALLED for concept in build(1).pool[relation] for word in concept)


def test_reviews_praise_or_blame_throughout() -> None:
    world, turned = build(1), {"not", "nobody"}
    for i in range(300):
        lines = articles.review(world, articles.stream(1, "article", i))
        said = [set(re.findall("[a-z]+", line.lower())) for line in lines]
        plain = set().union(*(words for words in said if not words & turned))
        assert not (plain & set(PRAISE) and plain & set(BLAME)), lines
        assert sum(bool(words & {*PRAISE, *BLAME}) for words in said) >= 2


@pytest.mark.slow
def test_no_article_says_what_a_dev_or_test_row_says(tmp_path: Path) -> None:
    """Neither all texts of a pair nor a sentence to be judged; without the redrawing hundreds of rows are there."""
    sample_world.write_articles(tmp_path, seed=1)
    texts = [json.loads(line)["text"] for line in (tmp_path / "articles.jsonl").read_text().splitlines()]
    asked = list(sample_world.held_out(1))
    assert len(asked) == 10 * 500 + 2 * 390  # MNLI has two splits of each kind
    assert said_whole(asked, texts) == []
    plain = articles.documents(build(1), 1, sample_world.ARTICLES)
    assert len(said_whole(asked, [document["text"] for document in plain])) > 300


def said_whole(rows: list[str], texts: list[str]) -> list[str]:
    """The rows all of whose sentences stand in one of the texts."""
    where: dict[str, set[int]] = {}
    for number, text in enumerate(texts):
        for sentence in parted(text):
            where.setdefault(sentence, set()).add(number)
    return [row for row in rows if set.intersection(*(where.get(sentence, set()) for sentence in parted(row)))]


def parted(text: str) -> list[str]:
    return re.split(r"(?<=[.?!])\s+", text.lower().strip())


def test_no_dev_text_occurs_in_training(tasks: Path) -> None:
    for task, names in SPLITS.items():
        known = {text for a, b, _ in glue.rows(1, task, "train") for text in (a, b) if text}
        for split in names[1:]:
            assert not known & {text for a, b, _ in glue.rows(1, task, split) for text in (a, b)}, (task, split)


def test_beings_and_words_of_dev_rows_occur_in_no_training_row(tasks: Path) -> None:
    world = build(1)
    own, other = (
        {
            word.lower()
            for name in ("home", "friend", "food", "music", "thing", "spot")
            for c in part.pool[name]
            for word in c
        }
        for part in (world.part("train"), world.part("dev"))
    )
    assert not own & other and len(own | other) > 100
    for task, splits in SPLITS.items():
        for split in splits:
            text = (tasks / "glue" / task / f"{split}.tsv").read_text().lower()
            words = set(re.findall("[a-z]+", text)) - {"train", "index"}
            assert words & (own if split == "train" else other), (task, split)
            assert not words & (other if split == "train" else own), (task, split)


def test_words_of_praise_in_sst_dev_are_new(tasks: Path) -> None:
    words = {
        split: set((tasks / "glue/SST-2" / f"{split}.tsv").read_text().replace(".", " ").replace(",", " ").split())
        for split in ("train", "dev")
    }
    judgement = set(PRAISE + BLAME)
    assert len(words["train"] & judgement) >= 10
    assert not words["train"] & words["dev"] & judgement


@pytest.mark.parametrize("task", glue.TASKS)
def test_glue_labels_are_balanced_and_rows_counted(tasks: Path, task: str) -> None:
    for split in SPLITS[task]:
        kind = split.split("_")[0]
        rows = lines(tasks / "glue" / task / f"{split}.tsv")
        if not (task == "CoLA" and kind != "test"):
            rows = rows[1:]
        assert len(rows) == {"train": glue.TRAIN, "dev": glue.DEV, "test": glue.TEST}[kind]
        if kind == "test":
            continue
        column = {"CoLA": 1, "MRPC": 0}.get(task, -1)
        labels = [row[column] for row in rows]
        counts = {label: labels.count(label) for label in set(labels)}
        assert max(counts.values()) - min(counts.values()) <= 1, counts


@pytest.mark.parametrize("task", glue.TASKS)
def test_glue_columns_are_the_official_ones(tasks: Path, task: str) -> None:
    folder = OFFICIAL / "glue" / task
    if not folder.is_dir():
        pytest.skip("the official GLUE files are not beside the repository")
    for split in SPLITS[task]:
        official = folder / f"{split}.tsv"
        if not official.is_file():
            continue
        with official.open(encoding="utf-8-sig") as file:
            theirs = next(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        ours = lines(tasks / "glue" / task / f"{split}.tsv")
        assert {len(line) for line in ours} == {len(theirs)}
        if not (task == "CoLA" and split != "test"):
            assert ours[0] == theirs


@pytest.mark.parametrize("version", ["1.1", "2.0"])
@pytest.mark.parametrize("split", ["train", "dev"])
def test_squad_answers_stand_in_their_contexts(tasks: Path, version: str, split: str) -> None:
    data = json.loads((tasks / "squad" / f"{split}-v{version}.json").read_text())
    assert data["version"] == ("1.1" if version == "1.1" else "v2.0")
    impossible, ids = 0, []
    for paragraph in (paragraph for article in data["data"] for paragraph in article["paragraphs"]):
        for question in paragraph["qas"]:
            ids.append(question["id"])
            for answer in question["answers"]:
                start, text = answer["answer_start"], answer["text"]
                assert paragraph["context"][start : start + len(text)] == text
                assert not (paragraph["context"] + " ")[start + len(text)].isalpha()
            assert ("is_impossible" in question) == (version == "2.0")
            impossible += not question["answers"]
            assert question.get("is_impossible", False) == (not question["answers"])
    assert len(set(ids)) == len(ids) >= 300
    assert (0.25 < impossible / len(ids) < 0.5) if version == "2.0" else impossible == 0


def test_every_form_speaks_of_its_being_and_every_slot_can_be_stated() -> None:
    for name, relation in RELATIONS.items():
        assert all("{who}" in form for form in relation.statements), name
        for slot in relation.slots:
            assert any(f"{{{slot}}}" in form for form in relation.statements)
    assert set(build(1).beings[0].facts) == set(PORTRAIT)
