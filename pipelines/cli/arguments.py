"""Arguments that several commands have: names of entries in params.yaml, and settings."""

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from pipelines.config.params import Params

ANY = ("models", "ablations", "published", "finetunings")


def entry(*sections: str) -> Any:
    """Return an argument that names an entry in one of these sections of params.yaml. Shells
    complete it.
    """

    def complete(incomplete: str) -> list[str]:
        return [name for name in names(sections) if name.startswith(incomplete)]

    where = ", ".join(sections)
    return typer.Argument(help=f"a name under {where}", show_default=False, autocompletion=complete)


def names(sections: tuple[str, ...]) -> list[str]:
    """Return the names in some sections of ./params.yaml. None where it cannot be read."""
    from pipelines.config.settings_file import read

    try:
        values = read(Path("params.yaml"))
    except Exception:  # a shell waits for words, not for an explanation
        return []
    return list(itertools.chain.from_iterable(values.get(section) or {} for section in sections))


def load_params() -> "Params":
    """Read params.yaml of the working directory."""
    from pipelines.config.params import load

    return load()
