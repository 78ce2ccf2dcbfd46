"""params.yaml as it should not be: a file with every kind of section, damaged in its values and its
bytes.
"""

import copy
import functools
import json

from hypothesis import strategies as st

from electra.config import to_jsonable
from electra.errors import UserError
from pipelines.config.params import load
from pipelines.config.settings_file import read
from tests.support.project import ROOT

# values that JSON does not have
YAML_ALONE = r"""
.nan
-.inf
~
1_000
0o17
1:30
2001-01-01
2001-99-99
!!binary eA==
!!set {a, b}
!!bool x
!!int x
!!python/name:os.system x
!unknown x
*a
"\0"
"\x1b[2J"
"\uD800"
{? [a] : b}
{<<: {a: -1}}
""".split("\n")
YAML_ALONE += ["0x" + "f" * 5000, "9" * 5000]
KEYS = ["1", "~", "true", "2001-01-01", "1.5", "<<", "? [a]", '""', '"a.b"', '"a\\nb"', "k" * 2000]
BYTES = [
    text.encode("utf-8", "surrogatepass")
    for text in "\x00 \ufeff &a *a { } [ ] : - ' \" # !!str ? \u2028 \ud800".split(" ")
]
BYTES += [b"\xff", b"\t", b"\r", b"\n---\n", b"%YAML 9.9\n", b"|\n"]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
SECRET = "s3://me:s3cret@host/a?sig=s3cret"
RAW = "raw:"  # such a string or key is written without its quotes
VALUES = (
    JSON
    | st.sampled_from(YAML_ALONE).map(RAW.__add__)
    | st.sampled_from(["mlm", "tiny", "../up", "y" * 100_000, ["cola", "cola"], 10**40])
    | st.sampled_from([{"kind": "custom"}, {"flops": -1}, [*map(str, range(2_000))]])
    # as a grid, ten million arms
    | st.just({f"pretrain.{axis}": [*range(10)] for axis in range(7)})
).map(copy.deepcopy)  # which further damage may change


@functools.cache
def whole():
    """A part of the shipped file that loads quickly and has every kind of section, as JSON."""
    values = read(ROOT / "params.yaml")
    shorter = {"models": ("tiny", "small"), "finetunings": ("tiny", "small", "electra-small")}
    for section, names in {**shorter, "ablations": ("training", "efficiency")}.items():
        values[section] = {name: values[section][name] for name in names}
    values["run"]["ablations"] = ["training"]
    topics = {"train": "a", "dev": "b", "labels": ["x", "y"]}
    values["tasks"]["mine"] = {"kind": "custom", "tasks": {"topics": topics}}
    sources = [{"kind": "sample", "weight": 2.0}, {"kind": "local", "files": ["a"], "weight": 1.0}]
    values["corpora"]["mixed"] = {"sources": sources}
    return json.dumps(values)


def places(value):
    """Every (section or list, key or index)."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


def written(values):
    """Values as YAML, which JSON is; raw strings as they are."""
    text = json.dumps(values, indent=1, default=str)
    for raw in (*YAML_ALONE, *KEYS):
        text = text.replace(json.dumps(RAW + raw), raw)
    return text


@st.composite
def damaged(draw):
    """The bytes of a file."""
    values = json.loads(whole())
    for _ in range(draw(st.integers(0, 3))):
        found = list(places(values))
        holder, key = found[draw(st.integers(0, len(found) - 1))]
        how = draw(st.sampled_from(["delete", "replace", "rename", "secret"]))
        if how == "rename" and isinstance(holder, dict):
            name = draw(st.sampled_from([RAW + each for each in KEYS]) | st.text(max_size=6))
            holder[name] = holder.pop(key)
        elif how == "delete":
            del holder[key]
        elif how == "secret":
            holder[key] = SECRET
        else:
            holder[key] = draw(VALUES)
    others = ["utf-16", "utf-32", "utf-16-le", "utf-8-sig", "cp500"]
    encoding = draw(st.sampled_from(["utf-8"] * 9 + others))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    content = written(values).replace("\n", end).encode(encoding, "replace")
    if draw(st.booleans()):
        return content
    first = draw(st.integers(0, len(content)))
    last = draw(st.sampled_from([first, first + 1, first + 50, len(content)]))
    return content[:first] + draw(st.sampled_from(BYTES) | st.binary(max_size=2)) + content[last:]


def outcome(path):
    """Return the outcome of a file: `accepted`, `refused` in a sentence, or the fault."""
    try:
        printed = json.dumps(to_jsonable(load(path)), ensure_ascii=False)  # as `params` does it
        printed.encode()
    except UserError as error:
        sentence = str(error)
        leaks = SECRET.encode() in path.read_bytes() and "s3cret" in sentence
        is_line = "\n" not in sentence and len(sentence) < 5000 and path.name in sentence
        fine = is_line and error.exit_code == 64 and not leaks
        return "refused" if fine else f"not a sentence: {sentence[:300]!r}"
    except (Exception, RecursionError) as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    return f"takes a secret: {printed[:300]}" if SECRET in printed else "accepted"
