"""Recipes of params.yaml: settings of fine-tuning in layers, of which later ones win.

    recipes.paper.defaults < recipes.paper.tasks.<task> < recipes.<name>.defaults <
    recipes.<name>.tasks.<task>

SQuAD's own settings are under `squad` instead of `tasks`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Annotated, Any

from pydantic import Field
from pydantic.dataclasses import dataclass

from electra.config import Settings, build, merge, nearest, require, require_unique
from electra.errors import BadConfig
from electra.finetuning.tasks import GLUE, FinetuneConfig, SquadConfig


@dataclass(frozen=True, kw_only=True)
class Recipe(Settings):
    """The changes of a recipe to the paper's, key by key."""

    defaults: dict[str, Any] = field(default_factory=dict)
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    squad: dict[str, Any] = field(default_factory=dict)
    run: tuple[str, ...] | None = None  # the tasks to run: all of a custom source, or the paper's


@dataclass(frozen=True, kw_only=True)
class PaperRecipe(Recipe):
    """The section `recipes.paper`, which all other recipes change."""

    run: tuple[str, ...] = tuple(GLUE)  # the GLUE tasks that a glue stage covers
    # processes of one thread each; 0: as many as the model's pretrain.threads
    workers: Annotated[int, Field(ge=0, le=1024)] = 0

    def __post_init__(self) -> None:
        require_unique(self.run, "run", empty=True)
        require_tasks(self.run, "run")
        require_tasks(self.tasks, "tasks")
        for name in (*self.tasks, "squad"):
            _merge(name, [("", self)])


@dataclass(frozen=True)
class ChangedRecipe:
    """The paper's recipe under the changes of another one, whose key is `where`. `custom` names the
    tasks that the model's source has besides GLUE's.
    """

    paper: PaperRecipe
    changes: Mapping[str, Any]
    where: str = "recipes.*"
    custom: Sequence[str] = ()

    def resolve(self, task: str) -> FinetuneConfig:
        """Return the settings of one task. `squad`, `squad1`, `squad2` for SQuAD.

        Raises BadConfig naming the layer (below `recipes.paper` or below `where`) that holds the
        faulty key, and for SQuAD's windows that skip text.
        """
        config = self._resolve(task)
        if isinstance(config, SquadConfig):
            config.check_merged(f"{self.where}.squad" if self.changes else "recipes.paper.squad")
        return config

    def _resolve(self, task: str) -> FinetuneConfig:
        recipe = build(Recipe, self.changes, self.where)
        require_tasks(recipe.tasks, f"{self.where}.tasks", self.custom)
        config = _merge(task, [("recipes.paper.", self.paper), (f"{self.where}.", recipe)])
        if config.init_from_task is not None:
            require_tasks(
                [config.init_from_task], f"{self.where}.tasks.{task}.init_from_task", self.custom
            )
        return config

    def check(self) -> None:
        """Raise BadConfig if anything is wrong with the changes, before anything is trained."""
        for name in (*GLUE, *self.custom, "squad"):
            self._resolve(name)
        self.selected()

    def selected(self) -> tuple[str, ...]:
        """Return the tasks to run for a model: those it names, or else all of its own source or the
        GLUE tasks of `run`.

        A task that starts from another one comes after it.
        """
        chosen = build(Recipe, self.changes, self.where).run
        names = (self.custom or self.paper.run) if chosen is None else chosen
        require_tasks(names, f"{self.where}.run", self.custom)
        require_unique(names, f"{self.where}.run", empty=True)
        configs = {name: self.resolve(name) for name in names}
        for name, config in configs.items():
            if config.init_from_task is None:
                continue
            start = configs.get(config.init_from_task)
            key = f"{self.where}.tasks.{name}"
            if start is None or start.init_from_task is not None:
                raise BadConfig(
                    f"{key}.init_from_task: is {config.init_from_task!r}, should be a task that is "
                    "run as well and starts from no other; add it to `run`"
                )
            require(
                config.new_layers == start.new_layers,
                f"{key}.new_layers: is {config.new_layers}, should be {start.new_layers} as for "
                f"{config.init_from_task}, whose encoder it starts from",
            )
        return tuple(sorted(names, key=lambda name: configs[name].init_from_task is not None))


def _merge(task: str, recipes: Sequence[tuple[str, Recipe]]) -> FinetuneConfig:
    """Return a task's settings of recipes, each with its key. Later ones win."""
    squad = task.startswith("squad")
    kind = SquadConfig if squad else FinetuneConfig
    values: dict[str, Any] = {}
    config = kind()
    for place, recipe in recipes:
        section = "squad" if squad else f"tasks.{task}"
        specific = recipe.squad if squad else recipe.tasks.get(task, {})
        for key, layer in (("defaults", recipe.defaults), (section, specific)):
            if layer:  # each is built alone, so that an error names its layer
                values = merge(values, layer)
                config = build(kind, values, f"{place}{key}")
    return config


def require_tasks(names: Iterable[str], where: str, custom: Sequence[str] = ()) -> None:
    """Raise BadConfig unless all names are tasks, of GLUE or `custom`."""
    known = (*GLUE, *custom)
    for name in names:
        if name not in known:
            advice = nearest(name, known) or f"the tasks are {', '.join(known)}"
            raise BadConfig(f"{where}.{name}: no such task; {advice}")
