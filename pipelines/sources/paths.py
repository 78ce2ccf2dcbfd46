"""Find the files that a source's patterns name, and patterns that name given files."""

import glob
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from electra.errors import BadInput, SourceUnreachable, UserError
from electra.files import encodes
from pipelines.sources.streams import COMPRESSIONS, plain_suffix


def find_files(patterns: tuple[str, ...], where: str) -> list[Path]:
    """Return the files that the patterns name, each once, in the order of the patterns and then of
    their names.

    A pattern is a path, a folder (all files under it, but hidden ones), or a glob with ** for
    folders of any depth. Files of a pattern with a `!` in front are left out, wherever in the list
    it is. Raises BadInput for a URL and for anything but a regular file, SourceUnreachable for a
    link to nothing and a folder that cannot be read: no text is lost in silence.
    """
    by_place: dict[tuple[Path, str], Path] = {}
    for pattern in patterns:
        if pattern.startswith("!"):
            continue
        if "://" in pattern:
            raise BadInput(
                f"{where}: {pattern} is a URL; bring it here with `dvc import-url` "
                "(docs/corpora.md)"
            )
        try:
            files: list[Path] = []
            for match in sorted(_matches(pattern)):
                files += _files_of(match, where)
        except OSError as error:
            raise SourceUnreachable(
                f"{where}: {error.filename} cannot be read ({error.strerror}); "
                "make it readable, or name other files"
            ) from None
        if not files:
            _refuse(pattern, where)
        folders = {folder: folder.resolve() for folder in {file.parent for file in files}}
        for file in files:  # once, even if several links lead to its folder
            by_place.setdefault((folders[file.parent], file.name), file)
    if without := tuple(pattern[1:] for pattern in patterns if pattern.startswith("!")):
        excluded = {(file.parent.resolve(), file.name) for file in find_files(without, where)}
        if by_place and by_place.keys() <= excluded:
            raise BadInput(
                f"{where}: {', '.join(map(repr, patterns))} leaves no file; change `files`"
            )
        by_place = {place: file for place, file in by_place.items() if place not in excluded}
    if strange := next((file for file in by_place.values() if not encodes(str(file))), None):
        raise BadInput(f"{where}: the name of {str(strange)!a} is not UTF-8; rename it")
    return list(by_place.values())


def _files_of(path: Path, where: str) -> list[Path]:
    """Return a file alone, or all files of a folder in the order of their names. Hidden ones are
    left out.
    """
    files = [path]
    if path.is_dir():
        files = []
        for folder, _, names in os.walk(path, onerror=_raise):
            files += [Path(folder) / name for name in names]
        files.sort()
    files = [file for file in files if not file.name.startswith(".")]
    for file in files:
        if not file.is_dir():  # links to folders are not followed
            require_file(file, where)
    return [file for file in files if file.is_file()]


def require_file(file: Path, where: str = "") -> None:
    """Raise SourceUnreachable for a link to nothing, BadInput for a folder, device or pipe."""
    prefix = f"{where}: " if where else ""
    if not file.exists():
        raise SourceUnreachable(
            f"{prefix}{file} is a link to nothing; fetch its file, or remove the link"
        )
    if not file.is_file():
        raise BadInput(f"{prefix}{file} isn't a regular file; name the files to read in `files`")


def _raise(error: OSError) -> NoReturn:
    raise error


def _refuse(pattern: str, where: str) -> NoReturn:
    fault = f"no file matches {pattern!r}"
    do = "put the files there or change `files`"
    folder = re.split(r"[*?\[]", pattern)[0].rpartition("/")[0]
    if ".dvc" in Path.cwd().parts:
        why = "`dvc exp run --temp` and `--queue` copy only what git and DVC track"
        do = "run the experiment without them, or name the files by absolute paths"
        raise SourceUnreachable(f"{where}: {fault}: {why}; {do}")
    if folder and not Path(folder).is_dir():
        raise SourceUnreachable(f"{where}: {fault}: its folder is not there; {do}")
    raise BadInput(f"{where}: {fault}; {do}")


def _matches(pattern: str) -> set[Path]:
    """Return the matches of a glob. `**` follows links to folders, but enters no folder twice, so
    that loops of links end.
    """
    parts = Path(pattern).parts
    place = parts.index("**") if "**" in parts else len(parts)
    for number in range(1, place):  # `glob` itself skips folders that it may not read
        if not glob.has_magic(parts[number]):
            continue
        for folder in glob.glob(str(Path(*parts[:number]))):  # noqa: PTH207
            if Path(folder).is_dir():
                os.scandir(folder).close()
    matches = set(map(Path, glob.glob(str(Path(*parts[:place])))))  # noqa: PTH207 (absolute patterns too)
    if place == len(parts):
        return matches
    entered: dict[tuple[int, int], Path] = {}
    for base in sorted(matches):
        for folder, names, _ in os.walk(base, onerror=_raise, followlinks=True):
            status = Path(folder).stat()
            if entered.setdefault((status.st_dev, status.st_ino), Path(folder)) != Path(folder):
                names.clear()
            visible = sorted(name for name in names if name[0] != ".")
            # folders by their own name
            names[:] = sorted(visible, key=lambda name: (Path(folder) / name).is_symlink())
    rest = parts[place + 1 :]
    inside = (str(Path(glob.escape(str(folder)), *rest)) for folder in entered.values())
    return set().union(*map(_matches, inside))


def require_folder(folder: Path, where: str) -> Path:
    """Return the folder, if it exists."""
    if not folder.is_dir():
        raise SourceUnreachable(
            f"{where}: there is no folder {folder}; put the files there or change the path"
        )
    return folder


def make_patterns(paths: list[Path]) -> list[str]:
    """Return patterns for `files` that name just these files: a glob where that is all of a suffix,
    the names of others.
    """
    patterns = []
    suffixes: dict[str, list[Path]] = {}
    for path in paths:
        suffix = (
            f"{plain_suffix(path)}{path.suffix}" if path.suffix in COMPRESSIONS else path.suffix
        )
        suffixes.setdefault(suffix, []).append(path)
    for suffix, group in suffixes.items():
        folders = {path.parent for path in group}
        shared = set.intersection(*({folder, *folder.parents} for folder in folders))
        folder = max(shared - {Path(), Path("/")} or folders, key=lambda folder: len(folder.parts))
        pattern = f"{glob.escape(str(folder))}/{'**/' * (len(folders) > 1)}*{glob.escape(suffix)}"
        alone = len(group) > 1 and set(find_files((pattern,), "files")) == set(group)
        patterns += [pattern] if alone else [glob.escape(str(path)) for path in group]
    return patterns


def unreadable(refused: Mapping[Path, UserError], where: str) -> UserError:
    """Return one error for all files that a corpus cannot read. It says how to leave them out."""
    names = ", ".join(repr(f"!{pattern}") for pattern in make_patterns(list(refused)))
    errors = list(refused.values())
    if len(errors) == 1:
        return type(errors[0])(f"{errors[0]}; or add {names} to `files` to leave it out")
    # a long list is cut between files
    sentences = ", ".join(str(error).replace(", ", ",") for error in errors)
    fault = f"{len(errors):,} files cannot be read: {sentences}"
    return BadInput(f"{where}: {fault}; add {names} to `files` to leave them out")
