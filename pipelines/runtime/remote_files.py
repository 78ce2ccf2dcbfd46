"""The file system behind a URL, `s3://bucket/electra` or whatever fsspec knows, for the mirror of checkpoints."""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from electra.errors import BadConfig, NoAccess, SourceUnreachable, UserError
from electra.files import room

DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG}
DO = "run the same command again: what has come is kept"


@contextlib.contextmanager
def reaching(url: str, where: str) -> Iterator[tuple[Any, str]]:
    """The file system of a URL, and the path in it; every failure becomes one sentence.

    Raises NoAccess without valid credentials, SourceUnreachable for what is missing, does not answer or breaks off, and
    BadConfig for a kind of URL that cannot be read here.
    """
    import fsspec.core

    kind = url.partition("://")[0]
    try:
        yield fsspec.core.url_to_fs(url)
    except UserError:
        raise
    except ImportError as error:
        do = "pip install 'electra-workflow[s3]'" if kind == "s3" else "install it"
        raise BadConfig(where, f"{url} needs a package that is not here ({reason(error)})", "the package", do) from None
    except FileNotFoundError:
        raise SourceUnreachable(where, f"there is nothing at {url}", "", "put it there or change the URL") from None
    except Exception as error:  # of boto, aiohttp, ssh: whatever carries the bytes
        if isinstance(error, OSError) and error.errno in DISK:
            with room(Path("runs")):
                raise
        if isinstance(error, ValueError) and "Protocol not known" in str(error):
            raise BadConfig(where, f"{url} is of a kind that fsspec does not know", "s3://, …", "") from None
        if isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
            expected = f"those of {kind} in the environment"
            raise NoAccess(where, f"{url} asks for credentials ({reason(error)})", expected) from None
        raise SourceUnreachable(where, f"{url} does not answer, or broke off ({reason(error)})", "", DO) from None


def reason(error: BaseException) -> str:
    """What a library's error says in its first line, or what it is called."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
