"""Loss and sample over the vocabulary without ever holding the logits of all chosen positions.

    L = Σ_m w_m · -log softmax(x_m Wᵀ + b)[target_m]          sampled_m ~ softmax((x_m Wᵀ + b) / temperature)

At 128 rows of 128 tokens and 30,522 pieces the plain way makes some ten passes over 300 MB and keeps two of them for
the backward pass. Here a chunk of rows stays in the cache from its logits to its gradients, dL/dx and dL/dW are made
beside the loss (only the scalar that they are multiplied with is still unknown) and the softmax is shared with the
sampling. For CPUs: on a GPU the compiler fuses those passes, and its memory holds the logits.

Shapes: M chosen positions, C rows of a chunk, E embedding size, V vocabulary.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from electra.pretraining.config import ObjectiveConfig
from electra.pretraining.corruption import draw, sample
from electra.pretraining.objectives import masked_token_loss

CHUNK = 256


class Chosen(NamedTuple):
    """The M chosen positions of a batch."""

    targets_M: Tensor
    weights_M: Tensor  # 0 where none is meant
    uniform_M: Tensor | None  # numbers in [0, 1) that tokens are sampled by


class _Proposal(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        features_ME: Tensor,
        word_VE: Tensor,
        bias_V: Tensor,
        chosen: Chosen,
        config: ObjectiveConfig,
    ) -> tuple[Tensor, Tensor]:
        targets_M, weights_M, uniform_M = chosen
        half = torch.is_autocast_enabled("cpu")
        kind = torch.get_autocast_dtype("cpu") if half else features_ME.dtype
        features, word = features_ME.to(kind), word_VE.to(kind)
        learns = any(ctx.needs_input_grad[:3])  # type: ignore[attr-defined]
        grad_features, grad_word, grad_bias = torch.empty_like(features), word_VE.new_zeros(0), torch.zeros_like(bias_V)
        if learns:
            grad_word = torch.zeros_like(word_VE)
        loss = torch.zeros((), dtype=torch.float32)
        sampled_M = torch.empty_like(targets_M)
        for start in range(0, len(targets_M), CHUNK):
            part = slice(start, start + CHUNK)
            target_C1, weight_C = targets_M[part, None], weights_M[part]
            logits_CV = (features[part] @ word.T).float().add_(bias_V)
            p_CV = torch.softmax(logits_CV, -1)
            # -log p[target] by way of the likeliest token, whose p is at least 1/V: p[target] itself may underflow
            gap_C = logits_CV.amax(-1) - logits_CV.gather(1, target_C1).squeeze(1)
            loss += ((gap_C - p_CV.amax(-1).log()) * weight_C).sum()
            if uniform_M is not None:
                plain = config.temperature == 1 and not config.disallow_correct
                uniform_C = uniform_M[part]
                sampled_M[part] = (
                    draw(p_CV, uniform_C) if plain else sample(logits_CV, uniform_C, config, target_C1.squeeze(1))
                )
            if learns:  # dL/dlogits = w · (p - 1[target]); w goes into the narrower factors
                p_CV.scatter_add_(1, target_C1, torch.full_like(target_C1, -1, dtype=torch.float32))
                grad_bias.addmv_(p_CV.T, weight_C)
                grad_CV, weighted_C1 = p_CV.to(kind), weight_C[:, None].to(kind)
                grad_word += grad_CV.T @ (features[part] * weighted_C1)
                torch.mul(grad_CV @ word, weighted_C1, out=grad_features[part])
        if learns:
            ctx.save_for_backward(grad_features, grad_word, grad_bias)
        ctx.mark_non_differentiable(sampled_M)
        ctx.kind = features_ME.dtype  # type: ignore[attr-defined]
        return loss, sampled_M

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        features, word, bias = ctx.saved_tensors  # type: ignore[attr-defined]
        return (features * grad).to(ctx.kind), word * grad, bias * grad, None, None  # type: ignore[attr-defined]


def propose(
    features_ME: Tensor, word_VE: Tensor, bias_V: Tensor, chosen: Chosen, config: ObjectiveConfig
) -> tuple[Tensor, Tensor]:
    """(L_MLM as a sum over weighted positions, one sampled token a position), both in fp32 from the logits on.

    The same as `masked_token_loss` and `sample` of the logits; without uniform numbers nothing is sampled and the ids
    mean nothing. The logits are rounded to autocast's type, as those of a linear layer are.
    """
    if features_ME.device.type != "cpu" or torch.compiler.is_compiling():
        targets_M, weights_M, uniform_M = chosen
        logits_MV = F.linear(features_ME, *_whole_tiles(word_VE, bias_V))
        sampled_M = targets_M if uniform_M is None else sample(logits_MV, uniform_M, config, targets_M)
        return masked_token_loss(logits_MV, targets_M, weights_M), sampled_M
    return _Proposal.apply(features_ME, word_VE, bias_V, chosen, config)  # type: ignore[no-any-return, no-untyped-call]


def _whole_tiles(word_VE: Tensor, bias_V: Tensor) -> tuple[Tensor, Tensor]:
    """Table and bias with more pieces, of probability 0, up to a multiple of 64: a GPU's products want whole tiles.

    The compiler does it in the pass that casts the table. Nothing outside sees these pieces: they are never drawn,
    and the loss does not change.
    """
    more = -len(word_VE) % 64
    return F.pad(word_VE, (0, 0, 0, more)), F.pad(bias_V, (0, more), value=float("-inf"))
