"""The hub, through the `datasets` library: the only code of the project that reaches the network.

Whatever goes wrong on the way there is one sentence within seconds: out of reach, no such data set, no such revision.
"""

import contextlib
import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from electra.data.text import Document, Rejected, unwrap
from electra.errors import SourceUnreachable
from pipelines.sources import HubCorpus
from pipelines.sources.local import make_document

SECONDS = 10.0  # for the first answer; what comes after is retried by the library
WAYS = "check the network, set HF_ENDPOINT to a mirror, or use a `local` source instead"


def resolve(dataset: str, revision: str, where: str) -> str:
    """The commit that a revision stands for; raises SourceUnreachable within seconds when the hub cannot tell."""
    with reaching(dataset, where):
        from huggingface_hub import HfApi

        commit = HfApi().dataset_info(dataset, revision=revision, timeout=SECONDS).sha
    return commit or revision


def fetch_file(repo: str, file: str, revision: str, where: str) -> Path:
    """A file of a model on the hub, from the local cache when it is there."""
    with reaching(repo, where):
        from huggingface_hub import hf_hub_download

        return Path(hf_hub_download(repo, file, revision=revision, etag_timeout=SECONDS))


def count_shards(source: HubCorpus, where: str) -> int:
    """How many files a split has: each is a unit of work."""
    with reaching(source.dataset, where):
        return max(1, int(_stream(source).num_shards))


def read_documents(source: HubCorpus, shard: int, shards: int) -> Iterator[Document | Rejected]:
    """The documents of one shard of a split, streamed."""
    where = f"{source.dataset}@{source.revision[:12]}"
    with reaching(source.dataset, where):
        stream = _stream(source)
        if shards > 1:
            stream = stream.shard(num_shards=shards, index=shard)
        for number, row in enumerate(stream, 1):
            place = f"{source.split}-{shard:05d}:{number}"
            item = make_document(row.get(source.text), row.get(source.id), f"{where}/{place}", source.text, place)
            yield Document(item.id, unwrap(item.text)) if source.hard_wrapped and isinstance(item, Document) else item


def read_rows(dataset: str, config: str | None, split: str, revision: str, where: str) -> Iterator[dict[str, Any]]:
    """The rows of a split of a small data set (GLUE, SQuAD)."""
    with reaching(dataset, where):
        import datasets

        yield from datasets.load_dataset(dataset, config, split=split, revision=revision, streaming=True)


def splits(dataset: str, config: str | None, revision: str, where: str) -> list[str]:
    """The names of a data set's splits."""
    with reaching(dataset, where):
        import datasets

        return list(datasets.get_dataset_split_names(dataset, config, revision=revision))


@functools.lru_cache(maxsize=1)  # a worker reads many shards of one split, and asking for it takes a dozen requests
def _stream(source: HubCorpus) -> Any:
    import datasets

    return datasets.load_dataset(
        source.dataset, source.config, split=source.split, revision=source.revision, streaming=True
    )


@contextlib.contextmanager
def reaching(name: str, where: str) -> Iterator[None]:
    """Turn the library's many ways to fail into one sentence."""
    if any(
        os.environ.get(key, "").upper() in {"1", "TRUE", "YES", "ON"}
        for key in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
    ):
        raise SourceUnreachable(
            where,
            f"needs {name} from the hub, but HF_HUB_OFFLINE or HF_DATASETS_OFFLINE is set",
            "",
            "unset it, or use a `local` source instead",
        )
    from huggingface_hub import errors

    try:
        yield
    except errors.RevisionNotFoundError:
        raise SourceUnreachable(
            where, f"{name} has no such revision", "a commit of the data set", "set `revision`"
        ) from None
    except errors.GatedRepoError:
        raise SourceUnreachable(
            where,
            f"{name} asks for an agreement first",
            "an account that has it",
            "accept it on the hub and set HF_TOKEN",
        ) from None
    except errors.RepositoryNotFoundError:
        raise SourceUnreachable(
            where,
            f"the hub has no {name}",
            "the name of a public data set",
            "set its name, or HF_TOKEN if it is private",
        ) from None
    except (errors.EntryNotFoundError, FileNotFoundError) as error:
        raise SourceUnreachable(
            where, f"{name} has no such file or part ({_first_line(error)})", "", "check its name"
        ) from None
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, *_transport_errors(), OSError) as error:
        raise SourceUnreachable(
            where, f"cannot reach the hub for {name} ({_first_line(error)})", "an answer within seconds", WAYS
        ) from None
    except (ValueError, RuntimeError) as error:  # `datasets` on unknown configurations and splits, and on scripts
        raise SourceUnreachable(
            where, f"{name} cannot be used ({_first_line(error)})", "a data set of files", "check `config` and `split`"
        ) from None


def _transport_errors() -> Iterator[type[Exception]]:
    """What the library's HTTP client raises; which client it is depends on the library's version."""
    for name in ("httpx2", "httpx", "requests"):
        if module := sys.modules.get(name):
            yield getattr(module, "HTTPError", None) or module.exceptions.RequestException


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
