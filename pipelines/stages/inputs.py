"""inputs: the hashes of all files that params.yaml names as own data → build/inputs/<section>/<name>.json.

DVC cannot look into globs, nor depend on files that only some entries have. So it runs this first, every time, and what
reads own files depends on its entry here. A file is hashed again only when its size, times or inode are others
than then (runs/inputs.json), so it takes a second. A file that is not there has no hash; the stage that needs it
will say so. What URLs name is asked for its sizes and marks of versions, and not read; where the server is out of
reach, those of before stand.
"""

import itertools
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from electra.data.tokenizer import VocabTokenizer
from electra.errors import UserError
from electra.files import sha256_file, write_json
from electra.storage.manifest import read_notes, write_sealed
from pipelines.config.params import Params
from pipelines.runtime.remote_files import is_url, listing
from pipelines.sources import LocalCorpus, LocalTasks, OwnTasks, glue, local, squad

FOLDER = Path("build/inputs")
NOTES = Path("runs/inputs.json")
LARGE = 1 << 30  # bytes to hash: then it is said why it takes a while


def survey(params: Params) -> None:
    """Write the hashes of every entry's files, and what its URLs name."""
    before = read_notes(NOTES)
    known = before.get("files", {})
    named = {(section, name): found for section, name, found in entries(params)}
    urls = _listings({each for found in named.values() for each in found if is_url(each)}, before.get("urls", {}))
    stamps = {each: _stamp(Path(each)) for found in named.values() for each in found if not is_url(each)}
    fresh = [path for path, stamp in stamps.items() if stamp and known.get(path, [None])[0] != stamp]
    if (size := sum(stamps[path][0] for path in fresh)) > LARGE:
        print(f"inputs: {len(fresh):,} files of {size / 1e9:,.1f} GB are new and hashed once", file=sys.stderr)
    notes = {path: [stamp, None if path in fresh else known[path][1]] for path, stamp in stamps.items() if stamp}
    for path in fresh:
        notes[path][1] = sha256_file(Path(path))
    for (section, name), found in named.items():
        hashes = {each: notes[each][1] for each in found if each in notes}
        facts = [[each, urls.get(each)] if is_url(each) else [Path(each).name, hashes.get(each)] for each in found]
        write_json(FOLDER / section / f"{name}.json", facts)
    if (now := {"files": notes, "urls": urls}) != before:
        write_sealed(NOTES, now)


def entries(params: Params) -> Iterator[tuple[str, str, list[str]]]:
    """(section, name, files and URLs) of every entry that may read own files; none for the sample world and the hub."""
    for name, corpus in params.corpora.items():
        patterns = [source.files for source in corpus.sources if isinstance(source, LocalCorpus)]
        yield "corpora", name, [each for pattern in itertools.chain(*patterns) for each in _found(pattern)]
    for name, tokens in params.tokens.items():
        tokenizer = tokens.tokenizer
        yield "tokens", name, [tokenizer.file] if isinstance(tokenizer, VocabTokenizer) else []
    for name, tasks in params.tasks.items():
        found: list[str] = []
        if isinstance(tasks, LocalTasks):
            layouts = [each.path(split) for each in glue.LAYOUTS.values() for split in each.files]
            found += _inside(tasks.glue, layouts)
            found += _inside(tasks.squad, [file for each in squad.FILES.values() for file in each.values()])
        elif isinstance(tasks, OwnTasks):
            found += [file for each in tasks.tasks.values() for file in (each.train, each.dev, each.test) if file]
        yield "tasks", name, found


def _inside(folder: str | None, files: list[str]) -> list[str]:
    if folder is None or is_url(folder):
        return [folder] if folder else []
    return [str(Path(folder) / file) for file in files]


def _found(pattern: str) -> list[str]:
    try:
        return [pattern] if is_url(pattern) else list(map(str, local.find_files((pattern,), "files")))
    except UserError:
        return []


def _listings(urls: set[str], known: dict[str, Any]) -> dict[str, Any]:
    """What each URL names, side by side: a server that is gone takes seconds to be so."""

    def look(url: str) -> dict[str, Any]:
        try:
            return {url: listing(url, "inputs")}
        except UserError as error:
            print(f"warning: {error}", file=sys.stderr, flush=True)
            return {url: known[url]} if url in known else {}

    with ThreadPoolExecutor(8) as pool:
        return {url: listed for each in pool.map(look, sorted(urls)) for url, listed in each.items()}


def _stamp(path: Path) -> list[int]:
    """What a change of a file changes; nothing where there is none."""
    try:
        status = path.stat()
    except OSError:
        return []
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino] if path.is_file() else []
