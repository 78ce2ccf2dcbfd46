"""`electra new`: entries that `check` accepts, inferred from the files, and an otherwise unchanged
params.yaml.
"""

import errno
import json
import multiprocessing
import re
import shutil
import sys
from collections import Counter
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch

from electra.data import tokenizer as wordpiece
from electra.files import write_jsonl
from pipelines.cli import cost, main
from pipelines.cli.first_scores import interval
from pipelines.config import settings_file
from pipelines.config.params import load
from pipelines.sources import custom_tasks
from pipelines.sources.streams import Skipped
from tests.support.delivered import write_delivered
from tests.support.project import SMOKE, read_text

ENGLISH = "Text number {} of the many that there are."
TASK = "--task data/train.jsonl data/train.jsonl"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    card = cost.Gpu("this machine's 2 CPU cores", 2e11, 0)
    monkeypatch.setattr(cost, "this_machine", lambda: card)
    # without its ablations, which take half of the time that it is read in
    text = read_text("params.yaml").replace("ablations: [electra_bert]", "ablations: []")
    sections, _, _ = text.partition("\nablations:")
    (tmp_path / "params.yaml").write_text(f"{sections}\nablations: {{}}\n")
    (tmp_path / "data").mkdir()
    return tmp_path


@pytest.fixture
def refuse(refuse):
    """The same for a command that has to leave params.yaml as it is."""

    def refuse_unchanged(code, line):
        before = Path("params.yaml").read_bytes()
        error = refuse(code, line)
        assert Path("params.yaml").read_bytes() == before
        return error

    return refuse_unchanged


def write_rows(name, *records):
    write_jsonl(Path("data") / name, records)


def write_labelled():
    """Write `data/train.jsonl`, thirty rows of two classes."""
    rows = '{"text": "a row", "label": 0}\n{"text": "another", "label": 1}\n' * 15
    Path("data/train.jsonl").write_text(rows)


def write_texts(text=ENGLISH, encoding="utf-8"):
    """Write `data/a.txt`, ninety-nine documents."""
    texts = "\n\n".join(text.format(n) for n in range(99))
    Path("data/a.txt").write_text(texts, encoding=encoding)


def test_new_text_and_task_pass_the_check(here, capsys, run_command, refuse):
    write_rows("a.jsonl", *({"url": "x" * 99, "body": ENGLISH.format(n)} for n in range(200)))
    reviews = '{"review": "a row", "label": true}\n{"review": "another", "label": false}\n' * 15
    Path("data/train.jsonl").write_text(reviews)
    before = Path("params.yaml").read_text()
    report = run_command(f"new my-corpus --text data/a*.jsonl {TASK}")
    for note in (
        "data/a.jsonl: is read with text: body\n",
        "2,048 pieces without case and accents",
        "30 rows; a = review, label = label (2 classes)\n",
        "electra check my-corpus",
        "dvc repro pipelines/dvc.yaml:glue@my-corpus",
    ):
        assert note in report
    assert main(["check", "my-corpus"]) == 0
    assert capsys.readouterr().err == ""
    params = load()
    assert params.models["my-corpus"].encoder == params.encoders["mini"]
    assert params.tasks["my-corpus"].tasks["my_corpus"].labels == ("false", "true")
    assert "has corpora.my-corpus already" in refuse(64, "new my-corpus --text data/a*")
    run_command("new --remove my-corpus")
    assert Path("params.yaml").read_text() == before


def test_new_shows_what_a_task_scores_without_a_network(here, run_command):
    rows = [{"text": f"{'dull' if n % 2 else 'fine'} day {n}", "label": n % 2} for n in range(99)]
    write_rows("train.jsonl", *rows)
    write_rows("dev.jsonl", *rows[:20], {"text": "no label", "label": None})
    report = run_command("new mood --task data/train.jsonl data/dev.jsonl")
    # Clopper and Pearson: 20 of 20, and 10 of 20
    scores = "bag of words 100.0 (83.2 to 100.0), majority 50.0 (27.2 to 72.8)"
    assert f"without a network (accuracy, 99 training and 20 dev rows): {scores}\n" in report
    assert "3 fine-tunings of electra-small (docs/published.md): " in report
    write_rows("train.jsonl", *[{"tokens": ["Ann", "ran"], "tags": ["B-PER", "O"]}] * 9)
    report = run_command(f"new names {TASK}")
    assert "without a network" not in report and "of electra-small" in report
    write_rows("train.jsonl", *({"text": f"word{n % 9}", "score": n % 9 / 9} for n in range(99)))
    report = run_command(f"new marks {TASK}")
    assert re.search(r"spearman, 99 .*: bag of words \S+ \(\S+ to \S+\)", report)
    assert load().tasks["marks"].tasks["marks"].scale == 1.0
    report = run_command("new lost --task data/train.jsonl data/lost.jsonl")
    assert "warning: no scores yet: data/lost.jsonl: " in report


def test_a_resampled_interval_is_of_95_percent():
    draw = np.random.default_rng(1)
    label = draw.normal(size=400)
    predicted = label / 2 + 0.75**0.5 * draw.normal(size=400)
    low, high = interval("pearson", predicted, label)
    error = (1 - np.corrcoef(predicted, label)[0, 1] ** 2) / 400**0.5
    assert (high - low) / 2 == pytest.approx(196 * error, rel=0.025)


def test_new_knows_labelled_files_by_their_content(here, run_command, refuse):
    Path("data/a").write_text("-DOCSTART- -X- O O\n\nEU NNP I-ORG\nran VB O\n\n")
    assert "label = tags (tagging)" in run_command("new mine --task data/a data/a")
    assert load().task_config("mine", "mine").pooling == "cls"
    Path("data/a.csv").write_text("text,label\nдень,да\n", encoding="cp1251")
    assert "a.csv:2: invalid UTF-8; no row can be read" in refuse(
        65, "new other --task data/a.csv data/a.csv"
    )


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_new_keeps_line_ends_and_writes_through_a_link(here, end, run_command):
    text = Path("params.yaml").read_text().replace("\n", end)
    Path("params.yaml").rename(shared := here / "data/shared.yaml")
    shared.write_bytes(text.encode())
    Path("params.yaml").symlink_to(shared)
    write_texts()
    run_command("new mine --text data/a.txt")
    assert Path("params.yaml").is_symlink()
    longer = shared.read_bytes()
    assert longer.count(b"\n") == longer.count(end.encode()) > text.count(end)
    run_command("new --remove mine")
    assert shared.read_bytes() == text.encode()


def add(name):
    assert main(f"new {name} {TASK}".split()) == 0


def test_new_twice_at_once_loses_nothing(here):
    write_labelled()
    names = ["one", "two", "three"]
    with multiprocessing.get_context("fork").Pool(3) as pool:
        pool.map(add, names)
    assert set(names) <= load().tasks.keys()


def test_new_changes_nothing_where_its_output_cannot_be_written(here, monkeypatch):
    write_labelled()
    add("mine")
    before = Path("params.yaml").read_bytes()
    full = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr("sys.stdout", Mock(write=full))
    for line in (f"new other {TASK}", "new --remove mine"):
        assert main(line.split()) == 71
        assert Path("params.yaml").read_bytes() == before


def test_new_asks_for_a_section_of_one_entry_per_line(here, refuse):
    write_labelled()
    text = Path("params.yaml").read_text()
    tasks = json.dumps(settings_file.read(Path("params.yaml"))["tasks"])
    inline = re.sub(r"^tasks:.*\n(?: .*\n)*", f"tasks: {tasks}\n", text, count=1, flags=re.M)
    Path("params.yaml").write_text(inline)
    assert "the section tasks with one entry per line" in refuse(64, f"new mine {TASK}")


def test_new_remove_keeps_what_another_entry_names(here, refuse):
    assert "no models entry 'tiny'" in refuse(64, "new --remove tiny")
    assert "has no entry absent" in refuse(64, "new --remove absent")


def test_new_remove_takes_comments_and_empty_lines_of_an_entry_along(here, run_command):
    write_labelled()
    before = Path("params.yaml").read_text()
    run_command(f"new mine {TASK}")
    added, recipe, rest = Path("params.yaml").read_text().partition("\n  mine:\n    defaults:\n")
    Path("params.yaml").write_text(f"{added}{recipe}\n  # why\n\n    # so few\n{rest}")
    run_command("new mine --remove")
    assert Path("params.yaml").read_text() == before


def test_new_writes_what_plain_text_shows(here, run_command):
    write_texts(" = Title {0} = \n\n Text &amp; more, {0}.")
    Path("data/b.txt").write_text("A line of text.\n" * 10_000)
    run_command("new wiki --text data/a.txt")
    run_command("new lines --text data/b.txt --encoder tiny")
    for name, documents in (("wiki", "headings"), ("lines", "lines")):
        corpus = load().corpora[name]
        assert corpus.sources[0].documents == documents
        assert corpus.cleaning.markup == (name == "wiki")


def test_new_makes_a_source_of_each_kind_of_file_and_names_what_it_skips(here, run_command):
    table = pyarrow.table({"content": ["A text."] * 99})
    pyarrow.parquet.write_table(table, "data/a.parquet")
    paragraphs = "\n\n".join(ENGLISH.format(n) for n in range(99))
    for name, content in {
        "0.txt": paragraphs.encode(),
        "1.csv": paragraphs.encode(),
        "wide.txt": paragraphs.encode("utf-16"),
        "latin.txt": "Früh übt sich.\n\n".encode("latin-1") * 99,
        "text0.jsonl": b'{"text": "A text."}\n' * 99,
        "text1.jsonl": b'{"text": "A text."}\n' * 99,
        "body.jsonl": b'{"title": "One", "body": "A text."}\n' * 99,
        "a.zip": b"PK\x03\x04",
        "empty.jsonl": b"",
    }.items():
        (here / "data" / name).write_bytes(content)
    report = run_command("new mine --text data/*")
    assert "skipped: data/a.zip: is a zip file\n" in report
    assert "data/latin.txt: is read with encoding: latin-1" in report and "'Früh'" in report
    assert "warning: data/1.csv: is read as plain text, all columns" in report
    run_command("check mine")
    plain = ("data/0.txt", "data/wide.txt", "data/1.csv", "data/empty.jsonl")
    assert {
        (source.files, source.text, source.encoding, source.documents)
        for source in load().corpora["mine"].sources
    } == {
        (("data/text0.jsonl", "data/text1.jsonl"), "text", "utf-8", "file"),
        (("data/body.jsonl",), "body", "utf-8", "file"),
        (plain, "text", "utf-8", "blank_lines"),
        (("data/latin.txt",), "text", "latin-1", "blank_lines"),
        (("data/a.parquet",), "content", "utf-8", "file"),
    }
    Path("data/a.zip").rename("data/text2.jsonl")
    run_command("new all --text data/text*")
    assert load().corpora["all"].sources[0].files == ("data/text0.jsonl", "data/text1.jsonl")


def test_new_knows_the_kinds_of_delivered_files(here, monkeypatch, run_command, refuse):
    write_delivered(here / "data/all")
    run_command("new mine --text data/all")
    assert "(6 of 6 files looked at)" in run_command("check mine")
    kinds = {source.kind for source in load().corpora["mine"].sources}
    assert kinds == {"warc", "gigaword", "wikipedia"}
    monkeypatch.setitem(sys.modules, "mwparserfromhell", None)
    for command in ("check mine", "new other --text data/all"):
        assert "xml.bz2: needs mwparserfromhell" in refuse(64, command)


def test_new_asks_for_an_encoding_that_is_not_plain(here, run_command, refuse):
    write_texts("他在{}点回家睡觉，她去了北京大学。", encoding="gbk")
    command = "new mine --text data/a.txt"
    assert "--encoding" in refuse(65, command)
    run_command(f"{command} --encoding gbk")
    assert load().corpora["mine"].sources[0].encoding == "gbk"


def ideographs(n):
    return "".join(chr(0x4E00 + (n * 37 + k * k) % 3000) for k in range(200))


@pytest.mark.parametrize(
    "texts, lowercase, alphabet, pieces",
    [
        ([ENGLISH.format(n) for n in range(99)], True, 1000, 2048),
        ([f"Der {n}. schöne Tag war schon da." for n in range(99)], False, 1000, 2048),
        ([ideographs(n) for n in range(7)], False, 1070, 2048),
        ([ideographs(n) for n in range(300)], False, 2900, 4608),
    ],
)
def test_new_suits_the_tokenizer_to_the_language(
    here, texts, lowercase, alphabet, pieces, run_command
):
    write_rows("a.jsonl", *({"text": text} for text in texts))
    run_command("new mine --text data/a.jsonl")
    settings = load().tokens["mine"].tokenizer
    assert (settings.lowercase, settings.vocab_size) == (lowercase, pieces)
    assert settings.strip_accents == (None if lowercase else False)
    assert settings.alphabet == pytest.approx(alphabet, rel=0.1)


def test_new_refuses_text_without_spaces(here, refuse):
    thai = "".join(chr(0xE01 + n * 7 % 40) for n in range(300))
    write_texts(thai + " {}")
    assert "in words of over 100 characters" in refuse(65, "new mine --text data/a.txt")


def test_new_entries_are_written_as_dvc_does_and_rows_keep_their_ids(here, run_command):
    from dvc.utils.hydra import apply_overrides

    rows = '{"id": 7, "text": "a", "label": "x"}\n{"id": 8, "text": "b", "label": "y"}\n'
    Path("data/train.jsonl").write_text(rows)
    run_command(f"new mine-too {TASK}")
    Path("data/train.jsonl").write_text(rows.replace("8", "7"))
    run_command(f"new again {TASK}")
    tasks = load().tasks
    assert tasks["mine-too"].tasks["mine_too"].id == "id"
    assert tasks["again"].tasks["again"].id is None
    text = Path("params.yaml").read_text()
    apply_overrides("params.yaml", ["tracking=mlflow"])
    assert Path("params.yaml").read_text() == text


def test_new_suits_settings_to_text_machine_and_network(here, run_command):
    Path("data/text.jsonl").write_text('{"text": "Text number 10000 of the m"}\n' * 100_000)
    pairs = '{"a": "x", "b": "y", "label": 0}\n{"a": "x", "b": "y", "label": 1}\n' * 150
    Path("data/train.jsonl").write_text(pairs)
    write_network("pub/discriminator", "ElectraForPreTraining", SIZES[""][0])
    write_network("pub/generator", "ElectraForMaskedLM", (1, 48, 1, 192, 32))
    options = {"default": "", "short": "--minutes 1", "wide": "--encoder base"}
    options["continued"] = "--minutes 1 --from pub"
    for name, more in options.items():
        said = run_command(f"new {name} --text data/text.jsonl {TASK} {more}")
        assert ("finds little before" in said) == (name in {"short", "wide"})
    params = load()
    default, short, wide, continued = (params.models[name].pretrain for name in options)
    assert (default.steps, short.steps) == (12000, 580)
    assert short.warmup == short.eval_every == 29
    assert continued.steps == 410, "as with the published 30,522 pieces"
    assert (short.batch, short.beta2) == (16, 0.98)
    assert (wide.batch, wide.beta2) == (128, 0.999)
    assert params.tokens["short"].packing.rule == "packed"
    assert params.tokens["short"].valid_fraction == 0.05
    sharing = params.models["continued"].objective.sharing
    assert sharing == "none", "since the generator has embeddings of its own"
    for name, chosen in (("short", (1e-3, 1.0, "align", 20)), ("wide", (1e-4, 0.8, "cls", 20))):
        recipe = params.task_config(name, name)
        settings = (recipe.learning_rate, recipe.layer_decay, recipe.pooling, recipe.epochs)
        assert settings == chosen


def test_new_task_never_takes_tiny_in_silence(here, run_command):
    write_labelled()
    assert "warning: this fine-tunes tiny" in run_command(f"new one {TASK}")
    assert load().finetunings["one"].model == "tiny"
    write_network("published/electra-base", "ElectraForPreTraining")
    run_command(f"new two {TASK}")
    assert load().finetunings["two"].model == "electra-base"


@pytest.mark.parametrize(
    "rows, note, labels",
    [
        ('{"text": "a", "parts": ["x"], "score": 0.5}\n{"text": "b", "score": 2}', "a = text, label = score (regression)", ()),
        ("".join(f'{{"text": "a", "score": {n}}}\n' for n in range(51)), "label = score (regression)", ()),
        ("".join(f'{{"text": "a", "score": {n}}}\n' for n in range(50)), "label = score (50 classes)", tuple(sorted(map(str, range(50))))),
        # sorted by label
        ('{"text": "a", "label": 0}\n' * 9000 + '{"text": "a", "label": 1}', "9,001 rows; a = text, ", ("0", "1")),
        # the column that has the fewest values
        ('{"text": "a", "mood": "x"}\n{"text": "b", "mood": "y"}\n{"text": "c", "mood": "x"}\n{"text": "d", "mood": "y"}',
         "a = text, label = mood (2 classes)", ("x", "y")),
        ('{"words": ["a", "b"], "tags": ["B-NP", "O"]}', "a = words, label = tags (tagging)", ("NP",)),
        ('{"text": "a b", "tags": "B-NP O"}\n{"text": "c", "tags": "O"}', "label = tags (tagging)", ("NP",)),
        ('{"tokens": ["我"], "pos": ["A"], "text": "我 我 我", "ner_tags": ["B-X"]}\n'
         '{"tokens": ["很"], "pos": ["A"], "text": "很 很 很", "ner_tags": null}',
         "a = tokens, label = ner_tags (tagging)", ("X",)),
        ('{"premise": "a b", "hypothesis": "c", "tags": "B-NP O"}', "label = tags (tagging)\nnot read: hypothesis", ("NP",)),
        ('{"hypothesis": "aaa", "premise": "b", "idx": 0, "label": 0}\n'
         '{"hypothesis": "aaa", "premise": "b", "idx": 1, "label": 1}',
         "a = premise, b = hypothesis, label = label (2 classes)\nnot read: idx;", ("0", "1")),
        ('{"text": "a", "label": "b"}\n{"text": "a", "label": "a"}\n{"text": "a", "label": "a\xa0"}', "(2 classes)", ("a", "b")),
        ('{"text": "a", "label": 1}\n[]\n{"text": "a", "label": 0}', "1 row cannot be read; the first is data/train.jsonl:2: not a JSON obj", ("0", "1")),
    ],
)  # fmt: skip
def test_new_infers_a_task_from_its_rows(here, rows, note, labels, run_command):
    Path("data/train.jsonl").write_text(rows)
    assert note in run_command(f"new t {TASK}")
    assert tuple(map(str, load().tasks["t"].tasks["t"].labels)) == labels


def test_new_reads_one_text_of_a_pair_where_it_is_named(here, run_command):
    rows = '{"premise": "a", "hypothesis": "b", "label": %d}\n'
    Path("data/train.jsonl").write_text(rows % 0 + rows % 1)
    report = run_command(f"new t {TASK} --a hypothesis")
    assert "a = hypothesis, label = label" in report


@pytest.mark.parametrize(
    "given, classes, left_out",
    [
        ('"good" "bad" "-" null "" NaN', ["bad", "good"], 4),
        ('"good" "bad" -1 "-1"', ["bad", "good"], 2),
        ("0 1 -1 0.0 -1.0", ["0", "1"], 2),  # as `datasets` exports rows without a label
        ("1 -1", ["-1", "1"], 0),
        ("-2 -1 0 1 2", ["-1", "-2", "0", "1", "2"], 0),
        ('"+" "-" "0"', ["+", "-", "0"], 0),
    ],
)
def test_new_counts_rows_without_a_label_as_the_stage_does(
    here, given, classes, left_out, run_command
):
    labels = given.split()
    path = Path("data/train.jsonl")
    path.write_text("\n".join(f'{{"text": "a", "label": {label}}}' for label in labels))
    report = run_command(f"new t {TASK}")
    task = load().tasks["t"].tasks["t"]
    assert list(map(str, task.labels)) == classes
    assert (f"left out: {left_out} row" in report) == ("left out: " in report) == (left_out > 0)
    rows = custom_tasks.read_rows(path, task, "t", labelled=True)
    read = {dict: len(labels) - left_out, Skipped: left_out}
    assert Counter(map(type, rows)) == Counter(read)


@pytest.mark.parametrize(
    "rows, sentence",
    [
        ('{"tokens": ["EU"], "ner_tags": [3]}', "'ner_tags' holds lists with 3, which is not text; write"),
        ('{"text": "a", "labels": ["toxic"]}', "several classes for one row are not supported"),
        ('{"text": "a", "label": {"x": 1}}', "a label is text, a number, true or false"),
        ('{"text": "a", "label": "x"}', "holds 'x' in every row"),
        ('{"text": "a", "label": null}', "holds nothing in every row"),
        ('{"question": "a", "context": "b", "answers": {}}', "writes no settings for them"),
        ('{"text,label": 1}', "has only the column 'text,label'; write a table"),
        ('{"text": "a", "mood": "a"}\n{"text": "b", "mood": "b"}', "('text', 'mood') is the label? Give --label"),
        ('{"tokens": ["a"], "tags": ["O"]}', "has no tag but O"),
        ('{"": "a"}', "has no row with a text and a label"),
        ('{"text": "a", "label": ["B-X"]}\n{"text": "a", "label": "x"}', "holds lists in some rows only; give --label"),
        ("\n".join(f'{{"text": "a", "label": "x{n}"}}' for n in range(10_001)), "more than 10,000 different labels; give --label"),
    ],
    ids=lambda value: value[:40],
)  # fmt: skip
def test_new_refuses_rows_that_are_no_task(here, rows, sentence, refuse):
    Path("data/train.jsonl").write_text(f"{rows}\n" * 2)
    assert sentence in refuse(65, f"new t {TASK}")


@pytest.mark.parametrize(
    "words, code, sentence",
    [
        ("x.y --text data/*.txt", 64, "'x.y' cannot be a name"),
        ("x", 64, "give --text or --task"),
        ("x --text data/a*.txt", 65, "no file matches 'data/a*.txt'"),
        ("x --text data/*.txt", 65, "--text: all files are empty"),
        ("x --text s3://bucket/a", 65, "s3://bucket/a is a URL; bring it here"),
        ("x --task data/one.jsonl", 64, "two or three files (train, dev and perhaps test); got 1"),
        ("x --text data/one.jsonl --encoder smal", 64, "did you mean small"),
        ("x --task data/one.jsonl --from data", 64, "give --text as well"),
        ("x --text data/one.jsonl --from data", 65, "`discriminator` and `generator`"),
    ],
)
def test_new_refuses_impossible_words(here, words, code, sentence, refuse):
    write_rows("one.jsonl", {"text": "a", "mood": "good"})
    Path("data/empty.txt").touch()
    assert sentence in refuse(code, f"new {words}")


def test_new_task_needs_none_of_the_shipped_encoders(here, run_command):
    write_labelled()
    Path("params.yaml").write_text(SMOKE)
    assert "electra-small" not in run_command(f"new mine --model smoke {TASK}")
    assert "mine" in load().tasks


def test_new_refuses_a_label_that_yaml_would_fold(here, refuse):
    labels = ["a\u2028b", "a\u2028c"]
    write_rows("train.jsonl", *({"text": f"a text {n}", "label": labels[n % 2]} for n in range(40)))
    assert "holds the line break U+2028" in refuse(64, f"new mine {TASK}")


SIZES = {  # google's: layers, hidden, heads, ffn, embedding; the generator's hidden, heads, ffn
    "small": ((12, 256, 4, 1024, 128), (256, 4, 1024)),
    "base": ((12, 768, 12, 3072, 768), (256, 4, 1024)),
    "large": ((24, 1024, 16, 4096, 1024), (256, 4, 1024)),
    "": ((2, 96, 2, 200, 32), (48, 1, 192)),
}


def write_network(folder, architecture, shape=(1, 16, 2, 32, 16)):
    """Save a network as transformers does, with its tokenizer."""
    import transformers

    keys = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
    sizes = dict(zip((*keys, "embedding_size"), shape, strict=True))
    words = wordpiece.train_wordpiece(["the old miller keeps a grey cat"] * 3, 60)
    padded = words.vocab_size + 4  # rows of the word table that no piece stands for
    settings = transformers.ElectraConfig(vocab_size=padded, **sizes)
    network = getattr(transformers, architecture)(settings)
    network.save_pretrained(folder)
    wordpiece.save(words, Path(folder))
    return network


@pytest.mark.parametrize(
    "size", ["", "small", *(pytest.param(s, marks=pytest.mark.slow) for s in ("base", "large"))]
)
def test_new_continues_published_weights(here, size, run_command):
    shape, generator = SIZES[size]
    discriminator = write_network("pub/discriminator", "ElectraForPreTraining", shape)
    write_texts()
    write_labelled()
    options = f"--text data/a.txt {TASK} --from pub"
    report = run_command(f"new alone {options}")
    assert "there is no pub/generator, so words are replaced by frequency" in report
    shape = (shape[0], *generator, shape[4])
    narrow = write_network("pub/generator", "ElectraForMaskedLM", shape)
    narrow.electra.embeddings.load_state_dict(discriminator.electra.embeddings.state_dict())
    narrow.save_pretrained("pub/generator")
    report = run_command(f"new mine {options}")
    assert "its generator starts from pub/generator\n" in report
    assert (f"the published {size}, " if size else "no published size, ") in report
    params = load()
    assert params.models["alone"].generator.kind == "unigram"
    model = params.models["mine"]
    assert model.encoder == (params.encoders[size] if size else params.encoders["mine"])
    assert model.generator.encoder(model.encoder).hidden == generator[0]
    assert model.pretrain.learning_rate == (2e-4 if size in {"base", "large"} else 5e-4)
    assert model.pretrain.precision == ("auto" if torch.cuda.is_available() else "fp32")
    assert model.objective.mask_rate == (0.25 if size == "large" else 0.15)
    assert model.objective.sharing == "embeddings"
    assert params.tokens["mine"].tokenizer.file == "pub/discriminator/tokenizer.json"
    assert params.finetunings["mine-before"].model == "mine-before"
    assert params.published["mine-before"].folder == "pub/discriminator"
    run_command("check mine")


def test_new_compares_a_generator_with_its_discriminator(here, capsys, run_command, refuse):
    write_network("pub/discriminator", "ElectraForPreTraining", SIZES[""][0])
    write_network("pub/generator", "ElectraForMaskedLM")
    write_texts()
    capsys.readouterr()
    command = "new mine --text data/a.txt --from pub"
    assert "generator.width gives its shapes" in refuse(65, command)
    write_network("pub/generator", "ElectraForMaskedLM", (1, 48, 1, 192, 32))
    assert "with embeddings of its own" in run_command(command)
    assert load().models["mine"].generator.depth == 0.5
    shutil.copy("pub/discriminator/model.safetensors", "pub/generator")
    assert "pub/generator: has encoder.layer.1." in refuse(65, command.replace("mine", "other"))
