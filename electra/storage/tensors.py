"""Write and read named tensors as safetensors files. The library's faults become the project's
errors.
"""

import os
import re
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from electra.errors import BadInput, CorruptFile, NonFinite
from electra.files import read_errors

Tensors = dict[str, Tensor]


def write_tensors(path: Path, tensors: Tensors, metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file, not atomically: into a folder that is not yet under its final name.

    The library reports a failed write (a full disk) as an error of its own, with the number in its
    text. This raises the OSError instead.
    """
    try:
        save_file(
            {name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata=metadata
        )
    except SafetensorError as error:
        raise _os_error(error, path) or error from None


def _os_error(error: Exception, path: Path) -> OSError | None:
    number = re.search(r"os error (\d+)", str(error))
    return OSError(int(number[1]), os.strerror(int(number[1])), str(path)) if number else None


def read_tensors(path: Path, do: str) -> Tensors:
    """Return the tensors of a safetensors file; `do` says what the user should do about a damaged
    one.
    """
    with read_errors(path, do):
        try:
            return load_file(path)
        # KeyError: a dtype that torch lacks
        except (SafetensorError, ValueError, KeyError) as error:
            damage = CorruptFile(f"{path}: is not a whole safetensors file ({error}); {do}")
            raise _os_error(error, path) or damage from None


def require_fit(places: Tensors, tensors: Tensors, where: object, do: str) -> None:
    """Refuse tensors that are not exactly those of `places`: names, shapes, and finite
    floating-point numbers.
    """
    missing = [name for name in places if name not in tensors]
    surplus = [name for name in tensors if name not in places]
    if missing:
        raise BadInput(f"{where}: has no tensor {_some(missing)} of this network; {do}")
    if surplus:
        raise BadInput(f"{where}: has {_some(surplus)}, which this network does not have; {do}")
    for name, place in places.items():
        tensor = tensors[name]
        if tensor.shape != place.shape:
            shapes = f"{tuple(tensor.shape)} instead of {tuple(place.shape)}"
            raise BadInput(f"{where}: {name} has shape {shapes}; {do}")
        kind = str(tensor.dtype).removeprefix("torch.")
        if not tensor.is_floating_point() or kind.endswith("_x2"):  # two numbers in a byte
            raise BadInput(f"{where}: {name} holds {kind} instead of floating point; {do}")
        if not tensor.to(place.dtype).isfinite().all():  # a value of a wider type may not fit
            fault = f"{name} holds NaN or infinity, so its training has failed"
            raise NonFinite(f"{where}: {fault}; train or fetch the model again")


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


@torch.no_grad()
def load_exactly(module: nn.Module, tensors: Tensors, where: object, do: str) -> None:
    """Load a module from exactly its tensors. Anything else is refused, and nothing is loaded."""
    places = module.state_dict()
    require_fit(places, tensors, where, do)
    for name, place in places.items():
        place.copy_(tensors[name])
