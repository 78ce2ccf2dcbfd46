"""Progress of a long task. A bar is passed in by whoever shows it; without one nothing is shown."""

from types import TracebackType
from typing import Self


class Bar:
    """Shows nothing; that of pipelines/stages does: `with Bar("tiny", 1200, "steps") as bar:
    bar.update(1)`.
    """

    def __init__(self, title: str, total: int, unit: str) -> None:
        self.title, self.total, self.unit = title, total, unit

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def update(self, done: int, **numbers: float | str) -> None:
        """`done` units are complete; `numbers` (loss, rows, ...) are shown beside them."""
