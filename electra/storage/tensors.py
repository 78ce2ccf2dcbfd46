"""Named tensors to a file and back: safetensors, whose faults become the errors that the rest of the project knows."""

import os
import re
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from electra.errors import BadInput, CorruptFile, NonFinite
from electra.files import readable

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
        with readable(path, do):
            return load_file(path)
    except (SafetensorError, ValueError, KeyError) as error:  # KeyError: a type of number that torch has not
        raise CorruptFile(path, f"is not whole ({error})", "a safetensors file", do) from None


def require_fit(places: Tensors, tensors: Tensors, where: object, do: str) -> None:
    """Refuse tensors that are not exactly those of `places`: names, shapes, and numbers with a fraction, all finite."""
    lacking = [name for name in places if name not in tensors]
    surplus = [name for name in tensors if name not in places]
    if lacking or surplus:
        wrong = [f"{said} {_some(names)}" for said, names in (("has no tensor", lacking), ("has", surplus)) if names]
        raise BadInput(where, " and ".join(wrong), f"the {len(places)} tensors of this network and no other", do)
    for name, place in places.items():
        if tensors[name].shape != place.shape:
            raise BadInput(where, f"{name} has shape {tuple(tensors[name].shape)}", f"{tuple(place.shape)}", do)
        if not tensors[name].is_floating_point():
            found = f"{name} holds {str(tensors[name].dtype).removeprefix('torch.')}"
            raise BadInput(where, found, "floating point", do)
        if not tensors[name].to(place.dtype).isfinite().all():  # what a wider type holds may not fit
            found, anew = f"{name} holds NaN or infinity", "its training has failed: train or fetch the model again"
            raise NonFinite(where, found, "finite numbers", anew)


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


@torch.no_grad()
def fill(module: nn.Module, tensors: Tensors, where: object, do: str) -> None:
    """Fill a module with exactly its tensors; anything else is refused and nothing is filled."""
    places = module.state_dict()
    require_fit(places, tensors, where, do)
    for name, place in places.items():
        place.copy_(tensors[name])
