"""The published SQuAD head: where an answer starts, where it ends given its start, and whether
there is one.

    start   softmax over positions of  w · h_t
    end     softmax over positions of  MLP([h_start ; h_t])
    null    sigmoid of  MLP([h_CLS ; Σ_t softmax(start)_t h_t])

The end is XLNet's; that of an `independent` head is BERT's, w' · h_t. `null` is trained on the
question's flag, with weight 0.5.
In training the end sees the gold start; in prediction each of the `beam` best starts gets its
`beam` best ends. Only [CLS], the context and the last [SEP] are possible positions (the others lose
1000). There is no dropout in the head.

Shapes: B rows, T positions, H hidden size, M = 512 hidden units of both MLPs, K beam.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electra.finetuning.batches import PaddedBatch
from electra.finetuning.heads import Network
from electra.finetuning.tasks import SquadConfig
from electra.nn.encoder import Encoder

_MLP = 512
_FORBIDDEN = -1000.0


class SpanFinder(Network):
    """An encoder with the SQuAD head."""

    def __init__(self, encoder: Encoder, config: SquadConfig) -> None:
        super().__init__()
        size = encoder.config.hidden
        self.encoder = encoder
        self.beam = config.beam
        self.conditional = config.head == "conditional"
        self.answerability = config.answerability
        self.answerability_weight = config.answerability_weight
        self.start = nn.Linear(size, 1)
        if self.conditional:
            self.end = _Pair(size)
        else:
            self.end_alone = nn.Linear(size, 1)
        if self.answerability:
            self.null = _Pair(size)
        for name, part in self.named_modules():
            if isinstance(part, nn.Linear) and not name.startswith("encoder."):
                nn.init.xavier_uniform_(part.weight)
                nn.init.zeros_(part.bias)

    def _read(self, batch: PaddedBatch) -> tuple[Tensor, Tensor]:
        """Return hidden states (B, T, H) and the start's logits (B, T)."""
        hidden_BTH = self.encoder(batch.ids_BT, batch.segments_BT, batch.lengths_B)
        return hidden_BTH, self._logits(self.start(hidden_BTH), batch)

    def _logits(self, score_BT1: Tensor, batch: PaddedBatch) -> Tensor:
        """Return scores as logits (B, T): lowered where no answer may be, -inf where the row has
        ended.
        """
        allowed_BT = batch.segments_BT.bool()
        allowed_BT[:, 0] = True
        score_BT = score_BT1.squeeze(-1)
        logits_BT = torch.where(allowed_BT, score_BT, score_BT + _FORBIDDEN)
        return logits_BT.masked_fill(~batch.real_tokens(), float("-inf"))

    def _null_logit(self, hidden_BTH: Tensor, start_BT: Tensor) -> Tensor:
        share_BT1 = start_BT.softmax(-1)[..., None]
        summary_BH = (share_BT1 * hidden_BTH).sum(1)
        return self.null(hidden_BTH[:, 0], summary_BH)  # type: ignore[no-any-return]

    def _end_after(
        self, start_B: Tensor, hidden_BTH: Tensor, second_BTM: Tensor, batch: PaddedBatch
    ) -> Tensor:
        """Return the end's logits (B, T) given a start. `second_BTM` is the MLP's half of all
        positions.
        """
        first_BM = self.end.first(
            hidden_BTH[torch.arange(len(start_B), device=start_B.device), start_B]
        )
        return self._logits(self.end.join(first_BM[:, None], second_BTM), batch)

    def losses(self, batch: PaddedBatch) -> Tensor:
        """Return (start + end) / 2 + 0.5 × answerability, for each window (B,)."""
        hidden_BTH, start_BT = self._read(batch)
        gold_B = batch.targets["start"]
        if self.conditional:
            end_BT = self._end_after(gold_B, hidden_BTH, self.end.second(hidden_BTH), batch)
        else:
            end_BT = self._logits(self.end_alone(hidden_BTH), batch)
        start_B = F.cross_entropy(start_BT, gold_B, reduction="none")
        end_B = F.cross_entropy(end_BT, batch.targets["end"], reduction="none")
        loss_B = (start_B + end_B) / 2
        if self.answerability:
            null_B = self._null_logit(hidden_BTH, start_BT)
            flag_B = batch.targets["impossible"]
            null_loss_B = F.binary_cross_entropy_with_logits(null_B, flag_B, reduction="none")
            loss_B = loss_B + self.answerability_weight * null_loss_B
        return loss_B

    def outputs(self, batch: PaddedBatch) -> dict[str, Tensor]:
        """Return the best starts (B, K) and each one's best ends (B, K, K), with log-probabilities,
        and `null` (B,).

        Without the answerability head `null` is the log-probability that both ends point at [CLS].
        Rows of fewer than K positions are filled with position 0.
        """
        hidden_BTH, start_BT = self._read(batch)
        log_start_BT = start_BT.log_softmax(-1)
        start_score_BK, start_BK = self._top(log_start_BT)
        if self.conditional:
            second_BTM = self.end.second(hidden_BTH)
            ends = []  # one start at a time: (B, K, T, M) at once would not fit
            for start_B in start_BK.unbind(1):
                end_BT = self._end_after(start_B, hidden_BTH, second_BTM, batch)
                ends.append(self._top(end_BT.log_softmax(-1)))
            end_score_BKK = torch.stack([score_BK for score_BK, _ in ends], 1)
            end_BKK = torch.stack([position_BK for _, position_BK in ends], 1)
            end_BT = self._end_after(
                torch.zeros_like(start_BK[:, 0]), hidden_BTH, second_BTM, batch
            )
            log_cls_BT = end_BT.log_softmax(-1)
        else:
            log_cls_BT = self._logits(self.end_alone(hidden_BTH), batch).log_softmax(-1)
            end_score_BK, end_BK = self._top(log_cls_BT)
            shape = (-1, start_BK.shape[1], -1)
            end_score_BKK = end_score_BK[:, None].expand(*shape)
            end_BKK = end_BK[:, None].expand(*shape)
        null_B = log_start_BT[:, 0] + log_cls_BT[:, 0]
        if self.answerability:
            null_B = self._null_logit(hidden_BTH, start_BT)
        return {
            "start": start_BK,
            "start_score": start_score_BK,
            "end": end_BKK,
            "end_score": end_score_BKK,
            "null": null_B,
        }

    def _top(self, log_BT: Tensor) -> tuple[Tensor, Tensor]:
        """Return the K best values and positions. -inf and 0 where there are fewer than K."""
        score_BK, position_BK = log_BT.topk(min(self.beam, log_BT.shape[1]), dim=-1)
        missing = self.beam - score_BK.shape[1]
        return F.pad(score_BK, (0, missing), value=float("-inf")), F.pad(position_BK, (0, missing))


class _Pair(nn.Module):
    """MLP([a ; b]) -> one number: Linear(2H, M), gelu, Linear(M, 1), its first matrix kept as two
    halves.

    The halves are products of their own, so that one half may be computed once for many partners.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.both = nn.Linear(2 * hidden, _MLP)
        self.out = nn.Linear(_MLP, 1)

    def first(self, a_H: Tensor) -> Tensor:
        """Map (..., H) to (..., M), the bias included."""
        return F.linear(a_H, self.both.weight[:, : a_H.shape[-1]], self.both.bias)

    def second(self, b_H: Tensor) -> Tensor:
        """Map (..., H) to (..., M)."""
        return F.linear(b_H, self.both.weight[:, b_H.shape[-1] :])

    def join(self, first_M: Tensor, second_M: Tensor) -> Tensor:
        """Map both halves to one number for each pair (..., 1)."""
        return self.out(F.gelu(first_M + second_M))  # type: ignore[no-any-return]

    def forward(self, a_H: Tensor, b_H: Tensor) -> Tensor:
        """Map pairs of vectors, broadcast against each other, to one number each."""
        return self.join(self.first(a_H), self.second(b_H)).squeeze(-1)
