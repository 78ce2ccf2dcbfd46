"""Whether own text helps without a GPU: `python benchmarks/own_text.py` makes 6 MB of text and four
tasks, pre-trains three times on it, fine-tunes each and fresh weights, and writes
benchmarks/results/own-text.json.

The text is docstrings of the Python packages that are installed here, one document each (data/own).
Held-out docstrings, one in eight, make the tasks, 300 rows to train on and 300 to score on:

package      one text: which package a paragraph is from, of six
follows      two texts: whether the second paragraph follows the first, or is another docstring's of the package
quoted       a number: which share of a paragraph is code, whose quotes are taken away
code         a tag for each word: which are code

Other packages make other text, so figures repeat on the same machine only. What is finished is not
done again.
"""

import ast
import hashlib
import json
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

from benchmarks.harness import ROOT, arguments, provenance, write_record
from electra.files import read_json
from pipelines.config.params import FILE, load
from pipelines.stages import STAGES, corpus, glue, pretrain, tasks, tokens
from pipelines.tracking import Tracker

SIZE = 6e6  # characters of text
SHARE = 1 / 8  # of a package in all text, at most
ROWS = 300
CLASSES = 6
QUOTED = re.compile(r"``?([^`]+)``?")
FOLDER, MODELS = Path("data/own"), ("own1", "own2", "own3")
FACTS = [
    "seed",
    "steps",
    "tokens",
    "padding",
    "disc_auc",
    "disc_recall",
    "disc_loss",
    "disc_baseline",
    "mlm_loss",
]  # of a pre-training


def docstrings(package: Path) -> Iterator[str]:
    """The docstrings of a package of at least 200 characters, each once."""
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


def held_out(text: str) -> bool:
    return hashlib.sha256(text.encode()).digest()[0] < 32


def paragraphs(text: str) -> list[str]:
    """Its paragraphs of prose, each on one line; no examples, fields or headings."""
    found = [
        " ".join(part.split())
        for part in re.split(r"\n\s*\n", text)
        if not re.match(r"\s*(>>>|\.\.|:|[-=*]{3})", part)
    ]
    return [
        part for part in found if 60 <= len(part) <= 400 and "---" not in part and part[0].isupper()
    ]


def plain(text: str) -> str:
    return QUOTED.sub(r"\1", text)


def words(paragraph: str) -> tuple[list[str], list[str]]:
    """Its words, and the tag of each: code is what was in backquotes."""
    found, tags = [], []
    for at, part in enumerate(re.split(r"``?([^`]+)``?", paragraph)):
        for place, word in enumerate(re.findall(r"[\w.]*\w|\S", part)):
            found.append(word)
            tags.append("O" if at % 2 == 0 else "B-CODE" if place == 0 else "I-CODE")
    return found, tags


def rows(kept: dict[str, list[str]], draw: random.Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of each task by its name, without end for practical purposes."""
    parts = {
        name: [ps for text in texts if (ps := paragraphs(text))] for name, texts in kept.items()
    }
    largest = sorted(parts, key=lambda name: -len(parts[name]))[:CLASSES]
    for name in largest:
        for found in parts[name]:
            yield "package", {"text": plain(found[0]), "label": name}
            if len(found) > 1:
                other = draw.choice(parts[name])
                second = (
                    found[1]
                    if (same := draw.random() < 0.5) or other is found
                    else draw.choice(other)
                )
                label = "yes" if same or other is found else "no"
                yield "follows", {"a": plain(found[0]), "b": plain(second), "label": label}
            for each in found:
                if QUOTED.search(each):
                    split, tags = words(each)
                    yield "code", {"words": split, "tags": tags}
                    yield (
                        "quoted",
                        {"text": plain(each), "label": round(1 - tags.count("O") / len(tags), 3)},
                    )


def make() -> None:
    """Text and rows under data/own, the same for the same packages."""
    draw = random.Random(1)
    places = [Path(sysconfig.get_paths()["purelib"]), Path(sysconfig.get_paths()["stdlib"])]
    packages = sorted(
        {path for place in places for path in place.iterdir() if (path / "__init__.py").exists()}
    )
    texts, kept, total = [], {}, 0
    draw.shuffle(packages)
    for package in packages:
        found = list(docstrings(package))
        draw.shuffle(found)
        kept[package.name], size = [], 0
        for text in found:
            if held_out(text):
                kept[package.name].append(text)
            elif size < SHARE * SIZE and total < SIZE:
                texts.append(text)
                size, total = size + len(text), total + len(text)
    draw.shuffle(texts)
    FOLDER.mkdir(parents=True, exist_ok=True)
    write("text", [{"text": text} for text in texts])
    tasks = defaultdict(list)
    for name, row in rows(kept, draw):
        tasks[name].append(row)
    for name, found in sorted(tasks.items()):
        draw.shuffle(found)
        write(f"{name}-train", found[:ROWS])
        write(f"{name}-dev", found[ROWS : 2 * ROWS])
    print(f"{FOLDER}: {total / 1e6:.1f} MB in {len(texts):,} documents")


def write(name: str, found: list[dict[str, Any]]) -> None:
    (FOLDER / f"{name}.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in found), encoding="utf-8"
    )


def measured() -> dict[str, Any]:
    """Every stage, then the scores of both arms by task: three pre-trainings, three fine-tunings of
    each.
    """
    params = load(ROOT / FILE, over=ROOT / "benchmarks/own_text.yaml")
    for stage in (corpus, tokens, tasks):
        stage.run("own", params, Tracker(None))
    found: dict[str, Any] = {"pretrainings": [], "tasks": defaultdict(lambda: defaultdict(list))}
    for name in MODELS:
        for work in (pretrain, glue):
            work.run(name, params, Tracker(None))
        ended, scored = (read_json(STAGES[stage].results(name)) for stage in ("pretrain", "glue"))
        found["pretrainings"].append({key: ended[key] for key in FACTS})
        for task, of in scored["tasks"].items():
            found["tasks"][task]["pretrained"].append(
                round(statistics.fmean(of["pretrained"]["scores"]), 2)
            )
            found["tasks"][task] |= {
                "scratch": of["scratch"]["scores"],
                "baselines": of["baselines"],
            }
    return found


def main() -> None:
    asked = arguments(__doc__, "own-text.json").parse_args()
    origin = provenance("torch", "scikit-learn")
    make()
    found = measured()
    for arm in ("pretrained", "scratch"):
        runs = zip(*(of[arm] for of in found["tasks"].values()), strict=True)
        found.setdefault("mean", {})[arm] = [round(statistics.fmean(run), 2) for run in runs]
    write_record(asked.output, found, origin)


if __name__ == "__main__":
    main()
