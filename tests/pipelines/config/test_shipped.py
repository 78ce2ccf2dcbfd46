"""The params.yaml that is shipped: the paper's values, what DVC asks for, and lines that `dvc exp
run -S` leaves be.
"""

import operator
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from electra.files import write_json
from electra.nn.config import ModernBertConfig
from pipelines.cli.cost import parameters
from pipelines.config.params import load, settings_digest
from pipelines.config.settings_file import read
from tests.support.project import ROOT

SHIPPED = ROOT / "params.yaml"
# paper, Table 6, and the released small (small_plus): never only the size
PUBLISHED = """
setting                          small        small_plus   base         large
encoder.layers                   12           12           12           24
encoder.hidden                   256          256          768          1024
encoder.heads                    4            4            12           16
encoder.ffn                      1024         1024         3072         4096
encoder.embedding                128          128          768          1024
encoder.dropout                  0.1          0.1          0.1          0.1
encoder.attention_dropout        0.1          0.1          0.1          0.1
encoder.init_std                 0.02         0.02         0.02         0.02
encoder.init                     published    published    published    published
encoder.positions                512          512          512          512
encoder.token_types              2            2            2            2
generator.kind                   network      network      network      network
generator.depth                  1.0          1.0          1.0          1.0
generator.width                  0.25         1.0          0.33333      0.25
objective.name                   electra      electra      electra      electra
objective.sharing                embeddings   embeddings   embeddings   embeddings
objective.training               joint        joint        joint        joint
objective.temperature            1.0          1.0          1.0          1.0
objective.discriminator_weight   50.0         50.0         50.0         50.0
objective.mask_rate              0.15         0.15         0.15         0.25
objective.replacement_shares     (0.85, 0.0)  (0.85, 0.0)  (0.85, 0.0)  (0.85, 0.0)
pretrain.length                  128          512          512          512
pretrain.batch                   128          128          256          2048
pretrain.steps                   1000000      4000000      766000       400000
pretrain.learning_rate           0.0005       0.0005       0.0002       0.0002
pretrain.warmup                  10000        10000        10000        10000
pretrain.schedule                product      product      product      product
pretrain.beta1                   0.9          0.9          0.9          0.9
pretrain.beta2                   0.999        0.999        0.999        0.999
pretrain.eps                     1e-06        1e-06        1e-06        1e-06
pretrain.bias_correction         False        False        False        False
pretrain.weight_decay            0.01         0.01         0.01         0.01
pretrain.max_grad_norm           1.0          1.0          1.0          1.0
"""


def test_published_models_carry_all_of_their_published_settings():
    models = load(SHIPPED).models
    header, *rows = [re.split(" {2,}", line) for line in PUBLISHED.strip().splitlines()]
    for key, *published in rows:
        setting = operator.attrgetter(key)
        assert [str(setting(models[name])) for name in header[1:]] == published, key


def test_modern_presets_are_as_large_as_the_papers_and_differ_in_the_encoder_alone():
    models = load(SHIPPED).models
    for paper in ("small", "base"):
        ours = models[f"modern-{paper}"]
        theirs = models[paper]
        size = parameters(theirs.electra(), 30_522)
        assert parameters(ours.electra(), 30_522) == pytest.approx(size, rel=0.02)
        assert isinstance(ours.encoder, ModernBertConfig)
        pretrain = replace(ours.pretrain, accumulate=1)  # how it is computed, not what
        objective = replace(ours.objective, sharing="embeddings")
        same = replace(ours, encoder=theirs.encoder, pretrain=pretrain, objective=objective)
        assert same == theirs
        longer = replace(ours.pretrain, length=1024)
        assert replace(ours.electra(), pretrain=longer).encoder.positions == 1024


def test_a_record_stands_on_settings_wherever_they_are_written(tmp_path):
    """What an ablation says of fine-tuning or takes from its recipe is one; what none sees, and a
    title, is none.
    """

    def digest_of(ablation, title="One", **recipe):
        values = read(SHIPPED)
        values["recipes"]["tiny"] = {"defaults": {"epochs": 2}} | recipe
        values["protocols"]["tiny"]["finetune"] = ablation
        values["ablations"]["table5"]["title"] = title
        write_json(tmp_path / "params.yaml", values)
        return settings_digest("table5", load(tmp_path / "params.yaml"))

    stsb = {"stsb": {"epochs": 10}}
    three = {"defaults": {"epochs": 3}}
    written_out = digest_of(three | {"tasks": stsb})
    assert written_out == digest_of({}, "Another", **three, tasks=stsb)
    assert written_out == digest_of(three, tasks=stsb | {"wnli": {"epochs": 9}})
    assert written_out != digest_of({}, tasks=stsb)


def test_an_override_changes_the_line_of_its_key_and_no_other(tmp_path):
    """DVC rewrites all lists, so one that it would format differently shows up with every setting
    that is tried.
    """
    from dvc.utils.hydra import apply_overrides

    copy = Path(shutil.copy(SHIPPED, tmp_path))
    apply_overrides(copy, ["tracking=mlflow"])
    assert copy.read_text() == SHIPPED.read_text()
    apply_overrides(
        copy, ["models.tiny.pretrain.steps=600", "models.mini.pretrain.phases.long.batch=32"]
    )
    lines = [file.read_text().splitlines() for file in (SHIPPED, copy)]
    steps, batch = (new for old, new in zip(*lines, strict=True) if old != new)
    assert "steps: 600" in steps and "batch: 32" in batch


def test_the_shipped_file_has_no_anchors():
    """`dvc exp run -S` does not change a section that another one is merged from, and says nothing."""
    from ruamel.yaml.tokens import AliasToken, AnchorToken

    tokens = YAML(typ="safe", pure=True).scan(SHIPPED.read_text())
    assert not [token for token in tokens if isinstance(token, AliasToken | AnchorToken)]
