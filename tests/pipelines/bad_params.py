"""Damaged params.yaml files, from a seed: one with every kind of section, changed in values or bytes."""

import functools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from electra.config import plain
from electra.errors import UserError
from pipelines.config.params import load
from tests.conftest import ROOT


class Raw(str):
    """Written into the file as it is."""

    __slots__ = ()


VALUES: list[Any] = [None, True, -1, 0, 1, 0.5, 1e300, 10**40, "", "x", "-1", "mlm", "tiny", "../up", "é☃", "a\nb"]
VALUES += [
    [],
    {},
    [[]],
    {"": {}},
    {"kind": "local"},
    {"kind": "own", "tasks": {}},
    {"flops": -1},
    [1, "a"],
    "y" * 10**5,
]
VALUES += map(Raw, (".nan", "-.inf", "~", "1e-4", "1_000", "9" * 5000, "0o17", "1:30", "2001-01-01", "2001-99-99"))
VALUES += map(
    Raw, ("!!binary eA==", "!!set {a, b}", "!!bool x", "!!python/name:os.system x", "!!int x", "*a", "!unknown")
)
VALUES += map(Raw, ("{? [a] : b}", "{<<: {layers: -1}}"))
KEYS = [*map(Raw, ("1", "~", "true", "2001-01-01", "<<", "? [a]", '""', '"a.b"', '"a\\nb"', "k" * 2000)), "extra"]
PIECES = [
    b"\xff",
    b"\x00",
    b"\t",
    b"\n---\n",
    b"%YAML 9.9\n",
    b"&a ",
    b"*a",
    b"{",
    b"]",
    b": ",
    b"- ",
    b"'",
    b"|\n",
    b"#",
]
PIECES += [b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xed\xa0\x80", b"? ", b"\r"]


@functools.cache
def whole() -> str:
    """A part of the shipped file that loads quickly and has every kind of section, as JSON."""
    values: dict[str, Any] = YAML(typ="safe").load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    keep = {"models": ("tiny", "small"), "finetunings": ("tiny", "small", "electra-small")}
    for section, names in {**keep, "ablations": ("training", "efficiency")}.items():
        values[section] = {name: values[section][name] for name in names}
    values["run"]["ablations"] = ["training"]
    values["tasks"]["mine"] = {"kind": "own", "tasks": {"topics": {"train": "a", "dev": "b", "labels": ["x", "y"]}}}
    local = {"kind": "local", "files": ["a"], "weight": 1.0}
    values["corpora"]["mixed"] = {"sources": [{"kind": "sample", "weight": 2.0}, local]}
    return json.dumps(values)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (section or list, key or index) of the file."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from places(inner)


def written(value: Any, depth: int = 0) -> str:
    """Values as YAML: two levels in lines, the rest in brackets; a `Raw` as it is."""
    if isinstance(value, dict):
        keys = (key if isinstance(key, Raw) else json.dumps(key) for key in value)
        pairs = [f"{key}: {written(inner, depth + 1)}" for key, inner in zip(keys, value.values(), strict=True)]
        indent = "\n" + "  " * depth
        return indent + indent.join(pairs) if depth < 2 and pairs else f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(written(inner, 9) for inner in value)}]"
    return value if isinstance(value, Raw) else json.dumps(value)


def generate(seed: int) -> tuple[bytes, str]:
    """One bad file, and how it was damaged."""
    dice = random.Random(seed)
    values = json.loads(whole())
    kind = dice.choice(["delete", "value", "wrap", "rename", "add", "cut", "insert", "flip", "encoding"])
    if kind in {"cut", "insert", "flip", "encoding"}:
        content = written(values).encode()
        at = dice.randrange(len(content))
        if kind == "encoding":
            return content.decode().encode(dice.choice(["utf-16", "utf-32", "utf-8-sig", "cp500"])), kind
        if kind == "insert":
            return content[:at] + dice.choice(PIECES) + content[at:], kind
        flipped = bytes([content[at] ^ 1 << dice.randrange(8)])
        return content[:at] + (flipped if kind == "flip" else b"") + content[at + dice.choice([1, 50]) :], kind
    holder, key = dice.choice(list(places(values)))
    if kind == "delete":
        del holder[key]
    elif kind == "wrap":
        holder[key] = dice.choice([[holder[key]], {"a": holder[key]}, str(holder[key]), [holder[key]] * 2])
    elif kind == "value" or not isinstance(holder, dict):
        holder[key] = dice.choice(VALUES)
    else:
        name = dice.choice([*KEYS, f"{key}s", str(key)[1:]])
        holder[name] = holder.pop(key) if kind == "rename" else dice.choice(VALUES)
    return written(values).encode("utf-8", "surrogatepass"), kind


def outcome(path: Path) -> str:
    """What becomes of a file: `accepted`, `refused` in a sentence, or what went wrong."""
    try:
        json.dumps(plain(load(path)), ensure_ascii=False).encode()  # as `params` prints it
    except UserError as error:
        sentence = str(error)
        fine = "\n" not in sentence and path.name in sentence and len(sentence) < 5000 and error.exit_code == 64
        return "refused" if fine else f"not a sentence: {sentence[:300]!r}"
    except (Exception, RecursionError) as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    return "accepted"
