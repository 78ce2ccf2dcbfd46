"""Whether own text helps without a GPU: `python benchmarks/own_text.py` makes 6 MB of text and four
tasks, pre-trains three times on it, fine-tunes each and fresh weights, and writes
benchmarks/results/own-text.json.

The text is docstrings of the Python packages that are installed here, one document each (data/own).
Held-out docstrings, one in eight, make the tasks, 300 rows to train on and 300 to score on:

package      one text: which package a paragraph is from, of six
follows      two texts: whether the second paragraph follows the first or is from elsewhere
quoted       a number: which share of a paragraph is code, whose quotes are taken away
code         a tag for each word: which are code

Other packages make other text, so figures repeat on the same machine only. What is finished is not
done again.
"""

import ast
import hashlib
import random
import re
import statistics
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import ROOT, arguments, provenance, run_stages, write_record
from electra.files import read_json, write_jsonl
from pipelines.config.params import FILE, load
from pipelines.stages import STAGES

SIZE = 6e6  # characters of text
SHARE = 1 / 8  # of a package in all text, at most
ROWS = 300
CLASSES = 6
QUOTED = re.compile(r"``?([^`]+)``?")
MARKUP = re.compile(r"\s*(>>>|\.\.|:|[-=*]{3})")
FOLDER = Path("data/own")
MODELS = ("own1", "own2", "own3")
FACTS = (  # of a pre-training
    "seed",
    "steps",
    "tokens",
    "padding",
    "disc_auc",
    "disc_recall",
    "disc_loss",
    "disc_baseline",
    "mlm_loss",
)


def docstrings(package: Path) -> Iterator[str]:
    """Yield the docstrings of a package of at least 200 characters, each once."""
    seen = set()
    for file in sorted(package.rglob("*.py")):
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError, RecursionError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                if len(text) >= 200 and text not in seen:
                    seen.add(text)
                    yield text


def is_held_out(text: str) -> bool:
    """Return whether a docstring is kept for the tasks."""
    return hashlib.sha256(text.encode()).digest()[0] < 32


def paragraphs(text: str) -> list[str]:
    """Return its paragraphs of prose, each on one line, without examples, fields and headings."""
    parts = re.split(r"\n\s*\n", text)
    lines = [" ".join(part.split()) for part in parts if not MARKUP.match(part)]
    prose = [line for line in lines if 60 <= len(line) <= 400 and "---" not in line]
    return [line for line in prose if line[0].isupper()]


def plain(text: str) -> str:
    """Return a text without its backquotes."""
    return QUOTED.sub(r"\1", text)


def split_words(paragraph: str) -> tuple[list[str], list[str]]:
    """Return its words and the tag of each: code is what was in backquotes."""
    words: list[str] = []
    tags: list[str] = []
    for number, part in enumerate(QUOTED.split(paragraph)):
        found = re.findall(r"[\w.]*\w|\S", part)
        words += found
        rest = ["O" if number % 2 == 0 else "I-CODE" for _ in found]
        tags += ["B-CODE", *rest[1:]] if found and number % 2 else rest
    return words, tags


def yield_rows(
    kept: dict[str, list[str]], draw: random.Random
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield rows of each task with its name, from the docstrings that each package has."""
    parts = {}
    for name, texts in kept.items():
        parts[name] = [found for found in map(paragraphs, texts) if found]
    for name in sorted(parts, key=lambda name: -len(parts[name]))[:CLASSES]:
        for found in parts[name]:
            first, *others = map(plain, found)
            yield "package", {"text": first, "label": name}
            if others:
                follows = draw.random() < 0.5 or len(parts[name]) == 1
                strangers = [other for other in parts[name] if other is not found]
                second = others[0] if follows else plain(draw.choice(draw.choice(strangers)))
                yield "follows", {"a": first, "b": second, "label": "yes" if follows else "no"}
            for each in filter(QUOTED.search, found):
                words, tags = split_words(each)
                share = 1 - tags.count("O") / len(tags)
                yield "code", {"words": words, "tags": tags}
                yield "quoted", {"text": plain(each), "label": round(share, 3)}


def write_files() -> None:
    """Write text and rows to data/own, the same for the same packages."""
    draw = random.Random(1)
    packages = []
    for kind in ("purelib", "stdlib"):
        folders = Path(sysconfig.get_paths()[kind]).iterdir()
        packages += [path for path in folders if (path / "__init__.py").exists()]
    packages = sorted(set(packages))
    draw.shuffle(packages)
    texts: list[str] = []
    kept: dict[str, list[str]] = {}
    total = 0
    for package in packages:
        found = list(docstrings(package))
        draw.shuffle(found)
        kept[package.name] = [text for text in found if is_held_out(text)]
        size = 0
        for text in found:
            if size < SHARE * SIZE and total < SIZE and not is_held_out(text):
                texts.append(text)
                size += len(text)
                total += len(text)
    draw.shuffle(texts)
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_jsonl(FOLDER / "text.jsonl", [{"text": text} for text in texts])
    tasks = defaultdict(list)
    for name, row in yield_rows(kept, draw):
        tasks[name].append(row)
    for name, rows in sorted(tasks.items()):
        draw.shuffle(rows)
        write_jsonl(FOLDER / f"{name}-train.jsonl", rows[:ROWS])
        write_jsonl(FOLDER / f"{name}-dev.jsonl", rows[ROWS : 2 * ROWS])


def measure() -> dict[str, Any]:
    """Run every stage and return the scores of both arms by task: three pre-trainings, three
    fine-tunings of each.
    """
    params = load(ROOT / FILE, over=ROOT / "benchmarks/own_text.yaml")
    run_stages(params, corpus="own", tokens="own", tasks="own")
    pretrainings = []
    tasks: dict[str, dict[str, Any]] = defaultdict(lambda: {"pretrained": []})
    for name in MODELS:
        run_stages(params, pretrain=name, glue=name)
        results = read_json(STAGES["pretrain"].results(name))
        pretrainings.append({key: results[key] for key in FACTS})
        for task, found in read_json(STAGES["glue"].results(name))["tasks"].items():
            mean = statistics.fmean(found["pretrained"]["scores"])
            tasks[task]["pretrained"].append(round(mean, 2))
            tasks[task] |= {"scratch": found["scratch"]["scores"], "baselines": found["baselines"]}
    means = {}
    for arm in ("pretrained", "scratch"):
        runs = zip(*(found[arm] for found in tasks.values()), strict=True)
        means[arm] = [round(statistics.fmean(run), 2) for run in runs]
    return {"pretrainings": pretrainings, "tasks": tasks, "mean": means}


def main() -> None:
    options = arguments(__doc__, "own-text.json").parse_args()
    origin = provenance("torch", "scikit-learn")
    write_files()
    write_record(options.output, measure(), origin)


if __name__ == "__main__":
    main()
