"""Named tensors to a file and back: safetensors, whose faults become the errors that the rest of the project knows."""

import os
import re
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from electra.errors import CorruptFile

Tensors = dict[str, Tensor]


def write_tensors(path: Path, tensors: Tensors, metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file, not atomically: into a folder that is not yet under its final name.

    The operating system's refusal (a full disk) comes out of the library as an error of its own with the number in its
    text; here it is an OSError again.
    """
    try:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata=metadata)
    except SafetensorError as error:
        if number := re.search(r"os error (\d+)", str(error)):
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error
        raise


def read_tensors(path: Path, do: str) -> Tensors:
    """The tensors of a safetensors file; `do` is what the user should do about one that is not whole."""
    try:
        return load_file(path)
    except SafetensorError as error:
        raise CorruptFile(path, f"is not whole ({error})", "a safetensors file", do) from None
