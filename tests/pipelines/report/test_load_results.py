"""Results to records: what is broken, absent, a subset or a record is called so."""

from dataclasses import replace

import pytest

from electra.errors import CorruptFile
from electra.pretraining.config import ObjectiveConfig
from pipelines.report import figures, load_results
from pipelines.sources import CustomTask, CustomTasks
from tests.pipelines.report import made_up

TINY = made_up.params("tiny")


@pytest.mark.parametrize("spoilt", [b"null", b"[]", b'{"tasks": 3}'])
def test_a_record_that_no_stage_wrote_is_a_sentence(tmp_path, spoilt):
    made_up.write(tmp_path)
    (tmp_path / "results/tiny/glue.json").write_bytes(spoilt)
    with pytest.raises(CorruptFile, match="results: is malformed"):
        load_results.load(TINY, tmp_path)


def test_a_curve_has_no_empty_cells_and_one_that_cannot_be_read_is_missing(tmp_path):
    made_up.write(tmp_path)
    model = load_results.load(TINY, tmp_path).models[0]
    assert (model.series("train_loss")[0][0], model.series("loss")[0][0]) == (200, 0)
    assert model.series("no such metric") is None
    path = tmp_path / "results/curves/tiny.csv"
    for spoilt in (b"step,loss\n1,\xff\n", b"step,loss\n" + b"9" * 200_000):
        path.write_bytes(spoilt)
        found = load_results.load(TINY, tmp_path)
        assert found.models[0].curve == {} and any(
            "tiny.csv: cannot be read" in line for line in found.missing
        )
    path.unlink()
    path.mkdir()
    assert load_results.load(TINY, tmp_path).models[0].curve == {}


def test_captions_and_labels_are_of_the_models_own_settings(tmp_path):
    made_up.write(tmp_path)
    ten = replace(TINY.models["tiny"], objective=ObjectiveConfig(discriminator_weight=10.0))
    own = TINY.tasks | {
        "sample_world": CustomTasks(
            kind="custom",
            tasks={"mood": CustomTask(train="train.csv", dev="dev.csv", labels=("good", "bad"))},
        )
    }
    model = load_results.load(
        replace(TINY, models=TINY.models | {"tiny": ten}, tasks=own), tmp_path
    ).models[0]
    assert model.data == "custom tasks"
    captions = {name: caption for name, caption, _ in figures.draw_curves(model)}
    assert "× 10; dashed" in captions["disc-loss"] and "10 · H(r)" in captions["disc-loss"]
    assert (
        50 * figures.entropy(0.10) == pytest.approx(16.25, abs=0.01) and figures.entropy(0.0) == 0.0
    )
