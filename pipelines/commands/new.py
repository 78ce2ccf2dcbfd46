"""`electra new NAME --text FILES --task TRAIN DEV`: entries of params.yaml for the user's own text and tasks.

Formats, columns and labels are inferred from the files, sizes from the amount of text. Everything else keeps its
default, and all of it can be edited afterwards.
"""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from electra.config import nearest
from electra.data.text import Rejected
from electra.errors import BadConfig, BadInput
from electra.files import write_through
from pipelines.config.params import FILE, NAME, load
from pipelines.config.settings_file import read
from pipelines.sources import LocalCorpus, local, own, preview
from pipelines.sources.streams import COMPRESSIONS, Piece, plain_suffix

SHORT = 80  # characters of an entry on one line
BYTES_PER_TOKEN = 4.5  # of English text
PASSES = 40  # over the text: masks are drawn anew each time
BATCH = LENGTH = 128
ROWS = 5_000  # read to infer columns and labels
MANY = 50  # with more distinct numbers than this, a label is a score rather than a class
LABELS = ("label", "labels", "class", "category", "target", "tags", "score")


def new(name: str, files: Sequence[str], rows: Sequence[str], columns: dict[str, str], encoder: str, model: str) -> str:
    """Add the entries and return the commands to run next. params.yaml is restored if they are not accepted.

    `encoder` is what is pre-trained on the text, `model` what is fine-tuned where there is none.
    """
    values = read(FILE)
    if not NAME.fullmatch(name):
        raise BadConfig("new", f"{name!r} cannot be a name", "letters, digits, _ and -")
    if encoder not in (encoders := values["encoders"]):
        raise BadConfig("--encoder", f"is {encoder}", f"one of {', '.join(encoders)}", nearest(encoder, encoders))
    entries: dict[str, Any] = {}  # section -> the entry NAME in it
    if files:
        entries |= _for_text(name, files, encoder)
    if rows:
        entries |= _for_task(name, rows, columns, model=name if files else model)
    if not entries:
        do = "electra new mine --text 'data/*.jsonl'"
        raise BadConfig("new", "has neither --text nor --task", "files of yours", do)
    if taken := [f"{section}.{name}" for section in entries if name in values.get(section, ())]:
        raise BadConfig(FILE, f"has {taken[0]} already", "a new name")
    _add(name, entries)
    added = ", ".join(f"{section}.{name}" for section in entries)
    asked = [f"electra check {name}", *([f"electra estimate {name}"] if files else [])]
    steps = [*asked, f"dvc repro pipelines/dvc.yaml:{'glue' if rows else 'pretrain'}@{name}"]
    return "\n".join([f"{FILE} has {added} now. Next:", *(f"  {step}" for step in steps), ""])


def _for_text(name: str, files: Sequence[str], encoder: str) -> dict[str, Any]:
    """The entries of a corpus, its rows and a model, inferred from the files."""
    paths = local.find_files(tuple(files), "--text")
    size = sum(path.stat().st_size * (4 if path.suffix in COMPRESSIONS else 1) for path in paths)
    steps = PASSES * size / BYTES_PER_TOKEN / (BATCH * LENGTH)
    steps = int(min(1_000_000, max(2_000, round(steps, -3))))
    source, markup = _source(files, paths)
    pretrain = {"length": LENGTH, "batch": BATCH, "steps": steps, "warmup": steps // 20, "learning_rate": 5.0e-4}
    pieces, held_out = 2_048 if size < 2e7 else 8_192 if size < 1e9 else 30_522, 0.01 if size > 2e7 else 0.05
    return {
        "corpora": {"sources": {"text": source}, **({"cleaning": {"markup": True}} if markup else {})},
        "tokenizers": {"kind": "train", "vocab_size": pieces},
        "tokens": {"corpus": name, "tokenizer": name, "lengths": [LENGTH], "valid_fraction": held_out},
        "models": {"tokens": name, "encoder": encoder, "pretrain": pretrain},
    }


def _source(files: Sequence[str], paths: list[Path]) -> tuple[dict[str, Any], bool]:
    """The source with the settings that its files need, and whether they hold HTML."""
    found: dict[str, Any] = {"kind": "local", "files": list(files)}
    if local.guess_format(paths[0]) in {"jsonl", "parquet"}:
        rows = _rows(paths[0], 100)
        keys = dict.fromkeys(key for row in rows for key in row)
        sizes = {key: sum(len(row[key]) for row in rows if isinstance(row.get(key), str)) for key in keys}
        longest = max(sizes, key=sizes.__getitem__, default="text")
        found |= {} if "text" in sizes else {"text": longest}
    source = dataclasses.replace(LocalCorpus(kind="local", files=tuple(files)), text=found.get("text", "text"))
    hints = " ".join(preview.hints(source, paths, markup=False))
    for documents in ("headings", "blank_lines", "lines"):
        if f"documents: {documents}`" in hints:
            found["documents"] = documents
    if "hard_wrapped: true" in hints:
        found["hard_wrapped"] = True
    return found, "markup: true" in hints


def _for_task(name: str, files: Sequence[str], columns: dict[str, str], model: str) -> dict[str, Any]:
    """The entries of a task and its fine-tuning, inferred from the rows of the first file."""
    if len(files) not in {2, 3}:
        raise BadConfig("--task", f"names {len(files)} files", "two or three: train, dev and perhaps test")
    rows = _rows(Path(files[0]), ROWS)
    if not rows:
        raise BadInput(files[0], "has no row that can be read", "rows with a text and a label")
    found = dict(zip(("train", "dev", "test"), files, strict=False))
    found |= {key: value for key, value in _columns(files[0], rows, columns).items() if value}
    labels = [row.get(found["label"]) for row in rows]
    return {
        "tasks": {"kind": "own", "tasks": {name.replace("-", "_"): found | _kind(labels)}},
        "recipes": {"defaults": {"epochs": 10}},
        "finetunings": {"model": model, "tasks": name, "recipe": name, "arms": ["pretrained", "scratch"]},
    }


def _columns(file: str, rows: list[Any], given: dict[str, str]) -> dict[str, str]:
    """The columns of texts, label and id: as given, by their usual names, or by their contents."""
    names = list(dict.fromkeys(key for row in rows for key in row))
    kinds = {name: len({str(row.get(name)) for row in rows}) for name in names}
    fewest = sorted(names, key=kinds.__getitem__)[:2]
    most = min(MANY, len(rows) // 2)
    clear = len(fewest) == 2 and 2 <= kinds[fewest[0]] <= most and kinds[fewest[0]] < kinds[fewest[1]]
    usual = [name for name in LABELS if name in names]
    label = given.get("label") or next(iter(usual or fewest[:clear]), "")
    others = [name for name in names if name != label]
    a = given.get("a") or max(others, key=lambda name: sum(len(str(row.get(name))) for row in rows), default="")
    for option, column in {"label": label, "a": a, "b": given.get("b") or label}.items():
        if column not in names:
            found = f"has the columns {', '.join(map(repr, names))}"
            raise BadInput(file, found, f"the {option} among them", f"say --{option}")
    known = {row.get("id") for row in rows if isinstance(row.get("id"), str | int)}
    return {"a": a, "b": given.get("b", ""), "label": label, "id": "id" if len(known) == len(rows) else ""}


def _kind(labels: list[Any]) -> dict[str, Any]:
    """The kind of task that the labels show: tagging, regression or classification."""
    if any(isinstance(label, list) for label in labels):
        tags = {tag.partition("-")[2] for label in labels if isinstance(label, list) for tag in label}
        return {"kind": "tagging", "labels": sorted(tags - {""})}
    try:
        numbers = {float(label) for label in labels if not isinstance(label, bool)}
    except (TypeError, ValueError):
        numbers = set()
    if len(numbers) > MANY or any(number % 1 for number in numbers):
        return {"kind": "regression", "scale": max(1.0, *map(abs, numbers))}
    return {"labels": sorted({label for label in labels if isinstance(label, str | int)}, key=str)}


def _rows(path: Path, count: int) -> list[Any]:
    """Those of a file's first rows that can be read, as columns by name."""
    return [row for _, row in islice(records(path), count) if not isinstance(row, Rejected)]


def records(path: Path) -> Iterator[own.Record]:
    """(where, columns) of each row, read as for training."""
    suffix = plain_suffix(path)
    if suffix == ".parquet":
        from pyarrow.parquet import read_schema

        yield from own.parquet(path, [], also=read_schema(path).names)
    elif suffix in local.JSON_SUFFIXES:
        yield from own.jsonl(local.decoded_lines(Piece(path)), path, [])
    elif suffix == ".conll":
        yield from own.conll(local.decoded_lines(Piece(path)), path, "words", "tags")
    else:
        yield from own.tsv(local.decoded_lines(Piece(path)), path, [])


def _add(name: str, entries: dict[str, Any]) -> None:
    """Append the entries to their sections; every other byte, comments too, is unchanged."""
    before = FILE.read_bytes().decode("utf-8")
    lines, end = before.removesuffix("\n").split("\n"), "\r" if "\r\n" in before else ""
    for section, entry in entries.items():
        if not any(re.match(rf"{section}\s*:", line) for line in lines):
            lines += [end, f"{section}:{end}"]
        start = next(at for at, line in enumerate(lines) if re.match(rf"{section}\s*:", line))
        if "{" in lines[start]:
            raise BadConfig(FILE, f"has {section} on one line", "a section with an entry a line")
        last = next((at for at in range(start + 1, len(lines)) if re.match(r"\w", lines[at])), len(lines))
        while re.match(r"#|\s*$", lines[last - 1]):  # a comment before a section belongs to it
            last -= 1
        lines[last:last] = [line + end for line in _written(name, entry)]
    write_through(FILE, "\n".join([*lines, ""]))
    try:
        load()
    except BadConfig:
        write_through(FILE, before)
        raise


def _written(name: str, entry: dict[str, Any]) -> list[str]:
    """An entry's lines in DVC's own format: innermost sections in braces, and the whole entry if it is short."""
    from dvc.utils.serialize import dumps_yaml
    from ruamel.yaml.comments import CommentedMap

    def styled(values: dict[str, Any]) -> Any:
        section = CommentedMap({key: styled(each) if isinstance(each, dict) else each for key, each in values.items()})
        if len(str(values)) < SHORT or not any(isinstance(each, dict) for each in values.values()):
            section.fa.set_flow_style()
        return section

    text: str = dumps_yaml({"section": {name: styled(entry)}})
    return text.splitlines()[1:]
