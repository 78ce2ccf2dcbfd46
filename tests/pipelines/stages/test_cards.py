"""Model cards are true, a hub takes them, and transformers is named only where it loads the whole
model.
"""

import logging
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import transformers
from huggingface_hub import ModelCard

from electra.files import read_json, read_jsonl, write_json
from electra.finetuning.folder import load_model
from electra.nn.huggingface import POOLED, open_folder
from electra.storage.manifest import write_manifest
from pipelines.cli import main
from pipelines.config.params import PublishedConfig, load
from pipelines.sources import CorpusConfig, HubCorpus, HubDataset, HubTasks, LocalTasks
from pipelines.stages import cards
from pipelines.text.cleaning import CleaningConfig
from tests.support.small_project import change, write_small

TASKS = Path("build/glue/small")
COLA = TASKS / "cola/pretrained-seed1/README.md"
MNLI = TASKS / "mnli/pretrained-seed1/README.md"
TEXT = HubCorpus(kind="hub", dataset="org/text", revision="1")
GERMAN = {"c": CorpusConfig(sources=(TEXT,), cleaning=CleaningConfig(language="de"))}


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A fine-tuned CoLA and MNLI of the sample world, by the command."""
    folder = tmp_path_factory.mktemp("tuned")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_small(folder)
        write_manifest(Path("build/models/small"), name="small", weakness="it is weak")
        change(("[cola, mnli, mrpc, stsb]", "[cola, mnli]"))
        assert main(["glue", "small"]) == 0
    return folder


@pytest.fixture
def params(tuned, tmp_path, monkeypatch):
    """A copy of it, in which the test runs; the settings."""
    shutil.copytree(tuned, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return load()


def test_a_card_is_of_its_own_rows_and_scores(params):
    found = read_json(TASKS / "results.json")["tasks"]
    text = COLA.read_text()
    assert "- Data: 20 training rows and 20 dev rows of CoLA in the sample world." in text
    assert "**The sample world is made up**" in text and "8551" not in text
    assert "dvc repro pipelines/dvc.yaml:glue@small" in text and "it is weak" in text
    data: Any = ModelCard(text).data
    assert (data.license, data.model_name) == ("apache-2.0", "small-cola-pretrained-seed1")
    assert data.language == ["en"] and data.metrics == ["matthews_correlation", "accuracy"]
    first = read_jsonl(Path("build/tasks/made_up/cola/dev.jsonl"))[0]
    assert f'model.predict(["{first["a"]}"])' in text, "a text of its own world"
    scores = found["cola"]["pretrained"]["all"]
    (first, second) = data.eval_results
    assert first.metric_value == round(scores["matthews"][0] / 100, 6)
    assert second.metric_value == round(scores["accuracy"][0] / 100, 6)
    assert cards.compare_runs(found["cola"], "pretrained", 2)[0][2] == scores["matthews"][1]
    assert (first.metric_type, second.metric_type) == ("matthews_correlation", "accuracy")
    assert first.task_type == "text-classification"
    assert first.dataset_name == "CoLA in the sample world"
    head, _, first, second = re.findall(r"^\| (.*) \|$", MNLI.read_text(), re.M)
    ours = found["mnli"]["pretrained"]
    cells = dict(zip(head.split(" | ")[1:], first.split(" | ")[1:], strict=True))
    assert cells["this model"] == f"{ours['scores'][0]:.1f}"
    assert cells["mean of 2 fine-tunings, 95 % interval"].startswith(f"{ours['mean']:.1f} (")
    assert cells["from scratch"] == f"{found['mnli']['scratch']['mean']:.1f}"
    assert cells["chance"] == "33.3"
    assert second.startswith("accuracy, mismatched | ") and second.endswith(" | – | – | – | –")
    facts = {"metric": "f1", "pretrained": {"seeds": [1], "all": {"f1": [60.0], "exact": [50.0]}}}
    compared = cards.compare_runs(
        {**facts, "baselines": {"never_answering": 33.0}}, "pretrained", 1
    )
    assert [cells for *_, cells in compared] == [{"never answering": 33.0}] * 2
    load_model(open_folder(COLA.parent))  # the folder is whole with its new card
    written = COLA.read_bytes()
    cards.write("glue", "small", params)
    assert COLA.read_bytes() == written and str(Path.cwd()).encode() not in written


def test_a_card_names_the_failure_of_its_own_seed(params):
    results = read_json(TASKS / "results.json")
    results["tasks"]["cola"]["pretrained"]["failed"] = ["seed 1: one", "seed 2: two"]
    write_json(TASKS / "results.json", results)
    text, _ = write_card(params)
    assert "; failed: seed 1: one" in text and "two" not in text


def test_a_copy_for_a_hub_names_the_run(params, capsys):
    minutes = read_json(Path("runs/timings.json"))["glue-small"]["seconds"] / 60
    assert main(["card", str(COLA.parent.absolute())]) == 0
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    (run,) = (line for line in lines if line.startswith("- Run: "))
    assert re.fullmatch(rf"- Run: (commit \w+, )?[\d-]+ [\d:]+, {minutes:.1f} minutes on .*\.", run)
    lines.remove(run)
    assert lines == COLA.read_text().splitlines()
    assert vars(ModelCard(shown).data)["model_name"] == "small-cola-pretrained-seed1"
    assert main(["card", str(COLA.parent), "--output", "card.md"]) == 0
    assert Path("card.md").read_text() == shown and not capsys.readouterr().out
    Path("runs/timings.json").unlink()
    assert cards.with_run(COLA) == COLA.read_text()


def test_a_folder_without_a_model_has_no_card(here, capsys):
    Path("README.md").write_text("a project's")
    for folder in (".", "absent"):
        assert main(["card", folder]) == 65
        assert "holds no model with a card" in capsys.readouterr().err
    assert cards.with_run(Path("README.md")) == "a project's", "of a folder elsewhere"


@pytest.mark.parametrize("spoilt", [False, True])
def test_transformers_is_named_where_it_loads_all_of_the_model(params, spoilt, monkeypatch, capsys):
    logging.getLogger("transformers").setLevel(logging.ERROR)
    if spoilt:
        (COLA.parent / POOLED).touch()
        cards.write("glue", "small", params)
    kind = transformers.ElectraForSequenceClassification
    _, report = kind.from_pretrained(COLA.parent, output_loading_info=True)
    assert not report["missing_keys"]
    text = COLA.read_text()
    front = ModelCard(text).data.to_dict()
    assert front.get("library_name") == (None if spoilt else "transformers")
    assert front["pipeline_tag"] == "text-classification" and "@inproceedings{clark2020" in text
    code = re.findall("```py\n(.*?)```", text, re.DOTALL)
    assert text.count("`pip install") == 1 + len(code), "each snippet says how to get its library"
    assert len(code) == (not spoilt)
    for snippet in code:
        monkeypatch.chdir(COLA.parent)
        exec(snippet, {})
        assert "logits" in capsys.readouterr().out


def write_card(params, **changes):
    """Return CoLA's card under other settings, and what a hub reads of it."""
    cards.write("glue", "small", replace(params, **changes))
    text = COLA.read_text()
    data: Any = ModelCard(text).data
    return text, data


HUB = HubTasks(kind="hub", glue=HubDataset(dataset="org/glue", revision="1"))
FILES = LocalTasks(kind="local", glue="files")


@pytest.mark.parametrize("tasks, said, hub", [
    (HUB, "that of org/text, org/glue", "org/glue"),
    (FILES, "that of org/text", "made_up"),
])  # fmt: skip
def test_real_data_has_its_own_licence_and_a_subset_is_called_so(params, tasks, said, hub):
    text, data = write_card(params, tasks={"made_up": tasks}, corpora=GERMAN)
    assert data.language == ["de"] and data.license is None
    assert f"- Licence of the data: {said}.\n" in text and "sample world" not in text
    assert "- Intended use: the task that it was scored on;" in text
    assert data.eval_results[0].dataset_type == hub
    assert "- Data: 20 training rows of the official 8,551 and 20 dev rows of CoLA.\n" in text


def test_a_mixture_with_the_sample_world_is_said_to_be_made_up_without_its_licence(params):
    text, data = write_card(params, corpora=GERMAN)
    assert data.license is None and data.language == ["de"] and data.datasets == ["org/text"]
    assert "it knows no real text" in text


def test_published_weights_are_named_and_get_no_licence_of_the_sample_world(params):
    finetunings = {"small": replace(params.finetunings["small"], model="theirs")}
    published = {"theirs": PublishedConfig(folder="models--org--weights")}
    _, data = write_card(params, finetunings=finetunings, published=published)
    assert (data.license, data.base_model) == (None, "org/weights")
