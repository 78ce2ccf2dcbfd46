"""The params.yaml that is shipped: the paper's values, what DVC asks for, and lines that `dvc exp
run -S` leaves be.
"""

import dataclasses

import pytest
import torch
from ruamel.yaml import YAML

from electra.files import write_json
from electra.nn.config import ModernBertConfig
from electra.pretraining.corruption import SpecialIds
from electra.pretraining.model import Pretraining
from pipelines.config.params import load, settings_digest
from tests.conftest import ROOT

SHIPPED = ROOT / "params.yaml"


ENCODER = {"dropout": 0.1, "attention_dropout": 0.1, "init_std": 0.02, "init": "published"}
ENCODER |= {"positions": 512, "token_types": 2}
OBJECTIVE = {"name": "electra", "sharing": "embeddings", "training": "joint", "temperature": 1}
OBJECTIVE |= {"discriminator_weight": 50, "replacement_shares": (0.85, 0.0)}
PRETRAIN = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-6, "weight_decay": 0.01, "max_grad_norm": 1.0}
PRETRAIN |= {"warmup": 10_000, "bias_correction": False, "schedule": "product"}


@pytest.mark.parametrize(
    "name, size, width, mask_rate, recipe",
    [
        ("small", (12, 256, 4, 1024, 128), 0.25, 0.15, (128, 128, 1_000_000, 5e-4)),
        ("small_plus", (12, 256, 4, 1024, 128), 1.0, 0.15, (512, 128, 4_000_000, 5e-4)),
        ("base", (12, 768, 12, 3072, 768), 1 / 3, 0.15, (512, 256, 766_000, 2e-4)),
        ("large", (24, 1024, 16, 4096, 1024), 0.25, 0.25, (512, 2048, 400_000, 2e-4)),
    ],
)
def test_published_models_carry_all_of_their_published_settings(
    name, size, width, mask_rate, recipe
):
    """Paper, Table 6, and the released small (small_plus): never only the size."""
    model = load(SHIPPED).models[name]
    sizes = dict(zip(("layers", "hidden", "heads", "ffn", "embedding"), size, strict=True))
    recipes = dict(zip(("length", "batch", "steps", "learning_rate"), recipe, strict=True))
    for section, expected in (
        (model.encoder, ENCODER | sizes),
        (model.generator, {"kind": "network", "depth": 1, "width": pytest.approx(width, rel=1e-4)}),
        (model.objective, OBJECTIVE | {"mask_rate": mask_rate}),
        (model.pretrain, PRETRAIN | recipes),
    ):
        assert {key: getattr(section, key) for key in expected} == expected


def test_modern_presets_are_as_large_as_the_papers_and_differ_in_the_encoder_alone():
    models = load(SHIPPED).models
    for paper in ("small", "base"):
        counts = []
        for name in (paper, f"modern-{paper}"):
            with torch.device("meta"):
                networks = Pretraining(models[name].electra(), 30522, SpecialIds(0, 101, 102, 103))
            encoder = networks.discriminator.encoder
            counts.append(
                [sum(p.numel() for p in part.parameters()) for part in (encoder, networks)]
            )
        assert counts[1] == pytest.approx(counts[0], rel=0.02)
        ours = models[f"modern-{paper}"]
        theirs = models[paper]
        pretrain = dataclasses.replace(ours.pretrain, accumulate=1)  # how it is computed, not what
        assert (pretrain, ours.generator, ours.tokens) == (
            theirs.pretrain,
            theirs.generator,
            theirs.tokens,
        )
        assert dataclasses.replace(ours.objective, sharing="embeddings") == theirs.objective
        assert isinstance(ours.encoder, ModernBertConfig)
        longer = dataclasses.replace(ours.electra().pretrain, length=1024)
        assert dataclasses.replace(ours.electra(), pretrain=longer).encoder.positions == 1024


def test_a_record_stands_on_settings_wherever_they_are_written(tmp_path):
    """What an ablation says of fine-tuning or takes from its recipe is one; what none sees, and a
    title, is none.
    """

    def digest_of(ablation, title="One", **recipe):
        values = YAML(typ="safe").load(SHIPPED.read_text())
        values["recipes"]["tiny"] = {"defaults": {"epochs": 2}} | recipe
        values["protocols"]["tiny"]["finetune"] = ablation
        values["ablations"]["table5"]["title"] = title
        write_json(tmp_path / "params.yaml", values)
        return settings_digest("table5", load(tmp_path / "params.yaml"))

    stsb = {"stsb": {"epochs": 10}}
    three = {"defaults": {"epochs": 3}}
    written_out = digest_of(three | {"tasks": stsb})
    assert (
        written_out
        == digest_of({}, **three, tasks=stsb)
        == digest_of(three, tasks=stsb | {"wnli": {"epochs": 9}})
    )
    assert written_out == digest_of({}, "Another", **three, tasks=stsb)
    assert written_out != digest_of({}, tasks=stsb)


def overridden(text, override, tmp_path):
    """Return a file after `dvc exp run -S`."""
    from dvc.utils.hydra import apply_overrides

    (tmp_path / "params.yaml").write_text(text)
    apply_overrides(tmp_path / "params.yaml", [override])
    return (tmp_path / "params.yaml").read_text()


def changed(before, after):
    """The lines that are others now."""
    return [
        new for old, new in zip(before.splitlines(), after.splitlines(), strict=True) if old != new
    ]


def test_an_override_changes_the_line_of_its_key_and_no_other(tmp_path):
    """DVC rewrites all lists, so one that it would format differently shows up with every setting
    that is tried.
    """
    text = SHIPPED.read_text()
    assert overridden(text, "tracking=mlflow", tmp_path) == text
    (line,) = changed(text, overridden(text, "models.tiny.pretrain.steps=600", tmp_path))
    assert "steps: 600" in line
    (line,) = changed(text, overridden(text, "models.mini.pretrain.phases.long.batch=32", tmp_path))
    assert "batch: 32" in line


def test_the_shipped_file_has_no_anchors():
    """`dvc exp run -S` does not change a section that another one is merged from, and says nothing."""
    from ruamel.yaml.tokens import AliasToken, AnchorToken

    tokens = YAML(typ="safe", pure=True).scan(SHIPPED.read_text())
    assert not [token for token in tokens if isinstance(token, AliasToken | AnchorToken)]
