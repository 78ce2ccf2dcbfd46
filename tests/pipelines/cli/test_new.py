"""`electra new`: entries that `check` accepts, inferred from the files, and an otherwise unchanged
params.yaml.
"""

import errno
import io
import json
import multiprocessing
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch

from electra.data import tokenizer as wordpiece
from electra.files import write_jsonl
from electra.nn.huggingface import open_folder
from pipelines.cli import cost, main
from pipelines.cli.first_scores import interval
from pipelines.config import settings_file
from pipelines.config.params import load
from pipelines.sources import custom_tasks
from pipelines.sources.paths import find_files
from pipelines.sources.streams import Skipped
from tests.conftest import read_text
from tests.pipelines.sources.delivered import write_delivered

ENGLISH = "Text number {} of the many that there are."
TASK = ["--task", "data/train.jsonl", "data/train.jsonl"]


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


def write_rows(name, *records):
    path = Path("data") / name
    write_jsonl(path, records)
    return str(path)


def write_labelled():
    """Write `data/train.jsonl`, thirty rows of two classes."""
    write_rows("train.jsonl", *({"text": f"row {n}", "label": n % 2} for n in range(30)))


def write_texts(name, text=ENGLISH, count=99, encoding="utf-8"):
    texts = "\n\n".join(text.format(n) for n in range(count))
    (Path("data") / name).write_text(texts, encoding=encoding)


def test_new_text_and_task_pass_the_check(here, capsys, refuse):
    write_rows("a.jsonl", *({"url": "x" * 99, "body": ENGLISH.format(n)} for n in range(200)))
    write_rows("train.jsonl", *({"review": f"row {n}", "label": n % 2 == 0} for n in range(30)))
    before = Path("params.yaml").read_text()
    assert main(["new", "my-corpus", "--text", "data/a*.jsonl", *TASK]) == 0
    report = capsys.readouterr().out
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
    review = params.tasks["my-corpus"].tasks["my_corpus"]
    assert (review.a, review.label, review.labels) == (
        "review",
        "label",
        ("false", "true"),
    )
    after = Path("params.yaml").read_text()
    rest = iter(after.splitlines())
    assert all(line in rest for line in before.splitlines()), "every line, in its order"
    assert "has corpora.my-corpus already" in refuse(64, "new", "my-corpus", "--text", "data/a*")
    assert Path("params.yaml").read_text() == after
    assert main(["new", "--remove", "my-corpus"]) == 0
    assert Path("params.yaml").read_text() == before


def test_new_shows_what_a_task_scores_without_a_network(here, capsys):
    rows = [{"text": f"{'dull' if n % 2 else 'fine'} day {n}", "label": n % 2} for n in range(99)]
    write_rows("train.jsonl", *rows)
    write_rows("dev.jsonl", *rows[:20], {"text": "no label", "label": None})
    assert main(["new", "mood", "--task", "data/train.jsonl", "data/dev.jsonl"]) == 0
    report = capsys.readouterr().out
    # Clopper and Pearson: 20 of 20, and 10 of 20
    scores = "bag of words 100.0 (83.2 to 100.0), majority 50.0 (27.2 to 72.8)"
    assert f"without a network (accuracy, 99 training and 20 dev rows): {scores}\n" in report
    assert "3 fine-tunings of electra-small (docs/published.md): " in report
    assert "warning: this fine-tunes tiny, which knows only the made-up sample world" in report
    words = [{"tokens": ["Ann", "ran"], "tags": ["B-PER", "O"]}] * 9
    for name in ("train", "dev"):
        write_rows(f"{name}.jsonl", *words)
    assert main(["new", "names", "--task", "data/train.jsonl", "data/dev.jsonl"]) == 0
    report = capsys.readouterr().out
    assert "without a network" not in report and "of electra-small" in report
    write_rows("scores.jsonl", *({"text": f"word{n % 9}", "score": n % 9 / 7} for n in range(99)))
    assert main(["new", "marks", "--task", "data/scores.jsonl", "data/scores.jsonl"]) == 0
    assert re.search(r"spearman, 99 .*: bag of words \S+ \(\S+ to \S+\)", capsys.readouterr().out)
    assert main(["new", "lost", "--task", "data/scores.jsonl", "data/lost.jsonl"]) == 0
    assert "warning: no scores yet: data/lost.jsonl: " in capsys.readouterr().out


def test_a_resampled_interval_is_of_95_percent():
    draw = np.random.default_rng(1)
    label = draw.normal(size=400)
    predicted = label / 2 + 0.75**0.5 * draw.normal(size=400)
    low, high = interval("pearson", predicted, label)
    error = (1 - np.corrcoef(predicted, label)[0, 1] ** 2) / 400**0.5
    assert (high - low) / 2 == pytest.approx(196 * error, rel=0.1)


@pytest.mark.parametrize(
    "name, content, code, sentence",
    [
        ("a.txt", "-DOCSTART- -X- O O\n\nEU NNP I-ORG\nran VB O\n\n", 0, "label = tags (tagging)"),
        (
            "a.jsonl",
            '{"a": "b", "label": 1}\n[]\n{"a": "b", "label": 0}\n',
            0,
            "jsonl:2: not a JSON obj",
        ),
        ("a.csv", "text,label\nдень,да\n", 65, "a.csv:2: invalid UTF-8; no row can be read"),
    ],
)
def test_new_knows_labelled_files_by_their_content(here, capsys, name, content, code, sentence):
    (here / "data" / name).write_bytes(content.encode("cp1251"))
    assert main(["new", "mine", "--task", f"data/{name}", f"data/{name}"]) == code
    said = capsys.readouterr()
    assert sentence in said.out + said.err


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_new_keeps_line_ends_and_writes_through_a_link(here, end):
    text = Path("params.yaml").read_text().replace("\n", end)
    Path("params.yaml").rename(shared := here / "data/shared.yaml")
    shared.write_bytes(text.encode())
    Path("params.yaml").symlink_to(shared)
    write_texts("a.txt")
    assert main(["new", "mine", "--text", "data/a.txt"]) == 0
    assert Path("params.yaml").is_symlink()
    lines = shared.read_bytes().decode().split("\n")
    assert {line[-1:] == "\r" for line in lines[:-1]} == {end == "\r\n"}
    assert main(["new", "--remove", "mine"]) == 0
    assert shared.read_bytes() == text.encode()


def add(name):
    assert main(["new", name, *TASK]) == 0


def test_new_twice_at_once_loses_nothing(here):
    write_labelled()
    names = ["one", "two", "three"]
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=add, args=(name,)) for name in names]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert set(names) <= load().tasks.keys()


def test_new_changes_nothing_where_its_output_cannot_be_written(here, monkeypatch):
    def refuse_write(text):
        raise OSError(errno.ENOSPC, "No space left on device")

    write_labelled()
    add("mine")
    before = Path("params.yaml").read_bytes()
    full = io.StringIO()
    monkeypatch.setattr(full, "write", refuse_write)
    monkeypatch.setattr("sys.stdout", full)
    for words in (["new", "other", *TASK], ["new", "--remove", "mine"]):
        assert main(words) == 71
        assert Path("params.yaml").read_bytes() == before


def test_new_asks_for_a_section_of_one_entry_per_line(here, refuse):
    write_labelled()
    text = Path("params.yaml").read_text()
    tasks = json.dumps(settings_file.read(Path("params.yaml"))["tasks"])
    inline = re.sub(r"^tasks:.*\n(?: .*\n)*", f"tasks: {tasks}\n", text, count=1, flags=re.M)
    Path("params.yaml").write_text(inline)
    assert "the section tasks with one entry per line" in refuse(64, "new", "mine", *TASK)
    assert Path("params.yaml").read_text() == inline


def test_new_remove_keeps_what_another_entry_names(here, refuse):
    before = Path("params.yaml").read_text()
    assert "no models entry 'tiny'" in refuse(64, "new", "--remove", "tiny")
    refuse(64, "new", "--remove", "absent")
    assert Path("params.yaml").read_text() == before


def test_new_writes_what_plain_text_shows(here):
    write_texts("a.txt", " = Title {0} = \n\n Text &amp; more, {0}.")
    (here / "data/b.txt").write_text("A line of text.\n" * 10_000)
    assert main(["new", "wiki", "--text", "data/a.txt"]) == 0
    assert main(["new", "lines", "--text", "data/b.txt", "--encoder", "tiny"]) == 0
    corpora = load().corpora
    assert corpora["wiki"].sources[0].documents == "headings"
    assert corpora["lines"].sources[0].documents == "lines"
    assert corpora["wiki"].cleaning.markup and not corpora["lines"].cleaning.markup


def test_new_makes_a_source_of_each_kind_of_file_and_names_what_it_skips(here, run_command):
    for n in range(2):
        write_rows(f"text{n}.jsonl", *({"text": ENGLISH.format(n)} for n in range(99)))
    write_texts("0.txt")
    write_texts("1.csv")
    write_rows("body.jsonl", *({"title": str(n), "body": ENGLISH.format(n)} for n in range(99)))
    write_texts("latin.txt", "Früh übt sich {} mal.", encoding="latin-1")
    write_texts("wide.txt", encoding="utf-16")
    table = pyarrow.table({"content": ["A text."] * 99})
    pyarrow.parquet.write_table(table, here / "data/a.parquet")
    (here / "data/a.zip").write_bytes(b"PK\x03\x04")
    (here / "data/empty").write_bytes(b"")
    report = run_command("new", "mine", "--text", "data/*")
    assert "skipped: data/a.zip: is a zip file\n" in report
    assert "data/latin.txt: is read with encoding: latin-1" in report and "'Früh'" in report
    assert "warning: data/1.csv: is read as plain text, all columns" in report
    run_command("check", "mine")
    sources = {
        (source.files, source.text, source.encoding, source.documents)
        for source in load().corpora["mine"].sources
    }
    plain = ("data/0.txt", "data/wide.txt", "data/1.csv", "data/empty")
    assert sources == {
        (("data/text0.jsonl", "data/text1.jsonl"), "text", "utf-8", "file"),
        (("data/body.jsonl",), "body", "utf-8", "file"),
        (plain, "text", "utf-8", "blank_lines"),
        (("data/latin.txt",), "text", "latin-1", "blank_lines"),
        (("data/a.parquet",), "content", "utf-8", "file"),
    }
    Path("data/a.zip").rename("data/text2.jsonl")
    assert main(["new", "all", "--text", "data/text*"]) == 0
    (source,) = load().corpora["all"].sources
    assert source.files == ("data/text0.jsonl", "data/text1.jsonl")


def test_new_knows_the_kinds_of_delivered_files(here, monkeypatch, run_command, refuse):
    write_delivered(here / "data/all")
    run_command("new", "mine", "--text", "data/all")
    assert "(6 of 6 files looked at)" in run_command("check", "mine")
    kinds = {
        source.kind: len(find_files(source.files, "x")) for source in load().corpora["mine"].sources
    }
    assert kinds == {"warc": 2, "gigaword": 2, "wikipedia": 2}
    monkeypatch.setitem(sys.modules, "mwparserfromhell", None)
    for command in (["check", "mine"], ["new", "other", "--text", "data/all"]):
        assert "xml.bz2: needs mwparserfromhell" in refuse(64, *command)


def test_new_asks_for_an_encoding_that_is_not_plain(here, refuse):
    write_texts("a.txt", "他在{}点回家睡觉，她去了北京大学。", encoding="gbk")
    command = ["new", "mine", "--text", "data/a.txt"]
    assert "--encoding" in refuse(65, *command)
    assert main([*command, "--encoding", "gbk"]) == 0
    assert load().corpora["mine"].sources[0].encoding == "gbk"


def ideographs(n):
    return "".join(chr(0x4E00 + (n * 37 + k * k) % 3000) for k in range(200))


@pytest.mark.parametrize(
    "texts, lowercase, alphabet",
    [
        ([ENGLISH.format(n) for n in range(99)], True, 1000),
        ([f"Der {n}. schöne Tag war schon da." for n in range(99)], False, 1000),
        ([f"किताब {n} पढ़ना अच्छा है" for n in range(99)], False, 1000),
        ([ideographs(n) for n in range(300)], False, 2900),
    ],
)
def test_new_suits_the_tokenizer_to_the_language(here, texts, lowercase, alphabet):  # fmt: skip
    write_rows("a.jsonl", *({"text": text} for text in texts))
    assert main(["new", "mine", "--text", "data/a.jsonl"]) == 0
    settings = load().tokens["mine"].tokenizer
    assert settings.lowercase == lowercase
    assert settings.strip_accents == (None if lowercase else False)
    assert settings.alphabet == pytest.approx(alphabet, rel=0.1)
    assert settings.vocab_size >= 2048


def test_new_refuses_text_without_spaces(here, refuse):
    thai = "".join(chr(0xE01 + n * 7 % 40) for n in range(300))
    write_texts("a.txt", thai + " {}")
    error = refuse(65, "new", "mine", "--text", "data/a.txt")
    assert "in words of over 100 characters" in error


def test_new_entries_are_written_as_dvc_does_and_rows_keep_their_ids(here):
    from dvc.utils.hydra import apply_overrides

    records = [{"id": 100 + n, "text": f"row {n}", "label": "ab"[n % 2]} for n in range(30)]
    write_rows("train.jsonl", *records)
    same = write_rows("same.jsonl", *({**row, "id": 1} for row in records))
    assert main(["new", "mine-too", *TASK]) == 0
    assert main(["new", "again", "--task", same, same]) == 0
    tasks = load().tasks
    assert tasks["mine-too"].tasks["mine_too"].id == "id"
    assert tasks["again"].tasks["again"].id is None
    text = Path("params.yaml").read_text()
    apply_overrides("params.yaml", ["tracking=mlflow"])
    assert Path("params.yaml").read_text() == text  # as DVC writes it


def test_new_suits_settings_to_text_machine_and_network(here):
    write_rows("text.jsonl", *({"text": ENGLISH[:23].format(n)} for n in range(100_000)))
    write_rows("train.jsonl", *({"a": "x", "b": "y", "label": n % 2} for n in range(300)))
    for name, more in {
        "default": [],
        "short": ["--minutes", "1"],
        "wide": ["--encoder", "base"],
    }.items():
        assert main(["new", name, "--text", "data/text.jsonl", *TASK, *more]) == 0
    params = load()
    assert [params.models[name].pretrain.steps for name in ("default", "short")] == [12000, 580]
    short = params.models["short"].pretrain
    wide = params.models["wide"].pretrain
    assert (short.eval_every, short.batch, short.beta2) == (29, 16, 0.98)
    assert (wide.batch, wide.beta2) == (128, 0.999)
    assert params.tokens["short"].packing.rule == "packed"
    recipes = [params.task_config(name, name) for name in ("short", "wide")]
    chosen = [
        (recipe.learning_rate, recipe.layer_decay, recipe.pooling, recipe.epochs)
        for recipe in recipes
    ]
    assert chosen == [(1e-3, 1.0, "align", 20), (1e-4, 0.8, "cls", 20)]


def test_new_task_never_takes_tiny_in_silence(here, run_command):
    write_labelled()
    assert "warning: this fine-tunes tiny" in run_command("new", "one", *TASK)
    assert load().finetunings["one"].model == "tiny"
    published = here / "published/electra-base"
    published.mkdir(parents=True)
    write_network(published.parent, "electra-base", "ElectraForPreTraining")
    assert main(["new", "two", *TASK]) == 0
    assert load().finetunings["two"].model == "electra-base"


@pytest.mark.parametrize(
    "records, settings",
    [
        ([{"text": "a", "score": n / 7} for n in range(9)], {"kind": "regression", "a": "text"}),
        # sorted by label
        ([{"text": "a", "label": n // 9000} for n in range(9001)], {"labels": ("0", "1")}),
        ([{"words": ["a", "b"], "tags": ["B-NP", "O"]}], {"kind": "tagging", "labels": ("NP",)}),
        ([{"hypothesis": "a" * 9, "premise": "b", "idx": n, "label": n % 2} for n in range(9)],
         {"a": "premise", "b": "hypothesis"}),
        ([{"text": "a", "label": ("b", "a", "a\xa0")[n % 3]} for n in range(8)],
         {"labels": ("a", "b")}),
        ([{"text": "a", "label": "+-0"[n % 3]} for n in range(9)], {"labels": ("+", "-", "0")}),
        ([{"text": "a", "label": ("no", "-", "yes")[n % 3]} for n in range(9)],
         {"labels": ("no", "yes")}),
        ([{"text": "a b", "tags": "B-NP O"}, {"text": "c", "tags": "O"}], {"kind": "tagging"}),
        ([{"tokens": ["我"], "pos": ["PRON"], "text": "我 " * 9, "ner_tags": ["B-X"]},
          {"tokens": ["很"], "pos": ["ADV"], "text": "很 " * 9, "ner_tags": None}],
         {"kind": "tagging", "a": "tokens"}),
    ],
)  # fmt: skip
def test_new_infers_a_task_from_its_rows(here, records, settings, run_command):
    write_rows("train.jsonl", *records)
    report = run_command("new", "t", *TASK)
    task = load().tasks["t"].tasks["t"]
    assert {key: getattr(task, key) for key in settings} == settings
    assert ("not read: idx" in report) == ("idx" in records[0])


def test_new_reads_one_text_of_a_pair_where_it_is_named(here, run_command):
    write_rows("train.jsonl", *({"premise": "a", "hypothesis": "b", "label": n} for n in range(2)))
    run_command("new", "t", *TASK, "--a", "hypothesis")
    task = load().tasks["t"].tasks["t"]
    assert (task.a, task.b) == ("hypothesis", None)


@pytest.mark.parametrize(
    "given, classes, left_out",
    [
        (["good", "bad", "-", None, "", float("nan")], ["bad", "good"], 4),
        (["good", "bad", -1, "-1"], ["bad", "good"], 2),
        ([0, 1, -1, 0.0, -1.0], ["0", "1"], 2),  # as `datasets` exports rows without a label
        ([1, -1], ["-1", "1"], 0),
        ([-2, -1, 0, 1, 2], ["-1", "-2", "0", "1", "2"], 0),
        (["+", "-"], ["+", "-"], 0),
    ],
)
def test_new_counts_rows_without_a_label_as_the_stage_does(
    here, given, classes, left_out, run_command
):
    path = Path("data/train.jsonl")
    lines = [json.dumps({"text": "a", "label": label}) for label in given]  # NaN isn't JSON
    path.write_text("\n".join(lines))
    report = run_command("new", "t", *TASK)
    task = load().tasks["t"].tasks["t"]
    assert list(map(str, task.labels)) == classes
    assert (f"left out: {left_out} row" in report) == (left_out > 0)
    rows = list(custom_tasks.read_rows(path, task, "t", labelled=True))
    assert rows.count(Skipped("no_label")) == left_out
    assert sum(isinstance(row, dict) for row in rows) == len(given) - left_out


@pytest.mark.parametrize(
    "record, sentence",
    [
        (
            {"tokens": ["EU"], "ner_tags": [3]},
            "'ner_tags' holds lists with 3, which is not text; write the names",
        ),
        ({"text": "a", "labels": ["toxic"]}, "several classes for one row are not supported"),
        ({"text": "a", "label": {"x": 1}}, "a label is text, a number, true or false"),
        ({"text": "a", "label": "x"}, "holds 'x' in every row"),
        ({"text": "a", "label": None}, "holds nothing in every row"),
        ({"question": "a", "context": "b", "answers": {}}, "writes no settings for them"),
        ({"text,label": 1}, "has only the column 'text,label'; write a table"),
        (
            [{"text": value, "mood": value} for value in "abab"],
            "('text', 'mood') is the label? Give --label",
        ),
        ({"tokens": ["a"], "tags": ["O"]}, "has no tag but O"),
        ({"": "a"}, "has no row with a text and a label"),
        (
            [{"text": "a", "label": ["B-X", "O"]}, {"text": "a", "label": "x"}],
            "holds lists in some rows only; give --label",
        ),
        (
            [{"text": "a", "label": f"x{n}"} for n in range(10_001)],
            "has more than 10,000 different labels; give --label",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_new_refuses_rows_that_are_no_task(here, record, sentence, refuse):
    write_rows("train.jsonl", *(record if isinstance(record, list) else [record, record]))
    before = Path("params.yaml").read_text()
    assert sentence in refuse(65, "new", "t", *TASK)
    assert Path("params.yaml").read_text() == before


@pytest.mark.parametrize(
    "words, code, sentence",
    [
        (["x y", "--text", "data/*.txt"], 64, "'x y' cannot be a name"),
        (["x"], 64, "give --text or --task"),
        (["x", "--text", "data/a*.txt"], 65, "no file matches 'data/a*.txt'"),
        (["x", "--text", "data/*.txt"], 65, "--text: all files are empty"),
        (["x", "--text", "s3://bucket/a"], 65, "s3://bucket/a is a URL; bring it here"),
        (["x", "--task", "data/one.jsonl"], 64, "takes two or three files (train, dev and perhaps test); got 1"),
        (["x", "--text", "data/one.jsonl", "--encoder", "smal"], 64, "did you mean small"),
        (["x", "--task", "data/one.jsonl", "--from", "data"], 64, "give --text as well"),
        (["x", "--text", "data/one.jsonl", "--from", "data"], 65, "`discriminator` and `generator`"),
    ],
)  # fmt: skip
def test_new_refuses_impossible_words(here, words, code, sentence, refuse):
    write_rows("one.jsonl", {"text": "a", "mood": "good"})
    Path("data/empty.txt").touch()
    before = Path("params.yaml").read_text()
    assert sentence in refuse(code, "new", *words)
    assert Path("params.yaml").read_text() == before


SIZES = {  # google's: layers, hidden, heads, ffn, embedding; the generator's hidden, heads, ffn
    "small": ((12, 256, 4, 1024, 128), (256, 4, 1024)),
    "base": ((12, 768, 12, 3072, 768), (256, 4, 1024)),
    "large": ((24, 1024, 16, 4096, 1024), (256, 4, 1024)),
    "": ((2, 96, 2, 200, 32), (48, 1, 192)),
}


def write_network(folder, part, architecture, shape=(1, 16, 2, 32, 16)):
    """Save a network as transformers does, with its tokenizer."""
    import transformers

    keys = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
    sizes = dict(zip((*keys, "embedding_size"), shape, strict=True))
    words = wordpiece.train_wordpiece(["the old miller keeps a grey cat"] * 3, 60)
    padded = words.vocab_size + 4  # rows of the word table that no piece stands for
    settings = transformers.ElectraConfig(vocab_size=padded, **sizes)
    network = getattr(transformers, architecture)(settings)
    network.save_pretrained(folder / part)
    wordpiece.save(words, folder / part)
    return network


@pytest.mark.parametrize(
    "size", ["", "small", *(pytest.param(s, marks=pytest.mark.slow) for s in ("base", "large"))]
)
def test_new_continues_published_weights(here, size, run_command):
    shape, generator = SIZES[size]
    discriminator = write_network(Path("pub"), "discriminator", "ElectraForPreTraining", shape)
    write_rows("a.jsonl", *({"text": ENGLISH.format(n)} for n in range(200)))
    write_labelled()
    command = ["--text", "data/a.jsonl", *TASK, "--from", "pub"]
    report = run_command("new", "alone", *command)
    assert "there is no pub/generator, so words are replaced by frequency" in report
    narrow = write_network(
        Path("pub"), "generator", "ElectraForMaskedLM", (shape[0], *generator, shape[4])
    )
    narrow.electra.embeddings.load_state_dict(discriminator.electra.embeddings.state_dict())
    narrow.save_pretrained("pub/generator")
    report = run_command("new", "mine", *command)
    assert "its generator starts from pub/generator\n" in report
    assert (f"the published {size}, " if size else "no published size, ") in report
    params = load()
    model = params.models["mine"]
    assert params.models["alone"].generator.kind == "unigram"
    assert model.encoder == (params.encoders[size] if size else params.encoders["mine"])
    assert model.generator.encoder(model.encoder).hidden == generator[0]
    assert model.pretrain.learning_rate == (2e-4 if size in {"base", "large"} else 5e-4)
    assert model.objective.mask_rate == (0.25 if size == "large" else 0.15)
    assert model.objective.sharing == "embeddings"
    assert model.pretrain.precision == ("auto" if torch.cuda.is_available() else "fp32")
    tokenizer = wordpiece.load(Path(params.tokens["mine"].tokenizer.file))
    assert tokenizer.pieces() == wordpiece.load(Path("pub/generator")).pieces()
    assert params.finetunings["mine-before"].model == "mine-before"
    before = Path(params.published["mine-before"].folder)
    assert open_folder(before).encoder_settings[0].hidden == model.encoder.hidden
    run_command("check", "mine")


@pytest.mark.parametrize(
    "shape, sentence",
    [
        ((1, 16, 2, 32, 16), "generator.width gives its shapes"),
        ((2, 48, 1, 192, 32), "with embeddings of its own"),
    ],
)
def test_new_compares_a_generator_with_its_discriminator(here, shape, sentence, capsys):
    write_network(Path("pub"), "discriminator", "ElectraForPreTraining", SIZES[""][0])
    write_network(Path("pub"), "generator", "ElectraForMaskedLM", shape)
    write_texts("a.txt")
    capsys.readouterr()
    code = main(["new", "mine", "--text", "data/a.txt", "--from", "pub"])
    captured = capsys.readouterr()
    assert sentence in captured.out + captured.err
    assert code == (65 if captured.err else 0)
