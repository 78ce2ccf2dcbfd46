"""CUDA graphs: work on a GPU that is recorded once and replayed from then on.

A step of a small network is some thousand short kernels, and launching them one by one takes longer than running them.
What is recorded runs on fixed memory, reads nothing back to the host and compiles nothing. A recording that fails
costs speed and nothing else.
"""

import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch

Recorder = Callable[[Callable[[], Any]], tuple[Callable[[], None], Any]]
Recorded = tuple[Callable[[], None], Any]


class CudaRecorder:
    """Records work into CUDA graphs of one memory pool. From here on this process works on a stream of its own,
    since the default one cannot be recorded and a backward pass belongs on the stream of its forward pass.

    Only what this thread does can spoil a recording: NCCL's asks its events all the time."""

    def __init__(self, device: torch.device) -> None:
        if device.index is not None:  # else the current one is meant
            torch.cuda.set_device(device)  # a stream of another device would record nothing
        torch.cuda.synchronize()
        torch.cuda.set_stream(torch.cuda.Stream())  # type: ignore[no-untyped-call]
        self.pool = torch.cuda.graph_pool_handle()

    def __call__(self, work: Callable[[], Any]) -> Recorded:
        """(What repeats the work on the same memory, what the work returned)."""
        graph = torch.cuda.CUDAGraph()
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="The CUDA Graph is empty")
            stream, mode = torch.cuda.current_stream(), "thread_local"
            with torch.cuda.graph(graph, pool=self.pool, stream=stream, capture_error_mode=mode):
                result = work()
        return graph.replay, result


def can_record() -> bool:
    """Whether recordings can be trusted here: not on ROCm, where a capture may pass over illegal work in silence."""
    return torch.version.hip is None


class RecordingError(Exception):
    """Work that cannot be recorded; nothing of it was done."""

    def warn(self) -> None:
        """Print a warning: training goes on without the recording."""
        print(f"warning: {self}; training goes on unrecorded, which is slower", file=sys.stderr, flush=True)


def recorded(record: Recorder, work: Callable[[], Any]) -> Recorded:
    """The work as a recording; raises RecordingError where the device or the compiler forbids it."""
    try:
        with torch.compiler.set_stance("fail_on_recompile"):  # compiling reads the device: illegal in a recording
            return record(work)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, UserWarning) as error:
        raise RecordingError(f"the step could not be recorded ({str(error).splitlines()[0]})") from error
