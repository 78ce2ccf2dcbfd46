"""From the loss of each slice to the gradients of a step, and the weights that a slice computes with.

All gradients and the loss lie in one fp32 buffer: a recorded update finds them in the same place, several processes sum
them in one all_reduce, and two threads of a CPU add theirs one after the other.

Recorded and in bf16, linear layers compute with copies of their weights that are cast once a step. Autocast casts at
each use and each gradient back, which in a small network is a fifth of all kernels. The copies are rounded as autocast
rounds.
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.func import functional_call

from electra.pretraining.distributed import World
from electra.pretraining.model import Batch, Outputs, Pretraining

_ALIGNED = 64  # elements: a view begins at a multiple of 256 bytes, as what the allocator gives does


class Gradients:
    """A step's gradients. A parameter that gets none in a stage has none and is not updated."""

    def __init__(self, model: Pretraining, world: World, *, half: bool) -> None:
        self.model, self.world = model, world
        self.parameters = dict(model.named_parameters())
        linear = {id(p) for part in model.modules() if isinstance(part, nn.Linear) for p in part.parameters(False)}
        self.cast = {name: p for name, p in self.parameters.items() if half and id(p) in linear}
        self.working: dict[str, Tensor] = {
            name: nn.Parameter(p.detach().bfloat16()) if name in self.cast else p for name, p in self.parameters.items()
        }
        self.sizes = [-(-p.numel() // _ALIGNED) * _ALIGNED for p in self.parameters.values()]
        self.buffer = torch.zeros(sum(self.sizes) + 1, device=world.device)
        self.loss = self.buffer[-1]
        self.views, self.incoming = self._views(self.buffer), dict[str, Tensor]()

    def _views(self, buffer: Tensor) -> dict[str, Tensor]:
        parts = zip(self.parameters.items(), torch.split(buffer[:-1], self.sizes), strict=True)
        return {name: part[: p.numel()].view_as(p) for (name, p), part in parts}

    def forward(self, part: Batch, stage: str) -> Outputs:
        """Forward pass of one slice, by the working copies."""
        if not self.cast:
            return self.model(part, stage)  # type: ignore[no-any-return]
        # Tied by torch, a module that both networks share would keep the copies after the call (pytorch #164759). No
        # linear layer has its weight in another module, so there is nothing to tie.
        return functional_call(self.model, self.working, (part, stage), tie_weights=False)  # type: ignore[no-any-return]

    @torch.no_grad()
    def refresh(self) -> None:
        """Cast the weights as they are now: once a step, before its first slice."""
        for name, p in self.cast.items():
            self.working[name].requires_grad_(p.requires_grad)
        if self.cast:
            torch._foreach_copy_([self.working[name] for name in self.cast], list(self.cast.values()))

    def differentiate(self, loss: Tensor) -> dict[str, Tensor]:
        """A slice's gradients by name, not added yet."""
        learning = [name for name, p in self.working.items() if p.requires_grad]
        gradients = torch.autograd.grad(loss, [self.working[name] for name in learning], allow_unused=True)
        return {name: gradient for name, gradient in zip(learning, gradients, strict=True) if gradient is not None}

    @torch.no_grad()
    def add(self, new: dict[str, Tensor], loss: Tensor, *, first: bool) -> None:
        """Set (`first`) or add gradients that `differentiate` gave."""
        if first:
            for name, view in self.views.items():
                self.parameters[name].grad = view if name in new else None
            _copy(self.views, new)
            self.loss.copy_(loss)
            return
        if self.cast:  # to fp32 before they are added
            self.incoming = self.incoming or self._views(torch.zeros_like(self.buffer))
            _copy(self.incoming, new)
            new = {name: self.incoming[name] for name in new}
        torch._foreach_add_([self.views[name] for name in new], list(new.values()))
        self.loss.add_(loss)

    def all_reduce(self) -> None:
        """Sum gradients and loss over all processes, which every one of them then holds.

        In bf16 (`pretrain.all_reduce`) gradients are rounded to it, and half the bytes are sent; the loss stays exact.
        """
        if self.world.size == 1:
            return
        if self.model.config.pretrain.all_reduce == "fp32":
            dist.all_reduce(self.buffer)
            return
        rounded = self.buffer[:-1].bfloat16()
        dist.all_reduce(rounded)
        self.buffer[:-1].copy_(rounded)
        dist.all_reduce(self.loss)


def _copy(places: dict[str, Tensor], values: dict[str, Tensor]) -> None:
    """Copy with one call for each type: a list of several types would be one kernel a tensor."""
    for kind in {value.dtype: None for value in values.values()}:
        names = [name for name, value in values.items() if value.dtype == kind]
        torch._foreach_copy_([places[name] for name in names], [values[name] for name in names])
