import subprocess

import pytest

from electra.errors import BadInput, CorruptFile
from electra.files import read_json, write_json
from pipelines.commands.compare import compare
from tests.pipelines.report import made_up


def said(shown, title):
    """The last cell of the row with this title."""
    return next(line for line in shown.splitlines() if line.startswith(f"| {title}")).split("|")[-2].strip()


def test_two_models_side_by_side(tmp_path):
    made_up.write(tmp_path)
    made_up.write(tmp_path, "mini", lift=1.3, flops=2e15)
    shown = compare("mini", "tiny", tmp_path)
    assert said(shown, "STS-B") == "higher" and said(shown, "WNLI").startswith("cannot tell yet (")
    assert "They differ in flops: 2.0 × 10¹⁵ and 2.1 × 10¹⁴." in shown


def test_a_run_against_itself_and_against_another_folder(tmp_path):
    made_up.write(tmp_path)
    shown = compare("tiny", str(tmp_path / "results/tiny"), tmp_path)
    cells = [line.split("|")[-2].strip() for line in shown.splitlines() if line.startswith("| ")][2:]
    assert len(cells) == 11 and all(each.startswith("cannot tell yet (over") for each in cells)
    assert "the same budget, seed" in shown


@pytest.mark.parametrize(("file", "spoilt"), [
    ("glue.json", "[1]"), ("glue.json", '{"tasks": {"cola": []}}'), ("glue.json", '{"average": 3}'), ("squad.json", '"x"'),  # noqa: E501
    ("squad.json", '{"versions": {"1.1": []}}'), ("pretrain.json", "[1]"),
])  # fmt: skip
def test_a_record_that_no_stage_wrote_is_a_sentence(tmp_path, file, spoilt):
    made_up.write(tmp_path)
    (tmp_path / "results/tiny" / file).write_text(spoilt)
    with pytest.raises(CorruptFile, match="is malformed"):
        compare("tiny", "tiny", tmp_path)


def test_against_a_commit(tmp_path):
    made_up.write(tmp_path)
    for command in ("init -q", "add results", "-c user.name=a -c user.email=a@b commit -qm x"):
        subprocess.run(["git", "-C", str(tmp_path), *command.split()], check=True)
    path = tmp_path / "results/tiny/glue.json"
    glue = read_json(path)
    glue["tasks"]["cola"]["pretrained"]["scores"] = [1.0, 1.1, 1.2]
    write_json(path, glue)
    assert said(compare("tiny", "HEAD:tiny", tmp_path), "CoLA") == "lower"


def test_other_data_are_not_comparable(tmp_path):
    made_up.write(tmp_path)
    made_up.write(tmp_path, "mini")
    path = tmp_path / "results/mini/glue.json"
    write_json(path, read_json(path) | {"label": "local"})
    assert "Not comparable: tiny is measured on sample world, mini on local." in compare("tiny", "mini", tmp_path)


@pytest.mark.parametrize("place", ["tinny", "HEAD:tinny", "-x:tiny", "no/folder"])
def test_nothing_to_compare_is_one_sentence(tmp_path, place):
    made_up.write(tmp_path)
    with pytest.raises(BadInput):
        compare("tiny", place, tmp_path)


def test_models_that_were_only_pretrained_have_nothing_to_compare(tmp_path):
    for name in ("tiny", "mini"):
        write_json(tmp_path / f"results/{name}/pretrain.json", {"steps": 1})
    with pytest.raises(BadInput, match=r"tiny, mini: have no scores; .*; fine-tune them first: .*glue@tiny"):
        compare("tiny", "mini", tmp_path)
