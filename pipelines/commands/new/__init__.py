"""`electra new NAME --text FILES --task TRAIN DEV`: entries of params.yaml for the user's own text and tasks.

Formats, columns and labels are inferred from the files, sizes from the amount of text. Everything else keeps its
default, and all of it can be edited afterwards.
"""

import re
from collections.abc import Sequence
from typing import Any

from electra.config import nearest
from electra.errors import BadConfig
from electra.files import write_atomic
from pipelines.commands.new import task, text
from pipelines.config.params import FILE, NAME, load
from pipelines.config.settings_file import read

SHORT = 80  # characters
Entries = dict[str, Any]  # section -> what NAME is there


def new(name: str, files: Sequence[str], rows: Sequence[str], columns: dict[str, str], encoder: str, model: str) -> str:
    """Add the entries and return the commands to run next. params.yaml is restored if they are not accepted.

    `encoder` is what is pre-trained on the text, `model` what is fine-tuned where there is none.
    """
    values = read(FILE)
    if not NAME.fullmatch(name):
        raise BadConfig("new", f"{name!r} cannot be a name", "letters, digits, _ and -")
    if encoder not in (encoders := values["encoders"]):
        raise BadConfig("--encoder", f"is {encoder}", f"one of {', '.join(encoders)}", nearest(encoder, encoders))
    entries: Entries = {}
    if files:
        entries |= text.entries(name, files, encoder)
    if rows:
        entries |= task.entries(name, rows, columns, model=name if files else model)
    if not entries:
        do = "electra new mine --text 'data/*.jsonl'"
        raise BadConfig("new", "has neither --text nor --task", "files of yours", do)
    if taken := [f"{section}.{name}" for section in entries if name in values.get(section, ())]:
        raise BadConfig(FILE, f"has {taken[0]} already", "a new name")
    _add(name, entries)
    added = ", ".join(f"{section}.{name}" for section in entries)
    asked = [f"electra check {name}", *([f"electra estimate {name}"] if files else [])]
    steps = [*asked, f"dvc repro pipelines/dvc.yaml:{'glue' if rows else 'pretrain'}@{name}"]
    return "\n".join([f"{FILE} has {added} now. Next:", *(f"  {step}" for step in steps), ""])


def _add(name: str, entries: Entries) -> None:
    """Append the entries to their sections; every other byte, comments too, is unchanged."""
    before = FILE.read_text(encoding="utf-8")
    lines = before.splitlines()
    for section, entry in entries.items():
        if not any(re.match(rf"{section}\s*:", line) for line in lines):
            lines += ["", f"{section}:"]
        start = next(at for at, line in enumerate(lines) if re.match(rf"{section}\s*:", line))
        if "{" in lines[start]:
            raise BadConfig(FILE, f"has {section} on one line", "a section with an entry a line")
        end = next((at for at in range(start + 1, len(lines)) if re.match(r"\w", lines[at])), len(lines))
        while re.match(r"#|\s*$", lines[end - 1]):  # a comment before a section belongs to it
            end -= 1
        lines[end:end] = _written(name, entry)
    write_atomic(FILE, "\n".join([*lines, ""]))
    try:
        load()
    except BadConfig:
        write_atomic(FILE, before)
        raise


def _written(name: str, entry: dict[str, Any]) -> list[str]:
    """An entry's lines in DVC's own format: innermost sections in braces, and the whole entry if it is short."""
    from dvc.utils.serialize import dumps_yaml
    from ruamel.yaml.comments import CommentedMap

    def styled(values: dict[str, Any]) -> Any:
        section = CommentedMap({key: styled(each) if isinstance(each, dict) else each for key, each in values.items()})
        if len(str(values)) < SHORT or not any(isinstance(each, dict) for each in values.values()):
            section.fa.set_flow_style()
        return section

    text: str = dumps_yaml({"section": {name: styled(entry)}})
    return text.splitlines()[1:]
