"""A YAML file to plain values: the same YAML that DVC reads, without dates, bytes and other values
that JSON lacks.
"""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from electra.errors import BadConfig, for_message, mask_secrets, short_repr

MOST = 1_000_000  # values, aliases written out: 10,000 corpora have a tenth of that
DEEPEST = 100  # sections within sections


def read(path: Path) -> dict[str, Any]:
    """Return the sections of a YAML file; raise BadConfig with the line or key that is wrong."""
    try:
        if path.exists() and not path.is_file():
            raise BadConfig(f"{path}: isn't a regular file")  # a device or a pipe may never end
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise BadConfig(
            f"{path}: there is no such file; run this in the project's folder"
        ) from None
    except OSError as error:
        raise BadConfig(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise BadConfig(f"{path}: is not UTF-8 ({error.reason} at byte {error.start:,})") from None
    return parse(text, path)


def parse(text: str, path: Path) -> dict[str, Any]:
    """Return the sections of a YAML text that is, or will be, in a file."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    # YAML would end a comment there, and turn the first into a space within a value
    if match := re.search("[\x85\u2028\u2029]", text):
        number = text.count("\n", 0, match.start()) + 1
        do = f'remove it, or write "{match[0]!a}"'.replace("'", "")
        raise BadConfig(f"{path}:{number}: holds the line break U+{ord(match[0]):04X}; {do}")
    try:
        _require_shallow(text, path)
        values = YAML(typ="safe").load(text)
        if isinstance(values, dict):
            require_plain(values, str(path), itertools.count(), ": ")
    except BadConfig:
        raise
    except RecursionError:
        raise BadConfig(f"{path}: is nested too deeply") from None
    except MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise BadConfig(f"{path}{line}: is not YAML ({one_line(error.problem)})") from None
    # as of the date `2001-99-99`
    except (YAMLError, LookupError, TypeError, ValueError) as error:
        raise BadConfig(f"{path}: holds an invalid value ({one_line(error)})") from None
    if not isinstance(values, dict):
        raise BadConfig(f"{path}: should hold sections of keys and values")
    return values


def _require_shallow(text: str, path: Path) -> None:
    """Raise BadConfig before the YAML library's compiled code recurses so deep that the process
    dies.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent

    depth = 0
    for event in YAML(typ="safe").parse(text):
        depth += isinstance(event, CollectionStartEvent)
        depth -= isinstance(event, CollectionEndEvent)
        if depth > DEEPEST:
            raise BadConfig(f"{path}: is nested too deeply")


def require_plain(value: Any, where: str, count: Iterator[int], dot: str = "") -> None:
    """Raise BadConfig for values that cannot be settings: dates, bytes, sets, URLs with
    credentials, which would go into records, and more values than MOST, aliases written out.
    """
    if next(count) > MOST:
        raise BadConfig(f"{where}: has aliases that stand for more than {MOST:,} values")
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise BadConfig(
                    f"{where}: has the key {short_repr(key)}, which is not text; put it in quotes"
                )
            require_plain(key, where, count)
            require_plain(inner, f"{where}{dot}{key}", count, ".")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            require_plain(inner, f"{where}{dot}{number}", count, ".")
    elif not isinstance(value, str | int | float | None):
        raise BadConfig(f"{where}: holds {short_repr(value)}; put text in quotes")
    elif isinstance(value, str) and "://" in value and mask_secrets(value) != value:
        raise BadConfig(
            f"{where}: holds the URL {short_repr(mask_secrets(value))}; settings hold no login; "
            "`dvc import-url` brings a file here (docs/corpora.md, Behind a URL)"
        )


def one_line(text: object) -> str:
    """Return a text as part of a sentence: without line breaks, at most 1,000 characters."""
    words = for_message(" ".join(str(text).split()))
    return words if len(words) <= 1000 else f"{words[:1000]}..."
