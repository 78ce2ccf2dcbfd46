"""What MLflow has not been told yet: a folder with one JSON message a line, and how far the store has them.

A stage appends, its recorder (`recorder.py`) reads behind it, and neither waits for the other: a store that is gone,
slow or back makes no difference to the file. What is left at the end is sent by the next recorder of the same run, or
by `python -m pipelines sync`. A line begins with its checksum: what a disk has spoilt is left out and not told.
"""

import json
import os
import uuid
import zlib
from pathlib import Path
from typing import Any

from electra.errors import UserError
from electra.files import fsync_folder, remove
from electra.storage.manifest import read_sealed, write_sealed

CHUNK = 4 << 20  # bytes read at once; a longer line is none of ours


class Spool:
    """A run's messages on disk. Lines are whole or not there: each is one write at the file's end."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lines = folder, folder / "lines.jsonl"
        self._file: int | None = None
        self._broken = False

    def append(self, message: dict[str, Any]) -> None:
        """Add a message; raises OSError where the disk refuses it."""
        if self._file is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.lines, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        told = json.dumps(message).encode()
        line = (b"\n" if self._broken else b"") + b"%08x " % zlib.crc32(told) + told + b"\n"
        self._broken = os.write(self._file, line) < len(line)  # a full disk: the next line must not go on in this one

    def read(self, offset: int) -> list[tuple[dict[str, Any] | None, int]]:
        """Messages from `offset` on, each with the offset behind it; None for a line that is no message."""
        if not self.lines.exists():
            return []
        with self.lines.open("rb") as file:
            file.seek(offset)
            data = file.read(CHUNK)
        if len(data) == CHUNK and b"\n" not in data:
            return [(None, offset + CHUNK)]
        messages: list[tuple[dict[str, Any] | None, int]] = []
        for line in data.split(b"\n")[:-1]:
            offset += len(line) + 1
            messages.append((_message(line), offset))
        return messages

    def secure(self) -> None:
        """Have what was appended on the disk itself: nobody else has it as long as the store does not answer."""
        fsync_folder(self.lines)

    @property
    def size(self) -> int:
        """Bytes appended."""
        return self.lines.stat().st_size if self.lines.exists() else 0

    def state(self) -> dict[str, Any]:
        """How far the store has the messages, and the ids of the runs there."""
        fresh = {"id": uuid.uuid4().hex, "offset": 0, "runs": {}, "closed": True}
        try:
            return fresh | read_sealed(self.folder / "state.json")
        except UserError:
            return fresh

    def save(self, state: dict[str, Any]) -> None:
        """Note how far the store has them."""
        write_sealed(self.folder / "state.json", state)

    def remove(self) -> None:
        """All is told."""
        remove(self.folder)


def _message(line: bytes) -> dict[str, Any] | None:
    """What a line says, if its checksum says so, too."""
    try:
        checksum, told = line[:8], line[9:]
        message = json.loads(told) if int(checksum, 16) == zlib.crc32(told) else None
    except ValueError:
        return None
    return message if isinstance(message, dict) and {"what", "run"} <= message.keys() else None
