"""inputs SECTION NAME: the hashes of the files that an entry names as own data → build/inputs/<section>/<name>.json.

DVC cannot look into globs, nor depend on files that only some entries have. So it runs this first, every time, for each
entry that is needed, and what reads own files depends on its record here, which is empty for the sample world and the
hub. A file is hashed again only when its size, times or inode have changed (runs/inputs.json). A file that is not
there has no hash; the stage that needs it will say so. Of URLs only sizes and versions are requested; if the
server is out of reach, the last answer is used.
"""

import sys
from pathlib import Path
from typing import Any

from electra.config import digest, written
from electra.data.tokenizer import VocabTokenizer
from electra.errors import UserError
from electra.files import sha256_file, write_json
from electra.storage.manifest import read_notes, write_sealed
from pipelines.config.params import Params
from pipelines.runtime.remote_files import is_url, listing
from pipelines.sources import LocalCorpus, LocalTasks, OwnTasks
from pipelines.sources.glue import official
from pipelines.sources.paths import find_files

FOLDER = Path("build/inputs")
NOTES = Path("runs/inputs.json")
LARGE = 1 << 30  # bytes to hash: a line then says why it takes a while


def record(section: str, name: str, params: Params) -> None:
    """Write the hashes of an entry's files, and what its URLs name."""
    notes = {"files": {}, "urls": {}} | read_notes(NOTES)
    known, found = notes["files"], files_of(section, name, params)
    urls = _listings({each for each in found if is_url(each)}, notes["urls"])
    stamps = {each: _stamp(Path(each)) for each in found if not is_url(each)}
    fresh = [path for path, stamp in stamps.items() if stamp and known.get(path, [None])[0] != stamp]
    if (size := sum(stamps[path][0] for path in fresh)) > LARGE:
        print(f"inputs: {len(fresh):,} files of {size / 1e9:,.1f} GB are new and hashed once", file=sys.stderr)
    hashed = {path: [stamps[path], sha256_file(Path(path))] for path in fresh}
    hashes = {path: (known | hashed)[path][1] for path, stamp in stamps.items() if stamp}
    facts = [[each, urls.get(each)] if is_url(each) else [Path(each).name, hashes.get(each)] for each in found]
    if section == "corpora" and (scored := params.corpora[name].cleaning.decontaminate):
        facts.append([f"tasks.{scored}", digest(written(params.tasks[scored]))])
    write_json(FOLDER / section / f"{name}.json", facts)
    if (now := {"files": known | hashed, "urls": notes["urls"] | urls}) != notes:
        write_sealed(NOTES, now)


def files_of(section: str, name: str, params: Params) -> list[str]:
    """The own files and URLs of an entry of corpora, tokens or tasks; none for the sample world and the hub.

    A corpus that leaves out the texts of tasks has the files of these, too.
    """
    if section == "corpora":
        corpus = params.corpora[name]
        sources = (source for source in corpus.sources if isinstance(source, LocalCorpus))
        scored = corpus.cleaning.decontaminate
        more = files_of("tasks", scored, params) if scored else []
        return [*(each for source in sources for each in _all_found(source.files)), *more]
    if section == "tokens":
        tokenizer = params.tokens[name].tokenizer
        return [tokenizer.file] if isinstance(tokenizer, VocabTokenizer) else []
    tasks = params.tasks[name]
    if isinstance(tasks, LocalTasks):
        urls = [each for each in (tasks.glue, tasks.squad) if each and is_url(each)]
        glue, squad = (None if each in urls else each for each in (tasks.glue, tasks.squad))
        return [*urls, *(str(path) for *_, path in official(glue, squad))]
    if isinstance(tasks, OwnTasks):
        return [file for each in tasks.tasks.values() for file in (each.train, each.dev, each.test) if file]
    return []


def _all_found(patterns: tuple[str, ...]) -> list[str]:
    without = [pattern for pattern in patterns if pattern.startswith("!")]
    return [each for pattern in patterns if pattern not in without for each in _found(pattern, *without)]


def _found(pattern: str, *without: str) -> list[str]:
    try:
        return [pattern] if is_url(pattern) else list(map(str, find_files((pattern, *without), "files")))
    except UserError:
        return []


def _listings(urls: set[str], known: dict[str, Any]) -> dict[str, Any]:
    """What each URL names; the last answer, if there is one, where the server is out of reach."""
    found = {url: known[url] for url in sorted(urls & known.keys())}
    for url in sorted(urls):
        try:
            found[url] = listing(url, "inputs")
        except UserError as error:
            print(f"warning: {error}", file=sys.stderr, flush=True)
    return found


def _stamp(path: Path) -> list[int]:
    """What a change of a file changes; nothing where there is none."""
    try:
        status = path.stat()
    except OSError:
        return []
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino] if path.is_file() else []
