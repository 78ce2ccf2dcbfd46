from dataclasses import replace

import pytest

from electra.errors import CorruptFile
from electra.pretraining.config import ObjectiveConfig
from pipelines.report import figures, inputs
from tests.pipelines.report import made_up


@pytest.fixture
def params():
    return made_up.Params(run=made_up.Run(models=("tiny", "mini")))


@pytest.mark.parametrize("spoilt", [b"null", b"[]", b'{"tasks": 3}'])
def test_a_record_that_no_stage_wrote_is_a_sentence(tmp_path, params, spoilt):
    made_up.write(tmp_path)
    (tmp_path / "results/tiny/glue.json").write_bytes(spoilt)
    with pytest.raises(CorruptFile, match="results: is not as its stage writes it"):
        inputs.load(params, tmp_path)


def test_a_curve_that_cannot_be_read_is_missing(tmp_path, params):
    made_up.write(tmp_path)
    path = tmp_path / "results/tiny/pretrain.csv"
    for spoilt in (b"step,loss\n1,\xff\n", b"step,loss\n" + b"9" * 200_000):
        path.write_bytes(spoilt)
        found = inputs.load(params, tmp_path)
        assert found.models[0].curve == {} and any("pretrain.csv: cannot be read" in line for line in found.missing)
    path.unlink()
    path.mkdir()
    assert inputs.load(params, tmp_path).models[0].curve == {}


def test_empty_cells_of_a_curve_are_left_out(tmp_path, params):
    made_up.write(tmp_path)
    curve = inputs.load(params, tmp_path).models[0].curve
    assert inputs.training(curve, "loss")[0][0] == 100
    assert inputs.held_out(curve, "loss")[0][0] == 0
    assert inputs.held_out(curve, "no such metric") is None


def test_entropy_is_the_majority_baseline():
    assert 50 * figures.entropy(0.10) == pytest.approx(16.25, abs=0.01)
    assert figures.entropy(0.0) == 0.0


def test_the_captions_name_the_models_own_weight(tmp_path, params):
    made_up.write(tmp_path)
    ten = replace(params.models["tiny"], objective=ObjectiveConfig(discriminator_weight=10.0))
    model = inputs.load(replace(params, models=params.models | {"tiny": ten}), tmp_path).models[0]
    captions = {name: caption for name, caption, _ in figures.curves(model)}
    assert "× 10 against" in captions["disc-loss"] and "10 · H(r)" in captions["disc-loss"]
