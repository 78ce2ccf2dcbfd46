"""The embedded default source: a small made-up world, its articles, nine GLUE-shaped tasks and
SQuAD-shaped questions.

Nothing is downloaded and nothing needs a licence. Same seed, same bytes. See docs/sample-world.md.
"""

from collections.abc import Iterator
from pathlib import Path

from electra.files import write_jsonl
from pipelines.sources.sample_world.articles import documents
from pipelines.sources.sample_world.glue import TASKS, rows, splits, write_glue
from pipelines.sources.sample_world.squad import contexts, write_squad
from pipelines.sources.sample_world.world import build

ARTICLES = 27_000


def write_articles(folder: Path, seed: int) -> None:
    """Write `articles.jsonl`: {"id", "text"} documents with sentences as lines of the text."""
    articles = documents(build(seed), seed, ARTICLES, held_out(seed))
    write_jsonl(folder / "articles.jsonl", articles)


def held_out(seed: int) -> Iterator[str]:
    """Yield the texts of each dev and test row, joined: no article may say the same."""
    for task in TASKS:
        for split in splits(task)[1:]:
            yield from (f"{a} {b}" for a, b, _ in rows(seed, task, split))
    for version in ("1.1", "2.0"):
        for context in contexts(seed, version, "dev"):
            yield from (
                f"{context['context']} {question['question']}" for question in context["qas"]
            )


def write_tasks(folder: Path, seed: int) -> None:
    """Write glue/<TASK>/*.tsv and squad/{train,dev}-v{1.1,2.0}.json in their official layouts."""
    write_glue(folder / "glue", seed)
    write_squad(folder / "squad", seed)
