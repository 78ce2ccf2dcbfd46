"""A YAML file to plain values: the same YAML that DVC reads, without dates, bytes and other values
that JSON lacks.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from electra.errors import BadConfig, for_message, hidden, shown


def read(path: Path) -> Mapping[str, Any]:
    """The sections of a YAML file; BadConfig names the line or key that is wrong."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        values = YAML(typ="safe").load(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise BadConfig(
            f"{path}: there is no such file; run this in the project's folder"
        ) from None
    except OSError as error:
        raise BadConfig(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise BadConfig(f"{path}: is not UTF-8 ({error.reason} at byte {error.start:,})") from None
    except MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise BadConfig(f"{path}{line}: is not YAML ({one_line(error.problem)})") from None
    # as of the date `2001-99-99`
    except (YAMLError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise BadConfig(f"{path}: holds an invalid value ({one_line(error)})") from None
    if not isinstance(values, dict):
        raise BadConfig(f"{path}: should hold sections of keys and values")
    require_plain(values, f"{path}: ")
    return values


def require_plain(value: Any, where: str, dot: str = "") -> None:
    """Refuse what is no setting: dates, bytes, sets, and URLs with credentials, which would go into
    records.
    """
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(value, dict) and not isinstance(key, str):
                raise BadConfig(
                    f"{where}: has the key {shown(key)}, which is not text; put it in quotes"
                )
            require_plain(key, where)
            require_plain(inner, f"{where}{dot}{key}", ".")
    elif not isinstance(value, str | int | float | None):
        raise BadConfig(f"{where}: holds {shown(value)}; put text in quotes")
    elif isinstance(value, str) and "://" in value and hidden(value) != value:
        do = "settings hold no login; `dvc import-url` brings a file here (docs/corpora.md, Behind a URL)"
        raise BadConfig(f"{where}: holds the URL {shown(hidden(value))}; {do}")


def one_line(text: object) -> str:
    """A text as part of a sentence: without line breaks, at most 1,000 characters."""
    words = for_message(" ".join(str(text).split()))
    return words if len(words) <= 1000 else f"{words[:1000]}..."
