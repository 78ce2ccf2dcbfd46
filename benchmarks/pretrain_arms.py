"""The arms of benchmarks/pretrain_step.py: our step and transformers' modules, with the same
weights and masks.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.made_up_rows import SPECIAL, MadeUpRows
from electra.nn.encoder import real_tokens
from electra.nn.hf_names import config_json
from electra.nn.huggingface import network_tensors
from electra.optim.adamw import build_optimizer, set_learning_rate
from electra.optim.precision import autocast
from electra.pretraining.compiling import compile_parts, missing_for_compile
from electra.pretraining.config import ElectraConfig
from electra.pretraining.corruption import Masked, mask, sample
from electra.pretraining.dataloader import BatchLoader
from electra.pretraining.distributed import World
from electra.pretraining.model import Batch, Pretraining
from electra.pretraining.networks import Generator
from electra.pretraining.step import CudaGraphs, Step, keep_freed_memory

VOCAB = 30_522
RATE = 1e-4
PEERS = ("peer", "expert", "compiled")
Train = Callable[[int, Batch, Masked], Tensor]  # a step's number, its rows and their masks -> loss


def build(config: ElectraConfig) -> Pretraining:
    """Build the networks, with the same weights at each call."""
    torch.manual_seed(0)
    return Pretraining(config, VOCAB, SPECIAL)


def our_step(config: ElectraConfig, precision: Any, device: torch.device, kind: str) -> Train:
    """Return the step of the training loop. On a GPU, `ours` compiles each layer once and captures
    the step as CUDA graphs; the other kinds change that.

    `eager` neither compiles nor captures, `captured` does not compile, `parts` does not capture.
    `whole` compiles the whole forward pass in one piece. `autotune` also lets Inductor choose among
    its own matrix products.
    """
    gpu = device.type == "cuda"
    if not gpu:
        keep_freed_memory()
    model = build(config).to(device).train()
    if gpu and not missing_for_compile():
        torch._inductor.config.max_autotune = kind == "autotune"
        if kind == "whole":
            model.compile(dynamic=False, options={"combo_kernels": True})
        elif kind not in {"eager", "captured"}:
            compile_parts(model)
    optimizer = build_optimizer(model.named_parameters(), weight_decay=0.01)
    set_learning_rate(optimizer, RATE)
    graphs = CudaGraphs(device) if gpu and kind not in {"eager", "parts"} else None
    update = Step(model, optimizer, World(0, 1, device), precision=precision, graphs=graphs)
    return lambda number, batch, masked: update([batch], [number], "joint")[0]["loss"]


class Peer:
    """A joint step with transformers' modules.

    `peer` computes the vocabulary's logits at every position, as the documented call does;
    `compiled` does so under torch.compile. `expert` computes them at the masked positions only.
    """

    def __init__(
        self,
        config: ElectraConfig,
        precision: Any,
        device: torch.device,
        kind: str = "peer",
        dropout: bool = True,
        source: Pretraining | None = None,
    ) -> None:
        from transformers import ElectraForMaskedLM, ElectraForPreTraining

        self.precision = precision
        self.device = device
        self.kind = kind
        source = source or build(config)
        assert isinstance(source.generator, Generator)
        weights = {name: network_tensors(*pair) for name, pair in source.networks().items()}
        vocab_size = source.vocab_size
        generator_config = source.generator.encoder.config
        self.generator = peer_network(ElectraForMaskedLM, generator_config, vocab_size)
        self.generator.load_state_dict(weights["generator"], strict=False)
        self.generator.tie_weights()
        self.discriminator = peer_network(ElectraForPreTraining, config.encoder, vocab_size)
        self.discriminator.load_state_dict(weights["discriminator"])
        if config.objective.sharing == "all":
            self.discriminator.electra = self.generator.electra
        else:
            self.discriminator.electra.embeddings = self.generator.electra.embeddings
        self.weight = config.objective.discriminator_weight
        networks = torch.nn.ModuleList([self.generator, self.discriminator])
        networks.to(device).train(dropout)
        decayed = []
        others = []
        for name, parameter in networks.named_parameters():
            group = others if name.endswith("bias") or "LayerNorm" in name else decayed
            group.append(parameter)
        groups = [{"params": others, "weight_decay": 0.0}, {"params": decayed}]
        self.parameters = [*others, *decayed]
        self.optimizer = torch.optim.AdamW(groups, lr=RATE, eps=1e-6, weight_decay=0.01, fused=True)
        if kind == "compiled":
            self.generator = torch.compile(self.generator)
            self.discriminator = torch.compile(self.discriminator)

    def loss(self, batch: Batch, masked: Masked, sampled_X: Tensor | None = None) -> Tensor:
        ids = batch.ids_BT
        chosen = chosen_cells(masked, ids)
        with autocast(self.precision, self.device):
            if self.kind == "expert":
                hidden_BTD = self.generator.electra(input_ids=masked.ids_BT, **both(batch))[0]
                hidden_XD = self.generator.generator_predictions(hidden_BTD[chosen])
                logits_XV = self.generator.generator_lm_head(hidden_XD)
                mlm_loss = F.cross_entropy(logits_XV, ids[chosen])
            else:
                labels = torch.where(chosen, ids, -100)
                proposed = self.generator(input_ids=masked.ids_BT, labels=labels, **both(batch))
                logits_XV = proposed.logits[chosen]
                mlm_loss = proposed.loss
            with torch.no_grad():
                if sampled_X is None:
                    logits = logits_XV.float()
                    noise = -torch.log(-torch.log(torch.rand_like(logits) + 1e-9) + 1e-9)
                    sampled_X = (logits + noise).argmax(-1)
                corrupted = ids.clone()
                corrupted[chosen] = sampled_X
            replaced = (corrupted != ids).long()
            judged = self.discriminator(input_ids=corrupted, labels=replaced, **both(batch))
            return mlm_loss + self.weight * judged.loss

    def step(self, number: int, batch: Batch, masked: Masked) -> Tensor:
        torch.manual_seed(number)
        loss = self.loss(batch, masked)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()


def real(batch: Batch) -> Tensor:
    """Return the attention mask (B, T) that transformers expects."""
    return real_tokens(batch.lengths_B, batch.ids_BT.shape[1]).long()


def both(batch: Batch) -> dict[str, Tensor]:
    return {"attention_mask": real(batch), "token_type_ids": batch.segments_BT}


def peer_network(kind: Any, encoder: Any, vocab_size: int) -> Any:
    """Build a network of transformers with the sizes of an encoder."""
    import transformers

    return kind(transformers.ElectraConfig(**config_json(encoder, vocab_size, kind.__name__)))


def chosen_cells(masked: Masked, ids: Tensor) -> Tensor:
    """Return a boolean mask (B, T) of the masked cells of a batch."""
    counts = torch.zeros_like(ids)
    return counts.scatter_add_(1, masked.positions_BN, masked.weights_BN.long()) > 0


def build_arm(arm: str, config: ElectraConfig, device: torch.device) -> Train:
    """Return the step of an arm by its name, such as `ours-bf16`."""
    kind, precision = arm.split("-")
    if kind in PEERS:
        return Peer(config, precision, device, kind).step
    return our_step(config, precision, device, kind)


def batches(config: ElectraConfig, device: torch.device, count: int) -> list[tuple[Batch, Masked]]:
    """Return synthetic batches with their masks."""
    rows = MadeUpRows(count * config.pretrain.batch, config.pretrain.length, VOCAB)
    loader = BatchLoader(rows, config, device, "noise")
    pairs = []
    for batch in map(loader.batch, range(count)):
        noise = batch.noise
        masked = mask(batch.ids_BT, batch.lengths_B, SPECIAL, config.objective, noise, VOCAB)
        pairs.append((batch, masked))
    return pairs


def equal_losses(config: ElectraConfig, device: torch.device) -> dict[str, float]:
    """Return the losses of ours and of the peers at step 0, in fp32, without dropout, for the same
    samples. Raise ValueError if they differ.
    """
    small = replace(config, pretrain=replace(config.pretrain, batch=min(4, config.pretrain.batch)))
    batch, masked = batches(small, device, 1)[0]
    model = build(small).to(device).eval()
    peers = {kind: Peer(small, "fp32", device, kind, dropout=False) for kind in PEERS[:2]}
    with torch.no_grad():
        ours = model(batch).loss.item()
        inputs = (masked.ids_BT, batch.segments_BT, batch.lengths_B, masked.positions_BN)
        assert model.generator
        logits_MV = model.generator(*inputs)[0]
        noise_M = batch.noise.sample_BN.reshape(-1)
        sampled = sample(logits_MV, noise_M, small.objective, masked.targets_M)
        sampled_BN = sampled.view_as(masked.positions_BN)
        # unused slots point at [CLS], which is never masked
        grid = torch.zeros_like(batch.ids_BT).scatter_(1, masked.positions_BN, sampled_BN)
        sampled_X = grid[chosen_cells(masked, batch.ids_BT)]
        losses = {kind: peer.loss(batch, masked, sampled_X).item() for kind, peer in peers.items()}
    for kind, loss in losses.items():
        if abs(ours - loss) > 1e-4 * loss:
            raise ValueError(f"losses at step 0 differ: ours {ours}, {kind} {loss}")
    return {"ours": ours, **losses}
