"""The losses, as sums over positions; who calls them divides by the global number of positions.

Sums, since padding, accumulation and several processes must not change a loss: the denominators come from row lengths,
which every process knows before the step. All in fp32.

Shapes: B rows, T positions, M chosen positions of the batch, V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def masked_token_loss(logits_MV: Tensor, targets_M: Tensor, weights_M: Tensor) -> Tensor:
    """L_MLM (paper, section 2): sum over chosen positions of -log p_G(original token)."""
    return (F.cross_entropy(logits_MV.float(), targets_M, reduction="none") * weights_M).sum()


def replaced_token_losses(logits_BT: Tensor, replaced_BT: Tensor) -> Tensor:
    """-log of the probability that D gives to the truth, at every position (B, T); L_Disc is its weighted sum."""
    return F.binary_cross_entropy_with_logits(logits_BT.float(), replaced_BT.float(), reduction="none")


def judge(logits_BT: Tensor, replaced_BT: Tensor, lengths_B: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """(L_Disc summed over real tokens, what else is counted of D's verdicts there); replaced: a positive logit."""
    real_BT = torch.arange(logits_BT.shape[1], device=logits_BT.device) < lengths_B[:, None]
    said_BT = (logits_BT > 0) & real_BT
    loss = (replaced_token_losses(logits_BT, replaced_BT) * real_BT).sum()
    hits = (said_BT & replaced_BT).sum()
    return loss, {"disc_loss": loss.detach(), "tokens": real_BT.sum(), "said_replaced": said_BT.sum(), "found": hits}


def copy_losses(logits_XV: Tensor, copy_logits_X: Tensor, inputs_X: Tensor, targets_X: Tensor) -> Tensor:
    """All-Tokens MLM (section 3.4): -log p(target), p = D · 1[token = input] + (1 - D) · softmax, D = σ(copy logit).

    X counts positions. Computed in log space, so that a D near 1 keeps its gradient.
    """
    log_copy_X = F.logsigmoid(copy_logits_X.float())
    log_write_X = F.logsigmoid(-copy_logits_X.float())
    written_X = log_write_X - F.cross_entropy(logits_XV.float(), targets_X, reduction="none")
    same = inputs_X == targets_X
    return -torch.where(same, torch.logaddexp(log_copy_X, written_X), written_X)


def reinforce_losses(
    logits_MV: Tensor, sampled_M: Tensor, rewards_M: Tensor, baseline_logits_M: Tensor
) -> tuple[Tensor, Tensor]:
    """Adversarial generator (the paper's appendix): per-position policy-gradient and baseline losses, (M,) each.

    The reward is D's loss at the position, -log of D's probability of the truth. The baseline is -log sigmoid of a
    linear map of the generator's hidden state, trained by cross-entropy to the probability that the reward stands for.
    """
    rewards_M = rewards_M.detach()
    baseline_M = -F.logsigmoid(baseline_logits_M.float())
    log_probability_M = -F.cross_entropy(logits_MV.float(), sampled_M, reduction="none")
    policy_M = -(rewards_M - baseline_M.detach()) * log_probability_M
    baseline_loss_M = F.binary_cross_entropy_with_logits(
        baseline_logits_M.float(), (-rewards_M).exp(), reduction="none"
    )
    return policy_M, baseline_loss_M
