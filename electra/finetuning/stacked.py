"""Several seeds of one task trained as one network, whose weights have a leading dimension of seeds.

A step of fine-tuning is a thousand tokens or so: a GPU spends it on starting kernels. Stacked, S seeds start as many as
one does. Each seed keeps its own initial weights, order of rows, clipping and losses; what one computes never enters
another's numbers, so a seed that diverges does so alone. Results equal those of single runs up to the order of
additions, but for dropout, whose draws are shared out anew (a function of the set of seeds).

1. each seed takes its next batch; all are sorted by length and cut at the same ranks, so that parts are of like size
2. rows of filler even out the token counts of the seeds; their losses count for nothing
3. tokens of all seeds lie end to end, seed after seed: products are batched, attention sees S · R rows

Shapes: S seeds, N rows of the split, B rows of a batch, R rows of a part.
"""

import copy
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electra.finetuning.batches import Examples, training_order
from electra.finetuning.heads import Network
from electra.finetuning.stacked_step import StackedStep
from electra.finetuning.tasks import FinetuneConfig
from electra.finetuning.training import Training, optimizer_for, run_steps, tokens_of_a_part
from electra.finetuning.unpadded import linear, lookup
from electra.optim.adamw import AdamW
from electra.optim.cuda_graphs import CudaRecorder, Recorder
from electra.seeds import derive


def train_together(
    models: Sequence[Network],
    examples: Examples,
    config: FinetuneConfig,
    *,
    seeds: Sequence[int],
    stream: str,
    device: torch.device | str = "cpu",
) -> list[Training]:
    """`train` for each of S models, all at once and in place."""
    place, joint = torch.device(device), stack(models)
    optimizer = _without_decay_of_vectors(optimizer_for(joint, config), config.weight_decay)
    tokens = tokens_of_a_part(models[0], place)
    update = StackedStep(joint, optimizer, examples, config, tokens=tokens, record=recorder(place))
    orders = [training_order(len(examples), config.batch, seed, stream) for seed in seeds]
    torch.manual_seed(derive(seeds[0], f"{stream}/stacked", *seeds))
    return run_steps(joint, optimizer, update, orders, config, len(examples))


def recorder(place: torch.device) -> Recorder | None:
    """What records a step, on devices that can."""
    return CudaRecorder(place) if place.type == "cuda" else None


def stack(models: Sequence[Network]) -> Network:
    """One network whose weights are the models' (S, ...). The models keep views of them: what it learns, they know."""
    joint = copy.deepcopy(models[0])
    for name, module in models[0].named_modules():
        if next(module.parameters(recurse=False), None) is not None:
            joint.set_submodule(name, _KINDS[type(module)]([model.get_submodule(name) for model in models]))
    return joint


class _Stacked(nn.Module):
    """The weights of one module of every network."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, parts: Sequence[nn.Module]) -> None:
        super().__init__()
        self.register_parameter("bias", None)  # a module may have none
        for name, _ in parts[0].named_parameters():
            together = self.together([part.get_parameter(name).detach() for part in parts])
            for part, own in zip(parts, together, strict=True):
                part.get_parameter(name).data = own
            self.register_parameter(name, nn.Parameter(together))

    def together(self, tensors: list[Tensor]) -> Tensor:
        return torch.stack(tensors)


class _Linear(_Stacked):
    def together(self, tensors: list[Tensor]) -> Tensor:
        """Matrices lie in memory as the product for their gradient leaves it, which then need not be copied."""
        return torch.stack([tensor.mT for tensor in tensors]).mT if tensors[0].ndim == 2 else torch.stack(tensors)

    def forward(self, x_PI: Tensor) -> Tensor:
        return linear(x_PI, self.weight, self.bias)


class _Embedding(_Stacked):
    def forward(self, ids_P: Tensor) -> Tensor:
        return lookup(ids_P, self.weight)


class _LayerNorm(_Stacked):
    def __init__(self, parts: Sequence[nn.Module]) -> None:
        super().__init__(parts)
        assert isinstance(parts[0], nn.LayerNorm)
        self.eps = parts[0].eps

    def forward(self, x_PH: Tensor) -> Tensor:
        normal_SNH = F.layer_norm(x_PH, x_PH.shape[-1:], eps=self.eps).view(len(self.weight), -1, x_PH.shape[-1])
        scaled_SNH = normal_SNH * self.weight[:, None]
        return (scaled_SNH if self.bias is None else scaled_SNH + self.bias[:, None]).flatten(0, 1)


_KINDS = {nn.Linear: _Linear, nn.Embedding: _Embedding, nn.LayerNorm: _LayerNorm}


def _without_decay_of_vectors(optimizer: AdamW, weight_decay: float) -> AdamW:
    """The optimizer with its groups parted anew: a stacked vector (bias, norm) is two-dimensional, yet not decayed."""
    optimizer.param_groups = [
        {**group, "params": members, "weight_decay": weight_decay if decayed else 0.0}
        for group in optimizer.param_groups
        for decayed in (True, False)
        if (members := [parameter for parameter in group["params"] if (parameter.ndim > 2) == decayed])
    ]
    return optimizer
