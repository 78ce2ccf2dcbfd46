"""What the page says of the articles that were left out is what the record says."""

import json
import re
from pathlib import Path

from benchmarks.without_articles import KINDS
from electra.finetuning.tasks import GLUE

ROOT = Path(__file__).parents[2]
RECORD = json.loads((ROOT / "benchmarks/results/without-articles.json").read_text())
TITLES = {"SQuAD 2.0": "squad2"} | {task.title: name for name, task in GLUE.items()}


def test_the_page_says_what_the_record_says() -> None:
    text = (ROOT / "docs/sample-world.md").read_text(encoding="utf-8")
    section = text[text.index("## Without the articles") : text.index("## What came out")]
    told = re.findall(r"^\| (\w*).*?\| ([^|(]+?)(?: \(.*\))? \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", section, re.M)
    kinds, kind = list[tuple[str, str]](), ""
    for left_out, title, *numbers in told:
        kind, task = left_out or kind, TITLES[title]
        kinds.append((kind, task))
        of = (RECORD["with_all"], RECORD["without"][kind]["scores"], RECORD["from_scratch"])
        assert numbers == [f"{scores[task]:.1f}" for scores in of], title
    assert sorted(kinds) == sorted((kind, task) for kind in RECORD["without"] for task in KINDS[kind])
