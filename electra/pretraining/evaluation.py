"""Metrics of both networks on held-out rows, and whether the discriminator has learnt anything.

Every evaluation masks and samples with the same random numbers, so two points of a curve differ by
the weights alone.
"""

from collections.abc import Iterable
from concurrent.futures import Executor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electra.nn.encoder import real_tokens
from electra.optim.precision import Precision, autocast
from electra.pretraining.distributed import World
from electra.pretraining.model import Batch, Outputs, Pretraining

PLATEAU = 5e6  # tokens: on real text, no discriminator has learnt much before it has read so many


def ratio(numerator: float, denominator: float) -> float:
    """Return a quotient, 0 where nothing was counted."""
    return numerator / denominator if denominator else 0.0


def area_under_curve(scores: NDArray[np.float32], positive: NDArray[np.bool_]) -> float:
    """Return the probability that a positive scores above a negative; ties count half; 0.5 if a
    class is missing.
    """
    positives = int(positive.sum())
    negatives = len(positive) - positives
    if not positives or not negatives:
        return 0.5
    _, index, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2  # mean rank of each distinct score, from 1
    return float(
        (ranks[index][positive].sum() - positives * (positives + 1) / 2) / (positives * negatives)
    )


def metrics(sums: dict[str, float]) -> dict[str, float]:
    """Return named numbers from sums over positions.

    `disc_baseline` is the loss of always saying the replaced rate r, H(r); `disc_majority` the
    accuracy of always saying "original". Precision and recall are on replaced tokens.
    """
    result: dict[str, float] = {}
    if sums.get("chosen"):
        result["mlm_loss"] = sums["mlm_loss"] / sums["chosen"]
        for kind in ("mlm", "sample", "main"):
            if f"{kind}_correct" in sums:
                result[f"{kind}_accuracy"] = sums[f"{kind}_correct"] / sums["chosen"]
    if "main_loss" in sums:
        result["main_loss"] = ratio(sums["main_loss"], sums.get("tokens") or sums["chosen"])
    if "disc_loss" in sums:
        tokens = sums["tokens"]
        replaced = sums["replaced"]
        rate = ratio(replaced, tokens)
        wrong = sums["said_replaced"] + replaced - 2 * sums["found"]
        result |= {
            "replaced_rate": rate,
            "disc_loss": ratio(sums["disc_loss"], tokens),
            "disc_baseline": float(-sum(p * np.log(p) for p in (rate, 1 - rate) if p > 0)),
            "disc_accuracy": 1 - ratio(wrong, tokens),
            "disc_majority": 1 - rate,
            "disc_precision": ratio(sums["found"], sums["said_replaced"]),
            "disc_recall": ratio(sums["found"], replaced),
        }
    return result


def add_sums(total: dict[str, Tensor], part: dict[str, Tensor]) -> None:
    """Accumulate on the device; nothing is read."""
    for name, value in part.items():
        total[name] = total.get(name, 0) + value.double()


def read_sums(total: dict[str, Tensor], world: World) -> dict[str, float]:
    """Read sums over all processes back to the host, in one copy."""
    total = world.all_reduce_sum(total)
    return dict(zip(total, torch.stack(list(total.values())).tolist(), strict=True))


def evaluate(
    model: Pretraining,
    slices: Iterable[Batch],
    stage: str,
    count: int,
    world: World,
    precision: Precision,
    threads: Executor | None = None,
) -> dict[str, float]:
    """Return metrics over this process's slices of `count` held-out batches, dropout off; AUC over
    all real tokens.

    With `threads` several slices are read at once.
    """

    @torch.no_grad()
    def read(batch: Batch) -> tuple[Batch, Outputs]:
        with autocast(precision, world.device):
            return batch, model(batch, stage)

    model.eval()
    total: dict[str, Tensor] = {}
    scores: list[NDArray[np.float32]] = []
    truths: list[NDArray[np.bool_]] = []
    for batch, outputs in threads.map(read, slices) if threads else map(read, slices):
        add_sums(total, {**outputs.sums, "loss": outputs.loss})
        if outputs.logits_BT is not None:
            logits_BT = world.all_gather(outputs.logits_BT)
            replaced_BT = world.all_gather(outputs.replaced_BT)
            real_BT = real_tokens(world.all_gather(batch.lengths_B), logits_BT.shape[1])
            scores.append(logits_BT[real_BT].float().cpu().numpy())
            truths.append(replaced_BT[real_BT].cpu().numpy())
    model.train()
    sums = read_sums(total, world)
    record = {"loss": sums["loss"] / count, **metrics(sums)}
    if scores:
        record["disc_auc"] = area_under_curve(np.concatenate(scores), np.concatenate(truths))
    return record


def weakness(record: dict[str, float], text: int) -> str:
    """Return a sentence with the likely cause if the discriminator hardly finds replaced tokens;
    else "".

    `record` is an evaluation with the tokens read so far, `text` the tokens of all training rows.
    """
    if "disc_auc" not in record:
        return ""
    auc = record["disc_auc"]
    share = ratio(record["disc_loss"], record["disc_baseline"])
    if auc >= 0.65 and share <= 0.97:
        return ""
    tokens = record["tokens"]
    passes = tokens / text
    cause = "it may have collapsed: lower pretrain.learning_rate, or take a smaller generator"
    if tokens < PLATEAU:
        needs = f"{PLATEAU / 1e6:.0f} M: raise pretrain.steps"
        cause = f"it has read {tokens / 1e6:.1f} M tokens, and needs some {needs}"
    elif passes > 100:
        cause = f"it has read its text {passes:.0f} times: use more text"
    return (
        f"the discriminator hardly finds replaced tokens (AUC {auc:.2f}, recall "
        f"{record['disc_recall']:.2f}, loss {share:.0%} of what knowing their share alone gives), "
        f"so fine-tuning gains little from it; {cause}"
    )
