"""Named groups: what is said once stands wherever it is named, and a mistake is told where it was
written.
"""

from pathlib import Path

import pytest

from electra.errors import BadConfig
from pipelines.config.params import load
from tests.conftest import SMOKE


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "params.yaml"
    path.write_text(text, encoding="utf-8")
    return path


ABLATION = """ablations:
  a: {title: t, base: {model: smoke, tokens: smoke, data: smoke, recipe: smoke}, protocol: {},
      arms: {one: {}, two: {objective.name: mlm}}, labels: {two: BERT}}
"""


def with_ablation(*changes: tuple[str, str]) -> str:
    text = SMOKE.replace("ablations: {}\n", "") + ABLATION
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def test_arms_are_the_model_with_their_settings(tmp_path: Path) -> None:
    params = load(written(tmp_path, with_ablation()))
    assert params.arm("a", "one") == params.models["smoke"]
    assert params.arm("a", "two").objective.name == "mlm"
    assert params.arm("a", "two").pretrain == params.models["smoke"].pretrain
    assert (params.ablations["a"].label("one"), params.ablations["a"].label("two")) == (
        "one",
        "BERT",
    )


ARMS = "arms: {one: {}, two: {objective.name: mlm}}, labels: {two: BERT}"
MISTAKES = [
    ("objective.name: mlm", "objective.nam: mlm", "ablations.a.arms.two.objective.nam"),
    ("objective.name: mlm", "objektive.name: mlm", "ablations.a.arms.two.objektive"),
    ("objective.name: mlm", "encoder.heads: 5", "ablations.a.arms.two.encoder.heads"),
    ("two: {objective.name: mlm}", "two: 3", "ablations.a.arms.two: is 3"),
    (ARMS, "arms: {}", "at least one arm"),
    ("labels: {two", "labels: {too", "labels.too"),
    ("tokens: smoke, data", "tokens: absent, data", "ablations.a.base.tokens"),
    ("base: {model: smoke, ", "base: {", "ablations.a.base.model: is missing"),
    ("base: {model: smoke, ", "model: smoke, base: {", "ablations.a.model: no such setting"),
    (
        "protocol: {}",
        "protocol: {sedes: 2}",
        "ablations.a.protocol.sedes: no such setting; did you mean seeds?",
    ),
    (
        "protocol: {}",
        "protocol: {common: {pretrain.clip: 0}}",
        "ablations.a.arms.one.pretrain.clip: is 0,",
    ),
    (
        "protocol: {}",
        "protocol: {finetune: {defaults: {clip: 0}}}",
        "ablations.a.finetune.defaults.clip: is 0,",
    ),
    (
        "protocol: {}",
        "protocol: {tasks: [cola, cola]}",
        "tasks: is ['cola', 'cola'], should name each entry once",
    ),
    ("protocol: {}", "protocol: {points: [0.5, 1.0]}", "ablations.a.protocol.points[1]: is 1.0"),
    (
        "protocol: {}",
        "protocol: {common: {encoder.positions: 100}, tasks: [cola]}",
        "a.finetune: has rows of 128",
    ),
    (
        "protocol: {}",
        "protocol: {finetune: {squad: {stride: 500}}, tasks: [squad2]}",
        "a.finetune.squad.stride",
    ),
    ("protocols: {smoke: {}}", "protocols: {smoke: {seeds: 0}}", "protocols.smoke.seeds: is 0"),
    (
        "protocols: {smoke: {}}",
        "protocols: {other: {}}",
        "ablations.a.base.model: no protocols entry 'smoke'; there are other",
    ),
    (
        "tokenizer: smoke, lengths: [16], v",
        "tokenizer: smok, lengths: [16], v",
        "did you mean smoke",
    ),
]


@pytest.mark.parametrize(("old", "new", "expected"), MISTAKES)
def test_a_mistake_is_told_where_it_was_written(
    old: str, new: str, expected: str, tmp_path: Path
) -> None:
    with pytest.raises(BadConfig) as caught:
        load(written(tmp_path, with_ablation((old, new))))
    assert expected in str(caught.value)


def test_what_is_said_once_stands_wherever_it_is_named(tmp_path: Path) -> None:
    shared = "protocols: {smoke: {tasks: [cola], seeds: 3, common: {pretrain.eval_batches: 1}}}"
    text = with_ablation(
        ("protocols: {smoke: {}}", shared),
        ("protocol: {}", "protocol: {seeds: 2, common: {encoder.layers: 2}}"),
        (
            "two: {objective.name: mlm}}, labels: {two: BERT}",
            "two: {label: BERT, objective.name: mlm}}",
        ),
    )
    params = load(written(tmp_path, text))
    ablation = params.ablations["a"]
    assert (ablation.model, ablation.tokens, ablation.tasks, ablation.seeds) == (
        "smoke",
        "smoke",
        ("cola",),
        2,
    )
    assert ablation.settings["two"] == {
        "pretrain.eval_batches": 1,
        "encoder.layers": 2,
        "objective.name": "mlm",
    }
    assert (ablation.label("one"), ablation.label("two")) == ("one", "BERT")
    assert params.tokens["smoke"].tokenizer == params.tokenizers["smoke"]
    assert params.models["smoke"].encoder == params.encoders["smoke"]


def test_the_sections_of_a_list_may_have_names(tmp_path: Path) -> None:
    """So that `dvc exp run -S` reaches them."""
    listed = 'sources: [{kind: local, files: ["text/*.txt"], documents: blank_lines}]'
    named = 'sources: {mine: {kind: local, files: ["text/*.txt"], documents: blank_lines}}'
    assert listed in SMOKE
    params = load(written(tmp_path, SMOKE.replace(listed, named)))
    assert params.corpora == load(written(tmp_path, SMOKE)).corpora
    with pytest.raises(BadConfig, match=r"corpora\.smoke\.sources\[0\]\.kind: is 'lokal'"):
        load(written(tmp_path, SMOKE.replace(listed, named.replace("local", "lokal"))))
    with pytest.raises(BadConfig, match=r"tokens\.smoke\.lengths: is .*should be a valid array"):
        load(
            written(tmp_path, SMOKE.replace("lengths: [16], valid", "lengths: {short: 16}, valid"))
        )
