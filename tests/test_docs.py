"""Every command in the documentation: the cheap ones are run, the others are held to what their
tool would accept.
"""

import dataclasses
import functools
import importlib
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from electra.config import merge, plain
from electra.finetuning.tasks import GLUE
from electra.nn.hf_names import config_json
from electra.pretraining.phases import phases_of
from pipelines.cli import cost
from pipelines.cli.estimate import estimate_finetuning
from pipelines.config.params import Params, PublishedConfig, load, read
from tests.conftest import ROOT, run
from tests.pipelines.cli.parsing import parse

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "benchmarks").rglob("*.md"))
TOOLS = "electra make dvc python prefect mlflow source git cd pip .ci/run docker pre-commit torchrun sbatch kubectl".split()
TOOLS += ["cp", "export", "ssh", "dask", "hf"]
# commands that are run as they stand, in a second or two each
CHEAP = {
    "electra --help",
    "electra check tiny",
    "electra params tiny",
    "electra params generator_size",
}
CHEAP |= {"dvc stage list --all"}


def commands(page: Path) -> list[str]:
    """The commands of a page: lines of its sh blocks, and code spans in its tables and text that
    begin with a tool.
    """
    text = page.read_text(encoding="utf-8")
    found = [
        line.split(" #")[0].strip()
        for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
        for line in block.replace("\\\n", " ").splitlines()
    ]
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    found += [
        span
        for span in re.findall(r"`([^`\n]+)`", prose)
        if span.split()[0] in TOOLS and " " in span
    ]
    return [
        command.removeprefix("$ ") for command in found if command and not command.startswith("#")
    ]


def blocks(page: Path) -> list[dict[str, Any]]:
    """The YAML blocks of a page, each some sections of params.yaml."""
    found = re.findall(r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    return [YAML(typ="safe").load(block) for block in found]


shipped = functools.cache(lambda: load(ROOT / "params.yaml"))


@functools.cache
def settings(page: Path, folder: Path) -> Params:
    """params.yaml with all that a page adds to it."""
    if not blocks(page):
        return shipped()
    values = dict(read(ROOT / "params.yaml"))
    for block in blocks(page):
        assert set(block) <= set(values), (
            f"{page.name}: a block begins with sections of params.yaml"
        )
        values = merge(values, block)
    (folder / "params.yaml").write_text(json.dumps(values))
    return load(folder / "params.yaml")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name
)
def test_the_settings_of_a_page_are_accepted(page: Path, folder: Path) -> None:
    assert settings(page, folder)


def test_the_first_two_commands_of_the_readme_are_the_two() -> None:
    first = [command for command in commands(ROOT / "README.md") if command.startswith("make ")][:2]
    assert first == ["make demo", "make test"]


@pytest.mark.parametrize(
    "command", sorted({command for page in PAGES for command in commands(page)} & CHEAP)
)
def test_a_cheap_command_works(command: str) -> None:
    tool, *words = shlex.split(command)
    run(ROOT, "-m", {"electra": "pipelines", "dvc": "dvc"}[tool], *words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_is_one_that_its_tool_knows(page: Path, folder: Path) -> None:
    for command in commands(page):
        # no pattern
        if not any(mark in command for mark in ("<", "…", "...")) or command.startswith("source"):
            check(command, functools.partial(settings, page, folder))


def check(command: str, params: Callable[[], Params]) -> None:
    """Hold a command to what its tool would accept."""
    tool, *words = shlex.split(command)
    if tool == "electra":
        tool, words = "python", ["-m", "pipelines", *words]
    if tool in {"python", "dvc"}:
        {"python": check_python, "dvc": check_dvc}[tool](words, params())
    elif tool in {"make", "prefect", "dask"}:
        {"make": check_make, "prefect": check_prefect, "dask": check_dask}[tool](words)
    elif tool == "source":
        assert words == [".venv/bin/activate"]
    elif tool == ".ci/run":
        assert (ROOT / ".ci" / "run").stat().st_mode & 0o100
    else:
        assert tool in TOOLS or "=" in tool, command


def check_make(words: list[str]) -> None:
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert targets
    for word in words:
        assert "=" in word or word in targets[1].split(), word


def check_python(words: list[str], params: Params) -> None:
    if words[:2] == ["-m", "pipelines"]:
        if words[2][:2] == "--" or len(words) == 3:  # a command without its arguments
            return
        options = parse(words[2:])
        sections = (
            params.published,
            params.corpora,
            params.tokens,
            params.tasks,
            params.models,
            params.ablations,
        )
        known = {"", *(name for section in sections for name in section)}
        assert words[2] == "new" or options.get("name", "") in known
    elif words[0] == "-m":
        place = ROOT / Path(*words[1].split("."))
        ours = place.with_suffix(".py").is_file() or (place / "__main__.py").is_file()
        assert ours or words[1] in {"pytest", "venv", "pip"}
    elif not words[0].startswith("-"):
        assert (ROOT / words[0]).is_file()


def check_dvc(words: list[str], params: Params) -> None:
    assert (
        words[0]
        in "repro stage metrics plots exp config status push pull queue dag gc commit remote import-url update".split()
    )
    values = read(ROOT / "params.yaml")
    sections = {"corpus": "corpora", "tokens": "tokens", "tasks": "tasks", "ablation": "ablations"}
    sections |= {"published": "published", "glue": "finetunings", "squad": "finetunings"}
    for word in words[1:]:
        if match := re.fullmatch(r"pipelines/dvc\.yaml:(\w+)@(.+)", word):
            assert match[2] in getattr(params, sections.get(match[1], "models")), word
        elif match := re.fullmatch(r"([\w.+-]+)=.*", word):
            section = values
            for key in match[1].split("."):
                assert key in section, word
                section = section[key]


def check_prefect(words: list[str]) -> None:
    if words[:2] == ["deployment", "run"]:
        from pipelines.flows.deployments import deployments

        assert words[2] in {
            f"{each.flow_name}/{each.name}" for each in deployments(shipped(), with_team=True)
        }
    else:
        assert words[0] in {"server", "worker", "work-pool", "flow-run"}


def check_dask(words: list[str]) -> None:
    command = importlib.import_module(f"distributed.cli.dask_{words[0]}").main
    command.make_context(words[0], words[1:])  # exits for what it does not know


def test_every_variable_of_ours_is_in_the_table_of_variables() -> None:
    files = [
        *(ROOT / "electra").rglob("*.py"),
        *(ROOT / "pipelines").rglob("*.py"),
        ROOT / "deploy" / "worker",
    ]
    files += [ROOT / "compose.yaml"]
    read = {
        name
        for file in files
        for name in re.findall(r"\bELECTRA_[A-Z_]*[A-Z]\b", file.read_text(encoding="utf-8"))
    }
    page = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")
    table = page[page.index("## Environment variables") :]
    assert set(re.findall(r"`(ELECTRA_[A-Z_]+)`", table)) == read


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_in_code_spans_exist(page: Path) -> None:
    """A path that the text names as part of the project, and that a run does not make, is there."""
    for span in re.findall(
        r"`((?:electra|pipelines|tests|docs|benchmarks)/[\w./+-]+)`",
        page.read_text(encoding="utf-8"),
    ):
        if "dvc.lock" not in span:
            assert (ROOT / span).exists(), span


def test_the_table_of_models_tells_their_settings() -> None:
    models = shipped().models
    text = (ROOT / "docs/training.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (\S+) \| (\d+) × (\d+) \| (\d+)(?:/(\d+))? \| ([\d ×,then]+) \| ([\d.]+)( [kM])? \|",
        text,
        re.M,
    )
    assert {row[0] for row in rows} == {"tiny", "mini", "small", "small_plus", "base", "large"}
    for name, layers, hidden, part, whole, shapes, steps, unit in rows:
        model = models[name]
        assert (model.encoder.layers, model.encoder.hidden) == (int(layers), int(hidden)), name
        assert model.generator.width == pytest.approx(int(part) / int(whole or 1), rel=1e-4), name
        phases = phases_of(model.pretrain, int(model.pretrain.steps))
        assert shapes == ", then ".join(f"{phase.batch} × {phase.length}" for phase in phases), name
        assert model.pretrain.steps == float(steps) * {"": 1, " k": 1_000, " M": 1_000_000}[unit], (
            name
        )


def test_what_the_page_on_published_says_of_cost_is_what_estimate_says(tmp_path: Path) -> None:
    params, page = shipped(), (ROOT / "docs/published.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| electra-(\w+) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", page, re.M
    )
    assert [row[0] for row in rows] == ["small", "base", "large"]
    for name, *hours, memory, disk in rows:
        settings = config_json(
            params.models[name].encoder, cost.PUBLISHED_VOCABULARY, "ElectraModel"
        )
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(settings))
        there = {f"electra-{name}": PublishedConfig(folder=str(tmp_path / name))}
        with_it = dataclasses.replace(params, published={**params.published, **there})
        told = estimate_finetuning(f"electra-{name}", with_it)
        for card, each in zip(("H100", "A100", "RTX 4090"), hours, strict=True):
            assert f"{card}: {each}, " in told
        assert f"memory: {memory} of the GPU" in told and f"disk: {disk} for" in told


def test_the_sample_world_page_lists_every_setting_of_tiny_that_is_not_published() -> None:
    text = (ROOT / "docs/sample-world.md").read_text(encoding="utf-8")
    table = text[text.index("## How tiny differs from the paper") :]
    listed = {
        word
        for cell in re.findall(r"^\| (.*?) \|", table, re.M)
        for word in re.findall(r"`(?:\w+\.)?(\w+)`", cell)
    }
    size = {
        "layers",
        "hidden",
        "ffn",
        "length",
        "batch",
        "steps",
        "warmup",
        "stride",
        "question_length",
    }
    no_matter = {"log_every", "eval_every", "save_every", "precision", "seeds"}
    no_matter |= {"min_eval_interval_minutes", "min_save_interval_minutes"}
    changed = set[str]()
    for mine, published in zip(*(everything_of(model) for model in ("tiny", "small")), strict=True):
        changed |= {key for key, value in mine.items() if value != published[key]}
    assert changed - size - no_matter == listed


def everything_of(model: str) -> list[dict[str, Any]]:
    """A model's settings: its networks', its objective's, its pre-training's, each task's."""
    params = shipped()
    changes, whole = (
        params.recipe(params.finetunings[model].recipe),
        plain(params.models[model].electra()),
    )
    tasks = [plain(params.finetune.resolve(task, changes)) for task in GLUE]
    return [*whole.values(), *tasks, plain(params.finetune.resolve("squad", changes))]
