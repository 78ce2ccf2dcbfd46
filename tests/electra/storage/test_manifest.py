"""A folder matches its manifest, or one sentence says what is wrong."""

import contextlib
import errno
import os
import time
from pathlib import Path

import pytest

from electra.errors import BadInput, CorruptFile, Unreadable
from electra.files import remove, sha256_file
from electra.storage import manifest as manifests
from electra.storage.manifest import (
    MANIFEST,
    cached_sha256,
    verify_manifest,
    write_checksummed,
    write_manifest,
)
from tests.support.project import harm

FACTS = {"kind": "model", "name": "ours", "shards": {10: 1, 9: 2}}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    (folder / "weights").write_bytes(bytes(range(256)))
    (folder / "inner/rows").write_bytes(b"rows of text")
    write_manifest(folder / "inner", kind="rows")
    write_manifest(folder, **FACTS)
    return folder


def test_every_damage_is_named_with_its_file(folder):
    sentence = r"has sha256|bytes instead of|is (malformed|damaged|missing)|has no M"
    for name in ("weights", "inner/rows", f"inner/{MANIFEST}", MANIFEST):
        content = (folder / name).read_bytes()
        for how in ("flipped", "cut", "missing", "folder"):
            assert verify_manifest(folder)["kind"] == "model"
            harm(folder / name, how)
            with pytest.raises(CorruptFile, match=sentence) as error:
                verify_manifest(folder, do="make it again")
            assert name.rpartition("/")[0] in str(error.value) and error.value.exit_code == 74
            remove(folder / name)
            (folder / name).write_bytes(content)


@pytest.mark.parametrize("values", [{}, {"files": 5}, {"files": {"weights": {}}}], ids=str)
def test_a_manifest_of_another_form_is_refused_though_its_seal_fits(folder, values):
    write_checksummed(folder / MANIFEST, values)
    with pytest.raises(CorruptFile, match=f"{MANIFEST}: is malformed"):
        verify_manifest(folder)


def test_a_card_may_be_edited(folder):
    (folder / "inner/README.md").write_text("# A model\n")
    assert "inner/README.md" not in write_manifest(folder, **FACTS)["files"]


def test_no_bit_of_the_manifest_can_change_what_it_says(folder):
    path = folder / MANIFEST
    good = verify_manifest(folder)
    text = path.read_bytes()
    for place in range(len(text)):
        data = bytearray(text)
        data[place] ^= 1 << place % 8
        path.write_bytes(data)
        with contextlib.suppress(CorruptFile, BadInput):
            assert verify_manifest(folder) == good, data  # only a space has changed


def test_links_to_files_are_checked_and_links_to_folders_refused(folder):
    for name in ("weights", "inner/rows", MANIFEST):
        target = folder.parent / Path(name).name
        (folder / name).rename(target)
        (folder / name).symlink_to(target)
        assert verify_manifest(folder)["name"] == "ours"
        harm(target, "flipped")
        with pytest.raises(CorruptFile):
            verify_manifest(folder)
        harm(target, "flipped")  # back again
    (folder / "inner").rename(folder.parent / "inner")
    (folder / "inner").symlink_to(folder.parent / "inner")
    with pytest.raises(CorruptFile, match="inner: leads over a link"):
        verify_manifest(folder)


def test_a_file_that_cannot_be_read_is_named(folder, monkeypatch):
    def refuse(path):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(manifests, "sha256_file", refuse)
    with pytest.raises(Unreadable, match=r"rows: cannot be read \(Input/output error\)"):
        verify_manifest(folder, only=["inner/rows"])


def test_whose_a_folder_is_and_what_it_lists(folder):
    assert verify_manifest(folder, kind="model", name="ours")["shards"] == {"10": 1, "9": 2}
    with pytest.raises(CorruptFile, match="says name 'ours' instead of 'theirs'"):
        verify_manifest(folder, name="theirs")
    (folder / "weights").write_bytes(b"other")
    assert verify_manifest(folder, only=["inner/rows"])
    (folder / "added").write_bytes(b"harmless until it is read")
    with pytest.raises(CorruptFile, match=f"added: is not in {MANIFEST}"):
        verify_manifest(folder, only=["added"])
    with pytest.raises(BadInput, match="there is no such folder"):
        verify_manifest(folder / "elsewhere")


def test_a_manifest_of_nonsense_is_refused(folder):
    for text in ("[" * 100_000, "[]", '{"files": {}}', "\ud800"):
        (folder / MANIFEST).write_text(text, errors="surrogatepass")
        with pytest.raises(CorruptFile):
            verify_manifest(folder)


def test_bytes_are_hashed_once_a_process_unless_the_file_changes(folder, monkeypatch):
    path = folder / "weights"
    hashed = []
    monkeypatch.setattr(manifests, "SETTLED", -1)
    monkeypatch.setattr(
        manifests, "sha256_file", lambda path: hashed.append(path) or sha256_file(path)
    )
    os.utime(path, (1, 1))
    assert cached_sha256(path) == cached_sha256(path) and hashed == [path]
    time.sleep(0.02)  # as fine as a file system's times may be
    path.write_bytes(bytes(256))
    os.utime(path, (1, 1))
    assert cached_sha256(path) == sha256_file(path) and hashed == [path, path]
    # times that may be those of a change to come are not trusted
    monkeypatch.setattr(manifests, "SETTLED", 10**12)
    path.write_bytes(b"1")
    assert cached_sha256(path) == cached_sha256(path) and len(hashed) == 4
