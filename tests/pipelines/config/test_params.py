"""params.yaml: every mistake is one sentence that names the key."""

from dataclasses import fields
from pathlib import Path

import pytest

from electra.config import Settings
from electra.errors import BadConfig
from pipelines.config.params import UNREAD
from pipelines.config.settings_file import read
from tests.support.project import SMOKE

PAPER = "  paper: {}\n"
FILES = 'kind: local, files: ["nowhere/*.jsonl"]'
MOOD = "kind: custom, tasks: {a-b: {train: a, dev: b, labels: [x, y]}}"


def subclasses(kind):
    """Return the classes that inherit from one, at any depth."""
    direct = kind.__subclasses__()
    return {*direct}.union(*map(subclasses, direct))


def test_all_settings_are_frozen_and_written_by_name():
    kinds = subclasses(Settings)
    assert len(kinds) > 30
    for kind in kinds:
        assert vars(kind)["__dataclass_params__"].frozen, kind
        assert all(field.kw_only for field in fields(kind)), kind


def test_numbers_are_read_as_yaml_1_2_like_dvc_does(load_text):
    params = load_text(("learning_rate: 1.0e-3", "learning_rate: 1e-4, compile: off"))
    pretrain = params.models["smoke"].pretrain
    assert (pretrain.learning_rate, pretrain.compile) == (1e-4, "off")


@pytest.mark.parametrize(
    "path, sentence",
    [
        ("/dev/zero", "/dev/zero: isn't a regular file"),  # it never ends
        ("x" * 300, r"cannot be read \(File name too long\)"),
    ],
)
def test_what_cannot_be_read_is_refused(path, sentence):
    with pytest.raises(BadConfig, match=sentence):
        read(Path(path))


@pytest.mark.parametrize(
    "old, new, key, advice",
    [
        ("warmup: 2", "warmpu: 2", "models.smoke.pretrain.warmpu", "did you mean warmup?"),
        ("tracking: none", "tracking: none\ntracking: mlflow", "params.yaml", "duplicate key"),
        ("heads: 2", "heads: 3", "encoders.smoke.heads", "should divide hidden"),
        ("warmup: 2", "warmup: 200", "models.smoke.pretrain.warmup", "at most steps"),
        ("{model: smoke", "{model: smoko", "finetunings.smoke.model", "did you mean smoke?"),
        ("tasks: smoke, r", "tasks: smoko, r", "finetunings.smoke.tasks", "did you mean smoke?"),
        ("recipe: smoke, a", "recipe: smoko, a", "finetunings.smoke.recipe", "did you mean smoke?"),
        (
            "[pretrained, scratch]",
            "[scratch, scratch]",
            "finetunings.smoke.arms",
            "each entry once",
        ),
        ("corpus: smoke", "corpus: smoko", "tokens.smoke.corpus", "did you mean smoke?"),
        ("tokens: smoke", "tokens: smoko", "models.smoke.tokens", "did you mean smoke?"),
        ("models: [smoke]", "models: [smoko]", "run.models", "did you mean smoke?"),
        ("smoke: {model", "other: {model", "run.models", "no finetunings entry 'smoke'"),
        ("published: {}", "published: {smoke: {folder: a}}", "published.smoke", "choose another"),
        (PAPER, "", "recipes.paper", "is missing"),
        (
            "tokenizer: smoke, lengths: [16], v",
            "tokenizer: smok, lengths: [16], v",
            "tokens.smoke.tokenizer",
            "did you mean smoke",
        ),
        (
            "tokenizer: smoke, lengths: [16], v",
            "tokenizer: {kind: train, vocab_size: 9}, lengths: [16], v",
            "tokens.smoke.tokenizer",
            "there are smoke",
        ),
        (
            "lengths: [16], valid",
            "lengths: [32], valid",
            "models.smoke.pretrain.length",
            "is 16, should be in tokens.smoke.lengths (32)",
        ),
        ("hidden: 16, heads: 2", "hidden: 298, heads: 2", "generator.width", "heads: is 2"),
        (
            "embedding: 16}",
            "embedding: 16, positions: 100}",
            "recipes.smoke",
            "rows of 128 tokens for cola; the encoder takes at most 100",
        ),
        (
            "embedding: 16}",
            "embedding: 16, positions: 300}",
            "recipes.smoke",
            "rows of 512 tokens for squad; the encoder takes at most 300",
        ),
        ("embedding: 16}", "embedding: 16, dropout: 1}", "encoders.smoke.dropout", "less than 1"),
        ("models: [smoke]", "models: [smoke, smoke]", "run.models", "each entry once"),
        ("  absent: {sources", "  ../up: {sources", "corpora.../up: ", "letters, digits"),
        ("tracking: none", "tracking: !!python/name:os.system", "params.yaml", "constructor"),
        ("models: [smoke]", "models: [smoke", "params.yaml:", "is not YAML"),
        (
            "documents: blank_lines}]}",
            "documents: blank_lines}], cleaning: {decontaminate: {tasks: smoko}}}",
            "corpora.smoke.cleaning.decontaminate.tasks",
            "did you mean smoke?",
        ),
        (FILES, "kind: hub, dataset: a, revision: ''", "sources[0].revision", "is empty"),
        (FILES, "kind: sample, weight: 1.0}, {kind: sample", "corpora.absent.sources", "weight"),
        ("kind: sample, seed: 1", "kind: local", "tasks.smoke.glue", "and so is squad"),
        ("kind: sample, seed: 1", "kind: hub", "tasks.smoke.glue", "and so are squad1"),
        ("kind: sample, seed: 1", "kind: custom, tasks: {}", "tasks.smoke.tasks", "at least one"),
        ("kind: sample, seed: 1", MOOD, "tasks.smoke.tasks.a-b", "letters, digits and _"),
        (SMOKE, "", "params.yaml", "should hold sections of keys and values"),
        # DVC knows no defaults: a file that loads must not break every dvc command
        ("published: {}\n", "", "published", "is missing"),
        (", ablations: []", "", "run.ablations", "is missing"),
        ("  base: {model: base", "  summary: {model: base", "finetunings.summary", "another use"),
        (
            "ablations: {}\n",
            "ablations:\n  base: {title: t, base: {model: smoke, tokens: smoke, data: smoke, "
            "recipe: smoke}, arms: {one: {}, two: {pretrain.warmup: 3}}}\n",
            "ablations.base",
            "results/base has another use",
        ),
    ],
)
def test_mistake_is_one_sentence_with_its_key(old, new, key, advice, refuse):
    sentence = refuse((old, new))
    assert key in sentence and advice in sentence, sentence


def test_the_length_of_squad_counts_only_where_it_is_run(load_text):
    short = ("embedding: 16}", "embedding: 16, positions: 300}")
    assert load_text(short, ("models: [smoke]", "models: []")).run.models == ()


def test_ablation_that_a_run_does_not_read_does_not_refuse_it(load_text, refuse, monkeypatch):
    """A first trial with fewer steps than an arm's warm-up needs."""
    base = "{model: smoke, tokens: smoke, data: smoke, recipe: smoke}"
    arms = "{one: {}, two: {pretrain.warmup: 25}}"
    change = ("ablations: {}\n", f"ablations:\n  a: {{title: t, base: {base}, arms: {arms}}}\n")
    assert "warmup" in refuse(change)
    monkeypatch.setenv(UNREAD, "1")
    assert load_text(change).models["smoke"].pretrain.steps == 20
