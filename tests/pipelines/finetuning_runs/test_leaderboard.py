"""Files for the leaderboard, and ensembles of seeds."""

from electra.finetuning.tasks import GLUE
from pipelines.finetuning_runs.leaderboard import FILES, ensemble, to_tsv


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
    assert ensemble(GLUE["cola"], runs)[0]["prediction"] == "0"  # 0.88 + 0.27 + 0.47 of 3
    numbers = ensemble(GLUE["stsb"], [[line("7", 2.5, [0.5])], [line("7", 5.0, [1.0])]])
    assert numbers[0]["prediction"] == 3.75 and numbers[0]["id"] == "7"
