"""Measure the gain from pre-training on 6 MB of domain text, on a CPU: `python
benchmarks/own_text.py`.

Collects text and four tasks, pre-trains three times, fine-tunes each of them and random weights,
and writes benchmarks/results/own-text.json. The text is docstrings of the installed Python
packages, one document each (data/own). The tasks come from held-out docstrings, with 300 rows for
training and 300 for dev:

package      one text: which of six packages a paragraph comes from
follows      two texts: whether the second paragraph follows the first
quoted       a number: the share of code in a paragraph, after removing backquotes
code         a tag for each word: whether it is code

A checkpoint in the layout of published ones, pre-trained on Wikipedia and books (own_base in
benchmarks/real_text.yaml), is continued three times with the same text, and fine-tuned before and
after it. Three fresh starts read as many tokens as it then does.

Installed packages differ, so only the same environment gives the same figures. Finished runs are
reused.

`--language el` takes the pages of LibreOffice's help instead of docstrings, its programs instead of
packages, and names on the screen instead of code, and writes own-text-el.json. It is for languages
in another script: pages that are mostly in Latin letters are untranslated and left out. For the
pages:

    apt-get download libreoffice-help-el
    dpkg-deb --extract libreoffice-help-el_*.deb build/help
"""

import ast
import hashlib
import html
import random
import re
import statistics
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import (
    ROOT,
    arguments,
    local_params,
    provenance,
    run_stages,
    write_record,
)
from electra.files import read_json, write_jsonl
from pipelines.config.params import FILE, Params, load
from pipelines.stages import STAGES

SIZE = 6e6  # characters of text
SHARE = 1 / 8  # upper limit of one package's share of the text
HELP = Path("build/help/usr/share/libreoffice/help")
PAGE_PARAGRAPH = re.compile(r'<p id="par[^>]*>(.*?)</p>', re.S)
NAME_ON_SCREEN = re.compile(r'<span class="(?:emph|menuitem|literal)">(.*?)</span>', re.S)
ROWS = 300
CLASSES = "ABCDEF"
QUOTED = re.compile(r"``?([^`]+)``?")
MARKUP = re.compile(r"\s*(>>>|\.\.|:|[-=*]{3})")
FOLDER = Path("data/own")
MODELS = ("own1", "own2", "own3")
BASE = "own_base"
CONTINUED = ("continued1", "continued2", "continued3")
HALF = ("half1", "half2", "half3")  # fresh starts with as many tokens as the continued ones
FACTS = (  # recorded of a pre-training
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
    """Yield the distinct docstrings of a package with at least 200 characters."""
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


def help_pages(program: Path) -> Iterator[str]:
    """Yield the distinct translated pages of a program's help, with names on the screen in
    backquotes.
    """
    seen = set()
    for file in sorted(program.rglob("*.html")):
        page = NAME_ON_SCREEN.sub(r"`\1`", file.read_text("utf-8"))
        text = re.sub("<[^>]+>", "", "\n\n".join(PAGE_PARAGRAPH.findall(page)))
        text = html.unescape(text).strip()
        letters = [letter for letter in text if letter.isalpha()]
        is_translated = 2 * sum(letter.isascii() for letter in letters) < len(letters)
        if is_translated and text not in seen:
            seen.add(text)
            yield text


def is_held_out(text: str) -> bool:
    """Return whether a document is held out for the tasks."""
    return hashlib.sha256(text.encode()).digest()[0] < 108  # of 256


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of prose, one line each, without examples, fields and headings."""
    parts = re.split(r"\n\s*\n", text)
    lines = [" ".join(part.split()) for part in parts if not MARKUP.match(part)]
    prose = [line for line in lines if 60 <= len(line) <= 400 and "---" not in line]
    return [line for line in prose if not line[0].islower()]


def plain(text: str) -> str:
    """Remove the backquotes around code."""
    return QUOTED.sub(r"\1", text)


def split_words(paragraph: str) -> tuple[list[str], list[str]]:
    """Return the words and their tags; words in backquotes are code."""
    words: list[str] = []
    tags: list[str] = []
    for number, part in enumerate(QUOTED.split(paragraph)):
        part_words = re.findall(r"[\w.]*\w|\S", part)
        words += part_words
        is_code = number % 2 == 1
        part_tags = ["I-CODE" if is_code else "O"] * len(part_words)
        if is_code and part_tags:
            part_tags[0] = "B-CODE"
        tags += part_tags
    return words, tags


def yield_rows(
    held_out: dict[str, list[str]], draw: random.Random
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each task's name and rows, from the held-out documents of each package."""
    parts = {}
    for name, texts in held_out.items():
        parts[name] = [prose for prose in map(paragraphs, texts) if prose]
    largest = sorted(parts, key=lambda name: -len(parts[name]))[: len(CLASSES)]
    for label, name in zip(CLASSES, largest, strict=True):
        for prose in parts[name]:
            strangers = [other for other in parts[name] if other is not prose]
            yield "package", {"text": plain(prose[0]), "label": label}
            for first, second in zip(prose[::2], prose[1::2], strict=False):
                follows = draw.random() < 0.5 or not strangers
                other = second if follows else draw.choice(draw.choice(strangers))
                row = {"a": plain(first), "b": plain(other)}
                yield "follows", row | {"label": "yes" if follows else "no"}
            for paragraph in filter(QUOTED.search, prose):
                words, tags = split_words(paragraph)
                share = 1 - tags.count("O") / len(tags)
                yield "code", {"words": words, "tags": tags}
                yield "quoted", {"text": plain(paragraph), "label": round(share, 3)}


def write_files(language: str) -> None:
    """Write text and rows to data/own."""
    draw = random.Random(1)
    packages: list[Path] = []
    if language:
        packages += (HELP / language / "text").iterdir()
    else:
        for kind in ("purelib", "stdlib"):
            folders = Path(sysconfig.get_paths()[kind]).iterdir()
            packages += [path for path in folders if (path / "__init__.py").exists()]
    packages = sorted(set(packages))
    draw.shuffle(packages)
    texts: list[str] = []
    held_out: dict[str, list[str]] = {}
    total = 0
    for package in packages:
        candidates = list(help_pages(package) if language else docstrings(package))
        draw.shuffle(candidates)
        held_out[package.name] = [text for text in candidates if is_held_out(text)]
        size = 0
        for text in candidates:
            if size < SHARE * SIZE and total < SIZE and not is_held_out(text):
                texts.append(text)
                size += len(text)
                total += len(text)
    draw.shuffle(texts)
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_jsonl(FOLDER / "text.jsonl", [{"text": text} for text in texts])
    tasks = defaultdict(list)
    for name, row in yield_rows(held_out, draw):
        tasks[name].append(row)
    for name, rows in sorted(tasks.items()):
        draw.shuffle(rows)
        write_jsonl(FOLDER / f"{name}-train.jsonl", rows[:ROWS])
        write_jsonl(FOLDER / f"{name}-dev.jsonl", rows[ROWS : 2 * ROWS])


def measure(language: str) -> dict[str, Any]:
    """Run every stage and return the scores of both arms by task, from three pre-trainings with
    three fine-tunings each. For English, add those of a continued checkpoint.
    """
    params = load(ROOT / FILE, over=ROOT / "benchmarks/own_text.yaml")
    run_stages(params, corpus="own", tokens="own", tasks="own")
    results = train(params, MODELS)
    results["mean"] = means(results["tasks"])
    if not language:
        run_stages(local_params(), pretrain=BASE)
        run_stages(params, tokens="own_continued", glue=BASE)
        fresh = train(params, HALF)
        fresh["mean"] = means(fresh["tasks"])
        continued = train(params, CONTINUED)
        for task, arms in read_json(STAGES["glue"].results(BASE))["tasks"].items():
            continued["tasks"][task]["before"] = arms["pretrained"]["scores"]
        continued["mean"] = means(continued["tasks"])
        results["continued"] = {"base": facts(BASE), "fresh": fresh, **continued}
    return results


def train(params: Params, names: Iterable[str]) -> dict[str, Any]:
    """Pre-train and fine-tune models. Return the facts of each pre-training, and the scores by task
    and arm: of each pre-training the mean of its fine-tunings.
    """
    pretrainings = []
    tasks: dict[str, dict[str, Any]] = defaultdict(lambda: {"pretrained": []})
    for name in names:
        run_stages(params, pretrain=name, glue=name)
        pretrainings.append(facts(name))
        for task, arms in read_json(STAGES["glue"].results(name))["tasks"].items():
            mean = statistics.fmean(arms["pretrained"]["scores"])
            tasks[task]["pretrained"].append(round(mean, 2))
            if "scratch" in arms:
                tasks[task]["scratch"] = arms["scratch"]["scores"]
                tasks[task]["baselines"] = arms["baselines"]
    return {"pretrainings": pretrainings, "tasks": tasks}


def facts(name: str) -> dict[str, Any]:
    """Return the facts to record about a pre-training."""
    results = read_json(STAGES["pretrain"].results(name))
    return {key: results[key] for key in FACTS}


def means(tasks: dict[str, dict[str, Any]]) -> dict[str, list[float]]:
    """Return the mean of the tasks by arm, for each run."""
    by_arm = {}
    for arm in ("pretrained", "scratch", "before"):
        scores = [task[arm] for task in tasks.values() if arm in task]
        if scores:
            runs = zip(*scores, strict=True)
            by_arm[arm] = [round(statistics.fmean(run), 2) for run in runs]
    return by_arm


def main() -> None:
    parser = arguments(__doc__, "own-text.json")
    parser.add_argument("--language", default="", help="a language of LibreOffice's help")
    options = parser.parse_args()
    if options.language:
        options.output = options.output.with_stem(f"own-text-{options.language}")
    origin = provenance("torch", "scikit-learn")
    write_files(options.language)
    write_record(options.output, measure(options.language), origin)


if __name__ == "__main__":
    main()
