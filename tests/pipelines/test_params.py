"""params.yaml: every mistake is one sentence that names the key, and the shipped file holds what DVC will ask for."""

import dataclasses
import json
import typing
from collections.abc import Iterator
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
import torch
from ruamel.yaml import YAML

from electra.config import build, plain
from electra.errors import BadConfig
from electra.finetuning.tasks import FinetuneConfig, ScratchConfig, SquadConfig
from electra.nn.config import ModernConfig
from electra.pretraining.config import Flops
from electra.pretraining.corruption import SpecialIds
from electra.pretraining.model import Pretraining
from pipelines.ablation_config import AblationConfig
from pipelines.params import Params, load, settings_digest
from pipelines.sources import OwnTask
from tests.conftest import ROOT, SMOKE

SHIPPED = ROOT / "params.yaml"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "params.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_shipped_file_loads_and_every_arm_of_every_ablation_builds() -> None:
    params = load(SHIPPED)
    assert set(params.run.models) <= set(params.models)
    for name, ablation in params.ablations.items():
        for arm in ablation.arms:
            assert dataclasses.is_dataclass(params.arm(name, arm))
            assert ablation.label(arm)


def test_the_published_models_carry_all_of_their_published_settings() -> None:
    """Paper, Table 6, and the released small (small_plus): never only the size."""
    published = {  # layers, hidden, heads, ffn, embedding | generator | mask rate | length, batch, steps, rate, warm-up
        "small": (12, 256, 4, 1024, 128, 0.25, 0.15, 128, 128, 1_000_000, 5e-4, 10_000),
        "small_plus": (12, 256, 4, 1024, 128, 1.0, 0.15, 512, 128, 4_000_000, 5e-4, 10_000),
        "base": (12, 768, 12, 3072, 768, 1 / 3, 0.15, 512, 256, 766_000, 2e-4, 10_000),
        "large": (24, 1024, 16, 4096, 1024, 0.25, 0.25, 512, 2048, 400_000, 2e-4, 10_000),
    }
    models = load(ROOT / "params.yaml").models
    for name, values in published.items():
        model = models[name]
        encoder, generator, objective, pretrain = model.encoder, model.generator, model.objective, model.pretrain
        size = (encoder.layers, encoder.hidden, encoder.heads, encoder.ffn, encoder.embedding)
        recipe = (pretrain.length, pretrain.batch, pretrain.steps, pretrain.learning_rate, pretrain.warmup)
        assert (*size, generator.width, objective.mask_rate, *recipe) == pytest.approx(values, rel=1e-4), name
        assert (encoder.dropout, encoder.attention_dropout, encoder.init_std, encoder.init) == (
            0.1,
            0.1,
            0.02,
            "published",
        )
        adam = (pretrain.beta1, pretrain.beta2, pretrain.eps, pretrain.weight_decay, pretrain.clip)
        assert adam == (0.9, 0.999, 1e-6, 0.01, 1.0) and not pretrain.bias_correction and pretrain.schedule == "product"
        assert (objective.name, objective.sharing, objective.training) == ("electra", "embeddings", "joint")
        assert (objective.discriminator_weight, objective.written, objective.temperature) == (50, (0.85, 0.0), 1)
        assert (generator.kind, generator.depth, encoder.positions, encoder.token_types) == ("network", 1, 512, 2)


def test_modern_presets_are_as_large_as_the_papers_and_differ_in_the_encoder_alone() -> None:
    models = load(SHIPPED).models
    for paper in ("small", "base"):
        counts = []
        for name in (paper, f"modern-{paper}"):
            with torch.device("meta"):
                networks = Pretraining(models[name].electra(), 30522, SpecialIds(0, 101, 102, 103))
            encoder = networks.discriminator.encoder
            counts.append([sum(p.numel() for p in part.parameters()) for part in (encoder, networks)])
        assert counts[1] == pytest.approx(counts[0], rel=0.02)
        ours, theirs = models[f"modern-{paper}"], models[paper]
        whole = dataclasses.replace(ours.pretrain, accumulate=1)  # how it is computed, not what
        assert (whole, ours.generator, ours.tokens) == (theirs.pretrain, theirs.generator, theirs.tokens)
        assert dataclasses.replace(ours.objective, sharing="embeddings") == theirs.objective
        assert isinstance(ours.encoder, ModernConfig)
        longer = dataclasses.replace(ours.electra().pretrain, length=1024)
        assert dataclasses.replace(ours.electra(), pretrain=longer).encoder.positions == 1024


def test_the_shipped_file_states_every_section_that_dvc_reads() -> None:
    """DVC refuses to run where a parameter that a stage names is missing, even one that has a default.

    It takes a model as one parameter, so `generator` and `objective` need not be there.
    """
    values = YAML(typ="safe").load(SHIPPED.read_text(encoding="utf-8"))
    for name, model in values["models"].items():
        assert {"tokens", "encoder", "pretrain"} <= set(model), name
        assert isinstance(model["encoder"], str), name
    for name, finetuning in values["finetunings"].items():
        assert {"model", "tasks", "recipe"} <= set(finetuning), name
    assert {"run", "defaults", "tasks", "squad"} <= set(values["recipes"]["paper"])
    assert {"models", "ablations"} <= set(values["run"])


def test_a_model_need_not_say_what_is_as_published(tmp_path: Path) -> None:
    text = SHIPPED.read_text(encoding="utf-8")
    shorter = text.replace("    objective: {name: electra}\n", "").replace("    generator: {width: 0.25}\n", "")
    assert len(shorter) < len(text) - 300
    (tmp_path / "params.yaml").write_text(shorter)
    params, shipped = load(tmp_path / "params.yaml"), load(SHIPPED)
    assert params.models == shipped.models
    assert [settings_digest(name, params) for name in params.ablations] == [
        settings_digest(name, shipped) for name in shipped.ablations
    ]


def test_a_record_stands_on_settings_wherever_they_are_written(tmp_path: Path) -> None:
    """What an experiment says of fine-tuning or takes from its recipe is one; what no task of it sees is none."""

    def told(experiment: dict[str, Any], **recipe: Any) -> str:
        values = YAML(typ="safe").load(SHIPPED.read_text(encoding="utf-8"))
        values["recipes"]["tiny"] = {"defaults": {"epochs": 2}} | recipe
        values["ablations"]["table5"]["finetune"] = experiment
        (tmp_path / "params.yaml").write_text(json.dumps(values))
        return settings_digest("table5", load(tmp_path / "params.yaml"))

    stsb, three = {"stsb": {"epochs": 10}}, {"defaults": {"epochs": 3}}
    written_out = told(three | {"tasks": stsb})
    assert written_out == told({}, **three, tasks=stsb) == told(three, tasks=stsb | {"wnli": {"epochs": 9}})
    assert written_out != told({}, tasks=stsb)


def test_the_shipped_file_is_what_dvc_would_write() -> None:
    """So `dvc exp run -S` changes the line of its key and no other."""
    from dvc.utils.serialize import dumps_yaml
    from dvc.utils.serialize._yaml import parse_yaml_for_update

    text = SHIPPED.read_text(encoding="utf-8")
    values = parse_yaml_for_update(text, str(SHIPPED))
    assert dumps_yaml(values) == text
    values["models"]["base"]["pretrain"]["steps"] = 1000
    changed = dumps_yaml(values).splitlines()
    assert [new for old, new in zip(text.splitlines(), changed, strict=True) if old != new] == ["      steps: 1000"]


def test_the_shipped_file_has_no_anchors() -> None:
    """`dvc exp run -S` does not change a section that another one is merged from, and says nothing."""
    from ruamel.yaml.tokens import AliasToken, AnchorToken

    tokens = YAML(typ="safe", pure=True).scan(SHIPPED.read_text(encoding="utf-8"))
    assert not [token for token in tokens if isinstance(token, AliasToken | AnchorToken)]


def test_numbers_are_read_as_yaml_1_2_like_dvc_does(tmp_path: Path) -> None:
    text = SMOKE.replace("learning_rate: 1.0e-3", "learning_rate: 1e-4, compile: off, steps: {flops: 8.9e16}")
    text = text.replace("steps: 20,", "").replace("warmup: 2", "warmup: 0")
    pretrain = load(written(tmp_path, text)).models["smoke"].pretrain
    assert pretrain.learning_rate == 1e-4
    assert pretrain.compile == "off"


CASES = {
    "unknown key": ("warmup: 2", "warmpu: 2", ["models.smoke.pretrain.warmpu", "did you mean warmup?"]),
    "unknown section": ("tracking: none", "trakcing: none", ["trakcing", "did you mean tracking?"]),
    "duplicate key": ("tracking: none", "tracking: none\ntracking: mlflow", ["duplicate key"]),
    "text for a number": ("steps: 20", "steps: many", ["models.smoke.pretrain.steps", "'many'"]),
    "no number": ("learning_rate: 1.0e-3", "learning_rate: .nan", ["models.smoke.pretrain.learning_rate", "nan"]),
    "negative size": ("batch: 8", "batch: -8", ["models.smoke.pretrain.batch", "-8", "from 1"]),
    "heads that do not divide": ("heads: 2", "heads: 3", ["encoders.smoke.heads", "divisor"]),
    "warm-up beyond the end": ("warmup: 2", "warmup: 200", ["models.smoke.pretrain.warmup", "at most steps"]),
    "missing value": (", learning_rate: 1.0e-3", "", ["models.smoke.pretrain.learning_rate", "is missing"]),
    "unknown corpus": ("corpus: smoke", "corpus: smok", ["tokens.smoke.corpus", "did you mean smoke?"]),
    "unknown tokens": ("    tokens: smoke", "    tokens: smoko", ["models.smoke.tokens", "did you mean smoke?"]),
    "unknown encoder": ("encoder: smoke", "encoder: smoko", ["models.smoke.encoder", "did you mean smoke?"]),
    "unknown tasks": (
        "tasks: smoke, recipe",
        "tasks: smoko, recipe",
        ["finetunings.smoke.tasks", "did you mean smoke?"],
    ),
    "unknown recipe": ("recipe: smoke", "recipe: smoko", ["finetunings.smoke.recipe", "did you mean smoke?"]),
    "unknown model": ("{model: smoke", "{model: smoko", ["finetunings.smoke.model", "did you mean smoke?"]),
    "a name of before": ("models: [smoke]", "models: [mini++]", ["run.models", "what was mini++ is mini_plus now"]),
    "a plus in a name": ("  absent: {sources", "  a+b: {sources", ["corpora.a+b", "letters, digits, _ and -"]),
    "no recipe to change": ("  paper: {}\n", "", ["recipes", "paper among them"]),
    "unknown run": ("models: [smoke]", "models: [smokey]", ["run.models", "did you mean smoke?"]),
    "length without rows": (
        "lengths: [16], valid",
        "lengths: [32], valid",
        ["models.smoke.pretrain.length", "add 16 to"],
    ),
    "generator whose heads do not fit": (
        "hidden: 16, heads: 2",
        "hidden: 298, heads: 2",
        ["generator.width", "heads is 2"],
    ),
    "rows beyond the last position": (
        "embedding: 16}",
        "embedding: 16, positions: 100}",
        ["recipes.smoke", "128", "(100)"],
    ),
    "windows that skip text": (
        "  paper: {}\n",
        "  paper: {squad: {stride: 500}}\n",
        ["squad.stride", "500"],
    ),
    "twice the same model": ("models: [smoke]", "models: [smoke, smoke]", ["run.models", "each entry once"]),
    "name that is a path": ("  absent: {sources", "  ../up: {sources", ["corpora", "letters, digits"]),
    "tag that runs code": ("tracking: none", "tracking: !!python/name:os.system", ["constructor"]),
    "broken brackets": ("models: [smoke]", "models: [smoke", ["params.yaml:"]),
    "unknown choice": ("tracking: none", "tracking: wandb", ["tracking", "mlflow", "none"]),
    "true is no number": ("threads: 1", "threads: true", ["models.smoke.pretrain.threads", "True"]),
    "list for a section": ("smoke: {layers: 1", "smoke: [1]\n  other: {layers: 1", ["encoders.smoke"]),
    "unknown task": ("  paper: {}\n", "  paper: {tasks: {colla: {}}}\n", ["recipes.paper", "did you mean cola?"]),
    "nothing": (SMOKE, "", ["holds no mapping"]),
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
    for section in ("published: {}\n", "ablations: {}\n", "run: {models: [smoke], ablations: []}\n", ", ablations: []"):
        name = section.strip(", \n").split(":")[0]
        with pytest.raises(BadConfig, match=rf"{name}: is missing"):
            load(written(tmp_path, SMOKE.replace(section, "", 1)))
    with pytest.raises(
        BadConfig, match=r"published: is missing; expected a mapping; write `published: {}` if there is none"
    ):
        load(written(tmp_path, SMOKE.replace("published: {}\n", "")))


def dataclasses_within(hint: Any) -> Iterator[type]:
    """The settings that a type leads to, itself among them."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        yield hint
        for field in dataclasses.fields(hint):
            yield from dataclasses_within(typing.get_type_hints(hint)[field.name])
    for inner in typing.get_args(hint):
        yield from dataclasses_within(inner)


def instances_within(value: Any) -> Iterator[Any]:
    """The settings that a value holds, itself among them."""
    if dataclasses.is_dataclass(value):
        yield value
        value = vars(value)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ():
        yield from instances_within(inner)


def numbers_of(hint: Any) -> tuple[set[type], bool]:
    """Which numbers a field may hold, and whether in a list."""
    if hint in {int, float}:
        return {hint}, False
    options = typing.get_args(hint)  # none where a name may stand in the number's place
    inner = [numbers_of(option) for option in options if typing.get_origin(hint) is not dict and str not in options]
    return set().union(*(kinds for kinds, _ in inner)), typing.get_origin(hint) is tuple or any(
        many for _, many in inner
    )


NOTHING = {  # fields for which 0 makes sense
    "dropout": "none of it",
    "attention_dropout": "none of it",
    "head_dropout": "none of it",
    "weight_decay": "none of it",
    "save_minutes": "at every multiple of save_every",
    "eval_minutes": "at every multiple of eval_every",
    "warmup": "none of it",
    "mask_token_rate": "other tokens only",
    "random_token_rate": "none of them",
    "single_segment_rate": "none of them",
    "short_rate": "none of them",
    "fraction": "no bad row is tolerated",
    "handful": "no bad row is tolerated",
    "beta1": "Adam without memory of gradients",
    "beta2": "Adam without memory of squares",
    "generator_weight": "a generator that does not learn",
    "answerability_weight": "a head that does not learn",
    "seed": "a name like any other",
    "seeds": "names like any other (finetune.seeds)",
    "workers": "as many as there are threads",
}
ANY = {"null_threshold": "a difference of scores"}


def test_every_number_has_a_domain() -> None:
    """Whatever dataclass params.yaml becomes, however built: no absurd number gets in; the sentence names the key."""
    known: dict[type, Any] = {type(each): each for each in instances_within(load(SHIPPED))}
    known |= {kind: kind() for kind in (FinetuneConfig, SquadConfig, ScratchConfig)}
    sizes = {"layers": 2, "hidden": 32, "heads": 2, "ffn": 48, "embedding": 32}
    known |= {ModernConfig: ModernConfig(kind="modern", **sizes)}
    known |= {Flops: Flops(flops=1e15), OwnTask: OwnTask(train="a", dev="b", labels=("x", "y"))}
    kinds = {each for root in (Params, FinetuneConfig, SquadConfig) for each in dataclasses_within(root)}
    tried = 0
    for kind in kinds:
        for key in (field.name for field in dataclasses.fields(kind)):
            types, many = numbers_of(typing.get_type_hints(kind)[key])
            if not types:
                continue
            number = float if types == {float} else int
            absurd = [number("-1"), *([] if key in NOTHING and kind is not AblationConfig else [number(0)])]
            absurd = [*absurd, *([10**300, -(10**300)] if number is int else [1e300, -1e300, nan, inf, -inf])]
            for value in absurd[2:] if key in ANY else absurd:
                tried += 1
                with pytest.raises(BadConfig) as direct:
                    dataclasses.replace(known[kind], **{key: (value,) if many else value})
                assert direct.value.where.split("[")[0] == key, f"{kind.__name__}.{key} = {value!r}: {direct.value}"
                with pytest.raises(BadConfig) as built:
                    build(kind, plain(known[kind]) | {key: [value] if many else value}, "here")
                assert built.value.where.split("[")[0] == f"here.{key}", f"{kind.__name__}.{key}: {built.value}"
    assert tried > 300


ABLATION = """ablations:
  a: {title: t, model: smoke, tokens: smoke, data: smoke, recipe: smoke,
      arms: {one: {}, two: {objective.name: mlm}}, labels: {two: BERT}}
"""


def with_ablation(**changes: Any) -> str:
    text = ABLATION
    for old, new in changes.values():
        assert old in text
        text = text.replace(old, new)
    return SMOKE.replace("ablations: {}\n", "") + text


def test_arms_are_the_model_with_their_settings(tmp_path: Path) -> None:
    params = load(written(tmp_path, with_ablation()))
    assert params.arm("a", "one") == params.models["smoke"]
    assert params.arm("a", "two").objective.name == "mlm"
    assert params.arm("a", "two").pretrain == params.models["smoke"].pretrain
    assert (params.ablations["a"].label("one"), params.ablations["a"].label("two")) == ("one", "BERT")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("objective.name: mlm", "objective.nam: mlm"), "ablations.a.arms.two.objective.nam"),
        (("objective.name: mlm", "objektive.name: mlm"), "ablations.a.arms.two.objektive"),
        (("objective.name: mlm", "encoder.heads: 5"), "ablations.a.arms.two.encoder.heads"),
        (("model: smoke, tokens", "model: smoky, tokens"), "did you mean smoke"),
        (("tokens: smoke, data", "tokens: absent, data"), "ablations.a.tokens"),
        (("labels: {two", "labels: {too"), "labels.too"),
        (("arms: {one: {}, two: {objective.name: mlm}}, labels: {two: BERT}", "arms: {}"), "at least one arm"),
    ],
)
def test_a_mistake_in_an_ablation_is_one_sentence(change: tuple[str, str], expected: str, tmp_path: Path) -> None:
    with pytest.raises(BadConfig) as caught:
        load(written(tmp_path, with_ablation(change=change)))
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("objective.name: mlm", "pretrain.clip: -1"), "ablations.a.arms.two.pretrain.clip: is -1.0"),
        (
            (
                "arms: {one: {}, two: {objective.name: mlm}}, labels: {two: BERT}",
                "grid: {encoder.init_std: [0.02, -1]}",
            ),
            "init_std-1.encoder.init_std",
        ),
        (
            ("labels: {two: BERT}", "common: {pretrain.learning_rate: 1.0e+300}"),
            "arms.one.pretrain.learning_rate: is 1e+300",
        ),
        (("labels: {two: BERT}", "finetune: {defaults: {clip: 0}}"), "ablations.a.finetune.defaults.clip: is 0.0"),
        (
            ("labels: {two: BERT}", "tasks: [cola, cola]"),
            "ablations.a.tasks: is ['cola', 'cola']; expected each entry once",
        ),
        (("labels: {two: BERT}", "points: [0.5, 1.0]"), "ablations.a.points[1]: is 1.0"),
        (
            ("labels: {two: BERT}", "common: {encoder.positions: 100}, tasks: [cola]"),
            "ablations.a.finetune: has rows of 128",
        ),
        (
            ("labels: {two: BERT}", "finetune: {squad: {stride: 500}}, tasks: [squad2]"),
            "ablations.a.finetune.squad.stride",
        ),
        (("labels: {two: BERT}", "steps: {flops: -1}"), "ablations.a.steps.flops: is -1.0"),
    ],
)
def test_a_number_in_an_arm_is_checked_as_in_the_model(change: tuple[str, str], expected: str, tmp_path: Path) -> None:
    with pytest.raises(BadConfig) as caught:
        load(written(tmp_path, with_ablation(change=change)))
    assert expected in str(caught.value)


def test_upstream_names_the_stages_as_dvc_does(tmp_path: Path) -> None:
    params = load(written(tmp_path, with_ablation()))
    assert params.upstream("corpus", "smoke") == ()
    assert params.upstream("tokens", "smoke") == ("corpus@smoke",)
    assert params.upstream("pretrain", "smoke") == ("tokens@smoke",)
    assert params.upstream("squad", "smoke") == ("tasks@smoke", "pretrain@smoke")
    assert params.upstream("ablation", "a") == ("tokens@smoke", "tasks@smoke")


def test_data_is_named_and_the_sample_world_is_called_so(tmp_path: Path) -> None:
    params = load(written(tmp_path, with_ablation()))
    assert params.ancestors("glue", "smoke") == ("tasks@smoke", "pretrain@smoke", "tokens@smoke", "corpus@smoke")
    assert params.data("pretrain", "smoke") == "smoke"
    assert params.data("squad", "smoke") == "sample world + smoke"
    assert params.data("tasks", "smoke") == "sample world"
    assert params.data("report", "") == ""
    shipped = load(SHIPPED)
    for stage in ("pretrain", "glue", "squad"):
        assert shipped.data(stage, "tiny") == "sample world"
    assert "sample world" not in shipped.data("glue", "base")
