"""`electra new NAME`: entries of params.yaml for the user's own text and tasks.

Formats, columns and labels are inferred from the files (infer_text.py, infer_task.py), sizes from
the amount of text, and with `--from` networks, tokenizer and learning rate from published weights
(continue_from.py). Everything else keeps its default, and all of it can be edited afterwards.
"""

import copy
import re
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from electra.config import build, to_jsonable
from electra.errors import BadConfig
from electra.files import lock_folder, write_user_file
from electra.nn.config import EncoderConfig
from electra.nn.huggingface import read_config
from electra.pretraining.config import ElectraConfig
from electra.pretraining.flops import training_flops
from pipelines.cli import cost
from pipelines.cli.continue_from import continue_from
from pipelines.cli.first_scores import first_scores
from pipelines.cli.infer_task import infer_task
from pipelines.cli.infer_text import infer_sources, infer_tokenizer
from pipelines.config.params import FILE, NAME, SECTIONS, Params, load
from pipelines.sources.paths import find_files
from pipelines.sources.streams import COMPRESSIONS
from pipelines.stages import LOCKS
from pipelines.versioning.dvc_store import dump_yaml

Entries = dict[str, dict[str, Any]]  # section of params.yaml -> name -> entry
BEFORE = "-before"  # of the name of published weights that `--from` continues from
SECONDS = 60.0  # to wait for another `electra new`

PASSES = 40  # over the text at most: each time other words are masked
# tokens that a discriminator reads before it finds replaced words (docs/own-text.md)
FEW_TOKENS = 5e6
# Text up to so many bytes: pieces of its vocabulary, bytes a token, share of documents that are
# held out.
VOCABULARIES = ((2e7, 2_048, 3.2, 0.05), (1e9, 8_192, 4.0, 0.01), (float("inf"), 30_522, 4.5, 0.01))
# Networks up to this width get other settings than the published ones (docs/own-text.md).
NARROW = 128
PRETRAIN: dict[bool, dict[str, Any]] = {
    True: {
        "batch": 16,
        "learning_rate": 1.0e-3,
        "beta2": 0.98,
        "bias_correction": True,
        "precision": "fp32",
    },
    False: {"batch": 128, "learning_rate": 5.0e-4},
}
FINETUNE = {"learning_rate": 1.0e-3, "layer_decay": 1.0, "beta2": 0.98, "dropout": 0.0}
# of wider ones, by their width: paper, Tables 6 and 7
RATES = {256: 3.0e-4, 768: 1.0e-4, 1024: 5.0e-5}
# of fine-tuning that rows should give, and the epochs that are tried for it
STEPS = 400
EPOCHS = (3, 20)
LENGTH = 128  # of rows
EVALUATIONS = 20


def add_entries(
    name: str,
    text: Sequence[str],
    task: Sequence[str],
    columns: dict[str, str],
    *,
    encoder: str,
    minutes: float,
    model: str,
    start: str,
    encoding: str,
) -> str:
    """Print the choices, add the entries, and return the commands to run next.

    `encoder` is pre-trained on the files of `text` ("": one that suits this machine), for at most
    `minutes` here, as estimated (0: 20, on a GPU no limit). `start` is a folder of published
    weights to continue from instead. Without text, `model` is fine-tuned on the files of `task`.
    `columns` are those of `a`, `b` and `label`, "" where they are to be inferred. `encoding` is
    that of text files that are not UTF-8. Raises UserError and leaves params.yaml as it is where an
    entry would not be valid.
    """
    params = load()
    if not NAME.fullmatch(name):
        raise BadConfig(f"new: {name!r} cannot be a name; use letters, digits, _ and -")
    for section in SECTIONS:
        if name in getattr(params, section):
            raise BadConfig(f"{FILE}: has {section}.{name} already; choose another name")
    if not text and not task:
        raise BadConfig(
            "new: give --text or --task with files of yours, such as --text 'data/*.jsonl'"
        )
    if start and not text:
        raise BadConfig("--from: continues pre-training, so give --text as well")
    gpu = torch.cuda.is_available()
    encoder = encoder or ("small" if gpu else "mini")
    entries: Entries = {}
    notes: list[str] = []
    if text:
        params.require("encoders", encoder, "--encoder")
        network = params.encoders[encoder]
        if start:
            entries, network, note = continue_from(Path(start), name, params)
        else:
            entries = {"models": {name: {"encoder": encoder}}}
            note = f"{encoder}: the encoder that is pre-trained"
        notes.append(note)
        add_text(entries, notes, name, text, encoding, network, minutes or (0 if gpu else 20))
        model = name
        width = network.hidden
    else:
        if not model:
            model, note = choose_model(params)
            notes.append(note)
        width = model_width(params, model)
    if task:
        add_task(entries, notes, name, task, columns, model, width)
        if start:
            before = name + BEFORE
            # a copy, or the lists in both would be written as an anchor and an alias
            finetuning = copy.deepcopy(entries["finetunings"][name])
            entries["finetunings"][before] = finetuning | {"model": before}
    # first, so that output that cannot be written leaves params.yaml as it is
    print("".join(f"{note}\n" for note in notes), end="", flush=True)
    edit(lambda text: insert(text, entries))
    lines = first_scores(name, load()) if task else []
    added: list[str] = []
    for section, named in entries.items():
        added += [f"{section}.{entry}" for entry in named]
    lines += [f"added to {FILE}: {', '.join(added)}. Next:", f"  electra check {name}"]
    if text:
        lines.append(f"  electra estimate {name}")
    lines.append(f"  dvc repro pipelines/dvc.yaml:{'glue' if task else 'pretrain'}@{name}")
    if start and task:
        lines.append(f"  dvc repro pipelines/dvc.yaml:glue@{name}{BEFORE}  # to compare")
    if task:
        lines.append(f"  electra report {name}")
    return "\n".join([*lines, ""])


def remove_entries(name: str) -> None:
    """Remove the entries that `add_entries` wrote under a name, and print them first."""
    params = load()
    removed: list[str] = []
    for section in SECTIONS:
        names = getattr(params, section)
        removed += [f"{section}.{entry}" for entry in (name, name + BEFORE) if entry in names]
    if not removed:
        raise BadConfig(f"{FILE}: has no entry {name} that `electra new` writes")
    print(f"remove from {FILE}: {', '.join(removed)}; build/ and runs/ stay", flush=True)
    edit(lambda text: cut(text, (name, name + BEFORE)))


def choose_model(params: Params) -> tuple[str, str]:
    """Return the default model to fine-tune, and a note: published weights that exist here, else
    `tiny`.
    """
    for name, published in params.published.items():
        if (Path(published.folder) / "config.json").is_file():
            return name, f"{name}: the published model in {published.folder} is fine-tuned"
    do = "give --text, or fetch weights and give --model electra-small (docs/published.md)"
    return "tiny", f"warning: this fine-tunes tiny, which knows only the made-up sample world; {do}"


def model_width(params: Params, model: str) -> int:
    """Return the hidden size of a model by its name, or base's where a published one is not
    there.
    """
    if model not in params.published:
        params.require("models", model, "--model")
        return params.models[model].encoder.hidden
    folder = Path(params.published[model].folder)
    return read_config(folder)[0].hidden if (folder / "config.json").is_file() else 768


def add_text(
    entries: Entries,
    notes: list[str],
    name: str,
    files: Sequence[str],
    encoding: str,
    encoder: EncoderConfig,
    minutes: float,
) -> None:
    """Add a corpus and its rows to a model's entries, and complete its pre-training."""
    paths = find_files(tuple(files), "--text")
    size = sum(path.stat().st_size * (4 if path.suffix in COMPRESSIONS else 1) for path in paths)
    pieces, per_token, held_out = next(row[1:] for row in VOCABULARIES if size <= row[0])
    facts = infer_sources(files, paths, encoding)
    notes += facts.notes
    corpus: dict[str, Any] = {"sources": facts.sources}
    if facts.markup:
        corpus["cleaning"] = {"markup": True}
    entries["corpora"] = {name: corpus}
    if "tokenizers" not in entries:
        tokenizer, note = infer_tokenizer(facts.texts, pieces)
        entries["tokenizers"] = {name: tokenizer}
        notes.append(note)
    pieces = entries["tokenizers"][name].get("vocab_size", VOCABULARIES[-1][1])
    model = entries["models"][name]
    settings = {
        "length": min(LENGTH, encoder.positions),
        **PRETRAIN[encoder.hidden <= NARROW],
        **model.get("pretrain", {}),
    }
    length = settings["length"]
    steps = PASSES * size / per_token / (settings["batch"] * length)
    remedy = "more text helps"
    if minutes:
        step = {**settings, "steps": 1, "warmup": 0, "init_from": None}
        step = {**model, "encoder": to_jsonable(encoder), "pretrain": step}
        flops = training_flops(build(ElectraConfig, step, f"models.{name}"), pieces, "matmul")
        machine = cost.this_machine()
        share = statistics.fmean(cost.utilisation(machine, encoder.hidden))
        most = 60 * minutes * machine.flops * share / flops
        if most < steps:
            steps = most
            remedy = "raise --minutes"
    steps = int(min(1_000_000, max(EVALUATIONS, float(f"{steps:.2g}"))))
    every = steps // EVALUATIONS
    settings |= {"steps": steps, "warmup": steps // 20, "eval_every": every, "save_every": every}
    read = steps * settings["batch"] * length
    if read < FEW_TOKENS and "init_from" not in settings:
        few = f"a discriminator finds little before {FEW_TOKENS / 1e6:g} M; {remedy}"
        notes.append(f"warning: {steps:,} steps read {read / 1e6:.1f} M tokens; {few}")
    entries["tokens"] = {
        name: {
            "corpus": name,
            "tokenizer": name,
            "lengths": [length],
            "valid_fraction": held_out,
            "packing": {"rule": "packed"},  # no row is padded
        }
    }
    entries["models"] = {name: {"tokens": name, **model, "pretrain": settings}}


def add_task(
    entries: Entries,
    notes: list[str],
    name: str,
    files: Sequence[str],
    columns: dict[str, str],
    model: str,
    width: int,
) -> None:
    """Add a task and its fine-tuning, by the rows of the first file and the model's width."""
    if len(files) not in {2, 3}:
        raise BadConfig(
            f"--task: takes two or three files (train, dev and perhaps test); got {len(files)}"
        )
    task, rows, task_notes = infer_task(files[0], columns)
    notes += task_notes
    task = dict(zip(("train", "dev", "test"), files, strict=False)) | task
    epochs = max(EPOCHS[0], min(EPOCHS[1], round(STEPS * 32 / rows)))
    recipe: dict[str, Any] = {"epochs": epochs, "bias_correction": True}
    if width <= NARROW:
        recipe |= FINETUNE
        if "b" in task:
            recipe |= {"pooling": "align", "head_layers": "all"}
        elif task.get("kind") != "tagging":
            recipe |= {"pooling": "mean"}
    else:
        recipe["learning_rate"] = RATES[min(RATES, key=lambda known: abs(known - width))]
    finetuning = {"model": model, "tasks": name, "recipe": name, "arms": ["pretrained", "scratch"]}
    entries["tasks"] = {name: {"kind": "custom", "tasks": {name.replace("-", "_"): task}}}
    entries["recipes"] = {name: {"defaults": recipe}}
    entries["finetunings"] = {name: finetuning}


# ------------------------------------------------------------------------------------ params.yaml
# Its text is edited, so that every other byte, comments too, is unchanged.


def edit(change: Callable[[str], str]) -> None:
    """Change the text of params.yaml, one process at a time, unless the result is not valid."""
    with lock_folder(LOCKS / FILE.name, SECONDS):
        before = FILE.read_bytes().decode("utf-8")
        after = change(before.replace("\r\n", "\n"))
        if "\r\n" in before:
            after = after.replace("\n", "\r\n")
        with tempfile.TemporaryDirectory() as folder:
            trial = Path(folder) / FILE.name
            trial.write_bytes(after.encode())
            load(trial)
        write_user_file(FILE, after)


def insert(text: str, entries: Entries) -> str:
    """Return the text with entries behind the last ones of their sections."""
    lines = text.removesuffix("\n").split("\n")
    for section, named in entries.items():
        header = re.compile(rf"{section}\s*:")
        if not any(map(header.match, lines)):
            lines += ["", f"{section}:"]
        start = next(at for at, line in enumerate(lines) if header.match(line))
        lines[start] = re.sub(r":\s*\{\s*\}", ":", lines[start])
        if "{" in lines[start].partition("#")[0]:
            raise BadConfig(f"{FILE}: write the section {section} with one entry per line")
        following = (at for at in range(start + 1, len(lines)) if re.match(r"\w", lines[at]))
        stop = next(following, len(lines))
        while re.match(r"#|\s*$", lines[stop - 1]):  # these belong to the next section
            stop -= 1
        lines[stop:stop] = dump_yaml({section: lists_first(named)}).rstrip("\n").split("\n")[1:]
    return "\n".join([*lines, ""])


def cut(text: str, names: Sequence[str]) -> str:
    """Return the text without the entries of these names, and with `{}` in sections that are empty
    now.
    """
    listed = "|".join(names)
    within = r"(( {0,2}(#.*)?\n)*   .*\n)*"  # comments and empty lines too, if more follows
    text = re.sub(rf"^  ['\"]?({listed})['\"]?:.*\n{within}", "", text, flags=re.M)
    return re.sub(r"^(\w+):(?=\s*(#.*\s+)*(^\w|\Z))", r"\1: {}", text, flags=re.M)


def lists_first(values: dict[str, Any]) -> dict[str, Any]:
    """Return an entry as DVC's dumper keeps it: it drops a comment that follows a list."""
    items = sorted(values.items(), key=lambda item: not isinstance(item[1], list))
    return {key: lists_first(value) if isinstance(value, dict) else value for key, value in items}
