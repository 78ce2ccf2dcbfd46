"""ELECTRA from Python: load a folder as a model, pass texts, get numpy arrays.

    model = electra.load("build/models/tiny/discriminator")
    model.replaced(["the chef ate the meal"])          how likely each token is not the original one
    model.embed(["a text", "another"])                 one vector for each text
    electra.load(fine_tuned).predict(rows)             classes, scores, tags
    electra.load(fine_tuned).answer(question, context) spans of a text
    electra.corrupt, electra.propose                   for generators: electra/generation.py

A `[MASK]` in a text is a hidden token, except in the rows of `predict`, which are read as in
training. Texts are processed in batches of similar length. A text is read up to the model's
`length` in tokens; the rest is left out with a warning, since later positions are untrained.

A fine-tuned model answers each row with a record that JSON can hold:

| model | record, besides `id` |
|---|---|
| classes | `prediction` (a label), `probabilities` (label -> share) |
| a number | `prediction` |
| tags | `words`, `tags` (IOB2), `probabilities` (of each word's tag; null beyond the length) |
| SQuAD | `prediction` ("" for none), `best` (the best span), `start`, `null_score`, `n_best` |

Shapes: N texts, T tokens of one text, L longest text of some, B rows of a batch, H hidden size.
"""

import itertools
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from electra.data.tokenizer import MASK, Tokenizer
from electra.devices import default_device
from electra.errors import (
    BadConfig,
    BadDevice,
    BadInput,
    NonFinite,
    first_line,
    pluralize,
    short_repr,
)
from electra.files import encodes
from electra.finetuning.batches import PaddedBatch, stack
from electra.finetuning.folder import FineTuned, is_finetuned, load_model, load_tokenizer
from electra.finetuning.heads import pooled
from electra.finetuning.reading import kind_of
from electra.finetuning.task_kind import Row
from electra.finetuning.tasks import SquadTask, Task, Vector
from electra.finetuning.training import read_batches, read_outputs
from electra.nn.encoder import Encoder
from electra.nn.hf_names import network_kind
from electra.nn.huggingface import load_network, open_folder
from electra.optim.precision import Precision, PrecisionChoice
from electra.pretraining.networks import Discriminator, Generator

# read at once, so that memory stays bounded
TEXTS_AT_ONCE = 1024
ROWS_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class ReplacedTokens:
    """A text as a discriminator sees it; [CLS] and [SEP] are left out."""

    text: str
    tokens: list[str]  # word pieces; one that continues a word begins with ##
    offsets: NDArray[np.int64]  # (T, 2): token t is text[offsets[t, 0] : offsets[t, 1]]
    probability: NDArray[np.float32]  # (T,): that the token was replaced


@dataclass(eq=False, repr=False)
class Model:
    """An ELECTRA in eval mode on its device. The contents of its folder decide what it can do.

    `kind` is discriminator, generator, encoder or fine-tuned; `length` is the number of tokens of a
    text that it reads, [CLS] and [SEP] included; `finetuned` has the task of a fine-tuned model. A
    method that the folder has no head for raises BadInput.
    """

    folder: Path
    kind: Literal["discriminator", "generator", "encoder", "fine-tuned"]
    network: nn.Module
    tokenizer: Tokenizer
    length: int
    device: torch.device
    precision: Precision
    finetuned: FineTuned | None = None

    def __post_init__(self) -> None:
        self.network.to(self.device).eval()

    @property
    def encoder(self) -> Encoder:
        """The Transformer alone, as a module of PyTorch."""
        encoder = self.network if isinstance(self.network, Encoder) else self.network.encoder
        assert isinstance(encoder, Encoder)
        return encoder

    def __repr__(self) -> str:
        size = f"{self.encoder.config.layers} x {self.encoder.config.hidden}"
        return f"<ELECTRA {self.kind}: {size}, {self.tokenizer.vocab_size:,} pieces, {self.device}>"

    def replaced(self, texts: Iterable[str]) -> list[ReplacedTokens]:
        """Return how likely each token of each text was replaced (paper, section 2, D). Needs a
        discriminator.
        """
        if not isinstance(self.network, Discriminator):
            raise self.missing_head("replaced()", "a discriminator")
        judged: list[ReplacedTokens] = []
        for text, ids, offsets_T2, share_L in self._read(self._shares, texts):
            tokens = self.tokenizer.spell(ids[: self.length - 2], begins=True)
            count = len(tokens)
            share_T = share_L[1 : count + 1].copy()
            judged.append(ReplacedTokens(text, tokens, offsets_T2[:count], share_T))
        return judged

    def embed(self, texts: Iterable[str], pooling: Vector = "mean") -> NDArray[np.float32]:
        """Return one vector for each text, (N, H): the mean or maximum of its last hidden states,
        or the first one (`cls`).

        Mean and maximum are over all tokens, [CLS] and [SEP] among them. Works with every kind of
        folder.
        """
        _require_choice(pooling, "pooling", Vector)

        def read(batch: PaddedBatch) -> dict[str, Tensor]:
            return {"value": pooled(self.encoder, batch, pooling)}

        vectors: list[NDArray[np.float32]] = []
        for *_, vector in self._read(read, texts):
            vectors.append(vector)  # without the ids: a million texts' would take gigabytes
        return np.stack(vectors)

    def predict(self, rows: Iterable[str | Sequence[str] | Mapping[str, Any]]) -> list[Row]:
        """Return an answer to each row, in their order, as `electra predict` writes them (the table
        above).

        A row is a text, a pair of texts, a list of words for tags, or a mapping by the names of
        the task's columns, or `a` and `b`, `words`, `question` and `context`, with an `id` if it
        has one. Long rows are cut as in training, from the longer text. Contexts of questions are
        read whole. Needs a fine-tuned folder.
        """
        if self.finetuned is None:
            raise self.missing_head("predict()", "a fine-tuned model")
        schema = input_schema(self.finetuned.task)
        parsed: list[Row] = []
        for number, row in enumerate(_listed(rows, "rows")):
            where = f"rows[{number}]"
            parsed.append(as_row(schema, _record(schema, row, where), str(number), where))
        return list(answer(self.finetuned, parsed, self.device, self.precision))

    def answer(self, question: str, context: str) -> Row:
        """Return the answer to one question about a context. For many questions use `predict`.
        Needs a SQuAD folder.

        `prediction` is its text, "" where the model finds none. `best` is the best span in any
        case, which begins at character `start` of the context. `n_best` lists further spans with
        their probabilities.
        """
        if self.finetuned is None or not isinstance(self.finetuned.task, SquadTask):
            raise self.missing_head("answer()", "a model that was fine-tuned on SQuAD")
        return self.predict([{"question": question, "context": context}])[0]

    def _shares(self, batch: PaddedBatch) -> dict[str, Tensor]:
        """Return the probability that each token was replaced (B, `length`), 0 at padding."""
        logits_BT: Tensor = self.network(batch.ids_BT, batch.segments_BT, batch.lengths_B)
        share_BT = logits_BT.float().sigmoid().masked_fill(~batch.real_tokens(), 0)
        return {"value": F.pad(share_BT, (0, self.length - share_BT.shape[1]))}

    def _read(
        self, read: Callable[[PaddedBatch], dict[str, Tensor]], texts: Iterable[str]
    ) -> Iterator[tuple[str, list[int], NDArray[np.int64], NDArray[np.float32]]]:
        """Yield each text with the ids and offsets of its tokens, and the `value` of `read` for
        it.
        """
        room = self.length - 2
        checked = check_texts(texts)
        for start in range(0, len(checked), TEXTS_AT_ONCE):
            some = checked[start : start + TEXTS_AT_ONCE]
            encoded = [encode(text, self.tokenizer) for text in some]
            if any(len(ids) > room for ids, _ in encoded):
                warnings.warn(
                    f"{self.folder}: texts are read up to {self.length} tokens, the rest is left "
                    "out",
                    stacklevel=3,
                )
            sequences = [
                [self.tokenizer.cls_id, *ids[:room], self.tokenizer.sep_id] for ids, _ in encoded
            ]
            examples = stack(sequences, [len(sequence) for sequence in sequences], {}, [])
            value_NX = read_batches(read, examples, self.device, precision=self.precision)["value"]
            numbers = range(start, start + len(some))
            require_finite(value_NX, f"{self.folder}: text", numbers)
            for text, (ids, offsets_T2), value_X in zip(some, encoded, value_NX, strict=True):
                yield text, ids, offsets_T2, value_X

    def missing_head(self, method: str, needed: str) -> BadInput:
        """Return the error for a method that the folder has no head for."""
        kind = f"is of the kind {self.kind}"
        if self.finetuned:
            kind = f"was fine-tuned for {self.finetuned.task.title}"
        return BadInput(
            f"{self.folder}: {kind}; {method} needs {needed}, so load the folder of one"
        )


def load(
    folder: str | os.PathLike[str],
    *,
    device: str | torch.device | None = None,
    precision: Precision = "fp32",
) -> Model:
    """Load an ELECTRA or ModernBERT model from a Hugging Face folder, ours or published, fine-tuned
    or not.

    `device` is the GPU if there is one, else the CPU. `precision` bf16 halves the bits of matrix
    products. If the folder has a MANIFEST.json, its files are checked against it. Raises BadInput
    if the folder has no such model, CorruptFile if its bytes have changed, and BadDevice if the
    device does not exist.
    """
    path = Path(folder)
    place = _device(device)
    _require_choice(precision, "precision", Precision)
    if not (path / "config.json").is_file():
        raise no_model(path)
    stored = open_folder(path)
    if is_finetuned(stored):
        tuned = load_model(stored)
        length = tuned.config.length
        return Model(
            path, "fine-tuned", tuned.network, tuned.tokenizer, length, place, precision, tuned
        )
    kind = network_kind(stored.tensors, stored.architecture)
    network: nn.Module
    if kind == "encoder":
        network = stored.encoder(dropout=0.0)
    else:
        encoder = stored.empty_encoder(dropout=0.0)
        with torch.device("meta"):
            network = Discriminator(encoder) if kind == "discriminator" else Generator(encoder)
        load_network(encoder, network.head, stored)
    length = stored.trained_positions
    return Model(path, kind, network, load_tokenizer(stored), length, place, precision)


def no_model(path: Path) -> BadInput:
    """Return the error for a path that holds no model, or several."""
    configs = [*path.glob("*/config.json"), *path.glob("*/*/config.json")]
    if configs:
        folders = ", ".join(sorted(str(config.parent) for config in configs)[:12])
        return BadInput(
            f"{path}: holds {len(configs)} models; give the folder of one of them: {folders}"
        )
    problem = "holds no config.json" if path.is_dir() else "there is no such folder"
    return BadInput(
        f"{path}: {problem}; make the model, or fetch it first (docs/library.md says how)"
    )


def _device(choice: str | torch.device | None) -> torch.device:
    if choice is None:
        return default_device()
    try:
        return torch.empty(0, device=choice).device
    except (AssertionError, RuntimeError, TypeError) as error:
        raise BadDevice(f"device is {short_repr(choice)}: {first_line(error)}") from None


def _listed(values: Any, what: str) -> list[Any]:
    if isinstance(values, str | Mapping):
        raise BadInput(f"{what} is {short_repr(values)}; put it in a list")
    items = list(values)
    if not items:
        raise BadInput(f"{what} is empty; it should be a list of at least one {what[:-1]}")
    return items


def _require_choice(value: Any, name: str, choices: Any) -> None:
    if value not in get_args(choices):
        raise BadConfig(
            f"{name} is {short_repr(value)}; it should be one of {', '.join(get_args(choices))}"
        )


def check_texts(texts: Iterable[str]) -> list[str]:
    """Return the texts. Raise BadInput for anything that isn't text."""
    items = _listed(texts, "texts")
    for number, text in enumerate(items):
        if not isinstance(text, str) or not encodes(text):
            raise BadInput(f"texts[{number}] is {short_repr(text)}; it should be text")
    return items


def encode(text: str, tokenizer: Tokenizer) -> tuple[list[int], NDArray[np.int64]]:
    """Return ids and offsets (T, 2) of a text. Unlike in corpora and rows, `[MASK]` is a hidden
    token.
    """
    ids: list[int] = []
    offsets: list[tuple[int, int]] = []
    start = 0
    for number, part in enumerate(parts := text.split(MASK)):
        if number:
            ids.append(tokenizer.mask_id)
            offsets.append((start - len(MASK), start))
        # A space before a hidden token belongs to it, since byte-level pieces begin with their
        # space.
        some_ids, spans_T2 = tokenizer.encode(part.rstrip() if number + 1 < len(parts) else part)
        ids += some_ids
        offsets += [(start + left, start + right) for left, right in spans_T2.tolist()]
        start += len(part) + len(MASK)
    return ids, np.array(offsets, dtype=np.int64).reshape(-1, 2)


@dataclass(frozen=True)
class InputSchema:
    """The columns that a fine-tuned model reads, under each of their possible names (the task's own
    first), and its task.
    """

    names: tuple[tuple[str, ...], ...]
    task: Task

    @property
    def expected(self) -> str:
        """The columns, for a sentence."""
        choices = [", ".join(choice) for choice in self.names]
        return f"the columns {' or '.join(dict.fromkeys(choices))}"


def input_schema(task: Task, official: Sequence[str] = ()) -> InputSchema:
    """Return the names that a task's columns may have: those of the task or its `official` files,
    and always `a` and `b`.
    """
    return InputSchema(kind_of(task).column_names(official), task)


def as_row(schema: InputSchema, record: Mapping[str, Any], number: str, where: str) -> Row:
    """Return a record as a row without a label. Raise BadInput for one that cannot be answered."""
    chosen = next((choice for choice in reversed(schema.names) if set(choice) <= set(record)), None)
    if chosen is None:
        raise BadInput(
            f"{where}: has {', '.join(map(str, record))[:80] or 'nothing'}; it needs "
            f"{schema.expected}"
        )
    row_id = record.get(schema.task.id, record.get("id", number))
    valid = isinstance(row_id, str | int) and not isinstance(row_id, bool)
    if not valid or not encodes(str(row_id)):
        raise BadInput(
            f"{where}: the id is {short_repr(row_id)}; it should be text or a whole number"
        )
    values = {column: record[column] for column in chosen}
    return {"id": str(row_id), **kind_of(schema.task).parse_row(values, where)}


def answer(
    model: FineTuned,
    rows: Iterable[Row],
    device: torch.device | str = "cpu",
    precision: PrecisionChoice = "auto",
) -> Iterator[Row]:
    """Yield one record for each row, a few hundred rows at a time. The network is on `device`."""
    kind = kind_of(model.task)
    rows = iter(rows)
    while batch := list(itertools.islice(rows, ROWS_AT_ONCE)):
        encoded = kind.encode(batch, model.tokenizer, model.config)
        outputs = read_outputs(model.network, encoded.examples, device, precision=precision)
        for name, values in outputs.items():
            # a beam that is longer than its row is filled with scores of -inf
            known = np.where(np.isneginf(values), 0, values) if name.endswith("_score") else values
            require_finite(known, "row", encoded.examples.row_ids)
        yield from kind.answers(outputs, encoded, model.config)


def require_finite(values_NX: NDArray[Any], what: str, names_N: Sequence[object]) -> None:
    """Raise NonFinite if a network's numbers hold NaN or infinity. The error names the input."""
    bad_N = ~np.isfinite(values_NX).reshape(len(values_NX), -1).all(1)
    if bad_N.any():
        name = names_N[int(bad_N.argmax())]
        raise NonFinite(
            f"{what} {name}: the model answers with NaN or infinity; train or fetch the model again"
        )


def _record(schema: InputSchema, row: Any, where: str) -> Mapping[str, Any]:
    """Return a row by names of columns."""
    if isinstance(row, Mapping):
        return row
    if not isinstance(row, str | list | tuple):
        raise BadInput(
            f"{where}: is {short_repr(row)}; it should be a text, a pair of texts, words or a "
            "mapping"
        )
    texts = kind_of(schema.task).split_fields(row)
    names = next((names for names in schema.names if len(names) == len(texts)), None)
    if names is None:
        names = schema.names[0]
        raise BadInput(
            f"{where}: has {pluralize(len(texts), 'text')}; it needs {len(names)}: "
            f"{', '.join(names)}"
        )
    return dict(zip(names, texts, strict=True))
