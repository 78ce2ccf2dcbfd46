"""params.yaml to frozen dataclasses: one reader, the same YAML that DVC reads (1.2: `1e-4` is a
number, `on` is text).

Unknown and duplicate keys are refused with the nearest valid one, and every name that a section
uses for another (model -> tokens -> corpus, model -> encoder, fine-tuning -> model, tasks and
recipe) must exist.
"""

import functools
import os
import re
from collections.abc import Iterable
from dataclasses import field, fields
from pathlib import Path
from typing import Any, Literal

from pydantic.dataclasses import dataclass

from electra.config import (
    Settings,
    build,
    digest,
    merge,
    nearest,
    plain,
    require,
    require_once,
    written,
)
from electra.data.packing import TokensConfig
from electra.data.tokenizer import AnyTokenizer
from electra.errors import BadConfig, shown
from electra.finetuning.tasks import GLUE, SQUAD, ArmName
from electra.nn.config import AnyEncoderConfig
from electra.pretraining.config import (
    ElectraConfig,
    GeneratorConfig,
    ObjectiveConfig,
    PretrainConfig,
)
from pipelines.config.ablation_config import AblationConfig, Protocol
from pipelines.config.groups import with_groups
from pipelines.config.recipes import PaperRecipe
from pipelines.config.settings_file import one_line, read
from pipelines.sources import CorpusConfig, CustomTasks, LocalTasks, TaskSourceConfig

FILE = Path("params.yaml")
# set for a run of a model alone: its settings may not fit an ablation's arms
UNREAD = "ELECTRA_ABLATIONS_UNREAD"
Names = tuple[str, ...]
# names become folders, DVC stages and parts of dotted keys
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
SECTIONS = (
    "corpora",
    "tokens",
    "tasks",
    "encoders",
    "recipes",
    "models",
    "published",
    "finetunings",
)
SEEDS = 1_000  # at most: far above all use, and each layer of each task is checked with them
PAPER = "paper"  # the recipe that the others change


@dataclass(frozen=True, kw_only=True)
class RunConfig(Settings):
    """What a bare `dvc repro` covers."""

    models: tuple[str, ...]
    ablations: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Settings):
    """One pre-training: where its rows come from, its two networks, its objective and schedule.

    In params.yaml `encoder` is a name under `encoders`; here it is that entry.
    """

    tokens: str
    encoder: AnyEncoderConfig
    pretrain: PretrainConfig
    generator: GeneratorConfig = field(default_factory=GeneratorConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)

    def __post_init__(self) -> None:
        self.electra()

    def electra(self) -> ElectraConfig:
        """The part that defines the pre-training."""
        return ElectraConfig(
            **{field.name: getattr(self, field.name) for field in fields(ElectraConfig)}
        )


@dataclass(frozen=True, kw_only=True)
class PublishedConfig(Settings):
    """A model that was pre-trained elsewhere, as a Hugging Face folder."""

    folder: str


@dataclass(frozen=True, kw_only=True)
class FinetuningConfig(Settings):
    """A model, pre-trained here or elsewhere, on the tasks of a source, by a recipe."""

    model: str
    tasks: str
    recipe: str
    arms: tuple[ArmName, ...] = ("pretrained",)

    def __post_init__(self) -> None:
        require_once(self.arms, "arms")


@dataclass(frozen=True, kw_only=True)
class Params(Settings):
    """All of params.yaml. Sections that a dvc.yaml names have no defaults, since DVC knows none."""

    corpora: dict[str, CorpusConfig]
    tokens: dict[str, TokensConfig]
    tasks: dict[str, TaskSourceConfig]
    encoders: dict[str, AnyEncoderConfig]
    recipes: dict[str, dict[str, Any]]
    models: dict[str, ModelConfig]
    published: dict[str, PublishedConfig]
    finetunings: dict[str, FinetuningConfig]
    ablations: dict[str, AblationConfig]
    run: RunConfig
    tokenizers: dict[str, AnyTokenizer] = field(default_factory=dict)
    protocols: dict[str, Protocol] = field(default_factory=dict)
    tracking: Literal["mlflow", "none"] = "mlflow"

    def __post_init__(self) -> None:
        for section in (*SECTIONS, "ablations", "tokenizers"):
            for name in getattr(self, section):
                fits = NAME.fullmatch(name) is not None
                require(
                    fits,
                    f"{section}.{shown(name)[1:-1]}: should be a name of letters, digits, _ and -",
                )
        for name, corpus in self.corpora.items():
            if scored := corpus.cleaning.decontaminate:
                self.require("tasks", scored.tasks, f"corpora.{name}.cleaning.decontaminate.tasks")
        for name, tokens in self.tokens.items():
            self.require("corpora", tokens.corpus, f"tokens.{name}.corpus")
        for name, model in self.models.items():
            self.require("tokens", model.tokens, f"models.{name}.tokens")
            lengths = self.tokens[model.tokens].lengths
            listed = f"should be in tokens.{model.tokens}.lengths ({', '.join(map(str, lengths))}); add it there"
            for length in model.pretrain.lengths:
                require(length in lengths, f"models.{name}.pretrain.length: is {length}, {listed}")
        for name in self.published:
            require(
                name not in self.models,
                f"published.{name}: is the name of a model, too; choose another",
            )
        for name, recipe in self.recipes.items():
            _require_few_seeds(recipe, f"recipes.{name}")
        for name, ablation in self.ablations.items():
            _require_few_seeds(ablation.finetune, f"ablations.{name}.finetune")
        require(PAPER in self.recipes, f"recipes.{PAPER}: is missing; the other recipes change it")
        self.finetune.check({})
        for name in self.finetunings:
            self._check_finetuning(name)
        for name in self.ablations:
            if UNREAD not in os.environ:
                self._check_ablation(name)
        for section in ("models", "ablations"):
            names = getattr(self.run, section)
            require_once(names, f"run.{section}", empty=True)
            for name in names:
                self.require(section, name, f"run.{section}")
        for name in self.run.models:
            self.require("finetunings", name, "run.models")

    def _check_finetuning(self, name: str) -> None:
        config, where = self.finetunings[name], f"finetunings.{name}"
        if config.model not in self.published:
            self.require("models", config.model, f"{where}.model")
        self.require("tasks", config.tasks, f"{where}.tasks")
        self.require("recipes", config.recipe, f"{where}.recipe")
        recipe, changes, own = (
            f"recipes.{config.recipe}",
            self.changes(name),
            self.own_tasks(config.tasks),
        )
        self.finetune.check(changes, recipe, own)
        if model := self.models.get(config.model):
            asked = name in self.run.models or "squad" in changes
            squad = ("squad",) if asked and self.squad_versions(name) else ()
            tasks = (*self.finetune.selected(changes, recipe, own), *squad)
            self.require_room(recipe, changes, tasks, own, model.encoder.positions)

    def _check_ablation(self, name: str) -> None:
        ablation, where = self.ablations[name], f"ablations.{name}"
        of = {"models": "model", "protocols": "model", "tasks": "data", "recipes": "recipe"}
        for section, key in of.items():
            self.require(section, getattr(ablation, key), f"{where}.base.{key}")
        model, own = self.models[ablation.model], self.own_tasks(ablation.data)
        fits = ablation.tokens == model.tokens
        require(
            fits,
            f"{where}.base.tokens: is {ablation.tokens}, should be the model's ({model.tokens})",
        )
        shortest = min(self.arm(name, arm).encoder.positions for arm in ablation.settings)
        self.finetune.check(ablation.finetune, f"{where}.finetune", own)
        tasks = (*GLUE, *SQUAD.values(), *own)
        for task in ablation.tasks:
            do = nearest(task, tasks) or f"the tasks are {', '.join(tasks)}"
            require(task in tasks, f"{where}.tasks: no task {task}; {do}")
        changes = merge(self.recipe(ablation.recipe), ablation.finetune)
        self.require_room(f"{where}.finetune", changes, ablation.tasks, own, shortest)

    @functools.cached_property
    def finetune(self) -> PaperRecipe:
        """The recipe that all others change."""
        return build(PaperRecipe, self.recipes[PAPER], f"recipes.{PAPER}")

    def recipe(self, name: str) -> dict[str, Any]:
        """What a recipe changes of the paper's."""
        return {} if name == PAPER else self.recipes[name]

    def changes(self, finetuning: str) -> dict[str, Any]:
        """What a fine-tuning changes of the paper's recipe: its own recipe, and its arms."""
        config = self.finetunings[finetuning]
        return merge(self.recipe(config.recipe), {"defaults": {"arms": list(config.arms)}})

    def require_room(
        self, where: str, changes: dict[str, Any], tasks: Iterable[str], own: Names, longest: int
    ) -> None:
        """Raise BadConfig where a task has rows beyond the encoder's positions, or SQuAD windows
        that skip text.
        """
        for task in tasks:
            squad = (
                self.finetune.resolve_squad(changes, where) if task.startswith("squad") else None
            )
            length = (squad or self.finetune.resolve(task, changes, where, own)).length
            fits = length <= longest
            require(
                fits,
                f"{where}: has rows of {length} tokens for {task}; the encoder takes at most {longest}",
            )

    def own_tasks(self, source: str) -> tuple[str, ...]:
        """The names of the tasks that a source has beside GLUE's."""
        tasks = self.tasks[source]
        return tuple(tasks.tasks) if isinstance(tasks, CustomTasks) else ()

    def squad_versions(self, finetuning: str) -> tuple[str, ...]:
        """The versions of SQuAD to run; none if the source has no SQuAD."""
        config = self.finetunings[finetuning]
        source = self.tasks[config.tasks]
        if isinstance(source, CustomTasks) or (
            isinstance(source, LocalTasks) and source.squad is None
        ):
            return ()
        return self.finetune.resolve_squad(
            self.changes(finetuning), f"recipes.{config.recipe}"
        ).versions

    def require(self, section: str, name: str, where: str = "") -> None:
        """Raise BadConfig unless a section has an entry `name`."""
        names = getattr(self, section)
        if name not in names:
            known = f"there are {', '.join(names)}" if names else "there are none"
            raise BadConfig(
                f"{where or section}: no {section} entry {shown(name)}; {nearest(name, names) or known}"
            )

    def arm(self, ablation: str, arm: str) -> ModelConfig:
        """The model of one arm: the ablation's model with the arm's settings."""
        where = f"ablations.{ablation}.arms.{arm}"
        values = plain(self.models[self.ablations[ablation].model])
        for key, value in self.ablations[ablation].settings[arm].items():
            *path, last = key.split(".")
            section = values
            for part in path:
                section = section.get(part)
                if not isinstance(section, dict):
                    raise BadConfig(f"{where}.{key}: no such setting of the model")
            section[last] = value
        return build(ModelConfig, values, where)

    def finetunings_of(self, name: str) -> tuple[str, ...]:
        """The fine-tunings of a model, and the one with this name."""
        return tuple(key for key, config in self.finetunings.items() if name in {key, config.model})

    def shown(self, name: str) -> dict[str, Any]:
        """All settings of a name: every arm of an ablation; else a pre-training or folder, and its
        fine-tunings.
        """
        if name in self.ablations:
            return {arm: plain(self.arm(name, arm)) for arm in self.ablations[name].settings}
        if name not in {*self.published, *self.finetunings}:
            self.require("models", name)
        found: dict[str, Any] = next(
            (plain(kind[name]) for kind in (self.models, self.published) if name in kind), {}
        )
        tuned = {
            of: plain(self.finetunings[of]) | {"changes": self.changes(of)}
            for of in self.finetunings_of(name)
        }
        return found | ({"finetunings": tuned} if tuned else {})


def _require_few_seeds(values: dict[str, Any], where: str) -> None:
    """Refuse a list of seeds, anywhere in the settings of a fine-tuning, that would take minutes to
    check.
    """
    for key, value in values.items():
        if isinstance(value, dict):
            _require_few_seeds(value, f"{where}.{key}")
        elif key == "seeds" and isinstance(value, list) and len(value) > SEEDS:
            raise BadConfig(
                f"{where}.seeds: has {len(value):,} entries, should have at most {SEEDS:,}"
            )


def settings_digest(ablation: str, params: Params) -> str:
    """One hash of all settings that an ablation's results depend on; where they are written and
    names do not count.
    """
    config = params.ablations[ablation]
    changes, own = (
        merge(params.recipe(config.recipe), config.finetune),
        params.own_tasks(config.data),
    )
    tasks = {
        task: written(params.finetune.resolve(task, changes, own=own)) for task in config.tasks
    }
    others = {"recipe", "finetune", "title", "labels", "reference"}
    settings = {key: value for key, value in written(config).items() if key not in others}
    return digest(settings, written(params.models[config.model]), tasks)


def load(path: Path = FILE, over: Path | None = None) -> Params:
    """Read params.yaml, with another file's entries laid over it; what is wrong is a BadConfig that
    names the key.
    """
    values, file = read(path), path.name
    if over is not None:
        values, file = merge(dict(values), read(over)), f"{file} with {over}"
    try:
        return build(Params, with_groups(values), "")
    except BadConfig as error:
        raise BadConfig(f"{file}: {one_line(error)}") from None
