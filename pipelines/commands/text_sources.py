"""The sources that `electra new --text` writes: one for each kind of file, with the settings that its rows show."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from electra.config import build
from electra.errors import BadConfig, BadInput, UserError, for_message
from pipelines.sources import LocalCorpus, local, own, preview
from pipelines.sources.paths import patterns_of, unreadable
from pipelines.sources.streams import LeftOut, Piece
from pipelines.text.cleaning import Document, QuarantineConfig, Rejected

Kind = tuple[tuple[str, str], ...]  # `format`, and the settings that read it
NAMES = {"jsonl": "json"}  # of sources, where the format has another


def inferred(files: Sequence[str], paths: list[Path]) -> tuple[dict[str, Any], bool, str]:
    """The sources by name, whether any holds HTML, and a sentence on the files that are left out."""
    kinds, bad = _kinds(paths)
    if not kinds:
        raise unreadable(bad, "--text") if bad else BadInput("--text", "names empty files", "text")
    sources: dict[str, Any] = {}
    markup = False
    for kind, group in kinds.items():
        settings = dict(kind)
        format_ = settings.pop("format")
        name = re.sub(r"[^\w-]", "_", "-".join([NAMES.get(format_, format_), *settings.values()]))
        name = "text" if len(kinds) == 1 else name + "-" * (name in sources)
        delivered = format_ if format_ in local.DELIVERED else "local"
        sources[name] = {"kind": delivered, "files": _patterns(files, group, paths), **settings}
        for key, value, _ in preview.hints(build(LocalCorpus, sources[name], "--text"), group, markup=False):
            if key == "markup":
                markup = True
            else:
                sources[name][key] = value
    left_out = ", ".join(f"{error.where}: {error.found}" for error in bad)
    return sources, markup, for_message(left_out and f"left out: {left_out}")


def _patterns(files: Sequence[str], group: list[Path], paths: list[Path]) -> list[str]:
    """`files` as given, if all of them are in the group, else patterns that name just those."""
    if len(group) == len(paths):
        return list(files)
    own_files = set(group)
    others = patterns_of([path for path in paths if path not in own_files])
    return min(patterns_of(group), [*files, *(f"!{each}" for each in others)], key=len)


def _kinds(paths: list[Path]) -> tuple[dict[Kind, list[Path]], list[UserError]]:
    """The files that can be read, by kind, and what is wrong with the others."""
    kinds: dict[Kind, list[Path]] = {}
    empty, bad = list[Path](), list[UserError]()
    for path in paths:
        try:
            kind, found = _read(path)
            error: UserError | None = preview.poor(found, path)
        except BadConfig:  # a package is missing
            raise
        except UserError as refused:
            bad.append(refused)
            continue
        few = sum(isinstance(item, Rejected) for item in found) <= QuarantineConfig().handful
        if error and not (few and any(isinstance(item, Document) for item in found)):
            bad.append(error)
        elif found:
            kinds.setdefault(kind, []).append(path)
        else:
            empty.append(path)
    if kinds:  # an empty file is of any kind
        kinds[max(kinds, key=lambda kind: len(kinds[kind]))] += empty
    return kinds, bad


def _read(path: Path) -> tuple[Kind, list[local.Item | LeftOut]]:
    """The kind of a file, and its first rows as that kind."""
    settings = {"format": local.guess_format(path)}
    source: LocalCorpus = build(LocalCorpus, {"kind": "local", "files": [str(path)], **settings}, "--text")
    if settings["format"] not in {"parquet", *local.DELIVERED} and (encoding := preview.other_encoding(path)[0]):
        settings["encoding"] = encoding
        source = replace(source, encoding=encoding)
    if settings["format"] in {"jsonl", "parquet"}:
        sizes: Counter[str] = Counter()
        for row in islice(_fields(path, source), preview.ROWS):
            sizes.update({key: len(value) for key, value in row.items() if isinstance(value, str)})
        if sizes and "text" not in sizes:
            settings["text"] = max(sizes, key=sizes.__getitem__)
            source = replace(source, text=settings["text"])
    return tuple(settings.items()), list(islice(preview.first_rows(path, source), preview.ROWS))


def _fields(path: Path, source: LocalCorpus) -> Iterator[dict[str, Any]]:
    """The rows of a file with all of their fields."""
    if source.format == "parquet":
        rows = own.parquet(path)
    else:
        rows = own.jsonl(local.decoded_lines(Piece(path), source.encoding), path)
    return (row for _, row in rows if isinstance(row, dict))
