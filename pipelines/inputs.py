"""inputs: the hashes of all files that params.yaml names as own data → build/inputs/<section>/<name>.json.

DVC cannot look into globs, nor depend on files that only some entries have. So it runs this first, every time, and what
reads own files depends on its entry here. A file is hashed again only when its size, times or inode are others than then
(runs/inputs.json), so it takes a second. A file that is not there has no hash; the stage that needs it will say so.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from electra.data.tokenizer import VocabTokenizer
from electra.errors import UserError
from electra.files import sha256_file, write_json
from electra.storage.manifest import read_notes, write_sealed
from pipelines.params import Params
from pipelines.sources import LocalCorpus, LocalTasks, OwnTasks, glue, local, squad

FOLDER = Path("build/inputs")
NOTES = Path("runs/inputs.json")
LARGE = 1 << 30  # bytes to hash: then it is said why it takes a while


def survey(params: Params) -> None:
    """Write the hashes of every entry's files."""
    known = read_notes(NOTES).get("files", {})
    files = {(section, name): paths for section, name, paths in entries(params)}
    stamps = {str(path): _stamp(path) for paths in files.values() for path in paths}
    fresh = [path for path, stamp in stamps.items() if stamp and known.get(path, [None])[0] != stamp]
    if (size := sum(stamps[path][0] for path in fresh)) > LARGE:
        print(f"inputs: {len(fresh):,} files of {size / 1e9:,.1f} GB are new and hashed once", file=sys.stderr)
    notes = {path: [stamp, None if path in fresh else known[path][1]] for path, stamp in stamps.items() if stamp}
    for path in fresh:
        notes[path][1] = sha256_file(Path(path))
    for (section, name), paths in files.items():
        facts = [[path.name, notes[str(path)][1] if stamps[str(path)] else None] for path in paths]
        write_json(FOLDER / section / f"{name}.json", facts)
    if notes != known:
        write_sealed(NOTES, {"files": notes})


def entries(params: Params) -> Iterator[tuple[str, str, list[Path]]]:
    """(section, name, files) of every entry that may read own files; no files for the sample world and the hub."""
    for name, corpus in params.corpora.items():
        patterns = [source.files for source in corpus.sources if isinstance(source, LocalCorpus)]
        yield "corpora", name, [path for files in patterns for path in _found(files)]
    for name, tokens in params.tokens.items():
        tokenizer = tokens.tokenizer
        yield "tokens", name, [Path(tokenizer.file)] if isinstance(tokenizer, VocabTokenizer) else []
    for name, tasks in params.tasks.items():
        paths: list[Path] = []
        if isinstance(tasks, LocalTasks):
            if tasks.glue:
                paths += [Path(tasks.glue) / each.path(split) for each in glue.LAYOUTS.values() for split in each.files]
            if tasks.squad:
                paths += [Path(tasks.squad) / file for each in squad.FILES.values() for file in each.values()]
        elif isinstance(tasks, OwnTasks):
            paths += [Path(file) for each in tasks.tasks.values() for file in (each.train, each.dev, each.test) if file]
        yield "tasks", name, paths


def _found(files: tuple[str, ...]) -> list[Path]:
    try:
        return local.find_files(files, "files")
    except UserError:
        return []


def _stamp(path: Path) -> list[int]:
    """What a change of a file changes; nothing where there is none."""
    try:
        found = path.stat()
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino] if path.is_file() else []
