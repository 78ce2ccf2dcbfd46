"""Progress of a long task. Callers that want a bar pass one in; otherwise nothing is shown."""

from typing import Self


class Bar:
    """A bar that shows nothing, unlike its subclass in pipelines/stages: `with Bar("tiny", 1200,
    "steps") as bar: bar.update(1)`.
    """

    def __init__(self, title: str, total: int, unit: str) -> None:
        self.title = title
        self.total = total
        self.unit = unit

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def update(self, done: int, **numbers: float | str) -> None:
        """Show that `done` units are complete, with `numbers` (loss, rows, ...)."""
