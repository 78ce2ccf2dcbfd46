"""The lines of a document become fixed-length rows, [CLS] A [SEP] B [SEP], by ELECTRA's own rule or packed without waste.

The rule (build_pretraining_dataset.py of the original), with its deliberate quirks as settings:
1. Lines are gathered until they hold the target number of tokens or the document ends; then they become one example.
2. The target is the row's length, but a random 5 % of the time a random number from 5 to it. It stays over documents.
3. With probability 0.1 all lines form segment A; else A takes lines up to (target - 3) // 2 tokens and B the rest.
   A line joins A if A is empty, or if A stays below its target with it, or if B is empty, A is below its target and a
   coin says so. So a short line may join A after longer ones went to B (setting `late_lines`).
4. A is cut to length - 2 and B to what is left; the overflow is discarded (setting `overflow`) and counted.
"""

from dataclasses import dataclass
from typing import Literal

from electra.config import require
from electra.data.shards import LONGEST
from electra.data.tokenizer import HubTokenizer, TrainTokenizer, VocabTokenizer


@dataclass(frozen=True, kw_only=True)
class PackingConfig:
    """How lines become rows. Defaults are the published system."""

    rule: Literal["electra", "packed"] = "electra"  # packed: every row full, one segment, documents parted by [SEP]
    lines: Literal["paragraphs", "sentences"] = "paragraphs"  # what a line is: as in the corpus, or split further
    single_segment_rate: float = 0.1
    short_rate: float = 0.05
    shortest: int = 5
    late_lines: Literal["join_a", "stay_b"] = "join_a"  # join_a: a late short line may still go to A (published)
    overflow: Literal["discard", "carry"] = "discard"  # carry: what is cut off begins the next example

    def __post_init__(self) -> None:
        for key in ("single_segment_rate", "short_rate"):
            require(0 <= getattr(self, key) <= 1, key, getattr(self, key), "a probability")
        require(self.shortest > 0, "shortest", self.shortest, "a number above 0")


@dataclass(frozen=True, kw_only=True)
class TokensConfig:
    """The section `tokens.<name>`: which corpus, which tokenizer, which rows."""

    corpus: str
    tokenizer: TrainTokenizer | VocabTokenizer | HubTokenizer
    lengths: tuple[int, ...]
    packing: PackingConfig = PackingConfig()
    valid_fraction: float = 0.005  # of documents, chosen by the hash of their text
    maximum_unknown: float = 0.05  # more [UNK] than this: the vocabulary does not fit the text
    seed: int = 1

    def __post_init__(self) -> None:
        require(len(self.lengths) > 0, "lengths", list(self.lengths), "at least one row length")
        require(len(set(self.lengths)) == len(self.lengths), "lengths", list(self.lengths), "each length once")
        for length in self.lengths:
            require(8 <= length <= LONGEST, "lengths", length, f"row lengths from 8 to {LONGEST:,}")
        require(0 < self.valid_fraction < 1, "valid_fraction", self.valid_fraction, "a fraction between 0 and 1")
        require(0 < self.maximum_unknown <= 1, "maximum_unknown", self.maximum_unknown, "a fraction up to 1")
