"""Generator, corruption, discriminator and loss in one forward pass: the paper's Figure 2 in code,
and its variants.

    L = generator_weight · L_MLM / chosen positions  +  discriminator_weight · L_Disc / real tokens

| objective | main network reads | and is asked |
|---|---|---|
| electra | samples at the chosen positions | at every real token: replaced or not |
| electra_15 | samples | at the chosen positions: replaced or not |
| replace_mlm | samples | at the chosen positions: the original token |
| all_tokens_mlm | samples | at every real token: the original token, by copy gate and softmax |
| mlm | [MASK] | at the chosen positions: the original token (BERT; no generator) |

The main network is called discriminator throughout, since it is what every objective exists to
train.

Losses are sums over positions, in fp32, and are divided by counts of the global batch: padding,
accumulation and several processes must not change a loss, and every process knows these counts
before the step.

Shapes: B rows, T positions, N chosen slots a row, M = B · N, H hidden size, V vocabulary; X counts
positions.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import AdamW

from electra.errors import BadInput
from electra.nn.attention_init import init_attention
from electra.nn.encoder import Embeddings, Encoder, initialise, real_tokens
from electra.nn.factory import make_encoder
from electra.nn.hf_names import Head
from electra.nn.token_heads import MaskedTokenHead
from electra.optim.adamw import build_optimizer
from electra.pretraining.config import ElectraConfig
from electra.pretraining.corruption import (
    Masked,
    Noise,
    SpecialIds,
    mask,
    replace,
    sample,
)
from electra.pretraining.networks import Discriminator, FixedGenerator, Generator, gather_rows

TOKEN_OBJECTIVES = {"replace_mlm", "all_tokens_mlm", "mlm"}  # the main network predicts tokens


class Batch(NamedTuple):
    """Rows on the device, and the denominators of the global batch that they are a part of."""

    ids_BT: Tensor
    segments_BT: Tensor
    lengths_B: Tensor
    noise: Noise
    chosen: Tensor  # chosen positions of the global batch, a scalar
    tokens: Tensor  # real tokens of the global batch, a scalar


class Outputs(NamedTuple):
    """The loss, and detached sums for monitoring. The host has read none of them."""

    loss: Tensor
    sums: dict[str, Tensor]
    corrupted_BT: Tensor
    replaced_BT: Tensor
    logits_BT: Tensor | None = None  # discriminator's, where the objective has them


# ── losses ──


def masked_token_loss(logits_MV: Tensor, targets_M: Tensor, weights_M: Tensor) -> Tensor:
    """Return L_MLM (paper, section 2): the sum of -log p_G(original token) at chosen positions."""
    return (F.cross_entropy(logits_MV.float(), targets_M, reduction="none") * weights_M).sum()


def replaced_token_losses(logits_BT: Tensor, replaced_BT: Tensor) -> Tensor:
    """Return -log of the probability that D gives to the truth at every position (B, T); L_Disc is
    its weighted sum.
    """
    return F.binary_cross_entropy_with_logits(
        logits_BT.float(), replaced_BT.float(), reduction="none"
    )


def discriminator_loss(
    logits_BT: Tensor, replaced_BT: Tensor, lengths_B: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return L_Disc summed over real tokens, and counts of D's verdicts there; a positive logit
    says "replaced".
    """
    real_BT = real_tokens(lengths_B, logits_BT.shape[1])
    said_BT = (logits_BT > 0) & real_BT
    loss = (replaced_token_losses(logits_BT, replaced_BT) * real_BT).sum()
    return loss, {
        "tokens": real_BT.sum(),
        "said_replaced": said_BT.sum(),
        "found": (said_BT & replaced_BT).sum(),
    }


def copy_losses(
    logits_XV: Tensor, copy_logits_X: Tensor, inputs_X: Tensor, targets_X: Tensor
) -> Tensor:
    """Return the losses (X,) of All-Tokens MLM (section 3.4), -log p(target).

    p = D · 1[token = input] + (1 - D) · softmax, D = σ(copy logit); in log space a D near 1 keeps
    its gradient.
    """
    log_copy_X = F.logsigmoid(copy_logits_X.float())
    log_write_X = F.logsigmoid(-copy_logits_X.float())
    written_X = log_write_X - F.cross_entropy(logits_XV.float(), targets_X, reduction="none")
    same = inputs_X == targets_X
    return -torch.where(same, torch.logaddexp(log_copy_X, written_X), written_X)


def reinforce_losses(
    logits_MV: Tensor, sampled_M: Tensor, rewards_M: Tensor, baseline_logits_M: Tensor
) -> tuple[Tensor, Tensor]:
    """Return policy-gradient and baseline losses, (M,) each, of an adversarial generator (the
    paper's appendix).

    The reward is D's loss at the position, -log of D's probability of the truth. The baseline is
    -log sigmoid of a linear map of the generator's hidden state, trained by cross-entropy to the
    probability that the reward stands for.
    """
    rewards_M = rewards_M.detach()
    baseline_M = -F.logsigmoid(baseline_logits_M.float())
    log_probability_M = -F.cross_entropy(logits_MV.float(), sampled_M, reduction="none")
    policy_M = -(rewards_M - baseline_M.detach()) * log_probability_M
    baseline_loss_M = F.binary_cross_entropy_with_logits(
        baseline_logits_M.float(), (-rewards_M).exp(), reduction="none"
    )
    return policy_M, baseline_loss_M


# ── both networks ──


class Pretraining(nn.Module):
    """Both networks and how they share parameters. `unigram_V`: token counts, which the unigram
    generator needs.
    """

    def __init__(
        self,
        config: ElectraConfig,
        vocab_size: int,
        special: SpecialIds,
        unigram_V: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.special = special
        self.vocab_size = vocab_size
        objective = config.objective
        encoder = config.encoder
        self.generator: Generator | FixedGenerator | None = None
        if objective.name != "mlm" and config.generator.kind == "network":
            self.generator = Generator(make_encoder(config.generator.encoder(encoder), vocab_size))
        shared = self._shared_embeddings()
        if objective.sharing == "all" and isinstance(self.generator, Generator):
            main = self.generator.encoder
        else:
            main = make_encoder(encoder, vocab_size, shared)
        self.discriminator = Discriminator(main)
        if objective.name in TOKEN_OBJECTIVES:
            self.token_head = MaskedTokenHead(encoder, vocab_size)
            self.discriminator.head.requires_grad_(False)  # nothing uses it
        if objective.name == "all_tokens_mlm":
            self.copy_gate = nn.Linear(encoder.hidden, 1)
        if objective.training == "adversarial":
            self.baseline = nn.Linear(config.generator.encoder(encoder).hidden, 1)
        initialise(self, encoder)
        start = main  # in two-stage training the discriminator begins with the generator's weights
        if objective.training == "two_stage" and isinstance(self.generator, Generator):
            start = self.generator.encoder
        init_attention(start, encoder.init)
        if objective.sharing == "tokens" and isinstance(self.generator, Generator):
            self.generator.encoder.embeddings.word.weight = (
                self.discriminator.encoder.embeddings.word.weight
            )
        if objective.name != "mlm" and config.generator.kind == "unigram":
            if unigram_V is None:
                raise BadInput(
                    "generator.kind unigram needs how often each token occurs in the training rows"
                )
            self.generator = FixedGenerator(unigram_V)
        # `compile_parts` puts compiled functions here
        self.mask = mask
        self.sample = sample
        self.replace = replace
        self.masked_token_loss = masked_token_loss
        self.discriminator_loss = discriminator_loss

    def _shared_embeddings(self) -> Embeddings | None:
        if not isinstance(self.generator, Generator):
            return None
        encoder = self.generator.encoder
        if self.config.objective.sharing == "gradient_disentangled":
            block: Embeddings = encoder.embeddings_class(self.config.encoder, self.vocab_size)
            block.disentangle(encoder.embeddings)
            return block
        return encoder.embeddings if self.config.objective.sharing == "embeddings" else None

    def generator_parameters(self) -> set[nn.Parameter]:
        """Return the generator's parameters without those that the discriminator also learns."""
        if not isinstance(self.generator, Generator):
            return set()
        return set(self.generator.parameters()) - set(self.discriminator.parameters())

    def begin_stage(self, stage: str, *, copy: bool) -> None:
        """Let only the stage's network learn in two-stage training; `copy` the generator's weights
        to the other.
        """
        assert isinstance(self.generator, Generator)
        self.generator.requires_grad_(stage == "generator")
        self.discriminator.requires_grad_(stage == "discriminator")
        if copy:
            self.discriminator.encoder.load_state_dict(self.generator.encoder.state_dict())

    def networks(self) -> dict[str, tuple[Encoder, Head]]:
        """Return the trained networks, each an encoder with its head; the one that fine-tuning
        keeps comes last.

        `generator`, where it is a network; then `discriminator`, or `masked_lm` of an objective
        that predicts tokens.
        """
        result: dict[str, tuple[Encoder, Head]] = {}
        if isinstance(self.generator, Generator):
            result["generator"] = (self.generator.encoder, self.generator.head)
        if self.config.objective.name in TOKEN_OBJECTIVES:
            return result | {"masked_lm": (self.discriminator.encoder, self.token_head)}
        return result | {"discriminator": (self.discriminator.encoder, self.discriminator.head)}

    def extras(self) -> dict[str, dict[str, nn.Linear]]:
        """Return the parts of trained networks besides encoder and head, by the network's name."""
        result: dict[str, dict[str, nn.Linear]] = {}
        if self.config.objective.name == "all_tokens_mlm":
            result["masked_lm"] = {"copy_gate": self.copy_gate}
        if self.config.objective.training == "adversarial":
            result["generator"] = {"baseline": self.baseline}
        return result

    def forward(self, batch: Batch, stage: str = "joint") -> Outputs:
        """Return loss and sums; `stage` is "joint", or "generator" / "discriminator" in two-stage
        training.
        """
        objective = self.config.objective
        nothing_BT = torch.zeros_like(batch.ids_BT, dtype=torch.bool)
        masked = self.mask(
            batch.ids_BT, batch.lengths_B, self.special, objective, batch.noise, self.vocab_size
        )
        weights_M = masked.weights_BN.view(-1)
        sums = {"chosen": weights_M.sum()}
        if self.generator is None:
            hidden_BTH = self.discriminator.encoder(
                masked.ids_BT, batch.segments_BT, batch.lengths_B
            )
            loss = self._main_token_loss("mlm", hidden_BTH, masked, sums) / batch.chosen
            return Outputs(loss, sums, masked.ids_BT, nothing_BT)

        # generator: propose; sample, through which no gradient passes
        logits_MV, hidden_MH = self.generator(
            masked.ids_BT, batch.segments_BT, batch.lengths_B, masked.positions_BN
        )
        mlm_loss = (
            objective.generator_weight
            * self._token_loss("mlm", logits_MV, masked, sums)
            / batch.chosen
        )
        if stage == "generator":
            return Outputs(mlm_loss, sums, batch.ids_BT, nothing_BT)
        sampled_M = self.sample(
            logits_MV, batch.noise.sample_BN.reshape(-1), objective, masked.targets_M
        )

        # corruption
        corrupted_BT, replaced_BT, counts = self.replace(batch.ids_BT, masked, sampled_M)
        sums |= counts

        # discriminator: judge
        hidden_BTH = self.discriminator.encoder(corrupted_BT, batch.segments_BT, batch.lengths_B)
        if objective.name in TOKEN_OBJECTIVES:
            if objective.name == "replace_mlm":
                loss = self._main_token_loss("main", hidden_BTH, masked, sums) / batch.chosen
            else:
                loss = self._all_tokens_loss(batch, corrupted_BT, hidden_BTH, sums) / batch.tokens
            return Outputs(mlm_loss + loss, sums, corrupted_BT, replaced_BT)
        logits_BT = self.discriminator.head(hidden_BTH)
        loss, counts = self.discriminator_loss(logits_BT, replaced_BT, batch.lengths_B)
        sums |= {"disc_loss": loss.detach(), **counts}
        main_loss = loss / batch.tokens
        if objective.name == "electra_15" or objective.training == "adversarial":
            losses_BT = replaced_token_losses(logits_BT, replaced_BT)
            losses_M = losses_BT.gather(1, masked.positions_BN).view(-1)
        if objective.name == "electra_15":
            main_loss = (losses_M * weights_M).sum() / batch.chosen
        if objective.training == "adversarial":
            baseline_M = self.baseline(hidden_MH.detach()).squeeze(-1)
            policy_loss_M, baseline_loss_M = reinforce_losses(
                logits_MV, sampled_M, losses_M, baseline_M
            )
            mlm_loss = (
                objective.generator_weight
                * ((policy_loss_M + baseline_loss_M) * weights_M).sum()
                / batch.chosen
            )
        loss = mlm_loss + objective.discriminator_weight * main_loss
        return Outputs(loss, sums, corrupted_BT, replaced_BT, logits_BT.detach())

    def _words(self) -> Tensor:
        """Return the main network's word table (V, E)."""
        return self.discriminator.encoder.embeddings.tables()[0]

    def _token_loss(
        self, name: str, logits_MV: Tensor, masked: Masked, sums: dict[str, Tensor]
    ) -> Tensor:
        """Return the summed loss at the chosen positions; count it, and in evaluation the hits,
        under `name`.
        """
        weights_M = masked.weights_BN.view(-1)
        loss = self.masked_token_loss(logits_MV, masked.targets_M, weights_M)
        sums[f"{name}_loss"] = loss.detach()
        if not self.training:  # one more pass over the logits
            sums[f"{name}_correct"] = ((logits_MV.argmax(-1) == masked.targets_M) * weights_M).sum()
        return loss

    def _main_token_loss(
        self, name: str, hidden_BTH: Tensor, masked: Masked, sums: dict[str, Tensor]
    ) -> Tensor:
        """Return `_token_loss` of the main network."""
        logits_MV = self.token_head(gather_rows(hidden_BTH, masked.positions_BN), self._words())
        return self._token_loss(name, logits_MV, masked, sums)

    def _all_tokens_loss(
        self, batch: Batch, corrupted_BT: Tensor, hidden_BTH: Tensor, sums: dict[str, Tensor]
    ) -> Tensor:
        logits_XV = self.token_head(hidden_BTH, self._words()).flatten(0, 1)
        copy_X = self.copy_gate(hidden_BTH).flatten()
        losses_X = copy_losses(logits_XV, copy_X, corrupted_BT.flatten(), batch.ids_BT.flatten())
        real_BT = real_tokens(batch.lengths_B, batch.ids_BT.shape[1])
        loss: Tensor = (losses_X * real_BT.flatten()).sum()
        sums |= {"main_loss": loss.detach(), "tokens": real_BT.sum()}
        return loss


def pretraining_optimizer(model: Pretraining) -> AdamW:
    """Return the optimizer of all parameters by the model's settings.

    Parameters of the generator alone learn at `generator_lr_scale` times the rate.
    """
    settings = model.config.pretrain
    generator_alone = model.generator_parameters()
    scaled = {name for name, parameter in model.named_parameters() if parameter in generator_alone}
    return build_optimizer(
        model.named_parameters(),
        weight_decay=settings.weight_decay,
        scale=lambda name: settings.generator_lr_scale if name in scaled else 1.0,
        beta1=settings.beta1,
        beta2=settings.beta2,
        eps=settings.eps,
        bias_correction=settings.bias_correction,
    )
