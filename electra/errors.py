"""The errors that a user can meet: one sentence each, what is wrong and what to do, and an exit
code.

Everything else that is raised is a bug and keeps its traceback. Codes follow sysexits.h where it
has one.
"""

import re
import reprlib

# of URLs: a login; values of a query
_SECRETS = re.compile(r"(?<=://)[^/?#\s]*@|(?<=[?&#;])([\w.%-]+=)[^&\s'\")]+")
_MANY = 50  # a longer list is cut to its _FIRST entries in a message
_FIRST = 10
_LONGEST = 4_000  # characters of a part of a message
_shown = reprlib.Repr()
_shown.maxstring = _shown.maxother = 80


def short_repr(value: object) -> str:
    """Return a value from data for a message: short, and safe however deep or long it is."""
    if isinstance(value, int) and value.bit_length() > 1000:  # Python refuses to write the longest
        return f"a whole number of {value.bit_length():,} bits"
    return " ".join(_shown.repr(value)[:120].split())


def pluralize(count: int, noun: str) -> str:
    """Return a number of things for a message: `1 row`, `2,000 rows`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def mask_secrets(text: str) -> str:
    """Return a text without the logins and query values (signatures, tokens) of its URLs."""
    return _SECRETS.sub(lambda match: f"{match[1]}***" if match[1] else "***@", text)


def printable(text: str) -> str:
    """Return a text with unprintable characters escaped. Line breaks and tabs stay."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text
    )


def first_line(error: BaseException) -> str:
    """Return the first line of a library's error message, or the name of the error."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def for_message(text: str) -> str:
    """Return a text that is safe to print in a message: without secrets and control characters,
    and a long list cut.
    """
    items = mask_secrets(text).split(", ")
    if len(items) > _MANY:
        items[_FIRST:] = [f"… and {len(items) - _FIRST:,} more"]
    short = ", ".join(items)
    return printable(short if len(short) <= _LONGEST else f"{short[:_LONGEST]}…")


class UserError(Exception):
    """A mistake or a fault that the user can fix, in one sentence. The command line returns
    `exit_code`.
    """

    exit_code = 1

    def __init__(self, sentence: str) -> None:
        super().__init__(for_message(sentence))


class BadConfig(UserError, ValueError):
    """A setting that is unknown, of the wrong type, or impossible with another. Pydantic collects a
    ValueError.
    """

    exit_code = 64


class BadInput(UserError):
    """Text, task or tokenizer files that cannot be used as they are."""

    exit_code = 65


class SourceUnreachable(UserError):
    """A data source that cannot be reached: a missing folder, a hub that does not answer."""

    exit_code = 69


class BadDevice(UserError):
    """A GPU that exists but cannot be used."""

    exit_code = 69


class NonFinite(UserError):
    """A loss, gradient or weight that is NaN or infinite; nothing was updated or saved with it."""

    exit_code = 70


class OutOfMemory(UserError):
    """The machine or the GPU has too little memory. Everything saved before is kept."""

    exit_code = 71


class Refused(UserError):
    """The operating system refused something that no other error covers: memory, for example."""

    exit_code = 71


class Busy(UserError):
    """Another process works in the same run folder."""

    exit_code = 73


class CorruptFile(UserError):
    """A file with other bytes than its manifest lists."""

    exit_code = 74


class Unreadable(CorruptFile):
    """A file that the operating system did not let us read just now: its bytes may be whole."""


class OutOfRoom(UserError):
    """The disk is full, or the file system refused a write."""

    exit_code = 74


class Stopped(UserError):
    """The process was asked to stop by a signal; all progress is saved, and the same command
    resumes.
    """

    exit_code = 75
