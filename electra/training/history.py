"""A run's numbers, one JSON record a line, cut back to the checkpoint when a run resumes."""

import json
from pathlib import Path
from typing import Any

from electra.files import room, write_atomic


class History:
    """Records with a `step`, in memory and appended to `metrics.jsonl`; no clock times in them.

    Without a path (in a process that does not write) nothing is kept on disk.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.records: list[dict[str, Any]] = []

    def rewind(self, step: int) -> None:
        """Keep the records up to and including `step`; a line torn by a crash is dropped with the rest."""
        self.records = []
        if self.path is None:
            return
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                try:
                    record = json.loads(line)
                except json.JSONDecodeError:
                    break
                if record["step"] > step:
                    break
                self.records.append(record)
        write_atomic(self.path, "".join(json.dumps(record) + "\n" for record in self.records))

    def append(self, record: dict[str, Any]) -> None:
        """Add one record."""
        self.records.append(record)
        if self.path is None:
            return
        with room(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
