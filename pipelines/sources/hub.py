"""The hub, through the `datasets` library: the only code of the project that reaches the network.

A split is downloaded file by file into the library's cache, each checked against the hash that the
hub promises, or streamed without a copy. Every failure becomes one sentence within seconds: out of
reach, no such data set, no such revision, a wrong checksum.
"""

import contextlib
import functools
import hashlib
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.errors import BadInput, SourceUnreachable, first_line, short_repr
from electra.files import sha256_file
from pipelines.sources import HubCorpus
from pipelines.sources.local import make_document, unwrapped
from pipelines.sources.streams import Item, decompress_with_fsspec

SECONDS = 10.0  # without a byte until a request fails; the library repeats most requests
MINUTE = 60.0  # of waiting for bytes, in which a server has to send SLOWEST of them
SLOWEST = 60_000
LONGEST_WAIT = 300  # seconds that a server may ask for; the hub's own limits ask for no more
WAYS = "check the network, set HF_ENDPOINT to a mirror, or use a `local` source instead"


def resolve(dataset: str, revision: str, where: str) -> str:
    """Return the commit that a revision stands for. Raises SourceUnreachable within seconds when
    the hub cannot tell.
    """
    with reach_hub(dataset, where):
        from huggingface_hub import HfApi

        commit = HfApi().dataset_info(dataset, revision=revision, timeout=SECONDS).sha
        if not re.fullmatch("[0-9a-f]{40}", str(commit)):
            raise LookupError(f"its commit is {short_repr(commit)}")
    return str(commit)


def fetch_file(repo: str, file: str, revision: str, where: str) -> Path:
    """Return a file of a model on the hub, from the local cache if it is in there."""
    with reach_hub(repo, where):
        return download(repo, file, revision, where, kind="model")


@dataclass(frozen=True)
class HubFile:
    """Part `number` of `parts` of a split: a file with its hash ("sha256:…", "git:…"), or a share
    of a stream.
    """

    number: int
    parts: int
    file: str = ""
    bytes: int = 0
    promised: str = ""


def parts(source: HubCorpus, where: str) -> list[HubFile]:
    """Return the parts of a split: each is a unit of work."""
    with reach_hub(source.dataset, where):
        if source.fetch == "stream":
            count = max(1, int(_stream(source).num_shards))
            return [HubFile(number, count) for number in range(count)]
        from huggingface_hub import HfApi
        from huggingface_hub.hf_api import RepoFile

        by_split = _builder(source).config.data_files or {}
        if source.split not in by_split:
            names = ", ".join(map(str, by_split)) or "no files"
            raise ValueError(
                f"its splits are {names}: set `split`, or `fetch: stream` for data made by a script"
            )
        files = [file.partition("@")[2].partition("/")[2] for file in by_split[source.split]]
        facts = {}
        for start in range(0, len(files), 500):
            some = files[start : start + 500]
            for fact in HfApi().get_paths_info(
                source.dataset, some, revision=source.revision, repo_type="dataset"
            ):
                if isinstance(fact, RepoFile):
                    promised = f"sha256:{fact.lfs.sha256}" if fact.lfs else f"git:{fact.blob_id}"
                    facts[fact.path] = (fact.size, promised)
        return [
            HubFile(number, len(files), file, *facts[file]) for number, file in enumerate(files)
        ]


def read_documents(source: HubCorpus, part: HubFile) -> Iterator[Item]:
    """Yield the documents of one part of a split."""
    where = f"{source.dataset}@{source.revision[:12]}"
    with reach_hub(source.dataset, where):
        if part.file:
            stream = _downloaded(source, part, where)
        else:
            stream = _stream(source)
            if part.parts > 1:
                stream = stream.shard(num_shards=part.parts, index=part.number)
        if names := stream.column_names:
            stream = stream.select_columns(
                [name for name in (source.text, source.id) if name in names]
            )
        for number, row in enumerate(stream, 1):
            place = f"{source.split}-{part.number:05d}:{number}"
            item = make_document(
                row.get(source.text), row.get(source.id), f"{where}/{place}", source.text, place
            )
            yield unwrapped(item) if source.hard_wrapped else item


def _downloaded(source: HubCorpus, part: HubFile, where: str) -> Any:
    import datasets

    path = download(source.dataset, part.file, source.revision, where, part.promised)
    file_format = type(_builder(source)).__module__.rpartition(".")[2]
    return datasets.load_dataset(file_format, data_files=[str(path)], split="train", streaming=True)


def download(
    repo: str, file: str, revision: str, where: str, promised: str = "", kind: str = "dataset"
) -> Path:
    """Return a file in the library's cache. Its bytes are those that the hub promises, or BadInput
    is raised.

    Without a `promised` hash, they are compared with the hash that names them in the cache.
    """
    for again in (False, True):
        path = _fetch(repo, kind, revision, file, again)
        name, _, expected = (promised or _hash_in_cache(path)).partition(":")
        digest = sha256_file(path) if name == "sha256" else _git_hash(path)
        if digest == expected or not name:
            return path
    raise BadInput(
        f"{where}/{file}: arrives with {name} {digest} instead of {expected}, twice; "
        f"ask the {kind}'s owner, or a mirror"
    )


def _hash_in_cache(path: Path) -> str:
    """Return the hash that names a file in the cache, or "" if the cache has no links."""
    name = path.resolve().name
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", name):
        return ""
    return f"git:{name}" if len(name) == 40 else f"sha256:{name}"


def _fetch(repo: str, kind: str, revision: str, file: str, again: bool) -> Path:
    """Return one file, from the cache unless `again`. After a server error, try twice more, after
    one and two seconds.
    """
    from huggingface_hub import hf_hub_download

    pauses = [1, 2]
    while True:
        try:
            path = hf_hub_download(
                repo,
                file,
                repo_type=kind,
                revision=revision,
                etag_timeout=SECONDS,
                force_download=again,
            )
            return Path(path)
        except _unreachable() as error:
            status = getattr(getattr(error, "response", None), "status_code", 503)
            if not pauses or status < 500 or isinstance(error, FileNotFoundError):
                raise  # FileNotFoundError: the library has retried already
            time.sleep(pauses.pop(0))


def _git_hash(path: Path) -> str:
    state = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    state.update(path.read_bytes())
    return state.hexdigest()


def read_rows(
    dataset: str, config: str | None, split: str, revision: str, where: str
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a split of a data set (GLUE, SQuAD), after checking its files' hashes."""
    source = HubCorpus(kind="hub", dataset=dataset, revision=revision, config=config, split=split)
    for part in parts(source, where):
        with reach_hub(dataset, where):
            yield from _downloaded(source, part, where)


# a worker reads many shards of one split, and asking for it takes a dozen requests
@functools.lru_cache(maxsize=1)
def _stream(source: HubCorpus) -> Any:
    import datasets

    # each time the hub's library tries six times: 20 times, the default, would take half an hour
    datasets.config.STREAMING_OPEN_MAX_RETRIES = 3
    datasets.config.STREAMING_READ_MAX_RETRIES = 3
    return datasets.load_dataset(
        source.dataset, source.config, split=source.split, revision=source.revision, streaming=True
    )


@functools.lru_cache(maxsize=1)
def _builder(source: HubCorpus) -> Any:
    import datasets

    return datasets.load_dataset_builder(source.dataset, source.config, revision=source.revision)


@contextlib.contextmanager
def reach_hub(name: str, where: str) -> Iterator[None]:
    """Turn the library's many ways to fail into one sentence."""
    _guard_libraries()
    offline = (os.environ.get(name, "") for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"))
    if {"1", "TRUE", "YES", "ON"} & {value.upper() for value in offline}:
        raise SourceUnreachable(
            f"{where}: needs {name} from the hub, but HF_HUB_OFFLINE or HF_DATASETS_OFFLINE is "
            "set; unset it, or use a `local` source instead"
        )
    from huggingface_hub import errors

    try:
        yield
    except Exception as error:
        why = first_line(error)
        unreachable = f"cannot reach the hub for {name} ({why}); {WAYS}"
        # the first that fits; `datasets` raises the last on unknown configurations, splits, and on
        # scripts
        faults: dict[Any, str] = {
            (EOFError, StopIteration): (
                f"{name} has a damaged or empty file ({why}); ask its owner, or a mirror"
            ),
            errors.RevisionNotFoundError: (
                f"{name} has no such revision; set `revision` to a commit of it"
            ),
            errors.GatedRepoError: (
                f"{name} asks for an agreement; accept it on the hub and set HF_TOKEN"
            ),
            errors.RepositoryNotFoundError: (
                f"the hub has no {name}; set its name, or HF_TOKEN if it is private"
            ),
            errors.LocalEntryNotFoundError: unreachable,  # nor is it in the cache
            (errors.EntryNotFoundError, FileNotFoundError): (
                f"{name} has no such file or part ({why})"
            ),
            _unreachable(): unreachable,
            (ValueError, RuntimeError): (
                f"{name} cannot be used ({why}); check `config`, `split` and HF_ENDPOINT"
            ),
            (AttributeError, LookupError, TypeError): (  # JSON without the expected keys
                f"the hub's answer about {name} is malformed ({why}); check HF_ENDPOINT"
            ),
        }
        for kind, sentence in faults.items():
            if isinstance(error, kind):
                raise SourceUnreachable(f"{where}: {sentence}") from None
        raise


@functools.cache
def _guard_libraries() -> None:
    """Do what the libraries leave out. They list files without a time-out, and so wait for ever
    where a connection breaks unnoticed, and read damaged files.
    """
    from huggingface_hub import set_client_factory
    from huggingface_hub.utils._http import default_client_factory

    def limit(request: Any) -> None:
        limits = request.extensions["timeout"]
        limits.update({kind: SECONDS for kind, seconds in limits.items() if seconds is None})
        request.extensions["trace"] = functools.partial(_keep_pace, request.url)

    def make_client() -> Any:
        client = default_client_factory()
        client.event_hooks["request"].append(limit)
        client.event_hooks["response"].append(check_answer)
        return client

    set_client_factory(make_client)
    decompress_with_fsspec()


def check_answer(answer: Any) -> None:
    """Refuse what the library would obey: an ETag that is a path, by which it names a file in its
    cache and would replace any file of this machine, a redirect from https to http, and a wait of
    days.
    """
    for name in ("etag", "x-linked-etag"):
        etag = answer.headers.get(name, "").removeprefix("W/")
        if "/" in etag and answer.request.method == "HEAD":
            raise BadInput(
                f"{answer.url}: sends the ETag {short_repr(etag)}, a path; use another hub"
            )
    target = answer.headers.get("location", "")
    if answer.url.scheme == "https" and target.lower().startswith("http:"):
        raise BadInput(f"{answer.url}: leads to {short_repr(target)}, unencrypted; use another hub")
    waits = f"{answer.headers.get('retry-after', '')} {answer.headers.get('ratelimit', '')}"
    for seconds in re.findall(r"(?:^|t\s*=)\s*(\d+)", waits):
        if answer.is_error and (len(seconds) > 9 or int(seconds) > LONGEST_WAIT):
            raise SourceUnreachable(
                f"{answer.url}: asks for a wait of {seconds[:20]} seconds; try again later"
            )


def _keep_pace(url: Any, event: str, facts: dict[str, Any]) -> None:
    """Let all that is read from a new connection, headers too, raise SourceUnreachable where it
    comes too slowly.
    """
    if not event.endswith(("connect_tcp.complete", "start_tls.complete")):
        return
    stream = facts["return_value"]
    read = stream.read
    write = stream.write
    size = 0
    waited = 0.0

    def read_at_pace(*arguments: Any, **options: Any) -> bytes:
        nonlocal size, waited
        begin = time.monotonic()
        data: bytes = read(*arguments, **options)
        waited += time.monotonic() - begin
        size += len(data)
        if waited > MINUTE:
            if size < SLOWEST:
                raise SourceUnreachable(
                    f"{url.host}: sends {size:,} bytes in {waited:.0f} seconds; {WAYS}"
                )
            size = 0
            waited = 0.0
        return data

    def write_and_begin(*arguments: Any, **options: Any) -> None:
        nonlocal size, waited
        size = 0
        waited = 0.0
        write(*arguments, **options)

    stream.read = read_at_pace
    stream.write = write_and_begin


def _unreachable() -> tuple[type[Exception], ...]:
    """Return the errors for a hub that does not answer, for any HTTP client of its library:
    OSError, and the client's own error. The library's errors inherit from both.
    """
    from huggingface_hub.errors import HfHubHTTPError

    return HfHubHTTPError.__bases__
