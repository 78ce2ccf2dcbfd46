"""Pre-train a model on its rows: build/models/M holds Hugging Face folders, examples, results.json
and curve.csv.
"""

import contextlib
import csv
import dataclasses
import io
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from electra.card import Use, model_card
from electra.config import plain
from electra.data import tokenizer as tokenizers
from electra.data.shards import Rows
from electra.errors import BadConfig, BadInput
from electra.files import atomic_folder, write_atomic, write_json
from electra.nn import huggingface as hf
from electra.nn.hf_names import architecture_of, config_json
from electra.pretraining.config import ElectraConfig, of_config
from electra.pretraining.corruption import SpecialIds, mask
from electra.pretraining.dataloader import Data, Feed, part
from electra.pretraining.evaluation import weakness
from electra.pretraining.flops import encoder_flops, training_flops
from electra.pretraining.model import Batch, Pretraining
from electra.pretraining.networks import Generator
from electra.pretraining.phases import phases_of
from electra.pretraining.trainer import Launch, Log, Trained, pretrain
from electra.storage import checkpoint
from electra.storage.fingerprint import Fingerprint
from electra.storage.manifest import MANIFEST, read_manifest, verify_manifest, write_manifest
from electra.storage.run_dir import CONTINUE, RUNS, entry_of, folder_of, name_run, newest
from pipelines import again
from pipelines.config.params import Params
from pipelines.runtime.announce import Announcer
from pipelines.runtime.mirror import mirrored
from pipelines.runtime.out_of_memory import enough_memory
from pipelines.runtime.processes import is_main
from pipelines.runtime.progress_bar import ProgressBar
from pipelines.stages import CURVE, PRETRAINING, RESULTS
from pipelines.versioning.code import digest_of

EXAMPLES, PROPOSALS = 12, 3
_USES: dict[str, Use] = {"encoder": "embed", "discriminator": "replaced"}  # others are generators


def run(name: str, params: Params, tracker: Any) -> None:
    """The stage: train, or go on from the last checkpoint, then write everything in one go."""
    model = params.models[name]
    rows = ModelRows(params, model.tokens, model.electra())
    tracker.dataset(f"tokens/{model.tokens}", rows.digest, "pretrain")
    owner = rows.fingerprint(model.electra())
    run = folder_of("pretrain", owner)
    if is_main():
        name_run(run, name, owner)
    launch = Launch(
        title=f"pretrain {name}",
        origin=origin(name, run, params),
        bar=ProgressBar,
        announce=Announcer(),
    )
    with mirrored(run, bring=launch.origin is None):
        trained = rows.train(model.electra(), run, log=tracker.metrics, launch=launch, owner=owner)
    if not is_main():
        return
    facts = rows.facts(model.electra(), trained)
    folder = Path("build/models") / name
    write_model(folder, name, model.electra(), trained, rows, facts)
    tracker.artifact(folder / CURVE)


def run_folder(name: str, params: Params) -> Path:
    """The folder of the run of a model's present settings and data."""
    config = params.models[name].electra()
    return folder_of(
        "pretrain", ModelRows(params, params.models[name].tokens, config).fingerprint(config)
    )


def runs_of(name: str) -> dict[str, Path]:
    """Return the pre-training runs of a model, by folder name."""
    runs = [run for run in sorted((RUNS / "pretrain").glob("[!.]*")) if entry_of(run) == name]
    return {run.name: run for run in runs if checkpoint.steps(run)}


def origin(name: str, run: Path, params: Params) -> Path | None:
    """The run that the user asks to continue, if it is one of this model's: named by its folder, or
    by the model.

    A model's name means its only other run. Raises BadConfig for anything else.
    """
    wish, known = os.environ.get(CONTINUE, ""), runs_of(name)
    if wish in known:
        return known[wish]
    others = [other for folder, other in known.items() if folder != run.name]
    if wish == name:
        if (newest(run) or {}).get("continued"):
            return None  # the same command has begun it already
        if len(others) == 1:
            return others[0]
    elif (
        not wish
        or wish in params.models
        or wish in {other.name for other in (RUNS / "pretrain").glob("*")}
    ):
        return None
    listed = ", ".join(other.name for other in others) or "none has other settings"
    raise BadConfig(
        CONTINUE, f"is {wish!r}", f"a run of {name} ({listed})", "`electra runs` lists them"
    )


class ModelRows:
    """A model's rows, verified, with what training and its record need to know of them."""

    def __init__(self, params: Params, tokens: str, config: ElectraConfig) -> None:
        self.name, self.folder = tokens, Path("build/tokens") / tokens
        *others, last = (self.folder / f"rows-{length}" for length in config.pretrain.lengths)
        of: dict[str, Any] = {"do": again("tokens", tokens), "kind": "tokens", "name": tokens}
        listed = read_manifest(self.folder, **of)["files"]
        read = [
            each for each in hf.TOKENIZER_FILES if each in listed or each != "vocab.txt"
        ]  # which byte-level BPE lacks
        read += [f"{rows.name}/{MANIFEST}" for rows in (*others, last)]  # which hash the rows
        verify_manifest(self.folder, only=read, **of)
        self.tokenizer = tokenizers.load(self.folder)
        identity = self.tokenizer.identity
        self.train_rows = Rows.open(last, "train", tokenizer=identity)
        self.valid_rows = Rows.open(last, "valid", tokenizer=identity)
        opened = (Rows.open(rows, "train", tokenizer=identity) for rows in others)
        self.others = {rows.length: rows for rows in opened}  # of phases with another length
        self.digest = self.train_rows.digest
        sources = params.corpora[params.tokens[tokens].corpus].sources
        self.label = " + ".join(
            dict.fromkeys("sample world" if of.kind == "sample" else tokens for of in sources)
        )

    def train(
        self,
        config: ElectraConfig,
        run: Path,
        *,
        log: Log,
        launch: Launch,
        owner: Fingerprint | None = None,
    ) -> Trained:
        """Pre-train on these rows in the folder `run`, that of `fingerprint(config)` or of `owner`."""
        ids = self.tokenizer
        special = SpecialIds(pad=ids.pad_id, cls=ids.cls_id, sep=ids.sep_id, mask=ids.mask_id)
        unigram = self._counts() if config.generator.kind == "unigram" else None
        data = Data(self.train_rows, self.valid_rows, special, ids.vocab_size, unigram, self.others)
        launch = dataclasses.replace(launch, code=digest_of(PRETRAINING))
        with enough_memory(config.pretrain):
            return pretrain(
                config, data, run, owner or self.fingerprint(config), log=log, launch=launch
            )

    def fingerprint(self, config: ElectraConfig) -> Fingerprint:
        """What a run's result is a function of, its code apart: settings, rows, tokenizer, first
        weights.
        """
        start = (
            {"init_from": self._check_start(Path(config.pretrain.init_from))}
            if config.pretrain.init_from
            else {}
        )
        phases = (
            {"phases": {str(length): rows.digest for length, rows in self.others.items()}}
            if self.others
            else {}
        )
        rows = {"train": self.train_rows.digest, "valid": self.valid_rows.digest}
        return (
            start
            | phases
            | {"config": of_config(config), **rows, "tokenizer": self.tokenizer.identity}
        )

    def _check_start(self, folder: Path) -> dict[str, dict[str, str]]:
        """Refuse weights of another tokenizer; returns the hash of every file that training starts
        from.
        """
        ours, hashes = self.tokenizer.pieces(), dict[str, dict[str, str]]()
        for inside in sorted(path.parent for path in folder.glob("*/model.safetensors")):
            if not any((inside / file).is_file() for file in hf.TOKENIZER_FILES[:2]):
                found = f"holds neither {hf.TOKENIZER_FILES[0]} nor {hf.TOKENIZER_FILES[1]}"
                raise BadInput(
                    inside, found, "the tokenizer of these weights", "put it beside them"
                )
            theirs = tokenizers.load(inside).pieces()
            if theirs != ours:
                place = next(
                    (
                        i
                        for i, pair in enumerate(zip(ours, theirs, strict=False))
                        if pair[0] != pair[1]
                    ),
                    None,
                )
                where = (
                    f"{len(theirs):,} pieces"
                    if place is None
                    else f"piece {place} {theirs[place]!r}"
                )
                expected = f"{len(ours):,}" if place is None else repr(ours[place])
                do = "let the model's tokens use the tokenizer that the weights of pretrain.init_from were made with"
                raise BadInput(
                    inside,
                    f"has a tokenizer with {where}",
                    f"{expected}, as tokens.{self.name} has",
                    do,
                )
            hashes[inside.name] = hf.verify_folder(inside)
        return hashes

    def _counts(self) -> torch.Tensor:
        # add one: no token is impossible
        counts = np.ones(self.tokenizer.vocab_size, dtype=np.int64)
        for start in range(0, len(self.train_rows), 65_536):
            counts += np.bincount(
                self.train_rows.ids[start : start + 65_536].reshape(-1), minlength=len(counts)
            )
        counts[
            [
                self.tokenizer.pad_id,
                self.tokenizer.cls_id,
                self.tokenizer.sep_id,
                self.tokenizer.mask_id,
            ]
        ] = 1
        return torch.from_numpy(counts)

    def facts(self, config: ElectraConfig, trained: Trained) -> dict[str, Any]:
        """What a stored result carries: data and its hashes, budget, sizes, seed, versions, device,
        threads.
        """
        vocab_size = self.tokenizer.vocab_size
        model, settings = trained.model, config.pretrain
        parts = [(part, part.last - part.first) for part in phases_of(settings, trained.steps)]
        epochs = sum(
            n * part.batch / len(self.others.get(part.length, self.train_rows)) for part, n in parts
        )
        phases = [{"length": part.length, "batch": part.batch, "steps": n} for part, n in parts]
        weak = weakness(trained.history[-1], self.train_rows.tokens)
        return {
            "label": self.label,
            "tokens_name": self.name,
            "rows_sha256": self.digest,
            "tokenizer_sha256": self.tokenizer.identity,
            **{key: getattr(settings, key) for key in ("batch", "length", "seed", "threads")},
            "steps": trained.steps,
            "epochs": round(epochs, 3),
            "padding": round(1 - self.train_rows.tokens / self.train_rows.ids.size, 4),
            **({"phases": phases} if settings.phases else {}),
            **({"weakness": weak} if weak else {}),
            "flops": training_flops(config, vocab_size),
            "flops_convention": "authors",
            "flops_matmul_convention": training_flops(config, vocab_size, "matmul"),
            "inference_flops": encoder_flops(
                config.encoder, settings.length, vocab_size, "authors"
            ),
            "parameters": parameter_counts(model),
            "precision": trained.precision,
            "device": str(next(model.parameters()).device.type),
            "torch": torch.__version__,
            "code": [{"step": step, "digest": code} for step, code in trained.code],
            **({"continued": trained.continued} if trained.continued else {}),
        }


def parameter_counts(model: Pretraining) -> dict[str, int]:
    """Numbers of parameters: each network with its head, and both together, shared ones once."""

    def count(module: torch.nn.Module) -> int:
        return sum(parameter.numel() for parameter in module.parameters())

    main, generator = model.discriminator, model.generator
    counts = {"encoder": count(main.encoder), "discriminator": count(main), "joint": count(model)}
    return counts | ({"generator": count(generator)} if isinstance(generator, Generator) else {})


def write_model(
    folder: Path,
    name: str,
    config: ElectraConfig,
    trained: Trained,
    rows: ModelRows,
    facts: dict[str, Any],
) -> None:
    """Write encoder/, generator/, discriminator/ or masked_lm/ (Hugging Face), examples, numbers, a
    manifest.
    """
    model, vocab_size = trained.model, rows.tokenizer.vocab_size
    encoder, extras = config.encoder, model.extras()
    card = {
        "data": rows.label,
        "recipe": plain(config),
        "results": trained.history[-1],
        "facts": facts,
    }
    with atomic_folder(folder) as temporary:
        start = (
            Path(config.pretrain.init_from).glob("*/config.json")
            if config.pretrain.init_from
            else ()
        )
        seen = max(
            *config.pretrain.lengths,
            *(hf.open_folder(path.parent).trained_positions for path in start),
            0,
        )
        files = tokenizers.read_files(rows.folder, seen)
        more = {"pad_token_id": rows.tokenizer.pad_id, "trained_positions": seen}
        bare = config_json(encoder, vocab_size, "ElectraModel", **more)
        networks, parts = (
            model.networks(),
            {"encoder": (hf.encoder_tensors(model.discriminator.encoder, ""), bare)},
        )
        for kind, (part, head) in networks.items():
            settings = config_json(part.config, vocab_size, architecture_of(head), **more)
            parts[kind] = hf.network_tensors(part, head), settings
        for kind, (tensors, settings) in parts.items():
            text = model_card(f"ELECTRA {name}: {kind}", _USES.get(kind, "corrupt"), card)
            beside = (
                hf.extra_tensors(networks[kind][0], extras.get(kind, {}))
                if kind in networks
                else {}
            )
            hf.write_folder(
                temporary / kind,
                tensors,
                settings,
                files,
                text,
                beside=beside,
                model=name,
                part=kind,
            )
        write_json(temporary / "examples.json", examples(model, config, rows))
        write_atomic(temporary / CURVE, curve_csv(trained.history))
        write_json(temporary / RESULTS, {**facts, **trained.history[-1]})
        write_manifest(temporary, kind="model", name=name, weakness=facts.get("weakness", ""))


@torch.no_grad()
def examples(model: Pretraining, config: ElectraConfig, rows: ModelRows) -> list[dict[str, Any]]:
    """Held-out rows as the discriminator saw them: proposals, replacements, originals, its verdicts
    (Figure 2).
    """
    if config.objective.name not in {"electra", "electra_15"}:
        return []
    batch = Feed(rows.valid_rows, config, next(model.parameters()).device, "examples").batch(0)
    batch = part(batch, 0, max(1, len(batch.ids_BT) // EXAMPLES))
    spell = rows.tokenizer.spell
    pieces = [spell([number])[0] for number in range(rows.tokenizer.vocab_size)]
    # Where the networks were compiled: these shapes are new, and a dozen rows are not worth minutes
    # of compiling.
    compiles = "torch._dynamo" in sys.modules
    with torch.compiler.set_stance("force_eager") if compiles else contextlib.nullcontext():
        outputs, proposed_B = model(batch), proposals(model, batch, pieces)
    assert outputs.logits_BT is not None
    shown = []
    for row, (length, proposed) in enumerate(
        zip(batch.lengths_B.tolist(), proposed_B, strict=True)
    ):
        ids, original, replaced, logits = (
            each[row, :length]
            for each in (outputs.corrupted_BT, batch.ids_BT, outputs.replaced_BT, outputs.logits_BT)
        )
        seen = {
            "tokens": spell(ids.tolist()),
            "original": spell(original.tolist()),
            "replaced": replaced.tolist(),
        }
        probability = [round(share, 4) for share in logits.float().sigmoid().tolist()]
        shown.append({**seen, "probability": probability, "proposals": proposed})
    return shown


def proposals(model: Pretraining, batch: Batch, pieces: list[str]) -> list[list[dict[str, Any]]]:
    """What the generator finds likeliest at each hidden place of each row."""
    assert model.generator is not None
    masked = mask(
        batch.ids_BT,
        batch.lengths_B,
        model.special,
        model.config.objective,
        batch.noise,
        model.vocab_size,
    )
    logits_MV, _ = model.generator(
        masked.ids_BT, batch.segments_BT, batch.lengths_B, masked.positions_BN
    )
    best = logits_MV[:, : len(pieces)].float().softmax(-1).topk(PROPOSALS)
    rows: list[list[dict[str, Any]]] = [[] for _ in batch.lengths_B]
    hidden = zip(
        masked.positions_BN.view(-1).tolist(),
        best.indices.tolist(),
        best.values.tolist(),
        strict=True,
    )
    for slot, (place, ids, shares) in enumerate(hidden):
        row, number = divmod(slot, masked.positions_BN.shape[1])
        if masked.weights_BN[row, number]:
            each = {
                "pieces": [pieces[i] for i in ids],
                "probability": [round(share, 4) for share in shares],
            }
            rows[row].append({"place": place} | each)
    return [sorted(row, key=lambda each: int(each["place"])) for row in rows]


def curve_csv(history: list[dict[str, Any]]) -> str:
    """Return a curve as CSV, one evaluation a row."""
    columns = ["step", *sorted({key for record in history for key in record} - {"step"})]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(history)
    return text.getvalue()
