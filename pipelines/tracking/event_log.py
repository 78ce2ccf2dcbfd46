"""A run's events on disk until MLflow has them: one JSON event a line, and the offset sent so far.

A stage appends, its uploader reads, and neither waits for the other. Events left at the end are
sent by the next uploader of the same run, or by `python -m pipelines sync`.
"""

import contextlib
import itertools
import json
import os
import uuid
from pathlib import Path
from typing import Any

from electra.files import link_or_copy
from electra.storage.manifest import read_cache, write_checksummed

Event = dict[str, Any]


class EventLog:
    """A run's events. Each line is one write at the file's end. An incomplete one is ignored."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines = folder / "events.jsonl"
        self.notes = folder / "state.json"
        self._file: int | None = None
        self._torn = False

    def append(self, event: Event) -> None:
        """Add an event. Raises OSError where the disk refuses it."""
        if self._file is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._file = os.open(self.lines, flags, 0o666)
        line = json.dumps(event).encode() + b"\n"
        if self._torn:  # a full disk took part of the last line
            line = b"\n" + line
        self._torn = os.write(self._file, line) < len(line)

    def keep(self, file: Path) -> str:
        """Give the log a copy of a file, which a later run may replace. Return its path in the
        folder of the log, which may be moved.
        """
        name = Path("files", uuid.uuid4().hex, file.name)
        (self.folder / name).parent.mkdir(parents=True)
        link_or_copy(file, self.folder / name)
        return str(name)

    def read(self, offset: int, count: int) -> tuple[list[Event], int]:
        """Return the events of up to `count` lines from a byte `offset`, and the offset behind
        them.
        """
        events: list[Event] = []
        if self.lines.exists():
            with self.lines.open("rb") as file:
                file.seek(offset)
                for line in itertools.islice(file, count):
                    if not line.endswith(b"\n"):
                        break
                    offset += len(line)
                    with contextlib.suppress(ValueError):
                        event = json.loads(line)
                        if "file" in event:
                            event["file"] = str(self.folder / event["file"])
                        events.append(event)
        return events, offset

    def state(self) -> dict[str, Any]:
        """Return how far MLflow has the events (`offset`, bytes), and the ids of the runs there."""
        new = {"id": uuid.uuid4().hex, "offset": 0, "runs": {}, "closed": True}
        return new | read_cache(self.notes)

    def save(self, state: dict[str, Any]) -> None:
        """Write the state."""
        write_checksummed(self.notes, state)
