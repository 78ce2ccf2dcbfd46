"""Files for the leaderboard, and ensembles of seeds."""

import numpy as np
import pytest

from electra.finetuning.tasks import GLUE
from pipelines.finetuning_runs.leaderboard import FILES, ensemble, score_records, to_tsv


def line(identity, prediction, logits, label=None):
    return {"id": identity, "prediction": prediction, "label": label, "logits": logits}


def test_files_have_the_names_and_forms_of_the_leaderboard():
    names = "CoLA SST-2 MRPC STS-B QQP MNLI-m MNLI-mm QNLI RTE WNLI AX"
    assert set(FILES.values()) == {f"{name}.tsv" for name in names.split()}
    assert (
        to_tsv(GLUE["rte"], [line("0", "entailment", [])]) == "index\tprediction\n0\tentailment\n"
    )
    scores = [line("0", 5.4, []), line("1", -0.2, []), line("2", 1.23456, [])]
    assert to_tsv(GLUE["stsb"], scores) == "index\tprediction\n0\t5.000\n1\t0.000\n2\t1.235\n"


def test_seeds_answer_together_by_mean_probability_or_score():
    runs = [
        [line("0", "0", [2.0, 0.0])],
        [line("0", "1", [0.0, 1.0])],
        [line("0", "1", [0.0, 0.1])],
    ]
    (together,) = ensemble(GLUE["cola"], runs)
    assert together["prediction"] == "0"
    # 0.8808 + 0.2689 + 0.4750 of 3
    assert np.exp(together["logits"]) == pytest.approx([0.5416, 0.4584], abs=1e-4)
    numbers = ensemble(GLUE["stsb"], [[line("7", 2.5, [0.5])], [line("7", 5.0, [1.0])]])
    assert numbers[0]["prediction"] == 3.75
    lines = [line("0", "0", [2.0, 0.0], "0"), line("1", "1", [0.0, 1.0], "0")]
    assert score_records(GLUE["cola"], lines)["accuracy"] == 50.0
