"""The documentation: every command is one that its tool accepts, every link leads somewhere, and
tables say what the settings and the code say.
"""

import dataclasses
import functools
import json
import re
import shlex
from itertools import chain
from pathlib import Path

import pytest

from electra.config import merge, to_jsonable
from electra.files import write_json
from electra.finetuning.tasks import GLUE
from electra.nn.hf_names import config_json
from electra.pretraining.phases import make_phases
from pipelines.cli import cost
from pipelines.cli.estimate import estimate_finetuning
from pipelines.config.params import PublishedConfig, load
from pipelines.config.recipes import ChangedRecipe
from pipelines.config.settings_file import read
from pipelines.flows.deployments import deployments
from tests.support.command_lines import parse
from tests.support.pages import blocks, typed
from tests.support.project import ROOT, read_text

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "benchmarks").rglob("*.md"))
TEXTS = {page: page.read_text() for page in PAGES}
CHECKED = "electra make dvc python prefect".split()
TOOLS = "source git cd pip .ci/run docker pre-commit torchrun sbatch kubectl cp export ssh dask hf mlflow".split()
PATTERN = re.compile(r"[<…]|\.\.\.")  # of a command that stands for several
SECTIONS = {"corpus": "corpora", "tokens": "tokens", "tasks": "tasks", "ablation": "ablations"}
SECTIONS |= {"published": "published", "glue": "finetunings", "squad": "finetunings"}


def commands(page):
    """Return the commands that a reader of a page types, and code spans that begin with a tool."""
    prose = re.sub(r"^```.*?^```", "", TEXTS[page], flags=re.M | re.S)
    spans = re.findall(r"`([^`\n]+ [^`\n]+)`", prose)
    return [*typed(page), *(span for span in spans if span.split()[0] in (*CHECKED, *TOOLS))]


shipped = functools.cache(lambda: load(ROOT / "params.yaml"))


def settings(page, folder):
    """Return params.yaml with all that a page adds to it."""
    values = read(ROOT / "params.yaml")
    for block in blocks(page):
        assert set(block) <= set(values), f"{page.name}: a block begins with sections"
        values = merge(values, block)
    (folder / "params.yaml").write_text(json.dumps(values))
    return load(folder / "params.yaml")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_and_commands_of_a_page_are_accepted(page, tmp_path):
    params = settings(page, tmp_path) if blocks(page) else shipped()
    for command in commands(page):
        if not PATTERN.search(command):
            tool, *words = shlex.split(command.removeprefix("$ "))
            if words[:2] == ["-m", "pipelines"]:
                tool, words = "electra", words[2:]
            check(tool, words, params)


def check(tool, words, params):
    """Fail for a command that its tool would refuse."""
    assert tool in (*CHECKED, *TOOLS) or "=" in tool, (tool, words)
    if tool == "make":
        (targets,) = re.findall(r"^\.PHONY: (.*)$", read_text("Makefile"), re.M)
        assert {word for word in words if "=" not in word} <= {*targets.split()}, words
    elif tool == "dvc":
        for word in words[1:]:
            if match := re.fullmatch(r"pipelines/dvc\.yaml:(\w+)@(.+)", word):
                assert match[2] in getattr(params, SECTIONS.get(match[1], "models")), word
            elif match := re.fullmatch(r"([\w.+-]+)=.*", word):
                section = read(ROOT / "params.yaml")
                for key in match[1].split("."):
                    section = section[key]
    elif tool == "prefect" and words[:2] == ["deployment", "run"]:
        assert words[2] in {each.full_name for each in deployments(shipped(), with_team=True)}
    elif tool == "electra" and len(words) > 1 and words[0][:2] != "--":
        name = parse(words).get("name", "")
        known = [*chain(*(getattr(params, section) for section in (*SECTIONS.values(), "models")))]
        assert words[0] == "new" or not name or name in known, words
    elif tool == "python" and words[0][0] != "-":
        assert (ROOT / words[0]).is_file(), words
    elif tool == "python" and words[0] == "-m" and words[1] not in {"pytest", "venv", "pip"}:
        place = ROOT / Path(*words[1].split("."))
        assert place.with_suffix(".py").is_file() or (place / "__main__.py").is_file(), words


def test_table_of_variables_has_every_variable_that_is_read():
    code = read_text("deploy/worker") + read_text("compose.yaml")
    for package in ("electra", "pipelines"):
        code += "".join(file.read_text() for file in (ROOT / package).rglob("*.py"))
    table = read_text("docs/operate.md").partition("## Environment variables")[2]
    names = re.findall(r"\bELECTRA_[A-Z_]*[A-Z]\b", code)
    assert set(re.findall(r"`(ELECTRA_[A-Z_]+)`", table)) == set(names)


def test_links_and_paths_lead_somewhere():
    missing = []
    for page, text in TEXTS.items():
        targets = re.findall(r"\]\((?![a-z]+:)([^)#\s]+)", text)
        places = [page.parent / target for target in targets]
        paths = re.findall(r"`((?:electra|pipelines|tests|docs|benchmarks)/[\w./+-]+)`", text)
        places += [ROOT / path for path in paths if "dvc.lock" not in path]  # a run writes locks
        missing += [(page.name, str(place)) for place in places if not place.exists()]
    assert not missing


def test_the_table_of_models_tells_their_settings():
    models = shipped().models
    row = r"^\| (\S+) \| (\d+) × (\d+) \| (\d+)(?:/(\d+))? \| ([\d ×,then]+) \| ([\d.]+)( [kM])? \|"
    rows = re.findall(row, read_text("docs/training.md"), re.M)
    assert {row[0] for row in rows} == {"tiny", "mini", "small", "small_plus", "base", "large"}
    for name, layers, hidden, part, whole, shapes, steps, unit in rows:
        model = models[name]
        assert (model.encoder.layers, model.encoder.hidden) == (int(layers), int(hidden)), name
        assert model.generator.width == pytest.approx(int(part) / int(whole or 1), rel=1e-4), name
        phases = make_phases(model.pretrain, int(model.pretrain.steps))
        assert shapes == ", then ".join(f"{phase.batch} × {phase.length}" for phase in phases), name
        factor = {"": 1, " k": 1_000, " M": 1_000_000}[unit]
        assert model.pretrain.steps == float(steps) * factor, name


def test_what_the_page_on_published_says_of_cost_is_what_estimate_says(tmp_path):
    params = shipped()
    row = r"^\| electra-(\w+) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$"
    rows = re.findall(row, read_text("docs/published.md"), re.M)
    assert [row[0] for row in rows] == ["small", "base", "large"]
    for name, *hours, memory, disk in rows:
        encoder = params.models[name].encoder
        settings = config_json(encoder, cost.PUBLISHED_VOCABULARY, "ElectraModel")
        (tmp_path / name).mkdir()
        write_json(tmp_path / name / "config.json", settings)
        there = {f"electra-{name}": PublishedConfig(folder=str(tmp_path / name))}
        with_it = dataclasses.replace(params, published={**params.published, **there})
        estimate = estimate_finetuning(f"electra-{name}", with_it)
        for card, each in zip(("H100", "A100", "RTX 4090"), hours, strict=True):
            assert f"{card}: {each}, " in estimate
        assert f"memory: {memory} of the GPU" in estimate and f"disk: {disk} for" in estimate


def test_the_sample_world_page_lists_every_setting_of_tiny_that_is_not_published():
    table = read_text("docs/sample-world.md").partition("## How tiny differs from the paper")[2]
    cells = " ".join(re.findall(r"^\| (.*?) \|", table, re.M))
    listed = set(re.findall(r"`(?:\w+\.)?(\w+)`", cells))
    size = "layers hidden ffn length batch steps warmup stride question_length"
    no_matter = "log_every eval_every save_every precision seeds"
    no_matter += " min_eval_interval_minutes min_save_interval_minutes"
    changed = set()
    for ours, published in zip(*(everything_of(model) for model in ("tiny", "small")), strict=True):
        changed |= {key for key, value in ours.items() if value != published[key]}
    assert changed - {*size.split(), *no_matter.split()} == listed


def everything_of(model):
    """A model's settings: its networks', its objective's, its pre-training's, each task's."""
    params = shipped()
    changes = params.recipe(params.finetunings[model].recipe)
    whole = to_jsonable(params.models[model].electra())
    recipe = ChangedRecipe(params.finetune, changes)
    return [*whole.values(), *(to_jsonable(recipe.resolve(task)) for task in (*GLUE, "squad"))]
