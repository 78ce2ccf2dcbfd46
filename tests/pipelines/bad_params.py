"""params.yaml as it should not be: a file with every kind of section, damaged in its values and its
bytes.
"""

import copy
import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from ruamel.yaml import YAML

from electra.config import plain
from electra.errors import UserError
from pipelines.config.params import load
from tests.conftest import ROOT

YAML_ALONE = [  # what JSON cannot say
    *(
        ".nan",
        "-.inf",
        "~",
        "1_000",
        "0o17",
        "1:30",
        "0x" + "f" * 5000,
        "9" * 5000,
        "2001-01-01",
        "2001-99-99",
    ),
    *(
        "!!binary eA==",
        "!!set {a, b}",
        "!!bool x",
        "!!int x",
        "!!python/name:os.system x",
        "!unknown x",
        "*a",
    ),
    *('"\\0"', '"\\x1b[2J"', '"\\uD800"', "{? [a] : b}", "{<<: {a: -1}}"),
]
KEYS = ["1", "~", "true", "2001-01-01", "1.5", "<<", "? [a]", '""', '"a.b"', '"a\\nb"', "k" * 2000]
BYTES = [
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
]
BYTES += [
    b": ",
    b"- ",
    b"'",
    b'"',
    b"|\n",
    b"#",
    b"!!str ",
    b"? ",
    b"\r",
    b"\xe2\x80\xa8",
    b"\xed\xa0\x80",
]

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=4,
)
SECRET = "s3://me:s3cret@host/a?sig=s3cret"
RAW = "raw:"  # such a string or key is written without its quotes
VALUES = (
    JSON
    | st.sampled_from(YAML_ALONE).map(RAW.__add__)
    | st.sampled_from(
        [
            10**40,
            "mlm",
            "tiny",
            "../up",
            "y" * 100_000,
            ["cola", "cola"],
            {"kind": "custom"},
            {"flops": -1},
        ]
    )
    | st.just([*map(str, range(2_000))])
    # as a grid, ten million arms
    | st.just({f"pretrain.{axis}": [*range(10)] for axis in range(7)})
).map(copy.deepcopy)  # which further damage may change


@functools.cache
def whole() -> str:
    """A part of the shipped file that loads quickly and has every kind of section, as JSON."""
    values: dict[str, Any] = YAML(typ="safe").load(
        (ROOT / "params.yaml").read_text(encoding="utf-8")
    )
    shorter = {"models": ("tiny", "small"), "finetunings": ("tiny", "small", "electra-small")}
    for section, names in {**shorter, "ablations": ("training", "efficiency")}.items():
        values[section] = {name: values[section][name] for name in names}
    values["run"]["ablations"] = ["training"]
    values["tasks"]["mine"] = {
        "kind": "custom",
        "tasks": {"topics": {"train": "a", "dev": "b", "labels": ["x", "y"]}},
    }
    sources = [{"kind": "sample", "weight": 2.0}, {"kind": "local", "files": ["a"], "weight": 1.0}]
    values["corpora"]["mixed"] = {"sources": sources}
    return json.dumps(values)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (section or list, key or index)."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        yield value, key
        yield from places(inner)


def written(values: Any) -> str:
    """Values as YAML, which JSON is; raw strings as they are."""
    text = json.dumps(values, indent=1, default=str)
    for raw in (*YAML_ALONE, *KEYS):
        text = text.replace(json.dumps(RAW + raw), raw)
    return text


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """The bytes of a file."""
    values = json.loads(whole())
    for _ in range(draw(st.integers(0, 3))):
        found = list(places(values))
        holder, key = found[draw(st.integers(0, len(found) - 1))]
        how = draw(st.sampled_from(["delete", "replace", "wrap", "copy", "rename", "secret"]))
        if how == "rename" and isinstance(holder, dict):
            name = draw(st.sampled_from([RAW + each for each in KEYS]) | st.text(max_size=6))
            holder[name] = holder.pop(key)
        elif how == "delete":
            del holder[key]
        elif how == "secret":
            holder[key] = SECRET
        elif how == "wrap":
            holder[key] = draw(
                st.sampled_from([[holder[key]], {"a": holder[key]}, str(holder[key])])
            )
        elif how == "copy":
            other, name = found[draw(st.integers(0, len(found) - 1))]
            holder[key] = json.loads(
                json.dumps(other.get(name) if isinstance(other, dict) else other)
            )
        else:
            holder[key] = draw(VALUES)
    encoding = draw(
        st.sampled_from(["utf-8"] * 9 + ["utf-16", "utf-32", "utf-16-le", "utf-8-sig", "cp500"])
    )
    end = draw(st.sampled_from(["\n", "\r\n"]))
    content = written(values).replace("\n", end).encode(encoding, "replace")
    if draw(st.booleans()):
        return content
    first = draw(st.integers(0, len(content)))
    last = draw(st.sampled_from([first, first + 1, first + 50, len(content)]))
    return content[:first] + draw(st.sampled_from(BYTES) | st.binary(max_size=2)) + content[last:]


def outcome(path: Path) -> str:
    """What becomes of a file: `accepted`, `refused` in a sentence, or what went wrong."""
    try:
        printed = json.dumps(plain(load(path)), ensure_ascii=False)  # as `params` does it
        printed.encode()
    except UserError as error:
        sentence = str(error)
        fine = (
            "\n" not in sentence
            and path.name in sentence
            and len(sentence) < 5000
            and error.exit_code == 64
        )
        fine = fine and not (SECRET.encode() in path.read_bytes() and "s3cret" in sentence)
        return "refused" if fine else f"not a sentence: {sentence[:300]!r}"
    except (Exception, RecursionError) as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    return f"takes a secret: {printed[:300]}" if SECRET in printed else "accepted"
