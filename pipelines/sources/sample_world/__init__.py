"""The embedded default source: a small made-up world, its articles, nine GLUE-shaped tasks and SQuAD-shaped questions.

Nothing is downloaded and nothing needs a licence. Same seed, same bytes. See docs/sample-world.md.
"""

from pathlib import Path

from electra.files import write_jsonl
from pipelines.sources.sample_world.articles import documents
from pipelines.sources.sample_world.glue import write_glue
from pipelines.sources.sample_world.squad import write_squad
from pipelines.sources.sample_world.world import build

ARTICLES = 27_000


def write_articles(folder: Path, seed: int) -> None:
    """Write `articles.jsonl`: one {"id", "text"} document a line, sentences as lines of the text."""
    write_jsonl(folder / "articles.jsonl", documents(build(seed), seed, ARTICLES))


def write_tasks(folder: Path, seed: int) -> None:
    """Write glue/<TASK>/*.tsv and squad/{train,dev}-v{1.1,2.0}.json in their official layouts."""
    write_glue(folder / "glue", seed)
    write_squad(folder / "squad", seed)
