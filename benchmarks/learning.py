"""Compare what packages for replaced token detection learn in the same time: `python
benchmarks/learning.py`.

Each arm reads the same rows of real text in the same order, on one thread, for the same processor
seconds. Its encoder has `mini`'s shape. Every discriminator then judges the same held-out rows,
with the replacements that three generators propose: token frequencies, our preset's, and that of
transformers' modules, each of another seed than the arms.

preset           the preset `mini` of params.yaml
paper            the paper's recipe in our code: a generator of 1/4, dropout, weight 50
transformers     the same recipe with ElectraForMaskedLM and ElectraForPreTraining
electra-pytorch  its module `Electra` around the same two networks
txtai            its module `TokenDetection`, whose networks share one size
zeldarose        its training step and optimizer
rtd-gdes         its training loop; the network is a DeBERTa-v2 of the same shape

The packages keep their defaults but for the learning rate, which is the best of RATES for
transformers' modules. They are installed without their pins, in a folder of their own. If it is
interrupted, the same command continues.

    pip install --no-deps --target build/peers electra-pytorch txtai zeldarose rtd-gdes \\
        pytorch-lightning lightning-utilities torchmetrics loguru
    PYTHONPATH=build/peers TORCHDYNAMO_DISABLE=1 python benchmarks/learning.py
"""

import itertools
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.harness import arguments, in_process, local_params, provenance, write_record
from benchmarks.pretrain_arms import Peer, both, chosen_cells, peer_network, real
from electra.data import tokenizer as tokenizers
from electra.data.shards import Rows
from electra.files import read_json, write_json
from electra.optim.adamw import set_learning_rate
from electra.pretraining import corruption
from electra.pretraining.config import ElectraConfig, ObjectiveConfig
from electra.pretraining.corruption import Masked, SpecialIds
from electra.pretraining.dataloader import BatchLoader
from electra.pretraining.distributed import World
from electra.pretraining.evaluation import area_under_curve
from electra.pretraining.model import Batch, Pretraining, pretraining_optimizer
from electra.pretraining.networks import FixedGenerator, Generator, gather_rows
from electra.pretraining.phases import learning_rate_at
from electra.pretraining.step import Step, keep_freed_memory
from pipelines.report.style import BLUE, GREEN, GREY, ORANGE, context, new_figure, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RATES = (5e-4, 1e-3, 2e-3, 4e-3)
HELD_OUT = 512  # rows
POINTS = 8  # of a curve
CPU = torch.device("cpu")
ROWS = Path("build/tokens/real_text")

Train = Callable[[int, Batch], None]
Judge = Callable[[Tensor, Batch], Any]  # corrupted ids and their rows -> logits (B, T)
Propose = Callable[[Masked, Batch], Any]  # masked rows -> logits (M, V)
Sets = dict[str, Tensor]  # corrupted ids (B, T) of the held-out rows


@dataclass(frozen=True)
class Arm:
    """One arm: a training step, its discriminator's logits and, if it has any, its generator's."""

    networks: nn.Module
    train: Train
    judge: Judge
    propose: Propose | None = None


class Corpus:
    """The rows, their special tokens, and the held-out batch with its masks."""

    def __init__(self) -> None:
        tokenizer = tokenizers.load(ROWS)
        self.special = SpecialIds(
            pad=tokenizer.pad_id, cls=tokenizer.cls_id, sep=tokenizer.sep_id, mask=tokenizer.mask_id
        )
        self.vocab_size = tokenizer.vocab_size
        folder = ROWS / "rows-64"
        self.train = Rows.open(folder, "train")
        config = settings("paper", seed=0, peak=1e-3, steps=1000)
        valid = BatchLoader(Rows.open(folder, "valid"), config, CPU, "valid noise", HELD_OUT)
        self.held_out = valid.batch(0)
        self.masked = self.mask(self.held_out, config.objective)

    def mask(self, batch: Batch, objective: ObjectiveConfig) -> Masked:
        return corruption.mask(
            batch.ids_BT, batch.lengths_B, self.special, objective, batch.noise, self.vocab_size
        )

    def labelled(self, batch: Batch) -> tuple[Masked, Tensor]:
        """Return BERT's masks (80 % [MASK], 10 % random), and labels, -100 where none is due."""
        objective = ObjectiveConfig(mask_token_rate=0.8, random_token_rate=0.1)
        masked = self.mask(batch, objective)
        return masked, torch.where(chosen_cells(masked, batch.ids_BT), batch.ids_BT, -100)

    def corrupt(self, logits_MV: Tensor) -> Tensor:
        """Return the held-out rows with samples of a generator at the masked positions."""
        noise_M = self.held_out.noise.sample_BN.reshape(-1)
        sampled_M = corruption.sample(logits_MV, noise_M, ObjectiveConfig(), self.masked.targets_M)
        return corruption.replace(self.held_out.ids_BT, self.masked, sampled_M)[0]


# ── settings ──


def settings(arm: str, seed: int, peak: float, steps: int) -> ElectraConfig:
    """Return the preset, which keeps its learning rate, or the paper's recipe with the same shape
    (benchmarks/real_text.yaml). The warm-up takes a tenth of the steps.
    """
    preset = arm == "preset"
    config = local_params().models["learning_preset" if preset else "learning_paper"].electra()
    changes: Any = {"seed": seed, "steps": steps, "warmup": steps // 10}
    if not preset:
        changes["learning_rate"] = peak
    return replace(config, pretrain=replace(config.pretrain, **changes))


# ── arms ──


def ours(corpus: Corpus, config: ElectraConfig) -> Arm:
    model = Pretraining(config, corpus.vocab_size, corpus.special)
    optimizer = pretraining_optimizer(model)
    update = Step(model, optimizer, World(0, 1, CPU), precision="fp32")
    steps = config.pretrain.steps
    assert isinstance(steps, int)

    def train(step: int, batch: Batch) -> None:
        set_learning_rate(optimizer, learning_rate_at(config, step, steps))
        update([batch], [step], "joint")

    def judge(ids_BT: Tensor, batch: Batch) -> Any:
        return model.discriminator(ids_BT, batch.segments_BT, batch.lengths_B)

    def propose(masked: Masked, batch: Batch) -> Any:
        inputs = (masked.ids_BT, batch.segments_BT, batch.lengths_B, masked.positions_BN)
        assert isinstance(model.generator, Generator)
        return model.generator(*inputs)[0]

    return Arm(model, train, judge, propose)


def in_a_loop(
    optimizer: torch.optim.Optimizer,
    loss: Callable[[int, Batch], Any],
    config: ElectraConfig,
    warmup: int,
) -> Train:
    """Return the step of a plain loop: warm-up, linear decay, clipping at 1."""
    peak = config.pretrain.learning_rate
    steps = config.pretrain.steps
    assert isinstance(steps, int)
    parameters = list(itertools.chain(*(group["params"] for group in optimizer.param_groups)))

    def train(step: int, batch: Batch) -> None:
        warm = min(1.0, (step + 1) / max(1, warmup))
        for group in optimizer.param_groups:
            group["lr"] = peak * warm * (1 - step / steps)
        loss(step, batch).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return train


def judge_by(network: nn.Module) -> Judge:
    """Return the logits of a network of transformers."""
    return lambda ids_BT, batch: network(input_ids=ids_BT, **both(batch)).logits


def transformers(corpus: Corpus, config: ElectraConfig) -> Arm:
    peer = networks(corpus, config)

    def loss(step: int, batch: Batch) -> Any:
        torch.manual_seed(step)
        return peer.loss(batch, corpus.mask(batch, config.objective))

    def propose(masked: Masked, batch: Batch) -> Any:
        logits_BTV = peer.generator(input_ids=masked.ids_BT, **both(batch)).logits
        return gather_rows(logits_BTV, masked.positions_BN)

    train = in_a_loop(peer.optimizer, loss, config, config.pretrain.warmup)
    pair = nn.ModuleList([peer.generator, peer.discriminator])
    return Arm(pair, train, judge_by(peer.discriminator), propose)


def networks(corpus: Corpus, config: ElectraConfig) -> Peer:
    """Return transformers' networks with the first weights of ours."""
    source = Pretraining(config, corpus.vocab_size, corpus.special)
    return Peer(config, "fp32", CPU, source=source)


def electra_pytorch(corpus: Corpus, config: ElectraConfig) -> Arm:
    from electra_pytorch import Electra

    peer = networks(corpus, config)
    special = corpus.special

    class Logits(nn.Module):
        def __init__(self, network: nn.Module) -> None:
            super().__init__()
            self.network = network

        def forward(self, ids_BT: Tensor) -> Any:
            return self.network(ids_BT, attention_mask=(ids_BT != special.pad).long()).logits

    model = Electra(
        Logits(peer.generator),
        Logits(peer.discriminator),
        mask_token_id=special.mask,
        pad_token_id=special.pad,
        mask_ignore_token_ids=[special.cls, special.sep],
    )

    def loss(step: int, batch: Batch) -> Any:
        return model(batch.ids_BT).loss

    train = in_a_loop(peer.optimizer, loss, config, config.pretrain.warmup)
    return Arm(model, train, lambda ids_BT, batch: model.discriminator(ids_BT))


def txtai(corpus: Corpus, config: ElectraConfig) -> Arm:
    """Train as its HFTrainer does: one size, BERT's masks, a linear decay without a warm-up."""
    from transformers import ElectraForMaskedLM, ElectraForPreTraining
    from txtai.models import TokenDetection

    pair = [
        peer_network(kind, config.encoder, corpus.vocab_size)
        for kind in (ElectraForMaskedLM, ElectraForPreTraining)
    ]
    # the wrapper declares no attention of its own, which transformers 5 refuses
    pair[1].config._attn_implementation = "eager"
    model = TokenDetection(*pair, tokenizer=None)
    model.config._attn_implementation = "sdpa"
    model.generator.tie_weights()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0, fused=True)

    def loss(step: int, batch: Batch) -> Any:
        masked, labels_BT = corpus.labelled(batch)
        return model(masked.ids_BT, labels_BT, **both(batch))[0]

    return Arm(model, in_a_loop(optimizer, loss, config, 0), judge_by(model.discriminator))


def zeldarose(corpus: Corpus, config: ElectraConfig) -> Arm:
    from transformers import ElectraForMaskedLM, ElectraForTokenClassification
    from zeldarose.common import TrainConfig
    from zeldarose.tasks.rtd import RTDTrainingModel

    size = corpus.vocab_size
    generator = config.generator.encoder(config.encoder)
    model = RTDTrainingModel(
        peer_network(ElectraForTokenClassification, config.encoder, size),
        peer_network(ElectraForMaskedLM, generator, size),
        corpus.special.mask,
        size,
        TrainConfig(learning_rate=config.pretrain.learning_rate),
    )
    model.log = lambda *_, **__: None  # it asks for a Lightning trainer
    (optimizer,), _ = model.configure_optimizers()
    special = torch.tensor(corpus.special)

    def train(step: int, batch: Batch) -> None:
        ids_BT = batch.ids_BT
        internal_BT = torch.isin(ids_BT, special)
        inputs = (ids_BT, real(batch).bool(), internal_BT, batch.segments_BT)
        model.training_step(inputs, step).backward()
        optimizer.step()
        optimizer.zero_grad()

    def judge(ids_BT: Tensor, batch: Batch) -> Any:
        original_BT, other_BT = judge_by(model.discriminator)(ids_BT, batch).unbind(-1)
        return other_BT - original_BT

    return Arm(model, train, judge)


def rtd_gdes(corpus: Corpus, config: ElectraConfig) -> Arm:
    from rtd_gdes.config import TrainConfig
    from rtd_gdes.gdes.model import DebertaV3GDES
    from rtd_gdes.gdes.trainer import train_one_epoch
    from torch.amp.grad_scaler import GradScaler
    from transformers import BatchEncoding, DebertaV2Config, DebertaV2ForMaskedLM

    encoder = config.encoder
    shape: Any = {  # as deberta-v3-base, but for the sizes
        "vocab_size": corpus.vocab_size,
        "hidden_size": encoder.hidden,
        "num_hidden_layers": encoder.layers,
        "num_attention_heads": encoder.heads,
        "intermediate_size": encoder.ffn,
        "relative_attention": True,
        "position_buckets": 256,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
        "type_vocab_size": 0,
    }
    with tempfile.TemporaryDirectory() as folder:
        DebertaV2ForMaskedLM(DebertaV2Config(**shape)).save_pretrained(folder)
        model = DebertaV3GDES(folder)
    defaults = TrainConfig()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=config.pretrain.learning_rate, weight_decay=defaults.weight_decay
    )
    tokenizer = SimpleNamespace(mask_token_id=corpus.special.mask)
    epoch = SimpleNamespace(step=lambda: None)  # the rate changes at the end of an epoch only

    def train(step: int, batch: Batch) -> None:
        masked, labels_BT = corpus.labelled(batch)
        inputs = {"input_ids": masked.ids_BT, "attention_mask": real(batch), "labels": labels_BT}
        train_one_epoch(
            tokenizer,
            [BatchEncoding(inputs)],
            model,
            defaults.lambda_disc,
            optimizer,
            epoch,
            torch.float32,
            GradScaler("cpu", enabled=False),
            CPU,
            defaults.max_norm,
        )

    def judge(ids_BT: Tensor, batch: Batch) -> Any:
        return model.forward_disc(ids_BT, real(batch))

    return Arm(model, train, judge)


MAKERS = {
    "transformers": transformers,
    "electra-pytorch": electra_pytorch,
    "txtai": txtai,
    "zeldarose": zeldarose,
    "rtd-gdes": rtd_gdes,
}


# ── a child process ──


def make(name: str, corpus: Corpus, seed: int, peak: float, steps: int) -> Arm:
    """Build an arm for a number of steps."""
    torch.manual_seed(seed)
    return MAKERS.get(name, ours)(corpus, settings(name, seed, peak, steps))


def timed(arm: Arm, loader: BatchLoader, steps: range) -> float:
    """Train for some steps and return their processor seconds."""
    started = time.process_time()
    for step in steps:
        arm.train(step, loader.batch(step))
    return time.process_time() - started


@torch.no_grad()
def judged(arm: Arm, corpus: Corpus, sets: Sets) -> dict[str, dict[str, float]]:
    """Return AUC and recall of an arm's discriminator on each set of corrupted rows."""
    arm.networks.eval()
    held_out = corpus.held_out
    real_BT = real(held_out).bool()
    results = {}
    for name, ids_BT in sets.items():
        logits = arm.judge(ids_BT, held_out)[real_BT]
        replaced = (ids_BT != held_out.ids_BT)[real_BT]
        results[name] = {
            "auc": area_under_curve(logits.numpy(), replaced.numpy()),
            "recall": float((logits[replaced] > 0).float().mean()),
        }
    arm.networks.train()
    return results


def run(name: str, seed: int, peak: float, seconds: float, folder: Path) -> dict[str, Any]:
    """Train one arm for processor seconds, and return its curve. With seed 0, write the proposals
    of an arm's generator to the folder.
    """
    torch.set_num_threads(1)
    keep_freed_memory()
    corpus = Corpus()
    sets = {path.stem: torch.from_numpy(np.load(path)) for path in sorted(folder.glob("*.npy"))}
    loader = BatchLoader(corpus.train, settings(name, seed, peak, 1000), CPU, "noise")
    trial = make(name, corpus, seed, peak, 1000)  # tells how many steps the seconds allow
    timed(trial, loader, range(5))
    count = 0
    spent = 0.0
    while spent < seconds / 20:
        spent += timed(trial, loader, range(count, count + 10))
        count += 10
    steps = round(seconds * count / spent)
    arm = make(name, corpus, seed, peak, steps)
    arm.networks.train()
    marks = [round(steps * part / POINTS) for part in range(POINTS + 1)]
    spent = 0.0
    curve = []
    for first, last in itertools.pairwise(marks):
        spent += timed(arm, loader, range(first, last))
        tokens = round(last * loader.size * corpus.train.tokens / len(corpus.train))
        curve.append({"seconds": spent, "tokens": tokens, **judged(arm, corpus, sets)})
    if seed == 0 and arm.propose:
        arm.networks.eval()
        with torch.no_grad():
            proposed = corpus.corrupt(arm.propose(corpus.masked, corpus.held_out))
        np.save(folder / f"proposed/{name}-{peak}", proposed.numpy())
    return {"seed": seed, "rate": peak, "steps": steps, "curve": curve}


# ── the main process ──


def propose_frequent(folder: Path) -> None:
    """Write the held-out rows with tokens drawn by their frequency."""
    corpus = Corpus()
    counts = torch.from_numpy(np.bincount(corpus.train.ids[:200_000].ravel()))
    counts_V = torch.zeros(corpus.vocab_size)
    counts_V[: len(counts)] = counts
    counts_V[list(corpus.special)] = 0
    nothing = corpus.masked.ids_BT
    logits_MV = FixedGenerator(counts_V)(nothing, nothing, None, corpus.masked.positions_BN)[0]
    np.save(folder / "frequencies", corpus.corrupt(logits_MV).numpy())


def draw(record: dict[str, Any]) -> "Figure":
    """Draw the mean AUC over three generators of each run, over minutes and over tokens."""
    figure = new_figure(9.0, 3.8)
    left, right = figure.subplots(1, 2, sharey=True)
    for arm, (colour, line) in STYLES.items():
        for number, run in enumerate(record["runs"][arm]):
            curve = run["curve"]
            auc = [sum(point[name]["auc"] for name in record["sets"]) / 3 for point in curve]
            style = {"color": colour, "linestyle": line, "label": None if number else arm}
            left.plot([point["seconds"] / 60 for point in curve], auc, **style)
            right.plot([point["tokens"] / 1e6 for point in curve], auc, **style)
    left.set_xlabel("processor minutes")
    right.set_xlabel("million tokens read")
    left.set_title("AUC on held-out replacements")
    right.legend(frameon=False, fontsize="small")
    return figure


STYLES = {
    "preset": (BLUE, "-"),
    "paper": (ORANGE, "-"),
    "transformers": (GREEN, "-"),
    "electra-pytorch": (GREEN, "--"),
    "txtai": (GREEN, ":"),
    "zeldarose": (GREY, "-"),
    "rtd-gdes": (GREY, "--"),
}


def measure(options: Any) -> dict[str, Any]:
    """Find the rate on seed 0, then run every arm with every seed."""
    folder = Path(f"runs/learning-{options.seconds:g}")
    (folder / "proposed").mkdir(parents=True, exist_ok=True)
    propose_frequent(folder)

    def child(arm: str, seed: int, peak: float) -> dict[str, Any]:
        path = folder / f"{arm}-{seed}-{peak}.json"
        if not path.exists():
            write_json(path, in_process(run, arm, seed, peak, options.seconds, folder))
        done = read_json(path)
        print(arm, seed, peak, done["steps"], done["curve"][-1], flush=True)
        return dict(done)

    with ThreadPoolExecutor(options.jobs) as pool:
        trials = [child("preset", 0, 1e-3)]
        shutil.copy(folder / "proposed/preset-0.001.npy", folder / "preset.npy")
        trials += pool.map(partial(child, "transformers", 0), RATES)
        best = max(trials[1:], key=lambda run: run["curve"][-1]["preset"]["auc"])["rate"]
        shutil.copy(folder / f"proposed/transformers-{best}.npy", folder / "transformers.npy")
        jobs = list(itertools.product(range(1, options.seeds + 1), STYLES))
        done = pool.map(lambda job: child(job[1], job[0], best), jobs)
        runs: dict[str, list[dict[str, Any]]] = {arm: [] for arm in STYLES}
        for (_, arm), result in zip(jobs, done, strict=True):
            runs[arm].append(result)
    sets = sorted(path.stem for path in folder.glob("*.npy"))
    return {"best rate": best, "sets": sets, "trials": trials, "runs": runs}


def main() -> None:
    parser = arguments(__doc__, "learning.json")
    parser.add_argument("--seconds", type=float, default=400.0, help="processor seconds of a run")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2, help="runs at once, one thread each")
    options = parser.parse_args()
    origin = provenance("torch", *MAKERS)
    record = measure(options)
    write_record(options.output, record, origin)
    with context():
        save(draw(record), options.output.parent, options.output.stem)


if __name__ == "__main__":
    main()
