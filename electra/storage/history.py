"""A run's numbers: in memory, in every checkpoint, and as lines of JSON beside them for whoever watches."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electra.files import room, write_atomic


class History:
    """Records with a `step`; no clock times in them. `metrics.jsonl` is a copy that is written and never read.

    Without a path (in a process that does not write) nothing is put on disk.
    """

    def __init__(self, path: Path | None, records: Sequence[dict[str, Any]] = ()) -> None:
        self.path, self.records = path, list(records)
        if path is not None:
            write_atomic(path, "".join(json.dumps(record, sort_keys=True) + "\n" for record in self.records))

    def append(self, record: dict[str, Any]) -> None:
        """Add one record."""
        self.records.append(record)
        if self.path is None:
            return
        with room(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, sort_keys=True) + "\n")
