"""`electra new NAME --text FILES --task TRAIN DEV`: entries of params.yaml for text and tasks of one's own.

What the files show is taken from them; sizes follow from the amount of text. Everything else keeps its default, and
all of it can be edited afterwards.
"""

import io
import re
from collections.abc import Sequence
from typing import Any

from electra.config import nearest
from electra.errors import BadConfig
from electra.files import write_atomic
from pipelines.new import task, text
from pipelines.params import FILE, NAME, load
from pipelines.settings_file import read

WIDTH = 120  # characters of a line
Entries = dict[str, Any]  # section -> what NAME is there


def new(name: str, files: Sequence[str], rows: Sequence[str], columns: dict[str, str], encoder: str, model: str) -> str:
    """Add the entries and tell what to type next. params.yaml stays as it was if they would not be accepted.

    `encoder` is what is pre-trained on the text, `model` what is fine-tuned where there is none.
    """
    values = read(FILE)
    if not NAME.fullmatch(name):
        raise BadConfig("new", f"{name!r} cannot be a name", "letters, digits, _ and -")
    if encoder not in values["encoders"]:
        raise BadConfig(
            "--encoder",
            f"is {encoder}",
            f"one of {', '.join(values['encoders'])}",
            nearest(encoder, values["encoders"]),
        )
    entries: Entries = {}
    if files:
        entries |= text.entries(name, files, encoder)
    if rows:
        entries |= task.entries(name, rows, columns, model=name if files else model)
    if not entries:
        raise BadConfig(
            "new", "has neither --text nor --task", "files of yours", "electra new mine --text 'data/*.jsonl'"
        )
    if taken := [f"{section}.{name}" for section in entries if name in values[section]]:
        raise BadConfig(FILE, f"has {taken[0]} already", "a new name")
    _add(name, entries)
    added = ", ".join(f"{section}.{name}" for section in entries)
    asked = [f"electra check {name}", *([f"electra estimate {name}"] if files else [])]
    steps = [*asked, f"dvc repro pipelines/dvc.yaml:{'glue' if rows else 'pretrain'}@{name}"]
    return "\n".join([f"{FILE} has {added} now. Next:", *(f"  {step}" for step in steps), ""])


def _add(name: str, entries: Entries) -> None:
    """Put the entries at the end of their sections; everything else, comments too, stays to the byte."""
    before = FILE.read_text(encoding="utf-8")
    lines = before.splitlines()
    for section, entry in entries.items():
        start = next(at for at, line in enumerate(lines) if re.match(rf"{section}\s*:", line))
        if "{" in lines[start]:
            raise BadConfig(FILE, f"has {section} on one line", "a section with an entry a line")
        end = next((at for at in range(start + 1, len(lines)) if re.match(r"\w", lines[at])), len(lines))
        while re.match(r"#|\s*$", lines[end - 1]):  # what stands between belongs to the next section
            end -= 1
        lines[end:end] = _written(name, entry)
    write_atomic(FILE, "\n".join([*lines, ""]))
    try:
        load()
    except BadConfig:
        write_atomic(FILE, before)
        raise


def _written(key: str, value: Any, indent: str = "  ") -> list[str]:
    """A key and its value as YAML: on one line if that is not too long, else a line for each key below."""
    from ruamel.yaml import YAML

    yaml, text = YAML(typ="safe"), io.StringIO()
    yaml.default_flow_style, yaml.width = True, 10_000
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # which its annotation does not know
    yaml.dump({key: value}, text)
    line = indent + text.getvalue().strip()[1:-1]
    if len(line) <= WIDTH or not isinstance(value, dict):
        return [line]
    below = [part for inner, each in value.items() for part in _written(inner, each, f"{indent}  ")]
    return [f"{indent}{key}:", *below]
