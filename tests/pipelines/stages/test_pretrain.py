"""The pre-training stage: its folders load in transformers and start another; what does not fit is
refused.
"""

import json
import logging
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from huggingface_hub import ModelCard

import electra
from electra.data import tokenizer
from electra.errors import CorruptFile
from electra.files import read_json, sha256_file, write_json
from electra.pretraining.compiling import compile_parts
from electra.pretraining.flops import encoder_flops, training_flops
from electra.pretraining.model import Pretraining
from electra.storage.manifest import read_manifest
from electra.storage.run_dir import read_entry
from pipelines.cli import main
from pipelines.config.params import load
from pipelines.sources import SampleCorpus
from pipelines.stages import corpus, tokens
from pipelines.stages import pretrain as pretraining
from pipelines.stages.pretrain import ModelRows, run_folder, show_examples
from pipelines.tracking import Tracker
from tests.support.project import SMOKE, copy_project, files_of, harm

BUDGET = 4.0e8  # operations: a few steps
FEW = "pretrain: {length: 16, batch: 8, steps: 20, warmup: 2, learning_rate: 1.0e-3"
MORE = f"threads: 1, init_from: start, eval_batches: 2, precision: fp32, steps: {{flops: {BUDGET}}}"
ENCODER = "encoder: smoke\n    "
# the model `base` is called `more`, and starts from the folder `start`
PARAMS = (
    SMOKE.replace("  base:\n", "  more:\n")
    .replace("model: base,", "model: more,")
    .replace("tokens: absent", "tokens: smoke")
    .replace(f"{FEW}}}", f"{FEW.replace('steps: 20, ', '')}, {MORE}}}")
    .replace(f"{ENCODER}pretrain", f"{ENCODER}generator: {{width: 0.5}}\n    pretrain")
)
LONGER = PARAMS.replace("steps: 20", "steps: 22", 1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A project whose smoke model is pre-trained; the model `more` starts from the folder `start`,
    a copy of it.
    """
    folder = copy_project(tmp_path_factory.mktemp("stage") / "project")
    (folder / "params.yaml").write_text(PARAMS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for stage in ("corpus", "tokens", "pretrain"):
            assert main([stage, "smoke"]) == 0
        shutil.copytree("build/models/smoke", "start")
        for path in Path("start").rglob("MANIFEST.json"):  # a folder from elsewhere has none
            path.unlink()
        yield folder


def test_examples_compile_nothing_for_their_few_rows(trained, monkeypatch):
    params = load()
    compiled = []
    config = params.models["smoke"].electra()
    rows = ModelRows(params, "smoke", config)
    ids = rows.tokenizer
    train = "pipelines.stages.pretrain.pretrain"
    given = []
    monkeypatch.setattr(train, lambda config, data, *_, **options: given.append(data))
    both = (SampleCorpus(kind="sample"), *params.corpora["smoke"].sources)
    corpora = params.corpora | {"smoke": replace(params.corpora["smoke"], sources=both)}
    mixed = ModelRows(replace(params, corpora=corpora), "smoke", config)
    assert mixed.label == "sample world + smoke"
    unigram = replace(config, generator=replace(config.generator, kind="unigram"))
    rows.train(unigram, Path(), "smoke")
    (data,) = given
    counts = data.unigram_V
    special = data.special
    assert set(counts[list(special)].tolist()) == {1}, "a unigram generator proposes words"
    assert (
        counts.sum() == ids.vocab_size + np.isin(rows.train_rows.ids[:], special, invert=True).sum()
    )
    model = Pretraining(config, ids.vocab_size, special).eval()
    compile_parts(model, backend=lambda graph, inputs: compiled.append(graph) or graph.forward)
    assert show_examples(model, config, rows) and not compiled
    for name, shown in (("electra_15", True), ("replace_mlm", False)):
        other = replace(config, objective=replace(config.objective, name=name))
        model = Pretraining(other, ids.vocab_size, special).eval()
        assert bool(show_examples(model, other, rows)) == shown


def test_examples_hold_what_the_generator_proposed_wherever_it_replaced_a_word(trained):
    rows = read_json(Path("build/models/smoke/examples.json"))
    assert any(any(row["replaced"]) for row in rows)
    for row in rows:
        pairs = zip(row["tokens"], row["original"], strict=True)
        assert [given != written for given, written in pairs] == row["replaced"]
        places = [proposal["place"] for proposal in row["proposals"]]
        assert places == sorted(set(places)) and places[-1] < len(row["tokens"])
        assert {place for place, replaced in enumerate(row["replaced"]) if replaced} <= {*places}
        for proposal in row["proposals"]:
            probability = proposal["probability"]
            assert len(proposal["pieces"]) == 3
            assert probability == sorted(probability, reverse=True)


@pytest.mark.parametrize(
    "part, kind, use, tag",
    [
        ("encoder", "AutoModel", "model.embed", "feature-extraction"),
        ("discriminator", "ElectraForPreTraining", "model.replaced", None),
        ("generator", "ElectraForMaskedLM", "electra.corrupt", "fill-mask"),
    ],
)
def test_transformers_loads_each_folder_whole(trained, part, kind, use, tag):
    logging.getLogger("transformers").setLevel(logging.ERROR)
    folder = Path("build/models/smoke") / part
    model, report = getattr(transformers, kind).from_pretrained(folder, output_loading_info=True)
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    text = "the old miller keeps a grey cat"
    ids = transformers.AutoTokenizer.from_pretrained(folder)(text)["input_ids"]
    ours = tokenizer.load(folder)
    assert ids == [ours.cls_id, *ours.encode_lines([text])[0], ours.sep_id]
    assert torch.isfinite(model(torch.tensor([ids]))[0]).all()
    facts = results("smoke")
    counts = facts["parameters"]
    assert model.num_parameters() == counts[part]
    shared = (ours.vocab_size + 512 + 2 + 2) * 16  # tables and norm of the embeddings
    assert counts["joint"] == counts["discriminator"] + counts["generator"] - shared
    card = (folder / "README.md").read_text()
    for said in (
        "library_name: transformers\n",
        '"recipe"',
        "Intended use: fine-tuning on a task.",
        "Base model: none, random weights",
        "not known here: that of the files",
        f"{use}(",
    ):
        assert said in card
    data = vars(ModelCard(card).data)
    assert bool(data["eval_results"]) == (part != "encoder") and data.get("pipeline_tag") == tag
    chances = re.findall(r"^\| .* \| [\d.]+ \| ([\d.]+) \|$", card, re.M)
    chance = {"discriminator": [0.5, facts["replaced_rate"], facts["disc_majority"]]}
    chance["generator"] = [1 / ours.vocab_size]
    assert chances == [f"{100 * share:.1f}" for share in chance.get(part, [])]
    assert electra.load(folder).kind == part
    assert read_manifest(folder.parent)["weakness"] == facts["weakness"]
    assert facts["weakness"] in card and f"AUC {facts['disc_auc']:.2f}" in facts["weakness"]


def folder(name):
    return run_folder(name, load())


def results(name):
    return read_json(Path("build/models") / name / "results.json")


def bytes_below(run):
    return {name: data for name, data in files_of(run).items() if not name.endswith(".lock")}


def pretrain(text, *options, code=0):
    """Pre-train the smoke model of these settings by the command."""
    Path("params.yaml").write_text(text)
    assert main(["pretrain", "smoke", *options]) == code


def test_pretraining_starts_from_an_exported_one_with_a_schedule_of_its_own(trained):
    before = results("smoke")
    for file, key in (("config", "trained_positions"), ("tokenizer_config", "model_max_length")):
        path = Path(f"start/generator/{file}.json")
        write_json(path, read_json(path) | {key: 20})
    assert main(["pretrain", "more"]) == 0
    after = results("more")
    first = json.loads((folder("more") / "metrics.jsonl").read_text().splitlines()[0])
    assert first["step"] == 0
    for name in ("loss", "disc_auc", "mlm_loss"):
        assert first[name] == before[name], "the same weights on the same held-out rows"
    assert after["steps"] == round(BUDGET / (before["flops"] / before["steps"]))
    encoder = read_json(Path("build/models/more/encoder/config.json"))
    assert encoder["trained_positions"] == 20, "its rows have 16, but those before had more"
    assert after["flops_convention"] == "authors"
    assert after["flops"] == pytest.approx(BUDGET, rel=0.2)


PHASES = "phases: [{length: 12, steps: 6}, {length: 16, steps: 4, batch: 4}], batch: 8"


def test_run_of_two_lengths_says_so_wherever_it_is_read(project, monkeypatch):
    monkeypatch.chdir(project)
    text = SMOKE.replace("length: 16, batch: 8, steps: 20", PHASES, 1)
    Path("params.yaml").write_text(text.replace("lengths: [16]", "lengths: [12, 16]", 1))
    for stage in ("corpus", "tokens", "pretrain"):
        assert main([stage, "smoke"]) == 0
    facts = results("smoke")
    params = load()
    config = params.models["smoke"].electra()
    rows = ModelRows(params, "smoke", config)
    short = rows.others[12]
    long = rows.train_rows
    tokens = 6 * 8 * short.tokens / len(short) + 4 * 4 * long.tokens / len(long)
    expected = {
        "phases": [
            {"length": 12, "batch": 8, "steps": 6},
            {"length": 16, "batch": 4, "steps": 4},
        ],
        "epochs": pytest.approx(48 / len(short) + 16 / len(long), abs=1e-3),
        "tokens": round(tokens),
        "length": 16,
        "steps": 10,
        "padding": round(1 - long.tokens / len(long) / 16, 4),
        "flops": training_flops(config, rows.tokenizer.vocab_size),
        "flops_matmul_convention": training_flops(config, rows.tokenizer.vocab_size, "matmul"),
        "inference_flops": encoder_flops(config.encoder, 16, rows.tokenizer.vocab_size, "authors"),
    }
    assert facts | expected == facts
    encoder = Path("build/models/smoke/encoder")
    assert read_json(encoder / "config.json")["trained_positions"] == 16
    assert read_json(encoder / "tokenizer_config.json")["model_max_length"] == 16
    owner = rows.fingerprint(config)
    assert owner["phases"] == {"12": short.digest} and owner["train"] == long.digest


def test_every_file_that_a_run_starts_from_is_in_its_fingerprint(trained):
    params = load()
    config = params.models["more"].electra()
    start = ModelRows(params, "smoke", config).fingerprint(config)["init_from"]
    assert set(start) == {"encoder", "discriminator", "generator"}
    names = (
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.txt",
    )
    for part, hashes in start.items():
        assert hashes == {name: sha256_file(Path("start", part, name)) for name in names}


def test_weights_that_do_not_fit_are_one_sentence(trained, capsys, monkeypatch):
    def refuse(code=65):
        assert main(["pretrain", "more"]) == code
        return capsys.readouterr().err

    file = Path("start/discriminator/tokenizer.json")
    good = file.read_text()
    words = json.loads(good)
    pieces = words["model"]["vocab"]
    one, two = sorted(pieces, key=pieces.__getitem__)[-2:]
    pieces[one], pieces[two] = pieces[two], pieces[one]
    write_json(file, words)
    sentence = refuse()
    assert f"has a tokenizer with piece {pieces[two]} {two!r}" in sentence
    assert "pretrain.init_from" in sentence
    file.write_text(good)

    wider = PARAMS.replace("generator: {width: 0.5}", "generator: {width: 1.0}")
    Path("params.yaml").write_text(wider)
    expected = "start/generator/config.json: num_attention_heads is 1; the model's parameters say 2"
    assert expected in refuse()
    Path("params.yaml").write_text(PARAMS)

    Path("start/discriminator").rename("away")
    assert "start/discriminator: there is no such folder" in refuse()
    Path("away").rename("start/discriminator")

    def change_afterwards(*words, take=ModelRows.fingerprint):
        taken = take(*words)
        harm(weights, "flipped")
        return taken

    weights = Path("start/generator/model.safetensors")
    unchanged = weights.read_bytes()
    monkeypatch.setattr(ModelRows, "fingerprint", change_afterwards)
    assert "when the run began. Start the run again" in refuse(CorruptFile.exit_code)
    weights.write_bytes(unchanged)


def test_settings_have_runs_of_their_own_and_find_them_again(trained, capsys):
    pretrain(PARAMS)
    first = folder("smoke")
    before = bytes_below(first)
    pretrain(LONGER)
    assert folder("smoke") != first and bytes_below(first) == before
    capsys.readouterr()
    pretrain(PARAMS)
    assert bytes_below(first) == before and "resuming at step 20 of 20" in capsys.readouterr().err
    pretrain(PARAMS, "--restart")
    assert f"{first}: starts over; the old run is {first}.old" in capsys.readouterr().err
    assert bytes_below(first.with_name(f"{first.name}.old")) == before == bytes_below(first)


def test_a_run_is_continued_under_new_settings_which_its_record_tells(trained, capsys, monkeypatch):
    monkeypatch.setenv("ELECTRA_CONTINUE", "")  # the command line sets it
    for run in Path("runs/pretrain").iterdir():
        if read_entry(run) == "smoke":
            shutil.rmtree(run)
    pretrain(PARAMS)
    before = results("smoke")
    assert main(["pretrain", "more"]) == 0
    first = folder("smoke")
    more = folder("more")
    pretrain(LONGER, "--continue", more.name, code=64)
    assert f"smoke has no run {more.name!r}; its runs are: {first.name}" in capsys.readouterr().err
    pretrain(LONGER, "--continue")
    (change,) = results("smoke")["continued"]
    assert change["step"] == 20 and change["run"] == first.name
    assert change["changed"] == {"pretrain.steps": [20, 22]}
    assert results("smoke")["step"] == 22
    assert results("smoke")["flops"] == pytest.approx(1.1 * before["flops"])
    assert results("smoke")["tokens"] == pytest.approx(1.1 * before["tokens"], rel=1e-3)
    pretrain(LONGER.replace("22", "24"), "--continue", code=64)
    assert "expected a run of smoke" in capsys.readouterr().err

    monkeypatch.setenv("ELECTRA_CONTINUE", "nobody")
    pretrain(PARAMS, code=64)
    monkeypatch.setenv("ELECTRA_CONTINUE", more.name)  # of another model: no concern of this one
    pretrain(PARAMS)
    assert "continued" not in results("smoke") and results("smoke")["step"] == 20
    for wish in (first.name, "smoke", ""):  # as with DVC; the run that was continued goes on
        monkeypatch.setenv("ELECTRA_CONTINUE", wish)
        pretrain(LONGER)
        assert results("smoke")["continued"] == [change]
    Path("params.yaml").write_text(PARAMS)


def test_stages_tell_mlflow_which_data_they_made_or_read(trained):
    events = []
    tracker = Tracker(SimpleNamespace(send=events.append))
    for stage in (corpus, tokens, pretraining):
        stage.run("smoke", load(), tracker)
    made = [
        sha256_file(Path("build", kind, "smoke/MANIFEST.json")) for kind in ("corpus", "tokens")
    ]
    keys = ("name", "digest", "context")
    told = [tuple(map(event.get, keys)) for event in events if event["what"] == "dataset"]
    assert told == [
        ("corpus/smoke", made[0], "corpus"),
        ("tokens/smoke", made[1], "tokens"),
        ("tokens/smoke", results("smoke")["rows_sha256"], "pretrain"),
    ]
