"""Rows on disk: written, found again, and refused when a single bit differs."""

import os

import numpy as np
import pytest

from electra.data.shards import Rows, RowWriter, seal
from electra.data.tokenizer import SPECIALS, from_pieces
from electra.errors import BadInput, CorruptFile
from electra.storage.manifest import write_manifest
from tests.support.project import harm

LENGTH = 12


def tokenizer_of(size):
    return from_pieces([*SPECIALS, *(f"w{i}" for i in range(size - 5))])


def write(folder, tokenizer):
    folder.mkdir(exist_ok=True)
    numbers = np.random.default_rng(0)
    ids = numbers.integers(0, tokenizer.vocab_size, (40, LENGTH))
    bounds = numbers.integers(5, LENGTH + 1, (40, 2))
    with RowWriter(folder, "train", LENGTH, tokenizer) as writer:
        for part in (slice(0, 7), slice(7, 40)):
            writer.write(ids[part], bounds[part])
    with RowWriter(folder, "valid", LENGTH, tokenizer):
        pass
    splits = {"train": {"rows": writer.rows, "tokens": writer.tokens}, "valid": {"rows": 0}}
    seal(folder, LENGTH, tokenizer, splits)
    return ids, bounds


@pytest.mark.parametrize("vocabulary, dtype", [(65_536, "<u2"), (65_537, "<u4")])
def test_rows_come_back(tmp_path, vocabulary, dtype):
    tokenizer = tokenizer_of(vocabulary)
    ids, bounds = write(tmp_path, tokenizer)
    rows = Rows.open(tmp_path, "train", tokenizer=tokenizer.identity)
    assert rows.ids.dtype == np.dtype(dtype) and rows.length == LENGTH
    assert (rows.ids[:] == ids).all() and (rows.bounds[:] == bounds).all()
    assert (rows.ids[5:9] == ids[5:9]).all() and (rows.ids[np.array([39, 3])] == ids[[39, 3]]).all()
    assert rows.tokens == bounds[:, 1].sum()


@pytest.mark.parametrize("chosen", [slice(30, 40), np.array([2, 39])])
def test_rows_cut_in_use_are_damage(tmp_path, chosen):
    write(tmp_path, tokenizer_of(300))
    rows = Rows.open(tmp_path, "train")
    os.truncate(tmp_path / "train-00000.ids", 39 * LENGTH * 2)
    with pytest.raises(CorruptFile, match="has been cut while it was read; run the tokens stage"):
        rows.ids[chosen]


def test_damage_is_found(tmp_path):
    for name in ("train-00000.ids", "train-00000.bounds"):
        write(tmp_path, tokenizer_of(300))
        harm(tmp_path / name, "flipped")
        with pytest.raises(CorruptFile, match=name):
            Rows.open(tmp_path, "train")


def test_wrong_uses_have_their_sentences(tmp_path):
    tokenizer = tokenizer_of(300)
    write(tmp_path / "rows", tokenizer)
    beyond = pytest.raises(AssertionError, match="beyond the vocabulary")
    with RowWriter(tmp_path, "train", LENGTH, tokenizer) as writer, beyond:
        writer.write(np.full((1, LENGTH), 300), np.array([[5, LENGTH]]))
    with pytest.raises(BadInput, match="was made with tokenizer"):
        Rows.open(tmp_path / "rows", "train", tokenizer=tokenizer_of(301).identity)
    with pytest.raises(BadInput, match="no valid rows"):
        Rows.open(tmp_path / "rows", "valid")
    with pytest.raises(BadInput, match="run the tokens stage"):
        Rows.open(tmp_path / "nowhere", "train")
    write_manifest(tmp_path / "rows", kind="corpus")
    with pytest.raises(CorruptFile, match="says kind 'corpus' instead of 'rows'"):
        Rows.open(tmp_path / "rows", "train")
