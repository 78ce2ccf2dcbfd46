"""The copies of text with which benchmarks/scale.py makes a corpus larger than the text at hand."""

import json
import lzma
from pathlib import Path

import pytest

from benchmarks.scale import copy


@pytest.mark.parametrize(
    ("hard_wrapped", "text", "expected"),
    [
        (False, "One line.\nAnother.\n\nA third.", "once One line.\nonce Another.\n\nonce A third."),
        (True, "A line\nthat goes on.\n\n\n\n  Next.", "once A line\nthat goes on.\n\n\n\nonce   Next."),
    ],
)
def test_every_paragraph_of_a_copy_is_its_own(tmp_path: Path, hard_wrapped: bool, text: str, expected: str) -> None:
    source = tmp_path / "wiki-0.jsonl.xz"
    with lzma.open(source, "wt", encoding="utf-8") as file:
        file.write(json.dumps({"id": "1", "text": text}) + "\n")
    written = Path(copy(str(source), "once", hard_wrapped, tmp_path))
    assert written.name == "once-wiki-0.jsonl"
    assert [json.loads(line) for line in written.open(encoding="utf-8")] == [{"text": expected}]
