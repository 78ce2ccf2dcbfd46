"""`electra new NAME --text FILES --task TRAIN DEV`: entries of params.yaml for the user's own text
and tasks.

Formats, columns and labels are inferred from the files, sizes from the amount of text. Everything
else keeps its default, and all of it can be edited afterwards.
"""

import contextlib
import dataclasses
import io
import re
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from electra.config import build, nearest
from electra.errors import BadConfig, BadInput
from electra.files import write_through
from electra.nn.huggingface import read_config
from electra.pretraining.config import ElectraConfig
from electra.pretraining.dataloader import Data
from electra.pretraining.made_up_rows import SPECIAL, MadeUpRows
from electra.pretraining.trainer import pretrain as pretrain_model
from pipelines.config.params import FILE, NAME, load
from pipelines.config.settings_file import read
from pipelines.preflight import infer_sources
from pipelines.sources import custom_tasks
from pipelines.sources.paths import find_files
from pipelines.sources.streams import COMPRESSIONS
from pipelines.text.cleaning import Rejected
from pipelines.versioning.dvc_store import dump_yaml

ROWS = 5_000  # read to infer columns and labels
MANY = 50  # with more distinct numbers than this, a label is a score rather than a class
LABELS = ("label", "labels", "class", "category", "target", "tags", "score")

PASSES = 40  # over the text at most: masks are drawn anew each time
# Text up to so many bytes: pieces of its vocabulary, bytes a token, share of documents that are
# held out.
VOCABULARIES = ((2e7, 2_048, 3.2, 0.05), (1e9, 8_192, 4.0, 0.01), (float("inf"), 30_522, 4.5, 0.01))
# What a network no wider than this needs otherwise than the published ones (docs/own-text.md).
NARROW = 128
PRETRAIN: dict[bool, dict[str, Any]] = {
    True: {
        "batch": 16,
        "learning_rate": 1.0e-3,
        "beta2": 0.98,
        "bias_correction": True,
        "precision": "fp32",
    },
    False: {"batch": 128, "learning_rate": 5.0e-4},
}
FINETUNE = {"learning_rate": 1.0e-3, "layer_decay": 1.0, "beta2": 0.98, "dropout": 0.0}
# of wider ones, by their width: paper, Tables 6 and 7
RATES = {256: 3.0e-4, 768: 1.0e-4, 1024: 5.0e-5}
# of fine-tuning that rows should give, and the epochs that are tried for it
STEPS, EPOCHS = 400, (3, 20)
LENGTH, EVALUATIONS, TIMED = 128, 20, 40


def add_entries(
    name: str,
    text: Sequence[str],
    task: Sequence[str],
    columns: dict[str, str],
    *,
    encoder: str = "",
    minutes: float = 0,
    model: str = "tiny",
) -> str:
    """Add the entries; return what was left out and the commands to run next. params.yaml is
    restored if refused.

    `encoder` is what is pre-trained on the files of `text` ("": what suits this machine), for at
    most `minutes` here, as a few steps take (0: 20, on a GPU no limit). `model` is what is
    fine-tuned on the files of `task` if there is no text. `columns` are those of `a`, `b` and
    `label`, "" where they are to be inferred.
    """
    values = read(FILE)
    if not NAME.fullmatch(name):
        raise BadConfig(f"new: {name!r} cannot be a name; use letters, digits, _ and -")
    gpu = torch.cuda.is_available()
    if not minutes and not gpu:
        minutes = 20.0
    encoder = encoder or ("small" if gpu else "mini")
    encoders = values["encoders"]
    if encoder not in encoders:
        raise BadConfig(
            f"--encoder: there is no {encoder} among {', '.join(encoders)}; {nearest(encoder, encoders)}"
        )
    if not text and not task:
        raise BadConfig(
            "new: give --text or --task with files of yours, such as --text 'data/*.jsonl'"
        )
    entries: dict[str, Any] = {}  # section -> the entry NAME in it
    left_out = ""
    if text:
        entries, left_out = _text_entries(name, text, encoder, values, minutes)
        model = name
    if task:
        width = _width(values, encoder if text else model)
        entries |= _task_entries(name, task, columns, model, width)
    for section in entries:
        if name in values.get(section, ()):
            raise BadConfig(f"{FILE}: has {section}.{name} already; choose another name")
    _add(name, entries)
    added = ", ".join(f"{section}.{name}" for section in entries)
    lines = [left_out] if left_out else []
    lines += [f"{FILE} has {added} now. Next:", f"  electra check {name}"]
    if text:
        lines.append(f"  electra estimate {name}")
    lines.append(f"  dvc repro pipelines/dvc.yaml:{'glue' if task else 'pretrain'}@{name}")
    return "\n".join([*lines, ""])


def _width(values: Any, model: str) -> int:
    """Return the hidden size of an encoder or a model by its name; of a published one that is not
    there, base's.
    """
    entry = values["models"].get(model) or {}
    if encoder := values["encoders"].get(entry.get("encoder", model)):
        return int(encoder["hidden"])
    config = Path(values["published"].get(model, {}).get("folder", "")) / "config.json"
    return read_config(config.parent)[0].hidden if config.is_file() else 768


def _text_entries(
    name: str, files: Sequence[str], encoder: str, values: Any, minutes: float
) -> tuple[dict[str, Any], str]:
    """Return the entries of a corpus, its rows and a model, and a sentence on files left out."""
    paths = find_files(tuple(files), "--text")
    size = sum(path.stat().st_size * (4 if path.suffix in COMPRESSIONS else 1) for path in paths)
    pieces, per_token, held_out = next(row[1:] for row in VOCABULARIES if size <= row[0])
    sources, markup, left_out = infer_sources(files, paths)
    settings = PRETRAIN[_width(values, encoder) <= NARROW]
    steps = PASSES * size / per_token / (settings["batch"] * LENGTH)
    if minutes:
        timed = {**settings, "length": LENGTH, "steps": 1, "warmup": 0}
        config = build(
            ElectraConfig,
            {"encoder": values["encoders"][encoder], "pretrain": timed},
            f"models.{name}",
        )
        steps = min(
            steps, 60 * minutes / step_seconds(config, LENGTH, config.pretrain.batch, pieces)
        )
    steps = int(min(1_000_000, max(EVALUATIONS, float(f"{steps:.2g}"))))
    every = max(1, steps // EVALUATIONS)
    pretrain = {"length": LENGTH, **settings, "steps": steps, "warmup": steps // 20}
    pretrain |= {"eval_every": every, "save_every": every}
    tokens = {"corpus": name, "tokenizer": name, "lengths": [LENGTH], "valid_fraction": held_out}
    return {
        "corpora": {"sources": sources, **({"cleaning": {"markup": True}} if markup else {})},
        "tokenizers": {"kind": "train", "vocab_size": pieces},
        "tokens": {**tokens, "packing": {"rule": "packed"}},  # no row is padded
        "models": {"tokens": name, "encoder": encoder, "pretrain": pretrain},
    }, left_out


def step_seconds(config: ElectraConfig, length: int, batch: int, pieces: int) -> float:
    """Return the seconds of a step on such a batch here, from a few steps on rows of random tokens."""
    timed: dict[str, Any] = {
        "phases": (),
        "length": length,
        "batch": batch,
        "steps": TIMED,
        "warmup": 1,
    }
    timed |= {"log_every": TIMED // 2, "eval_every": TIMED, "eval_batches": 1}
    config = dataclasses.replace(config, pretrain=dataclasses.replace(config.pretrain, **timed))
    rows = MadeUpRows(4 * batch, length, pieces)
    measured = dict[str, float]()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        data = Data(rows, rows, SPECIAL, pieces)
        pretrain_model(
            config, data, Path(folder), {}, log=lambda step, numbers: measured.update(numbers)
        )
    return rows.tokens / len(rows) * batch / measured["train/tokens_per_second"]


def _task_entries(
    name: str, files: Sequence[str], columns: dict[str, str], model: str, width: int
) -> dict[str, Any]:
    """Return the entries of a task and its fine-tuning, by the first file's rows and the model's
    width.
    """
    if len(files) not in {2, 3}:
        raise BadConfig(
            f"--task: names {len(files)} files; give two or three: train, dev and perhaps test"
        )
    rows = [
        row
        for _, row in islice(custom_tasks.records(Path(files[0])), ROWS)
        if not isinstance(row, Rejected)
    ]
    if not rows:
        raise BadInput(f"{files[0]}: has no row with a text and a label")
    found = dict(zip(("train", "dev", "test"), files, strict=False))
    found |= {key: value for key, value in _columns(files[0], rows, columns).items() if value}
    kind = _kind([row.get(found["label"]) for row in rows])
    count = sum(1 for _ in custom_tasks.records(Path(files[0])))
    epochs = max(EPOCHS[0], min(EPOCHS[1], round(STEPS * 32 / count)))
    recipe: dict[str, Any] = {"epochs": epochs, "bias_correction": True}
    if width <= NARROW:
        recipe |= FINETUNE
        if "b" in found:
            recipe |= {"pooling": "align", "head_layers": "all"}
        elif kind.get("kind") != "tagging":
            recipe |= {"pooling": "mean"}
    else:
        recipe["learning_rate"] = RATES[min(RATES, key=lambda known: abs(known - width))]
    return {
        "tasks": {"kind": "own", "tasks": {name.replace("-", "_"): found | kind}},
        "recipes": {"defaults": recipe},
        "finetunings": {
            "model": model,
            "tasks": name,
            "recipe": name,
            "arms": ["pretrained", "scratch"],
        },
    }


def _columns(file: str, rows: list[Any], given: dict[str, str]) -> dict[str, str]:
    """Return the columns of texts, label and id: as given, by their usual names, or by their
    contents.
    """
    names = list({key: None for row in rows for key in row})
    kinds = {name: len({str(row.get(name)) for row in rows}) for name in names}
    fewest = sorted(names, key=kinds.__getitem__)[:2]
    most = min(MANY, len(rows) // 2)
    clear = (
        len(fewest) == 2 and 2 <= kinds[fewest[0]] <= most and kinds[fewest[0]] < kinds[fewest[1]]
    )
    usual = [name for name in LABELS if name in names]
    label = given.get("label") or next(iter(usual or fewest[:clear]), "")
    others = [name for name in names if name != label]
    a = given.get("a") or max(
        others, key=lambda name: sum(len(str(row.get(name))) for row in rows), default=""
    )
    for option, column in {"label": label, "a": a, "b": given.get("b") or label}.items():
        if column not in names:
            columns = ", ".join(map(repr, names))
            raise BadInput(
                f"{file}: which of its columns ({columns}) is the {option}? Give --{option}"
            )
    known = {row.get("id") for row in rows if isinstance(row.get("id"), str | int)}
    return {
        "a": a,
        "b": given.get("b", ""),
        "label": label,
        "id": "id" if len(known) == len(rows) else "",
    }


def _kind(labels: list[Any]) -> dict[str, Any]:
    """Return the kind of task that the labels show: tagging, regression or classification."""
    if any(isinstance(label, list) for label in labels):
        tags = {
            tag.partition("-")[2] for label in labels if isinstance(label, list) for tag in label
        }
        return {"kind": "tagging", "labels": sorted(tags - {""})}
    try:
        numbers = {float(label) for label in labels if not isinstance(label, bool)}
    except (TypeError, ValueError):
        numbers = set()
    if len(numbers) > MANY or any(number % 1 for number in numbers):
        return {"kind": "regression", "scale": max(1.0, *map(abs, numbers))}
    return {"labels": sorted({label for label in labels if isinstance(label, str | int)}, key=str)}


def _add(name: str, entries: dict[str, Any]) -> None:
    """Append the entries to their sections; every other byte, comments too, is unchanged."""
    before = FILE.read_bytes().decode("utf-8")
    lines, end = before.removesuffix("\n").split("\n"), "\r" if "\r\n" in before else ""
    for section, entry in entries.items():
        if not any(re.match(rf"{section}\s*:", line) for line in lines):
            lines += [end, f"{section}:{end}"]
        start = next(at for at, line in enumerate(lines) if re.match(rf"{section}\s*:", line))
        if "{" in lines[start]:
            raise BadConfig(f"{FILE}: write the section {section} with one entry per line")
        last = next(
            (at for at in range(start + 1, len(lines)) if re.match(r"\w", lines[at])), len(lines)
        )
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
    """Return an entry's lines as DVC's dumper writes them, which drops a comment that follows a
    list.
    """
    return dump_yaml({"section": {name: _lists_first(entry)}}).splitlines()[1:]


def _lists_first(values: dict[str, Any]) -> dict[str, Any]:
    items = sorted(values.items(), key=lambda item: not isinstance(item[1], list))
    return {key: _lists_first(value) if isinstance(value, dict) else value for key, value in items}
