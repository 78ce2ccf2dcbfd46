"""Compare our token ids with transformers' BertTokenizer on real text: `python benchmarks/identity.py 110`.

Reads that many megabytes from the files of the corpus `local_wiki_books` (benchmarks/real_text.yaml), as they are, and
compares every line's ids with the published vocabulary. Writes benchmarks/results/identity.json; a difference ends it
with the line.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.harness import arguments, local_params, provenance, write_record
from electra.data import tokenizer as wordpiece
from electra.files import sha256_file
from pipelines.sources import LocalCorpus
from pipelines.sources.local import read_documents
from pipelines.sources.paths import find_files
from pipelines.sources.streams import Piece

LINES = 2000  # compared at once


def lines_of(source: LocalCorpus, most: float, facts: dict[str, int]) -> Iterator[list[str]]:
    """Lines of a source's documents, up to `most` bytes."""
    held: list[str] = []
    taken = 0
    for document in (
        item for path in find_files(source.files, "corpora") for item in read_documents(Piece(path), source)
    ):
        taken += (size := len(document.text.encode()))
        facts["bytes"] += size
        facts["documents"] += 1
        held += document.text.split("\n")
        while len(held) >= LINES:
            yield held[:LINES]
            held = held[LINES:]
        if taken >= most:
            break
    yield held


def main() -> None:
    from transformers import BertTokenizer

    parse = arguments(__doc__, "identity.json")
    parse.add_argument("megabytes", type=float, nargs="?", default=110)
    options = parse.parse_args()
    origin, params = provenance("transformers"), local_params()
    settings, sources = params.tokens["local_wiki_books"].tokenizer, params.corpora["local_wiki_books"].sources
    ours = wordpiece.from_vocab(Path(settings.file), lowercase=settings.lowercase)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(settings.file, Path(folder) / "vocab.txt")
        theirs = BertTokenizer.from_pretrained(folder, do_lower_case=True, model_max_length=10**9)
    facts = dict.fromkeys(("bytes", "documents", "lines", "tokens", "unknown", "different_lines"), 0)
    digest, most = hashlib.sha256(), options.megabytes * 1e6 / len(sources)
    for lines in (lines for source in sources for lines in lines_of(source, most, facts)):
        expected = theirs(lines, add_special_tokens=False, return_attention_mask=False, return_token_type_ids=False)
        for line, ids, others in zip(lines, ours.encode_bytes(lines), expected["input_ids"], strict=True):
            if ids != np.array(others, dtype=ours.dtype).tobytes():
                raise SystemExit(f"different ids for {line!r}: {np.frombuffer(ids, ours.dtype)} and {others}")
            digest.update(ids)
            facts["tokens"] += len(others)
            facts["unknown"] += others.count(ours.unk_id)
        facts["lines"] += len(lines)
    reference = f"{type(theirs).__module__}.{type(theirs).__name__}"
    found = {"reference": reference, "vocabulary_sha256": sha256_file(Path(settings.file)), **facts}
    write_record(options.output, {**found, "ids_sha256": digest.hexdigest()}, origin)
    print(f"{facts['tokens']:,} ids of {facts['bytes']:,} bytes are those of {reference}")


if __name__ == "__main__":
    main()
