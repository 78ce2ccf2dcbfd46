"""`electra new NAME --text FILES --task TRAIN DEV`: entries of params.yaml for the user's own text and tasks.

Formats, columns and labels are inferred from the files, sizes from the amount of text. Everything else keeps its
default, and all of it can be edited afterwards.
"""

import argparse
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
from electra.pretraining.trainer import pretrain as pretrain_model
from pipelines.commands import text_sources
from pipelines.commands.gpu_check.sample import SPECIAL, MadeUpRows
from pipelines.config.params import FILE, NAME, load
from pipelines.config.settings_file import read
from pipelines.sources import own
from pipelines.sources.paths import find_files
from pipelines.sources.streams import COMPRESSIONS
from pipelines.text.cleaning import Rejected

ROWS = 5_000  # read to infer columns and labels
MANY = 50  # with more distinct numbers than this, a label is a score rather than a class
LABELS = ("label", "labels", "class", "category", "target", "tags", "score")
WIDTH = 80  # of a line of params.yaml

PASSES = 40  # over the text at most: masks are drawn anew each time
# Text up to so many bytes: pieces of its vocabulary, bytes a token, share of documents that are held out.
VOCABULARIES = ((2e7, 2_048, 3.2, 0.05), (1e9, 8_192, 4.0, 0.01), (float("inf"), 30_522, 4.5, 0.01))
# What a network no wider than this needs otherwise than the published ones (docs/own-text.md).
NARROW = 128
PRETRAIN: dict[bool, dict[str, Any]] = {
    True: {"batch": 16, "learning_rate": 1.0e-3, "beta2": 0.98, "bias_correction": True, "precision": "fp32"},
    False: {"batch": 128, "learning_rate": 5.0e-4},
}
FINETUNE = {"learning_rate": 1.0e-3, "layer_decay": 1.0, "beta2": 0.98, "dropout": 0.0}
RATES = {256: 3.0e-4, 768: 1.0e-4, 1024: 5.0e-5}  # of wider ones, by their width: paper, Tables 6 and 7
STEPS, EPOCHS = 400, (3, 20)  # of fine-tuning that rows should give, and the epochs that are tried for it
LENGTH, EVALUATIONS, TIMED = 128, 20, 40


def new(options: argparse.Namespace) -> str:
    """Add the entries; return what was left out and the commands to run next. params.yaml is restored if refused.

    `options.encoder` is what is pre-trained on the text ("": what suits this machine), for at most `options.minutes`
    here, as a few steps take (0: no limit); `options.model` is what is fine-tuned where there is no text.
    """
    name, files, rows, minutes = options.name, options.text, options.task, options.minutes
    values = read(FILE)
    if not NAME.fullmatch(name):
        raise BadConfig("new", f"{name!r} cannot be a name", "letters, digits, _ and -")
    if not 0 <= minutes <= 1e6:
        raise BadConfig("--minutes", f"is {minutes:g}", "minutes of pre-training, such as 20")
    gpu = torch.cuda.is_available()
    encoder, minutes = options.encoder or ("small" if gpu else "mini"), minutes if gpu or minutes else 20.0
    if encoder not in (encoders := values["encoders"]):
        raise BadConfig("--encoder", f"is {encoder}", f"one of {', '.join(encoders)}", nearest(encoder, encoders))
    entries: dict[str, Any] = {}  # section -> the entry NAME in it
    said = ""
    if files:
        texts, said = _for_text(name, files, encoder, values, minutes)
        entries |= texts
    if rows:
        columns = {key: getattr(options, key) for key in ("a", "b", "label")}
        width = _width(values, encoder if files else options.model)
        entries |= _for_task(name, rows, columns, name if files else options.model, width)
    if not entries:
        raise BadConfig("new", "has neither --text nor --task", "files of yours, such as --text 'data/*.jsonl'")
    if taken := [f"{section}.{name}" for section in entries if name in values.get(section, ())]:
        raise BadConfig(FILE, f"has {taken[0]} already", "a new name")
    _add(name, entries)
    added = ", ".join(f"{section}.{name}" for section in entries)
    asked = [f"electra check {name}", *([f"electra estimate {name}"] if files else [])]
    steps = [*asked, f"dvc repro pipelines/dvc.yaml:{'glue' if rows else 'pretrain'}@{name}"]
    return "\n".join([*filter(None, [said]), f"{FILE} has {added} now. Next:", *(f"  {step}" for step in steps), ""])


def _width(values: Any, model: str) -> int:
    """The hidden size of an encoder or a model by its name; of a published one that is not there, base's."""
    entry = values["models"].get(model) or {}
    if encoder := values["encoders"].get(entry.get("encoder", model)):
        return int(encoder["hidden"])
    config = Path(values["published"].get(model, {}).get("folder", "")) / "config.json"
    return read_config(config.parent)[0].hidden if config.is_file() else 768


def _for_text(name: str, files: Sequence[str], encoder: str, values: Any, minutes: float) -> tuple[dict[str, Any], str]:
    """The entries of a corpus, its rows and a model, inferred from the files; and a sentence on those left out."""
    paths = find_files(tuple(files), "--text")
    size = sum(path.stat().st_size * (4 if path.suffix in COMPRESSIONS else 1) for path in paths)
    pieces, per_token, held_out = next(row[1:] for row in VOCABULARIES if size <= row[0])
    sources, markup, said = text_sources.inferred(files, paths)
    settings = PRETRAIN[_width(values, encoder) <= NARROW]
    steps = PASSES * size / per_token / (settings["batch"] * LENGTH)
    if minutes:
        timed = {**settings, "length": LENGTH, "steps": 1, "warmup": 0}
        config = build(ElectraConfig, {"encoder": values["encoders"][encoder], "pretrain": timed}, f"models.{name}")
        steps = min(steps, 60 * minutes / step_seconds(config, LENGTH, config.pretrain.batch, pieces))
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
    }, said


def step_seconds(config: ElectraConfig, length: int, batch: int, pieces: int) -> float:
    """What a step on such a batch takes on this machine: a few are done, on rows of random tokens."""
    timed: dict[str, Any] = {"phases": (), "length": length, "batch": batch, "steps": TIMED, "warmup": 1}
    timed |= {"log_every": TIMED // 2, "eval_every": TIMED, "eval_batches": 1}
    config = dataclasses.replace(config, pretrain=dataclasses.replace(config.pretrain, **timed))
    rows, found = MadeUpRows(4 * batch, length, pieces), dict[str, float]()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        data = Data(rows, rows, SPECIAL, pieces)
        pretrain_model(config, data, Path(folder), {}, log=lambda step, numbers: found.update(numbers))
    return rows.tokens / len(rows) * batch / found["train/tokens_per_second"]


def _for_task(name: str, files: Sequence[str], columns: dict[str, str], model: str, width: int) -> dict[str, Any]:
    """The entries of a task and its fine-tuning, inferred from the rows of the first file and the model's width."""
    if len(files) not in {2, 3}:
        raise BadConfig("--task", f"names {len(files)} files", "two or three: train, dev and perhaps test")
    rows = [row for _, row in islice(own.records(Path(files[0])), ROWS) if not isinstance(row, Rejected)]
    if not rows:
        raise BadInput(files[0], "has no row that can be read", "rows with a text and a label")
    found = dict(zip(("train", "dev", "test"), files, strict=False))
    found |= {key: value for key, value in _columns(files[0], rows, columns).items() if value}
    kind = _kind([row.get(found["label"]) for row in rows])
    count = sum(1 for _ in own.records(Path(files[0])))
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
    """An entry's lines in DVC's own format: a section of values is on one line if it fits."""
    from dvc.utils.serialize import dumps_yaml
    from ruamel.yaml.comments import CommentedMap

    def styled(key: str, values: dict[str, Any], depth: int) -> Any:
        inner = {k: styled(k, each, depth + 1) if isinstance(each, dict) else each for k, each in values.items()}
        section = CommentedMap(inner)
        if not any(isinstance(each, dict) for each in values.values()):
            section.fa.set_flow_style()
            text: str = dumps_yaml({key: section}).strip()
            if "\n" in text or 2 * depth + len(text) > WIDTH:
                lists_first = sorted(inner.items(), key=lambda item: not isinstance(item[1], list))
                section = CommentedMap(lists_first)  # DVC drops a comment that follows a list
        return section

    lines: str = dumps_yaml({"section": {name: styled(name, entry, 1)}})
    return lines.splitlines()[1:]
