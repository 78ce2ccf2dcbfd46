"""Several seeds of one task trained as one network, whose weights have a leading dimension of seeds.

A step of fine-tuning is a thousand tokens or so: a GPU spends it on starting kernels. Stacked, S seeds start as many as
one does. Each seed keeps its own initial weights, order of rows, clipping and losses; what one computes never enters
another's numbers, so a seed that diverges does so alone. Results equal those of single runs up to the order of
additions, but for dropout, whose draws are shared out anew (a function of the set of seeds).

1. each seed takes its next batch; all are sorted by length and cut at the same ranks, so that parts are of like size
2. rows of filler even out the token counts of the seeds; their losses count for nothing
3. tokens of all seeds lie end to end, seed after seed: products are batched, attention sees S · R rows

Shapes: S seeds, N rows of the split, B rows of a batch, R rows of a part, D rows of filler, T longest row of a part.
"""

import copy
import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from electra.finetuning.batches import NO_WORD, Examples, training_order
from electra.finetuning.heads import Network
from electra.finetuning.tasks import FinetuneConfig
from electra.finetuning.trainer import CHECK_EVERY, ROOM, Training, count_steps, optimizer_for, thinned
from electra.finetuning.unpadded import linear, lookup
from electra.optim.optimizer import AdamW, set_rate
from electra.optim.precision import autocast, choose
from electra.optim.schedule import learning_rate
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
    """`loop.train` for each of S models, all at once and in place; one whose loss is no longer finite goes on alone."""
    place = torch.device(device)
    precision = choose(config.precision, place)
    tokens = max(256, ROOM[place.type] // models[0].encoder.config.hidden)
    steps = count_steps(len(examples), config)
    warmup = int(steps * config.warmup)
    joint = stack(models)
    optimizer = _without_decay_of_vectors(optimizer_for(joint, config), config.weight_decay)
    parameters = list(joint.parameters())
    orders = [training_order(len(examples), config.batch, seed, stream) for seed in seeds]
    filled = with_filler(examples)
    torch.manual_seed(derive(seeds[0], f"{stream}/stacked", *seeds))
    finite_S = torch.ones(len(seeds), dtype=torch.bool, device=place)
    curve: list[Tensor] = []
    joint.train()
    for step in range(steps):
        set_rate(optimizer, learning_rate(step, peak=config.learning_rate, warmup=warmup, steps=steps))
        rows_SB = np.stack([next(order) for order in orders])
        optimizer.zero_grad(set_to_none=True)
        total_S = torch.zeros(len(seeds), device=place)
        for rows_SR, filler_SD in even_parts(rows_SB, examples.length_N, tokens):
            batch = filled.batch(np.concatenate([rows_SR, filler_SD], 1).reshape(-1), place)
            with autocast(precision, place):
                loss_S = joint.losses(batch).view(len(seeds), -1)[:, : rows_SR.shape[1]].sum(1)
            total_S += loss_S.detach()
            loss = loss_S.sum() if config.loss == "summed" else loss_S.sum() / rows_SB.shape[1]
            loss.backward()
        clip_each(parameters, config.clip)
        optimizer.step()
        curve.append(total_S / rows_SB.shape[1])
        if (step + 1) % CHECK_EVERY == 0:
            finite_S &= total_S.isfinite()
            if not bool(finite_S.any()):
                break
    for parameter in parameters:
        finite_S &= parameter.detach().flatten(1).isfinite().all(1)
    points = torch.stack(curve).cpu().numpy()
    return [Training(good, thinned(points[:, seed]) if good else []) for seed, good in enumerate(finite_S.tolist())]


def stack(models: Sequence[Network]) -> Network:
    """One network whose weights are the models' (S, ...). The models keep theirs as views: what it learns, they know."""
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


def with_filler(examples: Examples) -> Examples:
    """The rows, and after them one row of filler of each length from 1 up to the longest row's."""
    longest = int(examples.length_N.max())
    length_L = np.arange(1, longest + 1)
    targets = {
        name: np.concatenate([values, np.zeros(longest, values.dtype)])
        if len(values) == len(examples)
        else np.concatenate([values, np.full(length_L.sum(), NO_WORD, values.dtype)])  # one for each token
        for name, values in examples.targets.items()
    }
    return dataclasses.replace(
        examples,
        ids_S=np.concatenate([examples.ids_S, np.zeros(length_L.sum(), examples.ids_S.dtype)]),
        length_N=np.concatenate([examples.length_N, length_L]),
        second_N=np.concatenate([examples.second_N, length_L]),
        targets=targets,
        row_ids=[*examples.row_ids, *[""] * longest],
    )


def even_parts(
    rows_SB: NDArray[np.int64], length_N: NDArray[np.int64], tokens: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Each seed's rows once, shortest first, in parts of at most `tokens` tokens of all seeds (or one row of each).

    With every part come rows of `with_filler` (S, D) that make all seeds' token counts equal.
    """
    rows_SB = np.take_along_axis(rows_SB, np.argsort(length_N[rows_SB], axis=1, kind="stable"), 1)
    length_SB = length_N[rows_SB]
    seeds, batch = rows_SB.shape
    start = 0
    while start < batch:
        real_R = length_SB[:, start:].sum(0).cumsum()
        cells_R = seeds * np.arange(1, batch - start + 1) * length_SB[:, start:].max(0)
        fits_R = (real_R <= tokens) & ((cells_R <= tokens) | (cells_R <= 1.25 * real_R))  # as `parts` has it
        end = start + max(1, int(np.logical_and.accumulate(fits_R).sum()))
        part_SR = length_SB[:, start:end]
        yield rows_SB[:, start:end], len(length_N) + _filler(part_SR.sum(1), int(part_SR.max()))
        start = end


def _filler(tokens_S: NDArray[np.int64], longest: int) -> NDArray[np.int64]:
    """Lengths less one (S, D) of rows that lift every count to the same number, none longer than `longest`."""
    missing_S1 = (tokens_S.max() - tokens_S)[:, None]
    # each row has one token more than it need, so that none is empty
    count = -(-int(missing_S1.max()) // (longest - 1))
    less_one_SD: NDArray[np.int64] = np.clip(missing_S1 - np.arange(count) * (longest - 1), 0, longest - 1)
    return less_one_SD


def clip_each(parameters: Sequence[Tensor], limit: float) -> None:
    """`clip_gradients` for each seed by itself."""
    for grads in zip(*(parameter.grad.unbind() for parameter in parameters if parameter.grad is not None), strict=True):
        norm = nn.utils.get_total_norm(grads, foreach=True)
        torch._foreach_mul_(grads, (limit / (norm + 1e-6)).clamp(max=1.0))


def _without_decay_of_vectors(optimizer: AdamW, weight_decay: float) -> AdamW:
    """The optimizer with its groups parted anew: a stacked vector (bias, norm) has two dimensions, and is not decayed."""
    optimizer.param_groups = [
        {**group, "params": members, "weight_decay": weight_decay if decayed else 0.0}
        for group in optimizer.param_groups
        for decayed in (True, False)
        if (members := [parameter for parameter in group["params"] if (parameter.ndim > 2) == decayed])
    ]
    return optimizer
