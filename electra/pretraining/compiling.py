"""Compile the parts of the networks that take the time of a step, each once for all layers."""

import functools
import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path
from typing import Any

import torch

from electra.nn.encoder import Embeddings, EncoderLayer
from electra.nn.token_heads import MaskedTokenHead, ReplacedTokenHead
from electra.pretraining.model import Pretraining


def compile_parts(model: Pretraining, **options: Any) -> None:
    """Compile the parts of both networks in place. Layers of one size share one compiled function.

    The small model then takes 29 s to compile, at any depth; compiled whole, 82 s. Inductor joins
    kernels that do not depend on each other (`combo_kernels`): a layer's backward pass ends in
    eight short sums for biases and norms.
    """
    import torch._dynamo.config as dynamo  # seconds, which only a process that compiles pays

    # two networks, training and evaluation, two stages
    dynamo.recompile_limit = max(dynamo.recompile_limit, 32)
    options = options or {"options": {"combo_kernels": True}}
    compiled = functools.partial(torch.compile, dynamic=False, **options)
    for module in model.modules():
        if isinstance(module, EncoderLayer | Embeddings | ReplacedTokenHead | MaskedTokenHead):
            module.forward = compiled(module.forward)  # type: ignore[method-assign]
    for name in ("mask", "sample", "replace", "masked_token_loss", "discriminator_loss"):
        setattr(model, name, compiled(getattr(model, name)))


def missing_for_compile() -> str:
    """Return the tool that torch's compiler needs for a GPU but that this machine lacks, looked up
    as Triton does; "" if it has all.
    """
    if importlib.util.find_spec("triton") is None:
        return "Triton"
    if not (os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")):
        return "C compiler: gcc or clang"
    scheme = sysconfig.get_default_scheme().replace("posix_local", "posix_prefix")
    headers = Path(sysconfig.get_paths(scheme)["include"], "Python.h")
    return "" if headers.is_file() else "Python.h: Python's headers"
