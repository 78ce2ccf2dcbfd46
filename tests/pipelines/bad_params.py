"""Generated bad params.yaml files: one with every kind of section, damaged in values or bytes, from a seed."""

import functools
import json
import random
import string
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


VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        -1,
        0,
        1,
        3,
        0.5,
        -0.0,
        1e300,
        -1e300,
        10**40,
        "",
        " ",
        "x",
        "-1",
        "mlm",
        "tiny",
        "../up",
        "é☃",
    ),
    *(
        [],
        {},
        [[]],
        {"": {}},
        {"kind": "local"},
        {"kind": "own", "tasks": {}},
        {"flops": -1},
        ["cola", "cola"],
        [1, "a"],
    ),
    *map(
        Raw, (".nan", ".inf", "-.inf", "~", "1e-4", "1_000", "0x" + "f" * 5000, "1" * 5000, "9" * 4000, "0o17", "1:30")
    ),
    *map(
        Raw, ("2001-01-01", "2001-99-99", "2001-12-14t21:59:43.10-05:00", "!!binary eA==", "!!set {a, b}", "!!bool x")
    ),
    *map(
        Raw, ("!!python/name:os.system x", "!!int x", "!unknown x", "*a", "&a [*a]", '"\\0"', '"\\x1b[2J"', '"\\uD800"')
    ),
    *(
        Raw("[" * 30 + "]" * 30),
        Raw("[" * 100_000),
        "y" * 100_000,
        "a\nb",
        Raw("{? [a] : b}"),
        Raw("{<<: {layers: -1}}"),
    ),
]
KEYS = [
    Raw(key)
    for key in ("1", "~", "true", "2001-01-01", "1.5", "<<", "? [a]", '""', '"a.b"', '"a\\nb"', "k" * 2000, "<")
]
PIECES = [
    b"\xff",
    b"\x00",
    b"\xef\xbb\xbf",
    b"\t",
    b"\n---\n",
    b"%YAML 9.9\n",
    b"&a ",
    b"*a",
    b"{",
    b"}",
    b"[",
    b"]",
    b": ",
    b"- ",
]
PIECES += [
    b"'",
    b'"',
    b"|\n",
    b">",
    b"#",
    b"!!str ",
    b"? ",
    b"\r",
    b"\xe2\x80\xa8",
    b"\xed\xa0\x80",
    b"[" * 50_000,
    b"- " * 20_000,
]


@functools.cache
def whole() -> str:
    """A part of the shipped file that loads quickly and has every kind of section, as JSON."""
    values: dict[str, Any] = YAML(typ="safe").load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    values["models"] = {name: values["models"][name] for name in ("tiny", "small")}
    values["finetunings"] = {name: values["finetunings"][name] for name in ("tiny", "small", "electra-small")}
    values["ablations"] = {name: values["ablations"][name] for name in ("training", "efficiency")}
    values["run"]["ablations"] = ["training"]
    values["tasks"]["mine"] = {"kind": "own", "tasks": {"topics": {"train": "a", "dev": "b", "labels": ["x", "y"]}}}
    values["corpora"]["mixed"] = {
        "sources": [{"kind": "sample", "weight": 2.0}, {"kind": "local", "files": ["a"], "weight": 1.0}]
    }
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
        pairs = [
            f"{key if isinstance(key, Raw) else json.dumps(key)}: {written(inner, depth + 1)}"
            for key, inner in value.items()
        ]
        indent = "\n" + "  " * depth
        return indent + indent.join(pairs) if depth < 2 and pairs else f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(written(inner, 9) for inner in value)}]"
    return value if isinstance(value, Raw) else json.dumps(value)


def damage_values(values: dict[str, Any], dice: random.Random) -> str:
    """Change one place of the file's values; returns what was done."""
    found = list(places(values))
    holder, key = dice.choice(found)
    kind = dice.choice(["delete", "value", "wrap", "copy", "rename", "add"])
    if kind == "delete":
        del holder[key]
    elif kind == "value":
        holder[key] = dice.choice(VALUES)
    elif kind == "wrap":
        holder[key] = dice.choice([[holder[key]], {"a": holder[key]}, str(holder[key]), [holder[key]] * 2])
    elif kind == "copy":
        other, name = dice.choice(found)
        holder[key] = json.loads(json.dumps(other[name], default=str))
    elif isinstance(holder, dict):
        name = dice.choice([*KEYS, "".join(dice.choices(string.printable, k=6)), f"{key}s", str(key)[1:]])
        holder[name] = holder.pop(key) if kind == "rename" else dice.choice(VALUES)
    return kind


def damage_bytes(content: bytes, dice: random.Random) -> tuple[bytes, str]:
    """Change some bytes of the file; returns what was done."""
    first, last = sorted(dice.randrange(len(content)) for _ in range(2))
    kind = dice.choice(["cut", "end", "insert", "flip", "repeat a line", "swap lines", "encoding"])
    if kind == "cut":
        return content[:first] + content[min(last, first + 50) :], kind
    if kind == "end":
        return content[:first], kind
    if kind == "insert":
        return content[:first] + dice.choice(PIECES) + content[first:], kind
    if kind == "flip":
        return content[:first] + bytes([content[first] ^ 1 << dice.randrange(8)]) + content[first + 1 :], kind
    if kind == "encoding":
        return content.decode().encode(dice.choice(["utf-16", "utf-32", "utf-16-le", "utf-8-sig", "cp500"])), kind
    lines = content.split(b"\n")
    one, two = dice.randrange(len(lines)), dice.randrange(len(lines))
    if kind == "swap lines":
        lines[one], lines[two] = lines[two], lines[one]
    else:
        lines.insert(two, lines[one])
    return b"\n".join(lines), kind


def generate(seed: int) -> tuple[bytes, str]:
    """One bad file, and how it was damaged."""
    dice = random.Random(seed)
    values = json.loads(whole())
    if dice.random() < 0.35:
        return damage_bytes(written(values).encode(), dice)
    kinds = [damage_values(values, dice) for _ in range(dice.choice([1, 1, 2, 4]))]
    return written(values).encode("utf-8", "surrogatepass"), kinds[0]


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
