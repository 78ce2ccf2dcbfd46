"""A YAML file to plain values: the same YAML that DVC reads, without dates, bytes and other values that JSON lacks."""

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
        raise BadConfig(path, "there is no such file", "a YAML file", "run in the project's folder") from None
    except OSError as error:
        raise BadConfig(path, f"cannot be read ({error.strerror})", "a file") from None
    except UnicodeDecodeError as error:
        raise BadConfig(path, f"is not UTF-8 ({error.reason} at byte {error.start})", "UTF-8 text") from None
    except MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise BadConfig(f"{path}{line}", one_line(error.problem), "YAML") from None
    except (YAMLError, LookupError, TypeError, ValueError, RecursionError) as error:  # as of the date `2001-99-99`
        raise BadConfig(path, f"holds an invalid value ({one_line(error)})", "YAML") from None
    if not isinstance(values, dict):
        raise BadConfig(path, "holds no mapping", "sections of keys and values")
    require_plain(values, f"{path}: ")
    return values


def require_plain(value: Any, where: str, dot: str = "") -> None:
    """Refuse what is no setting: dates, bytes, sets, and URLs with credentials, which would go into records."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            require_plain(key, where)
            require_plain(inner, f"{where}{dot}{key}", ".")
    elif not isinstance(value, str | int | float | None):
        raise BadConfig(where, f"holds {shown(value)}", "numbers, text, lists and sections", "put text in quotes")
    elif isinstance(value, str) and "://" in value and hidden(value) != value:
        do = "give credentials to the environment: AWS_ACCESS_KEY_ID, FSSPEC_HTTPS (docs/corpora.md, Behind a URL)"
        raise BadConfig(where, f"holds {shown(hidden(value))}", "a URL without a login and without `?name=value`", do)


def one_line(text: object) -> str:
    """A text as part of a sentence: without line breaks, at most 1,000 characters."""
    words = for_message(" ".join(str(text).split()))
    return words if len(words) <= 1000 else f"{words[:1000]}..."
