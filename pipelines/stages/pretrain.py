"""Pre-train a model on its rows: build/models/M holds Hugging Face folders, examples, results.json
and curve.csv.
"""

import contextlib
import csv
import io
import os
import sys
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch

from electra.card import Use, model_card
from electra.config import to_jsonable
from electra.data import tokenizer as tokenizers
from electra.data.shards import Rows
from electra.errors import BadConfig, BadInput
from electra.files import atomic_folder, write_atomic, write_json
from electra.nn import huggingface as hf
from electra.nn.hf_names import config_json, transformers_class
from electra.pretraining.config import ElectraConfig, fingerprinted_settings
from electra.pretraining.corruption import SpecialIds, mask
from electra.pretraining.dataloader import BatchLoader, PretrainData, slice_batch
from electra.pretraining.evaluation import weakness
from electra.pretraining.flops import encoder_flops, training_flops
from electra.pretraining.model import Batch, Pretraining
from electra.pretraining.networks import Generator
from electra.pretraining.phases import make_phases
from electra.pretraining.trainer import Log, PretrainResult, RunOptions, pretrain
from electra.storage import checkpoint
from electra.storage.fingerprint import Fingerprint
from electra.storage.manifest import MANIFEST, read_manifest, verify_manifest, write_manifest
from electra.storage.run_dir import CONTINUE, RUNS, name_run, newest_progress, read_entry, run_path
from pipelines import rebuild_advice
from pipelines.config.params import Params
from pipelines.stages import BUILD, CURVE, PRETRAINING, RESULTS, is_main
from pipelines.stages.announce import announce
from pipelines.stages.mirror import mirrored
from pipelines.stages.out_of_memory import enough_memory
from pipelines.stages.progress_bar import ProgressBar
from pipelines.versioning.code import code_digest

EXAMPLES = 12  # rows that are kept to be looked at
PROPOSALS = 3  # of each hidden position
_USES: dict[str, Use] = {"encoder": "embed", "discriminator": "replaced"}  # others are generators


def run(name: str, params: Params, tracker: Any) -> None:
    """Run the stage: train, or continue from the last checkpoint, then write everything at once."""
    tokens = params.models[name].tokens
    config = params.models[name].electra()
    rows = ModelRows(params, tokens, config)
    tracker.dataset(f"tokens/{tokens}", rows.digest, "pretrain")
    owner = rows.fingerprint(config)
    run = run_path("pretrain", owner)
    if is_main():
        name_run(run, name, owner)
    source = find_origin(name, run, params)
    with mirrored(run, bring=source is None):
        trained = rows.train(config, run, f"pretrain {name}", log=tracker.metrics, origin=source)
    if not is_main():
        return
    facts = rows.facts(config, trained)
    folder = BUILD / "models" / name
    write_model(folder, name, config, trained, rows, facts)
    tracker.artifact(folder / CURVE)


def run_folder(name: str, params: Params) -> Path:
    """Return the folder of the run of a model's present settings and data."""
    config = params.models[name].electra()
    rows = ModelRows(params, params.models[name].tokens, config)
    return run_path("pretrain", rows.fingerprint(config))


def find_runs(name: str) -> dict[str, Path]:
    """Return the pre-training runs of a model, by folder name."""
    runs = sorted((RUNS / "pretrain").glob("[!.]*"))
    return {run.name: run for run in runs if read_entry(run) == name and checkpoint.steps(run)}


def find_origin(name: str, run: Path, params: Params) -> Path | None:
    """Return the run that the user asks to continue, if it is one of this model's: named by its
    folder, or by the model.

    A model's name means its only other run. Raises BadConfig for anything else.
    """
    requested = os.environ.get(CONTINUE, "")
    known = find_runs(name)
    others = [other for folder, other in known.items() if folder != run.name]
    if requested in known:
        return known[requested]
    if requested == name:
        if (newest_progress(run) or {}).get("continued"):
            return None  # the same command has started it already
        if len(others) == 1:
            return others[0]
    elif not requested or requested in params.models or (RUNS / "pretrain" / requested).is_dir():
        return None  # it is of another model
    listed = ", ".join(other.name for other in others) or "none has other settings"
    raise BadConfig(
        f"{CONTINUE}: is {requested!r}; expected a run of {name} ({listed}); "
        "`electra runs` lists them"
    )


class ModelRows:
    """A model's rows, verified, with the facts about them that training and its record need."""

    def __init__(self, params: Params, tokens: str, config: ElectraConfig) -> None:
        self.name = tokens
        self.folder = BUILD / "tokens" / tokens
        fields: dict[str, Any] = {
            "do": rebuild_advice("tokens", tokens),
            "kind": "tokens",
            "name": tokens,
        }
        listed = read_manifest(self.folder, **fields)["files"]
        # byte-level BPE lacks vocab.txt; the manifests hash the rows
        files = [name for name in hf.TOKENIZER_FILES if name in listed or name != "vocab.txt"]
        files += [f"rows-{length}/{MANIFEST}" for length in config.pretrain.lengths]
        verify_manifest(self.folder, only=files, **fields)
        self.tokenizer = tokenizers.load(self.folder)
        *others, last = config.pretrain.lengths
        self.train_rows = self._open(last, "train")
        self.valid_rows = self._open(last, "valid")
        # of phases with another length
        self.others = {length: self._open(length, "train") for length in others}
        self.digest = self.train_rows.digest
        sources = params.corpora[params.tokens[tokens].corpus].sources
        names = ["sample world" if source.kind == "sample" else tokens for source in sources]
        self.label = " + ".join(dict.fromkeys(names))

    def _open(self, length: int, split: str) -> Rows:
        folder = self.folder / f"rows-{length}"
        return Rows.open(folder, split, tokenizer=self.tokenizer.identity)

    def train(
        self,
        config: ElectraConfig,
        run: Path,
        title: str,
        *,
        log: Log = lambda step, numbers: None,
        origin: Path | None = None,
    ) -> PretrainResult:
        """Pre-train on these rows in the folder `run`, or continue the run `origin` there."""
        ids = self.tokenizer
        special = SpecialIds(pad=ids.pad_id, cls=ids.cls_id, sep=ids.sep_id, mask=ids.mask_id)
        unigram = self._counts() if config.generator.kind == "unigram" else None
        data = PretrainData(
            self.train_rows, self.valid_rows, special, ids.vocab_size, unigram, self.others
        )
        options = RunOptions(
            title=title,
            origin=origin,
            code=code_digest(PRETRAINING),
            bar=ProgressBar,
            on_step=announce,
        )
        with enough_memory(config.pretrain):
            return pretrain(config, data, run, self.fingerprint(config), log=log, options=options)

    def fingerprint(self, config: ElectraConfig) -> Fingerprint:
        """Return all inputs of a run's result except its code: settings, rows, tokenizer, first
        weights.
        """
        fingerprint: Fingerprint = {
            "config": fingerprinted_settings(config),
            "train": self.train_rows.digest,
            "valid": self.valid_rows.digest,
            "tokenizer": self.tokenizer.identity,
        }
        if config.pretrain.init_from:
            folders = Path(config.pretrain.init_from).glob("*/model.safetensors")
            fingerprint["init_from"] = {
                path.parent.name: self._verify_start(path.parent) for path in sorted(folders)
            }
        if self.others:
            others = self.others.items()
            fingerprint["phases"] = {str(length): rows.digest for length, rows in others}
        return fingerprint

    def _verify_start(self, folder: Path) -> dict[str, str]:
        """Return the hash of every file of a network that training starts from. Raise BadInput for
        one with another tokenizer.
        """
        pieces = self.tokenizer.pieces()
        start_pieces = tokenizers.load(folder).pieces()
        if start_pieces != pieces:
            sizes = f"{len(start_pieces):,} pieces, tokens.{self.name} one of {len(pieces):,}"
            both = zip(pieces, start_pieces, strict=False)
            for number, (piece, other) in enumerate(both):
                if piece != other:
                    sizes = f"piece {number} {other!r}, in tokens.{self.name} it is {piece!r}"
                    break
            raise BadInput(
                f"{folder}: has a tokenizer with {sizes}; "
                "let the model's tokens use the tokenizer of pretrain.init_from"
            )
        return hf.verify_folder(folder)

    def _counts(self) -> torch.Tensor:
        """Count the tokens of the training rows, at least one of each: no token is impossible."""
        ids = self.tokenizer
        counts = np.ones(ids.vocab_size, dtype=np.int64)
        for start in range(0, len(self.train_rows), 65_536):
            block = self.train_rows.ids[start : start + 65_536].reshape(-1)
            counts += np.bincount(block, minlength=len(counts))
        counts[[ids.pad_id, ids.cls_id, ids.sep_id, ids.mask_id]] = 1
        return torch.from_numpy(counts)

    def facts(self, config: ElectraConfig, trained: PretrainResult) -> dict[str, Any]:
        """Return the facts stored with a result: data and its hashes, budget, sizes, seed,
        versions, device, threads.
        """
        vocab_size = self.tokenizer.vocab_size
        settings = config.pretrain
        epochs = 0.0
        phases = []
        for phase in make_phases(settings, trained.steps):
            steps = phase.last - phase.first
            rows = self.others.get(phase.length, self.train_rows)
            epochs += steps * phase.batch / len(rows)
            phases.append({"length": phase.length, "batch": phase.batch, "steps": steps})
        flops = encoder_flops(config.encoder, settings.length, vocab_size, "authors")
        places = len(self.train_rows) * self.train_rows.length
        facts = {
            "label": self.label,
            "tokens_name": self.name,
            "rows_sha256": self.digest,
            "tokenizer_sha256": self.tokenizer.identity,
            **{key: getattr(settings, key) for key in ("batch", "length", "seed", "threads")},
            "steps": trained.steps,
            "epochs": round(epochs, 3),
            "padding": round(1 - self.train_rows.tokens / places, 4),
            "flops": training_flops(config, vocab_size),
            "flops_convention": "authors",
            "flops_matmul_convention": training_flops(config, vocab_size, "matmul"),
            "inference_flops": flops,
            "parameters": count_parameters(trained.model),
            "precision": trained.precision,
            "device": next(trained.model.parameters()).device.type,
            "torch": torch.__version__,
            "code": [{"step": step, "digest": code} for step, code in trained.code],
        }
        optional = {
            "phases": phases if settings.phases else [],
            "weakness": weakness(trained.history[-1], self.train_rows.tokens),
            "continued": trained.continued,
        }
        return facts | {key: value for key, value in optional.items() if value}


def count_parameters(model: Pretraining) -> dict[str, int]:
    """Return numbers of parameters: each network with its head, and both together, shared ones
    once.
    """
    parts: dict[str, torch.nn.Module] = {
        "encoder": model.discriminator.encoder,
        "discriminator": model.discriminator,
        "joint": model,
    }
    if isinstance(model.generator, Generator):
        parts["generator"] = model.generator
    return {
        name: sum(parameter.numel() for parameter in part.parameters())
        for name, part in parts.items()
    }


def write_model(
    folder: Path,
    name: str,
    config: ElectraConfig,
    trained: PretrainResult,
    rows: ModelRows,
    facts: dict[str, Any],
) -> None:
    """Write encoder/, generator/, discriminator/ or masked_lm/ (Hugging Face), examples, numbers, a
    manifest.
    """
    model = trained.model
    tokenizer = rows.tokenizer
    positions = list(config.pretrain.lengths)
    if config.pretrain.init_from:
        for path in Path(config.pretrain.init_from).glob("*/config.json"):
            positions.append(hf.open_folder(path.parent).trained_positions)
    files = tokenizers.read_files(rows.folder, max(positions))
    common = {"pad_token_id": tokenizer.pad_id, "trained_positions": max(positions)}
    card = {
        "data": rows.label,
        "recipe": to_jsonable(config),
        "results": trained.history[-1],
        "facts": facts,
    }
    extras = model.extras()

    def write(kind: str, tensors: Any, settings: Any, extra_files: Any) -> None:
        text = model_card(f"ELECTRA {name}: {kind}", _USES.get(kind, "corrupt"), card)
        target = temporary / kind
        hf.write_folder(
            target, tensors, settings, files, text, extra_files=extra_files, model=name, part=kind
        )

    with atomic_folder(folder) as temporary:
        bare = config_json(config.encoder, tokenizer.vocab_size, "ElectraModel", **common)
        write("encoder", hf.encoder_tensors(model.discriminator.encoder, ""), bare, {})
        for kind, (encoder, head) in model.networks().items():
            architecture = transformers_class(head)
            settings = config_json(encoder.config, tokenizer.vocab_size, architecture, **common)
            extra = hf.extra_tensors(encoder, extras.get(kind, {}))
            write(kind, hf.network_tensors(encoder, head), settings, extra)
        write_json(temporary / "examples.json", show_examples(model, config, rows))
        write_atomic(temporary / CURVE, curve_csv(trained.history))
        write_json(temporary / RESULTS, {**facts, **trained.history[-1]})
        write_manifest(temporary, kind="model", name=name, weakness=facts.get("weakness", ""))


@torch.no_grad()
def show_examples(
    model: Pretraining, config: ElectraConfig, rows: ModelRows
) -> list[dict[str, Any]]:
    """Return held-out rows as the discriminator saw them: proposals, replacements, originals, its
    verdicts (Figure 2).
    """
    if config.objective.name not in {"electra", "electra_15"}:
        return []
    batch = BatchLoader(rows.valid_rows, config, next(model.parameters()).device, "examples").batch(
        0
    )
    batch = slice_batch(batch, 0, max(1, len(batch.ids_BT) // EXAMPLES))
    spell = rows.tokenizer.spell
    pieces = [spell([number])[0] for number in range(rows.tokenizer.vocab_size)]
    # Where the networks were compiled: these shapes are new, and a dozen rows are not worth minutes
    # of compiling.
    compiles = "torch._dynamo" in sys.modules
    with torch.compiler.set_stance("force_eager") if compiles else contextlib.nullcontext():
        outputs = model(batch)
        proposals_B = propose(model, batch, pieces)
    assert outputs.logits_BT is not None
    probability_BT = outputs.logits_BT.float().sigmoid()
    examples = []
    for row, length in enumerate(batch.lengths_B.tolist()):
        probabilities = probability_BT[row, :length].tolist()
        examples.append(
            {
                "tokens": spell(outputs.corrupted_BT[row, :length].tolist()),
                "original": spell(batch.ids_BT[row, :length].tolist()),
                "replaced": outputs.replaced_BT[row, :length].tolist(),
                "probability": [round(probability, 4) for probability in probabilities],
                "proposals": proposals_B[row],
            }
        )
    return examples


def propose(model: Pretraining, batch: Batch, pieces: list[str]) -> list[list[dict[str, Any]]]:
    """Return the generator's likeliest pieces at each hidden position of each row."""
    assert model.generator is not None
    config = model.config.objective
    masked = mask(
        batch.ids_BT, batch.lengths_B, model.special, config, batch.noise, model.vocab_size
    )
    logits_MV, _ = model.generator(
        masked.ids_BT, batch.segments_BT, batch.lengths_B, masked.positions_BN
    )
    best = logits_MV[:, : len(pieces)].float().softmax(-1).topk(PROPOSALS)
    shape = (*masked.positions_BN.shape, PROPOSALS)
    hidden = (
        masked.positions_BN,
        masked.weights_BN,
        best.indices.reshape(shape),
        best.values.reshape(shape),
    )
    rows = []
    for row in zip(*hidden, strict=True):
        proposals = [
            {
                "place": int(position),
                "pieces": [pieces[i] for i in ids_P],
                "probability": [round(share, 4) for share in shares_P.tolist()],
            }
            for position, weight, ids_P, shares_P in zip(*row, strict=True)
            if weight
        ]
        rows.append(sorted(proposals, key=itemgetter("place")))
    return rows


def curve_csv(history: list[dict[str, Any]]) -> str:
    """Return a curve as CSV, one evaluation a row."""
    columns = ["step", *sorted(set().union(*history) - {"step"})]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(history)
    return text.getvalue()
