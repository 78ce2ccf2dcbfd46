"""params.yaml to frozen dataclasses: one reader, the same YAML that DVC reads (1.2: `1e-4` is a
number, `on` is text).

Unknown and duplicate keys are refused with the nearest valid one, and every name that a section
uses for another (model -> tokens -> corpus, model -> encoder, fine-tuning -> model, tasks and
recipe) must exist.
"""

import functools
import os
import re
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic.dataclasses import dataclass

from electra.config import (
    Settings,
    build,
    digest,
    merge,
    nearest,
    require,
    require_unique,
    to_jsonable,
    without_defaults,
)
from electra.data.packing import TokensConfig
from electra.data.tokenizer import AnyTokenizer
from electra.errors import BadConfig, short_repr
from electra.finetuning.tasks import SQUAD, ArmName, FinetuneConfig, SquadConfig
from electra.nn.config import EncoderConfig
from electra.pretraining.config import (
    ElectraConfig,
    GeneratorConfig,
    ObjectiveConfig,
    PretrainConfig,
)
from pipelines.config.ablation_config import AblationConfig, Protocol, without_labels
from pipelines.config.groups import with_groups
from pipelines.config.recipes import ChangedRecipe, PaperRecipe, require_tasks
from pipelines.config.settings_file import one_line, read
from pipelines.sources import CorpusConfig, CustomTasks, LocalTasks, TaskSourceConfig

FILE = Path("params.yaml")
# set for a run of a model alone: its settings may not fit an ablation's arms
UNREAD = "ELECTRA_ABLATIONS_UNREAD"
Names = tuple[str, ...]
# names become folders, DVC stages and parts of dotted keys
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
SECTIONS = (  # the names of their entries are held to NAME
    "corpora",
    "tokens",
    "tasks",
    "encoders",
    "recipes",
    "models",
    "published",
    "finetunings",
    "ablations",
    "tokenizers",
)
RESULTS = ("curves", "report", "summary")  # folders in results/ that belong to no entry
PAPER = "paper"  # the recipe that the others change


@dataclass(frozen=True, kw_only=True)
class RunConfig(Settings):
    """The entries that a bare `dvc repro` covers."""

    models: tuple[str, ...]
    ablations: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Settings):
    """One pre-training: the source of its rows, its two networks, its objective and schedule. In
    params.yaml `encoder` is a name under `encoders`; here it is that entry.
    """

    tokens: str
    encoder: EncoderConfig
    pretrain: PretrainConfig
    generator: GeneratorConfig = field(default_factory=GeneratorConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)

    def __post_init__(self) -> None:
        self.electra()

    def electra(self) -> ElectraConfig:
        """Return the part that defines the pre-training."""
        return ElectraConfig(
            encoder=self.encoder,
            generator=self.generator,
            objective=self.objective,
            pretrain=self.pretrain,
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
        require_unique(self.arms, "arms")


@dataclass(frozen=True, kw_only=True)
class Params(Settings):
    """All of params.yaml. Sections that a dvc.yaml names have no defaults, since DVC knows none."""

    corpora: dict[str, CorpusConfig]
    tokens: dict[str, TokensConfig]
    tasks: dict[str, TaskSourceConfig]
    encoders: dict[str, EncoderConfig]
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
        self._check_names()
        for name, corpus in self.corpora.items():
            if decontaminate := corpus.cleaning.decontaminate:
                where = f"corpora.{name}.cleaning.decontaminate.tasks"
                self.require("tasks", decontaminate.tasks, where)
        for name, tokens in self.tokens.items():
            self.require("corpora", tokens.corpus, f"tokens.{name}.corpus")
        for name, model in self.models.items():
            self.require("tokens", model.tokens, f"models.{name}.tokens")
            lengths = self.tokens[model.tokens].lengths
            listed = f"tokens.{model.tokens}.lengths ({', '.join(map(str, lengths))})"
            for length in model.pretrain.lengths:
                sentence = f"is {length}, should be in {listed}; add it there"
                require(length in lengths, f"models.{name}.pretrain.length: {sentence}")
        require(PAPER in self.recipes, f"recipes.{PAPER}: is missing; the other recipes change it")
        ChangedRecipe(self.finetune, {}).check()
        for name in self.finetunings:
            self._check_finetuning(name)
        if UNREAD not in os.environ:
            for name in self.ablations:
                self._check_ablation(name)
        for section in ("models", "ablations"):
            names = getattr(self.run, section)
            require_unique(names, f"run.{section}", empty=True)
            for name in names:
                self.require(section, name, f"run.{section}")
        for name in self.run.models:
            self.require("finetunings", name, "run.models")

    def _check_names(self) -> None:
        for section in SECTIONS:
            for name in getattr(self, section):
                where = f"{section}.{short_repr(name)[1:-1]}"
                sentence = f"{where}: should be a name of letters, digits, _ and -"
                require(NAME.fullmatch(name) is not None, sentence)
        for name in self.published:
            sentence = f"published.{name}: is also the name of a model; choose another"
            require(name not in self.models, sentence)
        used = set(RESULTS)
        for section in ("finetunings", "ablations"):
            for name in getattr(self, section):
                sentence = f"{section}.{name}: results/{name} has another use; choose another name"
                require(name not in used, sentence)
            used.update(getattr(self, section))

    def _check_finetuning(self, name: str) -> None:
        config = self.finetunings[name]
        where = f"finetunings.{name}"
        if config.model not in self.published:
            self.require("models", config.model, f"{where}.model")
        self.require("tasks", config.tasks, f"{where}.tasks")
        self.require("recipes", config.recipe, f"{where}.recipe")
        recipe = self.finetuning_recipe(name)
        recipe.check()
        if model := self.models.get(config.model):
            tasks = recipe.selected()
            asks_squad = name in self.run.models or "squad" in recipe.changes
            if asks_squad and self.squad_versions(name):
                tasks += ("squad",)
            _require_room(recipe, tasks, model.encoder.positions)

    def _check_ablation(self, name: str) -> None:
        ablation = self.ablations[name]
        base = ablation.base
        where = f"ablations.{name}"
        keys = {"models": "model", "protocols": "model", "tasks": "data", "recipes": "recipe"}
        for section, key in keys.items():
            self.require(section, getattr(base, key), f"{where}.base.{key}")
        expected = self.models[base.model].tokens
        sentence = f"is {base.tokens}, should be the model's ({expected})"
        require(base.tokens == expected, f"{where}.base.tokens: {sentence}")
        shortest = min(self.arm(name, arm).encoder.positions for arm in ablation.settings)
        recipe = self.ablation_recipe(name)
        replace(recipe, changes=ablation.protocol.finetune).check()
        tasks = ablation.protocol.tasks
        require_tasks(tasks, f"{where}.protocol.tasks", (*SQUAD.values(), *recipe.custom))
        _require_room(recipe, tasks, shortest)

    @functools.cached_property
    def finetune(self) -> PaperRecipe:
        """The recipe that all others change."""
        return build(PaperRecipe, self.recipes[PAPER], f"recipes.{PAPER}")

    def recipe(self, name: str) -> dict[str, Any]:
        """Return a recipe's changes to the paper's."""
        return {} if name == PAPER else self.recipes[name]

    def changes(self, finetuning: str) -> dict[str, Any]:
        """Return a fine-tuning's changes to the paper's recipe: its own recipe, and its arms."""
        config = self.finetunings[finetuning]
        return merge(self.recipe(config.recipe), {"defaults": {"arms": list(config.arms)}})

    def finetuning_recipe(self, finetuning: str) -> ChangedRecipe:
        """Return the recipe of a fine-tuning."""
        config = self.finetunings[finetuning]
        custom = self.custom_tasks(config.tasks)
        return ChangedRecipe(
            self.finetune, self.changes(finetuning), f"recipes.{config.recipe}", custom
        )

    def ablation_recipe(self, ablation: str) -> ChangedRecipe:
        """Return the recipe of an ablation's fine-tunings."""
        config = self.ablations[ablation]
        changes = merge(self.recipe(config.base.recipe), config.protocol.finetune)
        where = f"ablations.{ablation}.protocol.finetune"
        return ChangedRecipe(self.finetune, changes, where, self.custom_tasks(config.base.data))

    def task_config(self, finetuning: str, task: str) -> FinetuneConfig:
        """Return the settings of one task of a fine-tuning. `squad` for SQuAD."""
        return self.finetuning_recipe(finetuning).resolve(task)

    def selected_tasks(self, finetuning: str) -> Names:
        """Return the tasks of a fine-tuning that the stage `glue` runs, in their order."""
        return self.finetuning_recipe(finetuning).selected()

    def squad_versions(self, finetuning: str) -> Names:
        """Return the versions of SQuAD to run, none of a source without SQuAD."""
        source = self.tasks[self.finetunings[finetuning].tasks]
        if isinstance(source, CustomTasks):
            return ()
        if isinstance(source, LocalTasks) and source.squad is None:
            return ()
        config = self.task_config(finetuning, "squad")
        assert isinstance(config, SquadConfig)
        return config.versions

    def custom_tasks(self, source: str) -> Names:
        """Return the names of the tasks that a source has besides GLUE's."""
        tasks = self.tasks[source]
        return tuple(tasks.tasks) if isinstance(tasks, CustomTasks) else ()

    def require(self, section: str, name: str, where: str = "") -> None:
        """Raise BadConfig unless a section has an entry `name`."""
        names = getattr(self, section)
        if name not in names:
            advice = nearest(name, names) or f"there are {', '.join(names) or 'none'}"
            raise BadConfig(f"{where or section}: no {section} entry {short_repr(name)}; {advice}")

    def arm(self, ablation: str, arm: str) -> ModelConfig:
        """Return the model of one arm: the ablation's model with the arm's settings."""
        where = f"ablations.{ablation}.arms.{arm}"
        config = self.ablations[ablation]
        values = to_jsonable(self.models[config.base.model])
        for key, value in config.settings[arm].items():
            *path, last = key.split(".")
            section = values
            for part in path:
                section = section.get(part)
                if not isinstance(section, dict):
                    raise BadConfig(f"{where}.{key}: no such setting of the model")
            section[last] = value
        return build(ModelConfig, values, where)

    def list_finetunings(self, name: str) -> Names:
        """Return the fine-tunings of a model, and the one with this name."""
        return tuple(key for key, config in self.finetunings.items() if name in {key, config.model})

    def all_settings(self, name: str) -> dict[str, Any]:
        """Return all settings of a name: every arm of an ablation, or a pre-training or folder
        and its fine-tunings.
        """
        if name in self.ablations:
            return {arm: to_jsonable(self.arm(name, arm)) for arm in self.ablations[name].settings}
        if name not in {*self.published, *self.finetunings}:
            self.require("models", name)
        model = self.models.get(name) or self.published.get(name)
        settings: dict[str, Any] = to_jsonable(model) if model else {}
        settings["finetunings"] = {
            key: to_jsonable(self.finetunings[key]) | {"changes": self.changes(key)}
            for key in self.list_finetunings(name)
        }
        return settings


def _require_room(recipe: ChangedRecipe, tasks: Names, longest: int) -> None:
    """Raise BadConfig if a task's rows are longer than the encoder allows, or if SQuAD's stride
    would skip text.
    """
    for task in tasks:
        length = recipe.resolve(task).length
        sentence = f"has rows of {length} tokens for {task}; the encoder takes at most {longest}"
        require(length <= longest, f"{recipe.where}: {sentence}")


def settings_digest(ablation: str, params: Params) -> str:
    """Return one hash of all settings that an ablation's results depend on. It doesn't depend on
    names, or on where a setting is written.
    """
    config = params.ablations[ablation]
    recipe = params.ablation_recipe(ablation)
    tasks = {task: without_defaults(recipe.resolve(task)) for task in config.protocol.tasks}
    settings = without_defaults(config.base) | without_defaults(config.protocol)
    if config.arms:
        settings["arms"] = without_labels(config.arms)
    if config.grid:
        settings["grid"] = {axis: without_labels(config.axis(axis)) for axis in config.grid}
    for key in ("recipe", "finetune"):
        settings.pop(key, None)
    return digest(settings, without_defaults(params.models[config.base.model]), tasks)


def load(path: Path = FILE, over: Path | None = None) -> Params:
    """Read params.yaml, with another file's entries laid over it. Raises a BadConfig that names the
    key of a mistake.
    """
    values = read(path)
    file = path.name
    if over is not None:
        values = merge(values, read(over))
        file = f"{file} with {over}"
    try:
        return build(Params, with_groups(values), "")
    except BadConfig as error:
        raise BadConfig(f"{file}: {one_line(error)}") from None
