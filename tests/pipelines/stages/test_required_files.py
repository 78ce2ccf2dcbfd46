"""Official files that a run needs and that are not there: asked for before, in a sentence that
names them.
"""

from pathlib import Path

import pytest

from electra.errors import SourceUnreachable
from electra.finetuning.tasks import GLUE
from pipelines.cli import main
from pipelines.config.params import load
from pipelines.sources.glue import LAYOUTS
from pipelines.stages import corpus, tasks
from pipelines.stages.inputs import needed_tasks
from pipelines.tracking import Tracker
from tests.conftest import SMOKE

LOCAL = SMOKE.replace(
    "smoke: {kind: sample, seed: 1}", "smoke: {kind: local, glue: glue, squad: squad}"
)


def project(recipe: str = "{}", text: str = LOCAL) -> None:
    text = text.replace("recipe: paper", "recipe: smoke")
    Path("params.yaml").write_text(text.replace("  smoke: {}", f"  smoke: {recipe}"))


def official(folder: Path, *names: str) -> None:
    for task in names or GLUE:
        layout = LAYOUTS[task]
        header = layout.headerless or tuple(filter(None, (layout.a, layout.b, layout.label)))
        for split in ("train", *GLUE[task].evaluation):
            path = folder / layout.paths()[split]
            path.parent.mkdir(parents=True, exist_ok=True)
            label = GLUE[task].labels[0] if GLUE[task].labels else "1.0"
            path.write_text(
                "\t".join(header)
                + "\n"
                + "\t".join(label if name == layout.label else "x" for name in header)
                + "\n"
            )


def test_a_missing_file_is_named_before_anything_is_read(here: Path, capsys) -> None:
    project()
    text = here / "text"
    text.mkdir()
    (text / "a.txt").write_text("text")
    (here / "squad").mkdir()
    official(here / "glue")
    (here / "glue/SST-2/dev.tsv").unlink()
    sentence = (
        "tasks.smoke: there is no glue/SST-2/dev.tsv; put the dev rows of sst2 there, or leave sst2 "
        "out of recipes.paper.run"
    )
    with pytest.raises(SourceUnreachable) as caught:
        tasks.run("smoke", load(), Tracker(None))
    assert str(caught.value) == sentence
    assert main(["check", "smoke"]) == 69
    assert sentence in capsys.readouterr().err
    project(
        text=LOCAL.replace(
            "blank_lines}]", "blank_lines}], cleaning: {decontaminate: {tasks: smoke}}"
        )
    )
    with pytest.raises(SourceUnreachable, match=r"there is no glue/SST-2/dev\.tsv"):
        corpus.run("smoke", load(), Tracker(None))
    official(here / "glue")
    with pytest.raises(
        SourceUnreachable,
        match=r"there is no squad/train-v2.0.json.*leave squad2 out of recipes\.\w+\.squad\.versions",
    ):
        tasks.run("smoke", load(), Tracker(None))


def test_only_what_some_model_runs_is_asked_for_and_mnli_does_without_its_second_dev_set(
    here: Path, capsys
) -> None:
    project("{run: [mnli, cola]}", LOCAL.replace(", squad: squad", ""))
    assert needed_tasks(load(), "smoke") == {"mnli": "recipes.smoke.run", "cola": "recipes.smoke.run"}
    official(here / "glue", "mnli", "cola")
    (here / "glue/MNLI/dev_mismatched.tsv").unlink()
    with (here / "glue/MNLI/train.tsv").open("a") as file:
        file.write("cut\n")
    tasks.run("smoke", load(), Tracker(None))
    said = capsys.readouterr().err
    assert (
        "warning: tasks.smoke: there is no glue/MNLI/dev_mismatched.tsv; mnli is scored without"
        in said
    )
    left_out = "1 of 5 rows (20.00%) cannot be read; see build/tasks/smoke/quarantine.jsonl, and tasks.smoke.quarantine"
    assert f"warning: tasks.smoke: {left_out} to change it" in said
    assert (here / "build/tasks/smoke/mnli/dev.jsonl").is_file()


def test_own_tasks_are_asked_for_every_file(here: Path, capsys) -> None:
    own = "{kind: own, tasks: {mood: {train: t.tsv, dev: d.tsv, labels: [a, b]}}}"
    project(text=LOCAL.replace("{kind: local, glue: glue, squad: squad}", own))
    (here / "text").mkdir()
    (here / "text/a.txt").write_text("text")
    (here / "t.tsv").write_text("sentence\tlabel\n")
    assert main(["check", "smoke"]) == 65
    assert "no file matches 'd.tsv'" in capsys.readouterr().err
