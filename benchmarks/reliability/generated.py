"""Generated settings, rows, models and corpora: what is valid as it stands is taken, all else refused in a sentence.

The generators are those of the tests (tests/pipelines/); here they run as often as `--rounds` says.
"""

import contextlib
import functools
import io
import random
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import strategies as st

from benchmarks.reliability.world import Verdict, World
from pipelines.commands import predict
from tests.pipelines import bad_params, bad_predict
from tests.pipelines.sources import bad_input

NAMES = {"answered": "taken", "refused": "refused"}


def settings(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """Damaged params.yaml files, as `python -m pipelines params` reads them."""
    path = room(world, "params") / "params.yaml"

    def judge(content: bytes) -> str:
        path.write_bytes(content)
        became = bad_params.outcome(path)
        return "taken" if became == "accepted" else became

    yield from generate(bad_params.damaged(), tries, chance.randrange(1 << 40), "params.yaml", judge)


def rows(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """Files and pipes of rows that models are asked to answer."""
    folder, load = room(world, "rows"), predict.load_model
    models = st.sampled_from(bad_predict.models(folder / "models"))
    predict.load_model = functools.cache(load)  # type: ignore[assignment]
    drawn = st.tuples(models, st.just(folder), bad_predict.files(), st.booleans())
    try:
        yield from generate(drawn, tries, chance.randrange(1 << 40), "rows", lambda each: NAMES[bad_predict.ask(*each)])
    finally:
        predict.load_model = load


def models(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """Folders of models that are spoilt in a setting or a weight."""
    folder = room(world, "models")
    drawn = st.tuples(st.sampled_from(bad_predict.models(folder / "whole")), st.just(folder), bad_predict.CHANGES)
    yield from generate(drawn, tries, chance.randrange(1 << 40), "models", lambda each: NAMES[bad_predict.spoil(*each)])


def corpora(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """Files of text: every line is a document's, quarantined or blank, or the file is refused; then the stage."""
    folder = room(world, "corpora")
    several = st.lists(st.tuples(bad_input.FILES, bad_input.DAMAGE), min_size=1, max_size=3)

    def a_file(drawn: Any) -> str:
        file, damage = drawn
        return read(bad_input.write(folder, file, damage), file, bad_input.complete(file, damage))

    def a_table(drawn: Any) -> str:
        content, damage = drawn
        path = folder / "a.parquet"
        path.write_bytes(bad_input.damaged(bad_input.parquet(content), damage))
        return read(path, {"form": {}}, False)

    def a_folder(drawn: Any) -> str:
        files, form = drawn
        became = bad_input.run_stage(folder, [bad_input.write(folder, *file) for file in files], form)
        return "taken" if became["stage finished"] else "refused"

    kinds: list[tuple[str, int, Any, Callable[[Any], str]]] = [
        ("text files", 10, st.tuples(bad_input.FILES, bad_input.DAMAGE), a_file),
        ("parquet files", 1, st.tuples(bad_input.PARQUET, bad_input.DAMAGE), a_table),
        ("folders through the stage", 1, st.tuples(several, bad_input.FORMS), a_folder),
    ]
    for kind, share, strategy, judge in kinds:
        count = max(1, tries * share // sum(share for _, share, _, _ in kinds))
        yield from generate(strategy, count, chance.randrange(1 << 40), kind, judge)


def generate(strategy: Any, count: int, seed: int, kind: str, judge: Callable[[Any], str]) -> list[Verdict]:
    """What became of so many drawn values, at most; fewer where there are no more."""
    found: list[Verdict] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(strategy)
    def judge_one(drawn: Any) -> None:
        found.append(verdict(kind, repr(drawn)[:300], functools.partial(judge, drawn)))

    with contextlib.redirect_stderr(io.StringIO()):  # progress bars
        judge_one()
    return found


def read(path: Path, file: dict[str, Any], whole: bool) -> str:
    """Read a file; `bad_input` checks that every line is accounted for."""
    became = bad_input.read_one(path, file, whole)
    return "refused" if any(key.startswith("sentence: ") for key in became) else "taken"


def verdict(kind: str, what: str, attack: Callable[[], str]) -> Verdict:
    """What an attack ended in; what it raises is the bug."""
    try:
        return Verdict(kind, what, attack())
    except Exception:
        return Verdict(kind, what, re.sub(r"\s+", " ", traceback.format_exc()[-600:]))


def room(world: World, name: str) -> Path:
    """A folder for generated files."""
    (folder := world.folder / name).mkdir()
    return folder
