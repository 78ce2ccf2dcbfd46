"""`electra check NAME`: whether the files of a model or ablation are there and begin as their stages expect.

Settings are checked whenever they are read (pipelines/config). Small corpora and tasks are read whole.
"""

from collections.abc import Generator, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from electra.data import tokenizer as wordpiece
from electra.data.packing import TokensConfig
from electra.data.tokenizer import TrainTokenizer, VocabTokenizer
from electra.errors import BadInput
from pipelines import sources
from pipelines.config.params import ModelConfig, Params
from pipelines.runtime import remote_files
from pipelines.sources import LocalCorpus, OwnTasks, language, own, preview
from pipelines.sources.paths import require_folder, unreadable
from pipelines.stages.corpus import check_room
from pipelines.stages.required_files import check_tasks
from pipelines.stages.tasks import read_split
from pipelines.stages.tokens import split_of
from pipelines.text.cleaning import Rejected

ROWS = 2000  # of each file of a task that are read


def check(name: str, params: Params) -> Iterator[str]:
    """Yield hints, and that all is there; raises the error that a stage would raise later."""
    found = params.ablations.get(name) or params.finetunings.get(name)
    encoder = found.model if found else name
    for each in (name,) if name in params.finetunings else params.finetunings_of(encoder):
        tasks = params.finetunings[each].tasks
        check_tasks(params, tasks, each)
        source = params.tasks[tasks]
        if isinstance(source, OwnTasks):
            yield from check_rows(source, f"tasks.{tasks}")
    if encoder in params.published:
        from electra.nn.huggingface import read_config  # here, since importing torch takes seconds

        where = f"published.{encoder}.folder"
        folder = require_folder(remote_files.place(params.published[encoder].folder, where), where)
        read_config(folder)
        wordpiece.load(folder)
        yield f"{name}: its folder and its tasks are there, and can be read"
        return
    params.require("models", encoder)
    model = params.models[encoder]
    looked = yield from check_text(model, params)
    yield f"{name}: every data source is there, and its beginning can be read{looked}"
    if expected := params.corpora[params.tokens[model.tokens].corpus].expected:
        hours = f", some {expected.core_hours:g} core hours" if expected.core_hours else ""
        size = f"{expected.tokens / 1e9:g} B tokens, {expected.gigabytes:g} GB of clean text"
        yield f"expected: {size}{hours} (docs/scale.md)"


def check_text(model: ModelConfig, params: Params) -> Generator[str, None, str]:
    """The corpus of a model, its tokenizer, and the weights that it starts from; returns how many files were read."""
    tokens = params.tokens[model.tokens]
    corpus, where = params.corpora[tokens.corpus], f"corpora.{tokens.corpus}"
    for number, source in enumerate(corpus.sources):
        if not isinstance(source, LocalCorpus) or any(map(remote_files.is_url, source.files)):  # others are read below
            preview.check(source, f"{where}.sources[{number}]")
    check_room(corpus, where, Path("build/corpus") / tokens.corpus)
    if corpus.cleaning.language:
        language.check(corpus.cleaning.language, f"{where}.cleaning.language")
    if corpus.cleaning.decontaminate:
        check_tasks(params, corpus.cleaning.decontaminate)
    seen = preview.look(corpus, where)
    yield from (f"hint: {hint}" for hint in seen.hints)
    if seen.refused:
        raise unreadable(seen.refused, where)
    for rows, bad, first in seen.bad:
        error = preview.wrong(first)
        if bad == rows:
            raise error
        do = error.do and f"; {error.do}"
        yield f"hint: {first.where}: {first.reason} ({bad:,} bad rows among the first {rows:,}){do}"
    check_tokens(tokens, f"tokens.{model.tokens}", seen)
    start = model.pretrain.init_from
    if start and not (Path(start).is_dir() or Path(start) in {Path("build/models") / name for name in params.models}):
        raise BadInput(f"pretrain.init_from: {start}", "there is no such folder", "the folder of a pre-trained model")
    return f" ({seen.looked:,} of {seen.files:,} files looked at)" if seen.files else ""


def check_tokens(tokens: TokensConfig, where: str, seen: preview.Look) -> None:
    """Raise BadInput for an impossible vocabulary, and for a corpus too small to hold out and to train on."""
    settings = tokens.tokenizer
    cased: dict[str, Any] = {"lowercase": settings.lowercase, "strip_accents": settings.strip_accents}
    if isinstance(settings, VocabTokenizer):
        wordpiece.load(remote_files.place(settings.file, f"{where}.tokenizer"), **cased)
    if isinstance(settings, TrainTokenizer) and seen.texts:
        wordpiece.letters_of(seen.texts, settings.vocab_size, alphabet=settings.alphabet, **cased)
    if not seen.whole:
        return
    splits = [split_of(text, tokens.seed, tokens.valid_fraction) for text in seen.texts]
    for split in ("train", "valid"):
        if split not in splits:
            do = "raise valid_fraction, or let a text file be many documents (`documents` of its source)"
            raise BadInput(where, f"has {len(splits):,} documents, none for {split}", "at least one", do)


def check_rows(source: OwnTasks, where: str) -> Iterator[str]:
    """Check the beginning of every file of the user's own tasks: columns, labels, ids."""
    for task, each in sources.at_hand(source, where).tasks.items():
        for split, name in (("train", each.train), ("dev", each.dev), ("test", each.test)):
            if not name:
                continue
            rows = list(islice(own.read_rows(Path(name), each, task, labelled=split != "test"), ROWS + 1))
            good = [row for row in rows if isinstance(row, dict)]
            bad = [row for row in rows if isinstance(row, Rejected)]
            if len(rows) <= ROWS or not good:
                read_split(task, split, rows, where, source.quarantine)
            elif bad:
                among = f"{len(bad):,} bad rows among the first {ROWS:,} of {task} {split}"
                yield f"hint: {bad[0].where}: {bad[0].reason} ({among})"
            if split == "train" and each.kind == "classification":
                absent = [label for label in each.labels if label not in {row["label"] for row in good}]
                if absent:
                    yield f"hint: {where}.tasks.{task}: no row of {name} has the label {', '.join(map(str, absent))}"
