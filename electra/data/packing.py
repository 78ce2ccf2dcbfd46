"""A document's lines become fixed-length rows, [CLS] A [SEP] B [SEP], by ELECTRA's rule or packed
without waste.

The rule (build_pretraining_dataset.py of the original), with its deliberate quirks as settings:
1. Lines are gathered until they hold the target number of tokens or the document ends; then they
  become one example.
2. The target is the row's length, but a random 5 % of the time a random number from 5 to it. It
   carries over to the next document.
3. With probability 0.1 all lines form segment A; else A takes lines up to (target - 3) // 2 tokens
  and B the rest. A line joins A if A is empty, or if A stays below its target with it, or if B is
  empty, A is below its target and a coin says so. So a short line may join A after longer ones went
  to B.
4. A is cut to length - 2 and B to the room that is left; the overflow is discarded (setting
   `overflow`) and counted.
"""

import random
import sys
from collections import Counter
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass

from electra.config import Fraction, Probability, Rate, Seed, Settings, require, require_unique
from electra.data.shards import LONGEST
from electra.data.tokenizer import AnyTokenizer, Tokenizer


@dataclass(frozen=True, kw_only=True)
class PackingConfig(Settings):
    """Rules by which lines become rows. Defaults are the published system."""

    # packed: every row full, one segment, documents parted by [SEP]
    rule: Literal["electra", "packed"] = "electra"
    # lines as in the corpus, or split further
    lines: Literal["paragraphs", "sentences"] = "sentences"
    single_segment_rate: Probability = 0.1
    short_rate: Probability = 0.05
    shortest: Annotated[int, Field(ge=1, le=LONGEST)] = 5
    # carry: the overflow begins the next example
    overflow: Literal["discard", "carry"] = "discard"


@dataclass(frozen=True, kw_only=True)
class TokensConfig(Settings):
    """The section `tokens.<name>`: which corpus, which tokenizer, which rows."""

    corpus: str
    tokenizer: AnyTokenizer
    lengths: tuple[Annotated[int, Field(ge=8, le=LONGEST)], ...]
    packing: PackingConfig = PackingConfig()
    valid_fraction: Fraction = 0.005  # of documents, chosen by the hash of their text
    max_unk_rate: Rate = 0.05  # more [UNK] than this: the vocabulary does not fit the text
    seed: Seed = 1

    def __post_init__(self) -> None:
        require_unique(self.lengths, "lengths")
        shortest = self.packing.shortest
        fits = shortest <= min(self.lengths)
        require(fits, f"packing.shortest: is {shortest}, should be at most the shortest of lengths")


class Packer:
    """Gathers the lines of one stream of documents into rows of `length` tokens; one packer for
    each split of a shard.

    A line is the bytes of its token ids (`Tokenizer.encode_bytes`), so that joining and cutting
    cost next to nothing. `counts`: tokens_read = tokens_kept + tokens_discarded once the last
    document has ended, and rows.
    """

    def __init__(self, length: int, tokenizer: Tokenizer, config: PackingConfig, seed: int) -> None:
        self.length = length
        self.config = config
        self.counts: Counter[str] = Counter()
        self._dtype = tokenizer.dtype
        self._size = tokenizer.dtype.itemsize
        self._cls, self._sep, self._pad = (
            np.array([token], dtype=self._dtype).tobytes()
            for token in (tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id)
        )
        # the one method whose values Python promises to keep
        self._random = random.Random(seed).random
        self._target = length
        self._lines: list[bytes] = []
        self._gathered = 0  # bytes in _lines
        self._ids: list[bytes] = []
        self._bounds: list[int] = []

    def add_line(self, line: bytes) -> None:
        """Add the next line of the current document."""
        if not line:
            return
        self.counts["tokens_read"] += len(line) // self._size
        self._lines.append(line)
        self._gathered += len(line)
        if self.config.rule == "packed":
            self._pack((self.length - 2) * self._size)
        else:
            self._build()

    def end_document(self) -> None:
        """End a document: no row of ELECTRA's rule spans two, and a packed row sets [SEP] between
        them.
        """
        if self.config.rule == "electra":
            self._build(last=True)
        # no room for [SEP] and a token after it
        elif self._gathered > (self.length - 4) * self._size:
            self.finish()
        elif self._lines and self._lines[-1] is not self._sep:
            self._lines.append(self._sep)
            self._gathered += self._size
            self.counts["tokens_kept"] -= 1  # _emit will count the separator

    def finish(self) -> None:
        """End the stream: the remaining tokens become the last row."""
        if self.config.rule == "electra":
            self._build(last=True)
        elif self._lines:
            if self._lines[-1] is self._sep:
                self._lines.pop()
                self.counts["tokens_kept"] += 1
            self._emit(b"".join(self._lines), b"")
            self._lines = []
            self._gathered = 0

    def take(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the rows made since the last call: ids [N, length] and bounds [N, 2]."""
        ids_NL = np.frombuffer(b"".join(self._ids), dtype=self._dtype).reshape(-1, self.length)
        bounds_N2 = np.array(self._bounds, dtype=np.uint16).reshape(-1, 2)
        self._ids = []
        self._bounds = []
        return ids_NL, bounds_N2

    def _build(self, last: bool = False) -> None:
        """Make examples while the target is reached, or at a document's `last` line."""
        size = self._size
        while self._lines and (last or self._gathered >= self._target * size):
            first, second = self._divide(self._lines)
            room = (self.length - 2) * size
            room_second = max(0, room - len(first) - size)
            overflow = [part for part in (first[room:], second[room_second:]) if part]
            self._emit(first[:room], second[:room_second])
            self._lines = overflow if self.config.overflow == "carry" else []
            self._gathered = sum(map(len, self._lines))
            self.counts["tokens_discarded"] += (sum(map(len, overflow)) - self._gathered) // size
            short = self._random() < self.config.short_rate
            span = self.length - self.config.shortest + 1
            self._target = (
                self.config.shortest + int(self._random() * span) if short else self.length
            )

    def _divide(self, lines: list[bytes]) -> tuple[bytes, bytes]:
        """Return segments A and B of the gathered lines, not yet cut."""
        single = self._random() < self.config.single_segment_rate
        goal = sys.maxsize if single else (self._target - 3) // 2 * self._size
        first = second = b""
        for line in lines:
            if (
                not first
                or len(first) + len(line) < goal
                or (not second and len(first) < goal and self._random() < 0.5)
            ):
                first += line
            else:
                second += line
        return first, second

    def _pack(self, most: int) -> None:
        """Cut full rows off the gathered lines."""
        if self._gathered < most:
            return
        stream = b"".join(self._lines)
        full = len(stream) - len(stream) % most
        for start in range(0, full, most):
            self._emit(stream[start : start + most], b"")
        self._lines = [stream[full:]] if full < len(stream) else []
        self._gathered = len(stream) - full

    def _emit(self, first: bytes, second: bytes) -> None:
        """Append the row [CLS] first [SEP] (second [SEP]), padded."""
        row = self._cls + first + self._sep
        boundary = len(row) // self._size
        if second:
            row += second + self._sep
        total = len(row) // self._size
        self._ids.append(row + self._pad * (self.length - total))
        self._bounds += (boundary, total)
        self.counts["rows"] += 1
        self.counts["tokens_kept"] += (len(first) + len(second)) // self._size
