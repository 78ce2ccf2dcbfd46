"""What DVC looks at before each run: the hashes of the user's own files, and the digests of code.

    build/inputs/<section>/<name>.json   of the files that an entry of `corpora` or `tasks` names
    build/code.json                      stage -> digest of its code; `vocabularies`: tokenizer -> hash of its file

DVC cannot look into globs, nor depend on files that only some entries have. So it runs this first,
every time, for each entry that is needed. The record of the sample world and of a hub is empty. A
file is hashed again only when its size, times or inode have changed (runs/inputs.json). A file that
is not there has no hash, and the stage that needs it will say so.
"""

import sys
from pathlib import Path

from electra.config import digest, written
from electra.data.tokenizer import VocabTokenizer
from electra.errors import UserError
from electra.files import sha256_file, write_json
from electra.storage.manifest import read_notes, write_sealed
from pipelines.config.params import Params
from pipelines.sources import CustomTasks, LocalCorpus, LocalTasks
from pipelines.sources.glue import official
from pipelines.sources.paths import find_files
from pipelines.stages import STAGES

FOLDER = Path("build/inputs")
CODE = Path("build/code.json")
NOTES = Path("runs/inputs.json")
LARGE = 1 << 30  # bytes to hash: a line then says why it takes a while


def record(section: str, name: str, params: Params) -> None:
    """Write the hashes of an entry's files."""
    known = read_notes(NOTES).get("files", {})
    files = files_of(section, name, params)
    stamps = {file: _stamp(Path(file)) for file in files}
    changed = [
        file for file, stamp in stamps.items() if stamp and known.get(file, [None])[0] != stamp
    ]
    size = sum(stamps[file][0] for file in changed)
    if size > LARGE:
        print(
            f"inputs: {len(changed):,} files of {size / 1e9:,.1f} GB are new and hashed once",
            file=sys.stderr,
        )
    hashed = known | {file: [stamps[file], sha256_file(Path(file))] for file in changed}
    facts = [[Path(file).name, hashed[file][1] if stamps[file] else None] for file in files]
    if section == "corpora" and (scored := params.corpora[name].cleaning.decontaminate):
        facts.append([f"tasks.{scored.tasks}", digest(written(params.tasks[scored.tasks]))])
    write_json(FOLDER / section / f"{name}.json", facts)
    if changed:
        write_sealed(NOTES, {"files": hashed})


def record_code(params: Params) -> None:
    """Write the digest of the code of each stage, and the hash of each vocabulary file ("" where
    there is none).
    """
    vocabularies = dict.fromkeys(params.tokenizers, "")
    for name, tokenizer in params.tokenizers.items():
        if isinstance(tokenizer, VocabTokenizer) and Path(tokenizer.file).is_file():
            vocabularies[name] = sha256_file(Path(tokenizer.file))
    digests = {name: stage.digest for name, stage in STAGES.items() if stage.code}
    write_json(CODE, digests | {"vocabularies": vocabularies})


def files_of(section: str, name: str, params: Params) -> list[str]:
    """Return the own files of an entry of corpora or tasks; none for the sample world and the hub.

    A corpus whose documents are compared with the texts of tasks has the files of these, too.
    """
    if section == "corpora":
        corpus = params.corpora[name]
        files: list[str] = []
        for source in corpus.sources:
            if isinstance(source, LocalCorpus):
                files += _files_of(source.files)
        if corpus.cleaning.decontaminate:
            files += files_of("tasks", corpus.cleaning.decontaminate.tasks, params)
        return files
    tasks = params.tasks[name]
    if isinstance(tasks, LocalTasks):
        return [str(path) for *_, path in official(tasks.glue, tasks.squad)]
    if isinstance(tasks, CustomTasks):
        return [
            file
            for task in tasks.tasks.values()
            for file in (task.train, task.dev, task.test)
            if file
        ]
    return []


def _files_of(patterns: tuple[str, ...]) -> list[str]:
    """Return the files of each pattern that names any, less those that are left out."""
    excluded = tuple(pattern for pattern in patterns if pattern.startswith("!"))
    files: list[str] = []
    for pattern in patterns:
        if pattern not in excluded:
            try:
                files += map(str, find_files((pattern, *excluded), "files"))
            except UserError:
                continue  # which the stage says
    return files


def _stamp(path: Path) -> list[int]:
    """Return what a change of a file changes; nothing where there is none."""
    try:
        status = path.stat()
    except OSError:
        return []
    return (
        [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
        if path.is_file()
        else []
    )
