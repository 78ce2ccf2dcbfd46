"""A YAML file to plain values: the YAML that DVC reads, and no more than a user would write."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from electra.errors import BadConfig, shown


def read(path: Path) -> Mapping[str, Any]:
    """The plain values of a YAML file."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        text = path.read_text(encoding="utf-8-sig")
        _require_plain(text, path)
        values = YAML(typ="safe").load(text)
    except FileNotFoundError:
        raise BadConfig(path, "there is no such file", "a YAML file", "run in the project's folder") from None
    except OSError as error:
        raise BadConfig(path, f"cannot be read ({error.strerror})", "a file") from None
    except UnicodeDecodeError as error:
        raise BadConfig(path, f"is not UTF-8 ({error.reason} at byte {error.start})", "UTF-8 text") from None
    except MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise BadConfig(f"{path}{line}", one_line(error.problem), "YAML") from None
    except YAMLError as error:
        raise BadConfig(path, one_line(error), "YAML") from None
    except (LookupError, TypeError, ValueError) as error:  # `2001-99-99`, a number of 5,000 digits, `!!bool perhaps`
        raise BadConfig(path, f"holds a value that is none of its kind ({one_line(error)})", "YAML") from None
    if not isinstance(values, dict):
        raise BadConfig(path, "holds no mapping", "sections of keys and values")
    _require_json(values, str(path), ": ")
    return values


DEEPEST, MOST = 20, 100_000  # levels of sections and lists; values, aliases written out
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _require_plain(text: str, path: Path) -> None:
    """Refuse what would end the process or go wrong much later, before values are built of it.

    Brackets by the thousand overflow the stack of the parser, aliases of aliases stand for more values than memory
    holds, and no path or name may hold a control character.
    """
    from ruamel.yaml import YAML, events

    count, opened, sizes = 0, list[tuple[str | None, int]](), dict[str | None, int]()
    for event in YAML(typ="safe").parse(text):
        where = f"{path}:{event.start_mark.line + 1}"
        if isinstance(event, events.CollectionStartEvent):
            opened.append((event.anchor, count))
        elif isinstance(event, events.CollectionEndEvent):
            anchor, before = opened.pop()
            sizes[anchor] = count - before
        elif isinstance(event, events.ScalarEvent) and _CONTROLS.search(event.value):
            raise BadConfig(where, f"{shown(event.value)} holds a control character", "text")
        elif isinstance(event, events.AliasEvent) and event.anchor in {anchor for anchor, _ in opened}:
            raise BadConfig(where, f"repeats &{one_line(event.anchor)} within itself", "values written out")
        count += sizes.get(event.anchor, 1) if isinstance(event, events.AliasEvent) else 1
        if len(opened) > DEEPEST or count > MOST:
            deep, many = f"is more than {DEEPEST} levels deep", f"makes more than {MOST:,} values"
            raise BadConfig(where, deep if len(opened) > DEEPEST else many, "sections of keys and values")


def _require_json(value: Any, where: str, dot: str = ".") -> None:
    """Refuse what no setting is and JSON does not hold: dates, bytes, and numbers that Python itself does not write."""
    if isinstance(value, dict):
        _require_json(list(value), where)
        for key, inner in value.items():
            _require_json(inner, f"{where}{dot}{key}")
    elif isinstance(value, list):
        for inner in value:
            _require_json(inner, where)
    elif isinstance(value, int) and value.bit_length() > 64:
        raise BadConfig(where, f"holds {shown(value)}", "whole numbers of at most 64 bits", "write others as 1e30")
    elif not isinstance(value, str | int | float | None):
        raise BadConfig(where, f"holds {shown(value)}", "numbers, text, lists and sections", "put text in quotes")


def one_line(text: object) -> str:
    """Words for a sentence: without line breaks, and not without end."""
    words = " ".join(str(text).split())
    return words if len(words) <= 1000 else f"{words[:1000]}..."
