"""Inputs of stages: the hashes by which DVC notices a change, checks before anything is read, and
the verified outputs of earlier stages.

    build/inputs/<section>/<name>.json   hashes of the files that an entry of corpora or tasks names
    build/code.json                      digest of each stage's code; hash of each vocabulary's file

DVC has neither globs nor optional dependencies. So it runs this first, every time, for each entry
that is needed. The record of the sample world and of a hub is empty. A file is hashed again only
when its size, times or inode have changed (runs/inputs.json). A file that is missing has no hash,
and the stage that needs it says so.
"""

import contextlib
import sys
from pathlib import Path

from electra.config import digest, without_defaults
from electra.data.tokenizer import VocabTokenizer
from electra.errors import CorruptFile, SourceUnreachable, UserError, pluralize
from electra.files import sha256_file, write_json
from electra.finetuning.tasks import SQUAD
from electra.storage.manifest import (
    MANIFEST,
    read_cache,
    read_manifest,
    verify_manifest,
    write_checksummed,
)
from pipelines import rebuild_advice
from pipelines.config.params import PAPER, Params
from pipelines.sources import (
    CustomTasks,
    HubCorpus,
    HubTasks,
    LocalCorpus,
    LocalTasks,
    SourceConfig,
    TaskSourceConfig,
    hub,
)
from pipelines.sources.glue import official
from pipelines.sources.paths import find_files, require_folder
from pipelines.stages import BUILD, STAGES

NOTES = Path("runs/inputs.json")
LARGE = 1 << 30  # bytes to hash: a line then says why it takes a while


def record_files(section: str, name: str, params: Params) -> None:
    """Write the hashes of an entry's files."""
    known = read_cache(NOTES).get("files", {})
    files = list_files(section, name, params)
    stamps = {file: _stamp(Path(file)) for file in files}
    changed = {
        file: stamp
        for file, stamp in stamps.items()
        if stamp and known.get(file, [None])[0] != stamp
    }
    size = sum(stamp[0] for stamp in changed.values())
    if size > LARGE:
        print(
            f"inputs: hashing {pluralize(len(changed), 'new file')} of {size / 1e9:,.1f} GB once",
            file=sys.stderr,
        )
    for file, stamp in changed.items():
        known[file] = [stamp, sha256_file(Path(file))]
    hashes = [[Path(file).name, known[file][1] if stamps[file] else None] for file in files]
    if section == "corpora" and (scored := params.corpora[name].cleaning.decontaminate):
        hashes.append(
            [f"tasks.{scored.tasks}", digest(without_defaults(params.tasks[scored.tasks]))]
        )
    write_json(BUILD / "inputs" / section / f"{name}.json", hashes)
    if changed:
        write_checksummed(NOTES, {"files": known})


def _stamp(path: Path) -> list[int]:
    """Return numbers that differ after any change of a file; an empty list if there is none."""
    if not path.is_file():
        return []
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def record_code(params: Params) -> None:
    """Write the digest of the code of each stage, and the hash of each vocabulary file ("" where
    there is none).
    """
    vocabularies = dict.fromkeys(params.tokenizers, "")
    for name, tokenizer in params.tokenizers.items():
        if isinstance(tokenizer, VocabTokenizer) and Path(tokenizer.file).is_file():
            vocabularies[name] = sha256_file(Path(tokenizer.file))
    digests = {name: stage.digest for name, stage in STAGES.items() if stage.code}
    write_json(BUILD / "code.json", digests | {"vocabularies": vocabularies})


def list_files(section: str, name: str, params: Params) -> list[str]:
    """Return the user's files of an entry of corpora or tasks. None for the sample world and the
    hub.

    A corpus whose documents are compared with the texts of tasks has the files of these, too.
    """
    files: list[str] = []
    if section == "corpora":
        corpus = params.corpora[name]
        for source in corpus.sources:
            if isinstance(source, LocalCorpus):
                with contextlib.suppress(UserError):  # the stage reports it
                    files += map(str, find_files(source.files, "files"))
        if corpus.cleaning.decontaminate:
            files += list_files("tasks", corpus.cleaning.decontaminate.tasks, params)
        return files
    tasks = params.tasks[name]
    if isinstance(tasks, LocalTasks):
        files = [str(path) for *_, path in official(tasks.glue, tasks.squad)]
    if isinstance(tasks, CustomTasks):
        for task in tasks.tasks.values():
            files += filter(None, (task.train, task.dev, task.test))
    return files


def check_source(source: SourceConfig | TaskSourceConfig, where: str = "source") -> None:
    """Raise SourceUnreachable or BadInput unless a source exists. Read nothing of it."""
    if isinstance(source, LocalCorpus):
        find_files(source.files, where)
    elif isinstance(source, LocalTasks):
        for folder in filter(None, (source.glue, source.squad)):
            require_folder(Path(folder), where)
    elif isinstance(source, CustomTasks):
        for task in source.tasks.values():
            find_files(tuple(filter(None, (task.train, task.dev, task.test))), where)
    elif isinstance(source, HubCorpus):
        hub.resolve(source.dataset, source.revision, where)
    elif isinstance(source, HubTasks):
        for dataset in filter(None, (source.glue, source.squad1, source.squad2)):
            hub.resolve(dataset.dataset, dataset.revision, where)


def check_tasks(params: Params, name: str, finetuning: str = "") -> None:
    """Raise SourceUnreachable or BadInput unless a source of tasks exists, with all files that
    its fine-tunings (or only one) need.
    """
    check_source(params.tasks[name], f"tasks.{name}")
    require_task_files(params, name, finetuning)


def require_task_files(params: Params, name: str, finetuning: str = "") -> TaskSourceConfig:
    """Return a source of tasks. Raise SourceUnreachable for a file that its fine-tunings (or only
    one) need and that is missing. A warning is enough for MNLI's second dev set.
    """
    source = params.tasks[name]
    if not isinstance(source, LocalTasks):
        return source
    needed = needed_tasks(params, name, finetuning)
    for task, split, path in official(source.glue, source.squad):
        if task not in needed or split.startswith("test") or path.is_file():
            continue
        missing = f"tasks.{name}: there is no {path}"
        if split in {"train", "dev"}:
            raise SourceUnreachable(
                f"{missing}; put the {split} rows of {task} there, "
                f"or leave {task} out of {needed[task]}"
            )
        print(f"warning: {missing}; {task} is scored without its {split}", file=sys.stderr)
    return source


def needed_tasks(params: Params, source: str, only: str = "") -> dict[str, str]:
    """Return task -> the key that selects it, for all fine-tunings on a source of tasks, or for the
    `only` one.
    """
    keys: dict[str, str] = {}
    for name, config in params.finetunings.items():
        if config.tasks == source and only in {"", name}:
            recipe = config.recipe if "run" in params.changes(name) else PAPER
            for task in params.selected_tasks(name):
                keys.setdefault(task, f"recipes.{recipe}.run")
            for version in params.squad_versions(name):
                keys.setdefault(SQUAD[version], f"recipes.{config.recipe}.squad.versions")
    return keys or dict.fromkeys(params.finetune.run, f"recipes.{PAPER}.run")


def encoder_folder(name: str, params: Params) -> Path:
    """Return build/models/<name>/encoder, verified, from which fine-tuning starts. Warn of a weak
    pre-training.
    """
    from electra.nn.huggingface import verify_folder  # here, since importing torch takes seconds

    model = BUILD / "models" / name
    advice = rebuild_advice("published" if name in params.published else "pretrain", name)
    verify_folder(model / "encoder", advice, model=name, part="encoder")
    if (model / MANIFEST).is_file() and (weakness := read_manifest(model, advice).get("weakness")):
        print(f"warning: models.{name}: {weakness}", file=sys.stderr)
    return model / "encoder"


def task_rows(name: str) -> Path:
    """Return build/tasks/<name>, verified. A missing split is fine. A file that the
    manifest does not list is not.
    """
    folder = BUILD / "tasks" / name
    advice = rebuild_advice("tasks", name)
    listed = verify_manifest(folder, do=advice, kind="tasks", name=name)["files"]
    for path in sorted(folder.glob("*/*.json*")):
        if str(path.relative_to(folder)) not in listed:
            raise CorruptFile(f"{path}: is not in {MANIFEST}; move it away, or {advice}")
    return folder
