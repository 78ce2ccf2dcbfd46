"""params.yaml: every mistake is one sentence that names the key."""

from pathlib import Path

import pytest

from electra.errors import BadConfig
from pipelines.config.params import UNREAD, load
from tests.conftest import ROOT, SMOKE

SHIPPED = ROOT / "params.yaml"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "params.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_numbers_are_read_as_yaml_1_2_like_dvc_does(tmp_path: Path) -> None:
    text = SMOKE.replace(
        "learning_rate: 1.0e-3", "learning_rate: 1e-4, compile: off, steps: {flops: 8.9e16}"
    )
    text = text.replace("steps: 20,", "").replace("warmup: 2", "warmup: 0")
    pretrain = load(written(tmp_path, text)).models["smoke"].pretrain
    assert pretrain.learning_rate == 1e-4
    assert pretrain.compile == "off"


CASES = {
    "seeds that take minutes to check": (
        "  paper: {}\n",
        f"  paper: {{tasks: {{cola: {{seeds: {list(range(1_001))}}}}}}}\n",
        ["recipes.paper.tasks.cola.seeds", "has 1,001 entries"],
    ),
    "unknown key": (
        "warmup: 2",
        "warmpu: 2",
        ["models.smoke.pretrain.warmpu", "did you mean warmup?"],
    ),
    "duplicate key": ("tracking: none", "tracking: none\ntracking: mlflow", ["duplicate key"]),
    "heads that do not divide": (
        "heads: 2",
        "heads: 3",
        ["encoders.smoke.heads", "should divide hidden"],
    ),
    "warm-up beyond the end": (
        "warmup: 2",
        "warmup: 200",
        ["models.smoke.pretrain.warmup", "at most steps"],
    ),
    "unknown model": (
        "{model: smoke",
        "{model: smoko",
        ["finetunings.smoke.model", "did you mean smoke?"],
    ),
    "no recipe to change": ("  paper: {}\n", "", ["recipes.paper: is missing"]),
    "a tokenizer written out": (
        "tokenizer: smoke, lengths: [16], v",
        "tokenizer: {kind: train, vocab_size: 9}, lengths: [16], v",
        ["tokens.smoke.tokenizer", "there are smoke"],
    ),
    "length without rows": (
        "lengths: [16], valid",
        "lengths: [32], valid",
        ["models.smoke.pretrain.length", "is 16, should be in tokens.smoke.lengths (32)"],
    ),
    "generator whose heads do not fit": (
        "hidden: 16, heads: 2",
        "hidden: 298, heads: 2",
        ["generator.width", "heads: is 2"],
    ),
    "rows beyond the last position": (
        "embedding: 16}",
        "embedding: 16, positions: 100}",
        ["recipes.smoke", "128", "at most 100"],
    ),
    "windows that skip text": (
        "  paper: {}\n",
        "  paper: {squad: {stride: 500}}\n",
        ["squad.stride", "500"],
    ),
    "twice the same model": (
        "models: [smoke]",
        "models: [smoke, smoke]",
        ["run.models", "each entry once"],
    ),
    "name that is a path": (
        "  absent: {sources",
        "  ../up: {sources",
        ["corpora", "letters, digits"],
    ),
    "tag that runs code": ("tracking: none", "tracking: !!python/name:os.system", ["constructor"]),
    "broken brackets": ("models: [smoke]", "models: [smoke", ["params.yaml:"]),
    "unknown task": (
        "  paper: {}\n",
        "  paper: {tasks: {colla: {}}}\n",
        ["recipes.paper", "did you mean cola?"],
    ),
    "benchmark of no name": (
        "documents: blank_lines}]}",
        "documents: blank_lines}], cleaning: {decontaminate: {tasks: smoko}}}",
        ["corpora.smoke.cleaning.decontaminate.tasks", "did you mean smoke?"],
    ),
    "nothing": (SMOKE, "", ["should hold sections of keys and values"]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_one_sentence(case: str, tmp_path: Path) -> None:
    old, new, expected = CASES[case]
    assert old in SMOKE
    with pytest.raises(BadConfig) as caught:
        load(written(tmp_path, SMOKE.replace(old, new, 1)))
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert "params.yaml" in sentence
    for words in expected:
        assert words in sentence, sentence
    assert caught.value.exit_code == 64


def test_what_dvc_reads_must_be_written(tmp_path: Path) -> None:
    """DVC knows no defaults: a file that loads must not break every dvc command."""
    for section in (
        "published: {}\n",
        "ablations: {}\n",
        "run: {models: [smoke], ablations: []}\n",
        ", ablations: []",
    ):
        name = section.strip(", \n").split(":")[0]
        with pytest.raises(BadConfig, match=rf"{name}: is missing"):
            load(written(tmp_path, SMOKE.replace(section, "", 1)))


def test_an_ablation_that_a_run_does_not_read_does_not_refuse_it(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first trial with fewer steps than an arm's warm-up needs."""
    base = "{model: smoke, tokens: smoke, data: smoke, recipe: smoke}"
    ablation = f"ablations:\n  a: {{title: t, base: {base}, arms: {{one: {{}}, two: {{pretrain.warmup: 25}}}}}}\n"
    (here / "params.yaml").write_text(SMOKE.replace("ablations: {}\n", ablation))
    with pytest.raises(BadConfig, match="warmup"):
        load()
    monkeypatch.setenv(UNREAD, "1")
    assert load().models["smoke"].pretrain.steps == 20
