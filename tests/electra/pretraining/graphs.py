"""What CUDA graphs do, for devices without."""

from electra.pretraining.step import Graphs


class Rerun(Graphs):
    """Graphs that do the captured work again; its results keep their place."""

    def __init__(self):
        self.failed, self.count = False, 0

    def _capture(self, work):
        self.count += 1
        again = Again(work)
        return again, again.results


class Again:
    """A graph does its work at its first replay, not while it is captured: here the other way
    round.
    """

    def __init__(self, work):
        self.work, self.results, self.replays = work, work(), 0

    def replay(self):
        self.replays += 1
        if self.replays > 1:
            for place, value in zip(_tensors(self.results), _tensors(self.work()), strict=True):
                place.copy_(value)


class Failing(Rerun):
    """Graphs of which one cannot be captured: the device's word at an illegal operation."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def _capture(self, work):
        if self.count == self.number:
            raise RuntimeError("operation not permitted when stream is capturing")
        return super()._capture(work)


def _tensors(result):
    return list(result.values()) if isinstance(result, dict) else [result]
