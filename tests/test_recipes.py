"""The recipes that pages open with, from files to a loaded model: their commands and Python, at a
tiny size.
"""

import json
import random
import re
import shlex
import shutil

import pytest

from electra.config import merge
from electra.files import read_json, write_jsonl
from pipelines.config.settings_file import read
from tests.support.models import write_base
from tests.support.pages import blocks
from tests.support.project import ROOT, copy_project, read_text, run

SMALL = {"layers": 1, "hidden": 16, "heads": 2, "ffn": 32, "embedding": 16}
FAST = {"batch": 8, "steps": 6, "warmup": 1, "threads": 1, "precision": "fp32", "eval_batches": 1}
WORDS = {"good": ["fine", "bright", "warm", "kind"], "bad": ["grey", "cold", "damp", "rude"]}


def first(page, language):
    """The first block of a language on a page."""
    return re.findall(rf"^```{language}\n(.*?)^```", read_text(f"docs/{page}"), re.M | re.S)[0]


def sentence(draw, label):
    return f"the day was {draw.choice(WORDS[label])} and the host {draw.choice(WORDS[label])}."


def shape(value):
    """The keys of settings, without their values."""
    return {key: shape(inner) for key, inner in value.items()} if isinstance(value, dict) else None


def start_project(folder):
    """Copy the project, with a reader's files of text and of labelled rows."""
    copy_project(folder)
    shutil.copy(ROOT / "params.yaml", folder)
    draw = random.Random(1)
    (folder / "data/text").mkdir(parents=True)
    for name in ("train", "dev", "new"):
        rows = [{"text": sentence(draw, label), "mood": label} for label in [*WORDS] * 10]
        write_jsonl(folder / f"data/{name}.jsonl", rows)
    texts = [[sentence(draw, draw.choice([*WORDS])) for _ in range(20)] for _ in range(300)]
    write_jsonl(folder / "data/text/a.jsonl", [{"text": " ".join(text)} for text in texts])
    return folder


def follow(folder, page, smaller):
    """Run the first commands of a page; after `new` has written settings, check them and make them
    smaller.
    """
    for command in first(page, "sh").splitlines():
        tool, *words = shlex.split(command, comments=True)
        run(folder, "-m", {"electra": "pipelines", "dvc": "dvc"}[tool], *words)
        if words[0] == "new":
            written = read(folder / "params.yaml")
            for section, entries in blocks(ROOT / "docs" / page)[0].items():
                for name, entry in entries.items():
                    assert shape(written[section][name]) == shape(entry)
            values = merge(merge(written, smaller), {"tracking": "none"})
            (folder / "params.yaml").write_text(json.dumps(values))


@pytest.mark.slow
def test_own_text_to_a_model_that_transformers_loads(tmp_path):
    folder = start_project(tmp_path / "project")
    smaller = {"encoders": {"small": SMALL}, "models": {"mine": {"pretrain": FAST}}}
    follow(folder, "own-text.md", smaller)
    run(folder, "-c", first("own-text.md", "python"))


@pytest.mark.slow
def test_published_weights_to_a_model_that_goes_on(tmp_path):
    folder = start_project(tmp_path / "project")
    publish_small(folder / "published/small")
    smaller = {
        "models": {"domain": {"pretrain": FAST}},
        "recipes": {"domain": {"defaults": {"epochs": 1, "seeds": [1]}}},
    }
    follow(folder, "continue.md", smaller)
    for name in ("domain", "domain-before"):
        results = read_json(folder / f"build/glue/{name}/results.json")
        assert 0 <= results["tasks"]["domain"]["pretrained"]["mean"] <= 100


def publish_small(folder):
    """Write both networks with the shapes of google/electra-small, as transformers saves them."""
    from transformers import (
        BertTokenizerFast,
        ElectraConfig,
        ElectraForMaskedLM,
        ElectraForPreTraining,
    )

    letters = [*"abcdefghijklmnopqrstuvwxyz."]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters]
    vocabulary += [f"##{letter}" for letter in letters]
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    config = ElectraConfig(
        vocab_size=len(vocabulary),
        embedding_size=128,
        hidden_size=256,
        num_hidden_layers=12,
        num_attention_heads=4,
        intermediate_size=1024,
    )
    discriminator = ElectraForPreTraining(config)
    generator = ElectraForMaskedLM(config)
    shared = discriminator.electra.embeddings.state_dict()
    generator.electra.embeddings.load_state_dict(shared)
    for part, network in (("discriminator", discriminator), ("generator", generator)):
        network.save_pretrained(folder / part)
        tokenizer.save_pretrained(folder / part)


@pytest.mark.slow
def test_own_task_to_predictions_and_a_model_that_answers(tmp_path):
    folder = tmp_path / "project"
    words = ["the", "day", "was", "and", "host", ".", *WORDS["good"], *WORDS["bad"]]
    write_base(tmp_path, words, 512, "encoder")
    smaller = {
        "published": {"own": {"folder": "../encoder"}},
        "finetunings": {"mine": {"model": "own"}},
    }
    start_project(folder)
    follow(folder, "own-task.md", smaller)
    run(folder, "-c", first("own-task.md", "python"))
    answers = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
    assert len(answers) == 20 and {answer["prediction"] for answer in answers} <= {"good", "bad"}
