"""Compare our token ids with transformers' BertTokenizer on real text: `python benchmarks/identity.py 110`.

Reads that many megabytes from the files of the corpus `local_wiki_books`, as they are, and compares every line's ids
with the published vocabulary. Writes benchmarks/results/identity.json; a difference ends it with the line.
"""

import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.provenance import provenance
from electra.data import tokenizer as wordpiece
from electra.files import write_json
from pipelines.config.params import load
from pipelines.sources.local import find_files, read_documents
from pipelines.sources.streams import Piece

LINES = 2000  # compared at once


def lines_of(most: int, facts: dict[str, int]) -> Iterator[list[str]]:
    """Lines of every source in turn, up to `most` bytes in all."""
    sources = load().corpora["local_wiki_books"].sources
    for source in sources:
        held: list[str] = []
        taken = 0
        for path in find_files(source.files, "corpora"):
            for document in read_documents(Piece(path), source):
                size = len(document.text.encode())
                taken += size
                facts["bytes"] += size
                facts["documents"] += 1
                held += document.text.split("\n")
                while len(held) >= LINES:
                    yield held[:LINES]
                    held = held[LINES:]
                if taken >= most // len(sources):
                    break
            if taken >= most // len(sources):
                break
        yield held


def main() -> None:
    from transformers import BertTokenizer

    megabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 110
    origin = provenance(("transformers",))
    settings = load().tokens["local_wiki_books"].tokenizer
    ours = wordpiece.from_vocab(Path(settings.file), lowercase=settings.lowercase)
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = Path(folder) / "vocab.txt"
        vocabulary.write_bytes(Path(settings.file).read_bytes())
        theirs = BertTokenizer.from_pretrained(folder, do_lower_case=True, model_max_length=10**9)
    facts = {"bytes": 0, "documents": 0, "lines": 0, "tokens": 0, "unknown": 0, "different_lines": 0}
    digest = hashlib.sha256()
    for lines in lines_of(int(megabytes * 1e6), facts):
        mine = ours.encode_bytes(lines)
        expected = theirs(lines, add_special_tokens=False, return_attention_mask=False, return_token_type_ids=False)
        for line, ids, others in zip(lines, mine, expected["input_ids"], strict=True):
            if ids != np.array(others, dtype=ours.dtype).tobytes():
                raise SystemExit(f"different ids for {line!r}: {np.frombuffer(ids, ours.dtype)} and {others}")
            digest.update(ids)
            facts["tokens"] += len(others)
            facts["unknown"] += others.count(ours.unk_id)
        facts["lines"] += len(lines)
    result = {
        "command": f"python benchmarks/identity.py {megabytes:g}",
        "reference": f"{type(theirs).__module__}.{type(theirs).__name__}",
        "vocabulary_sha256": hashlib.sha256(Path(settings.file).read_bytes()).hexdigest(),
        **facts,
        "ids_sha256": digest.hexdigest(),
        **origin,
    }
    write_json(Path("benchmarks/results/identity.json"), result)
    print(f"{facts['tokens']:,} ids of {facts['bytes']:,} bytes are those of {result['reference']}")


if __name__ == "__main__":
    main()
