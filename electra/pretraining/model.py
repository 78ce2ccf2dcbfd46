"""Generator, corruption, discriminator and loss in one forward pass: the paper's Figure 2 in code, and its variants.

    L = generator_weight · L_MLM / chosen positions  +  discriminator_weight · L_Disc / real tokens

| objective | main network reads | and is asked |
|---|---|---|
| electra | samples at the chosen positions | at every real token: replaced or not |
| electra_15 | samples | at the chosen positions: replaced or not |
| replace_mlm | samples | at the chosen positions: the original token |
| all_tokens_mlm | samples | at every real token: the original token, by copy gate and softmax |
| mlm | [MASK] | at the chosen positions: the original token (BERT; no generator) |

The main network is called discriminator throughout, since it is what every objective exists to train.

Shapes: B rows, T positions, N chosen slots a row, M = B · N, H hidden size, V vocabulary.
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from electra.nn.attention_init import init_attention
from electra.nn.encoder import Embeddings, Encoder, initialise
from electra.nn.factory import disentangled, make_encoder
from electra.nn.token_heads import ReplacedTokenHead
from electra.optim.adamw import AdamW, build_optimizer, network_scale
from electra.optim.muon import build_muon
from electra.pretraining.config import ElectraConfig
from electra.pretraining.corruption import Masked, Noise, SpecialIds, mask, replace, sample
from electra.pretraining.networks import Discriminator, FixedGenerator, Generator, ProposingHead, gather_rows
from electra.pretraining.objectives import (
    copy_losses,
    judge,
    masked_token_loss,
    reinforce_losses,
    replaced_token_losses,
)
from electra.pretraining.vocabulary import Chosen

TOKEN_OBJECTIVES = {"replace_mlm", "all_tokens_mlm", "mlm"}  # the main network predicts tokens


@dataclass(frozen=True)
class Batch:
    """Rows on the device, and the denominators of the whole global batch that they are a part of."""

    ids_BT: Tensor
    segments_BT: Tensor
    lengths_B: Tensor
    noise: Noise
    chosen: Tensor  # chosen positions of the global batch, a scalar
    tokens: Tensor  # real tokens of the global batch, a scalar


@dataclass(frozen=True)
class Outputs:
    """The loss, and detached sums of what is worth watching; nothing here has been read by the host."""

    loss: Tensor
    sums: dict[str, Tensor]
    corrupted_BT: Tensor
    replaced_BT: Tensor
    logits_BT: Tensor | None  # discriminator's, where the objective has them


class Pretraining(nn.Module):
    """Both networks and how they share parameters. `unigram_V`: token counts, for the unigram generator."""

    def __init__(
        self, config: ElectraConfig, vocab_size: int, special: SpecialIds, unigram_V: Tensor | None = None
    ) -> None:
        super().__init__()
        self.config, self.special, self.vocab_size = config, special, vocab_size
        self.mask, self.replace, self.judge = mask, replace, judge  # compiled ones may stand here
        objective, encoder = config.objective, config.encoder
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
            self.token_head = ProposingHead(encoder, vocab_size)
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
            self.generator.encoder.embeddings.word.weight = self.discriminator.encoder.embeddings.word.weight
        if objective.name != "mlm" and config.generator.kind != "network":
            counts_V = torch.ones(vocab_size) if config.generator.kind == "uniform" or unigram_V is None else unigram_V
            self.generator = FixedGenerator(counts_V.double().div(counts_V.sum()).log())

    def _shared_embeddings(self) -> Embeddings | None:
        if not isinstance(self.generator, Generator):
            return None
        block = self.generator.encoder.embeddings
        if self.config.objective.sharing == "gradient_disentangled":
            return disentangled(self.config.encoder, block)
        return block if self.config.objective.sharing == "embeddings" else None

    def own_to_generator(self) -> set[nn.Parameter]:
        """The generator's parameters less those that the discriminator learns too."""
        if not isinstance(self.generator, Generator):
            return set()
        return set(self.generator.parameters()) - set(self.discriminator.parameters())

    def start_second_stage(self) -> None:
        """Two-stage training: the discriminator begins with the generator's weights, and the generator is frozen."""
        assert isinstance(self.generator, Generator)
        self.discriminator.encoder.load_state_dict(self.generator.encoder.state_dict())
        self.generator.requires_grad_(False)

    def networks(self) -> dict[str, tuple[Encoder, ReplacedTokenHead | ProposingHead]]:
        """The trained networks, each an encoder with its head; the one that fine-tuning keeps comes last.

        `generator`, where it is a network; then `discriminator`, or `masked_lm` of an objective that predicts tokens.
        """
        result: dict[str, tuple[Encoder, ReplacedTokenHead | ProposingHead]] = {}
        if isinstance(self.generator, Generator):
            result["generator"] = (self.generator.encoder, self.generator.head)
        if self.config.objective.name in TOKEN_OBJECTIVES:
            return result | {"masked_lm": (self.discriminator.encoder, self.token_head)}
        return result | {"discriminator": (self.discriminator.encoder, self.discriminator.head)}

    def extras(self) -> dict[str, dict[str, nn.Linear]]:
        """What belongs to a trained network besides encoder and head, by the network's name."""
        result: dict[str, dict[str, nn.Linear]] = {}
        if self.config.objective.name == "all_tokens_mlm":
            result["masked_lm"] = {"copy_gate": self.copy_gate}
        if self.config.objective.training == "adversarial":
            result["generator"] = {"baseline": self.baseline}
        return result

    def forward(self, batch: Batch, stage: str = "joint") -> Outputs:
        """One pass; `stage` is "joint", or "generator" / "discriminator" in two-stage training."""
        objective = self.config.objective
        masked = self.mask(batch.ids_BT, batch.lengths_B, self.special, objective, batch.noise, self.vocab_size)
        weights_M = masked.weights_BN.view(-1)
        if self.generator is None:
            return self._masked_language_model(batch, masked)

        # generator: propose; sample, through which no gradient passes
        generator_reads = (masked.ids_BT, batch.segments_BT, batch.lengths_B, masked.positions_BN)
        uniform_M = batch.noise.sample_BN.reshape(-1)
        sums = {"chosen": weights_M.sum()}
        if self._logits_unseen() and isinstance(self.generator, Generator):
            mlm, sampled_M = self._propose(
                self.generator.head, self.generator.hidden(*generator_reads), self.generator.encoder, masked, uniform_M
            )
        else:
            logits_MV, hidden_MH = self.generator(*generator_reads)
            mlm = masked_token_loss(logits_MV, masked.targets_M, weights_M)
            sums |= self._hits("mlm_correct", logits_MV, masked.targets_M, weights_M)
            sampled_M = sample(logits_MV, uniform_M, objective, masked.targets_M)
        sums["mlm_loss"] = mlm
        mlm_loss = objective.generator_weight * mlm / batch.chosen
        if stage == "generator":
            return _outputs(mlm_loss, sums, batch.ids_BT, torch.zeros_like(batch.ids_BT, dtype=torch.bool), None)

        # corruption
        corrupted_BT, replaced_BT, counts = self.replace(batch.ids_BT, masked, sampled_M)
        sums |= counts

        # discriminator: judge
        hidden_BTH = self.discriminator.encoder(corrupted_BT, batch.segments_BT, batch.lengths_B)
        if objective.name in {"replace_mlm", "all_tokens_mlm"}:
            main_loss = self._main_tokens(batch, masked, corrupted_BT, hidden_BTH, sums)
            return _outputs(mlm_loss + main_loss, sums, corrupted_BT, replaced_BT, None)
        logits_BT = self.discriminator.head(hidden_BTH)
        loss, counts = self.judge(logits_BT, replaced_BT, batch.lengths_B)
        sums |= counts
        main_loss = loss / batch.tokens
        if objective.name == "electra_15" or objective.training == "adversarial":
            losses_BT1 = replaced_token_losses(logits_BT, replaced_BT).unsqueeze(-1)
            losses_M = gather_rows(losses_BT1, masked.positions_BN).squeeze(-1)
        if objective.name == "electra_15":
            main_loss = (losses_M * weights_M).sum() / batch.chosen
        if objective.training == "adversarial":
            policy_M, baseline_M = reinforce_losses(
                logits_MV, sampled_M, losses_M, self.baseline(hidden_MH.detach()).squeeze(-1)
            )
            mlm_loss = objective.generator_weight * ((policy_M + baseline_M) * weights_M).sum() / batch.chosen
        if stage == "discriminator":
            mlm_loss = mlm_loss.detach()
        return _outputs(
            mlm_loss + objective.discriminator_weight * main_loss, sums, corrupted_BT, replaced_BT, logits_BT
        )

    def _logits_unseen(self) -> bool:
        """Whether only loss and samples need the vocabulary's logits: in training, but for the policy gradient."""
        return self.training and self.config.objective.training != "adversarial"

    def _propose(
        self, head: ProposingHead, hidden_MH: Tensor, encoder: Encoder, masked: Masked, uniform_M: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        chosen = Chosen(masked.targets_M, masked.weights_BN.view(-1), uniform_M)
        return head.propose(hidden_MH, encoder.embeddings.tables()[0], chosen, self.config.objective)

    def _chosen_loss(self, name: str, masked: Masked, hidden_BTH: Tensor, sums: dict[str, Tensor]) -> Tensor:
        """Sum of the main network's token losses at the chosen positions; `name` is what its hits are counted as."""
        encoder, hidden_MH = self.discriminator.encoder, gather_rows(hidden_BTH, masked.positions_BN)
        if self._logits_unseen():
            return self._propose(self.token_head, hidden_MH, encoder, masked, None)[0]
        logits_MV, weights_M = self.token_head(hidden_MH, encoder.embeddings.tables()[0]), masked.weights_BN.view(-1)
        sums |= self._hits(name, logits_MV, masked.targets_M, weights_M)
        return masked_token_loss(logits_MV, masked.targets_M, weights_M)

    def _hits(self, name: str, logits_MV: Tensor, targets_M: Tensor, weights_M: Tensor) -> dict[str, Tensor]:
        if self.training:  # one more pass over the logits, which only evaluation pays
            return {}
        return {name: ((logits_MV.argmax(-1) == targets_M) * weights_M).sum()}

    def _masked_language_model(self, batch: Batch, masked: Masked) -> Outputs:
        hidden_BTH = self.discriminator.encoder(masked.ids_BT, batch.segments_BT, batch.lengths_B)
        sums = {"chosen": masked.weights_BN.sum()}
        sums["mlm_loss"] = loss = self._chosen_loss("mlm_correct", masked, hidden_BTH, sums)
        nothing_BT = torch.zeros_like(batch.ids_BT, dtype=torch.bool)
        return _outputs(loss / batch.chosen, sums, masked.ids_BT, nothing_BT, None)

    def _main_tokens(
        self, batch: Batch, masked: Masked, corrupted_BT: Tensor, hidden_BTH: Tensor, sums: dict[str, Tensor]
    ) -> Tensor:
        if self.config.objective.name == "replace_mlm":
            sums["main_loss"] = self._chosen_loss("main_correct", masked, hidden_BTH, sums)
            return sums["main_loss"] / batch.chosen
        word_VE = self.discriminator.encoder.embeddings.tables()[0]
        logits_BTV = self.token_head(hidden_BTH, word_VE)
        copy_BT = self.copy_gate(hidden_BTH).squeeze(-1)
        losses_X = copy_losses(
            logits_BTV.view(-1, self.vocab_size), copy_BT.view(-1), corrupted_BT.view(-1), batch.ids_BT.view(-1)
        )
        real_BT = torch.arange(batch.ids_BT.shape[1], device=batch.ids_BT.device) < batch.lengths_B[:, None]
        sums["main_loss"] = (losses_X.view_as(real_BT) * real_BT).sum()
        sums["tokens"] = real_BT.sum()
        return sums["main_loss"] / batch.tokens


def _outputs(
    loss: Tensor, sums: dict[str, Tensor], corrupted_BT: Tensor, replaced_BT: Tensor, logits_BT: Tensor | None
) -> Outputs:
    detached = {name: value.detach() for name, value in sums.items()}
    return Outputs(loss, detached, corrupted_BT, replaced_BT, None if logits_BT is None else logits_BT.detach())


def optimizer_of(model: Pretraining) -> AdamW:
    """The optimizer of all parameters by the model's settings; what is the generator's alone learns at its own rate."""
    settings = model.config.pretrain
    build = partial(build_muon, momentum=settings.momentum) if settings.optimizer == "muon" else build_optimizer
    return build(
        model.named_parameters(),
        weight_decay=settings.weight_decay,
        beta1=settings.beta1,
        beta2=settings.beta2,
        eps=settings.eps,
        bias_correction=settings.bias_correction,
        scale=network_scale(model.named_parameters(), model.own_to_generator(), settings.generator_lr_scale),
    )
