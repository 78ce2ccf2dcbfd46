"""Recipes of params.yaml: settings of fine-tuning in layers, of which later ones win.

    recipes.paper.defaults < recipes.paper.tasks.<task> < recipes.<own>.defaults <
    recipes.<own>.tasks.<task>

SQuAD's own settings stand under `squad` instead of `tasks`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Annotated, Any

from pydantic import Field
from pydantic.dataclasses import dataclass

from electra.config import Settings, build, merge, nearest, require, require_once
from electra.finetuning.tasks import GLUE, FinetuneConfig, SquadConfig


@dataclass(frozen=True, kw_only=True)
class Recipe(Settings):
    """What a recipe changes of the paper's one, key by key."""

    defaults: dict[str, Any] = field(default_factory=dict)
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    squad: dict[str, Any] = field(default_factory=dict)
    run: tuple[str, ...] | None = None  # the tasks to run: all of one's own source, or the paper's


@dataclass(frozen=True, kw_only=True)
class PaperRecipe(Recipe):
    """The section `recipes.paper`, which all other recipes change."""

    run: tuple[str, ...] = tuple(GLUE)  # the GLUE tasks that a glue stage covers
    # processes of one thread each; 0: as many as the model's pretrain.threads
    workers: Annotated[int, Field(ge=0, le=1024)] = 0

    def __post_init__(self) -> None:
        require_once(self.run, "run", empty=True)
        _require_tasks(self.run, "run")
        _require_tasks(self.tasks, "tasks")
        for name in (*self.tasks, "squad"):
            _merge(name, [("", self)])

    def resolve(
        self,
        task: str,
        changes: Mapping[str, Any],
        where: str = "recipes.*",
        own: Sequence[str] = (),
    ) -> FinetuneConfig:
        """Return the settings of one task under the changes of a recipe. `squad`, `squad1`,
        `squad2` for SQuAD.

        `own` names the tasks that the model's source has besides GLUE's. Raises BadConfig naming
        the layer (below `recipes.paper` or below `where`) that holds the faulty key, and for
        SQuAD's windows that skip text.
        """
        config = self._resolve(task, changes, where, own)
        if isinstance(config, SquadConfig):
            config.check_merged(f"{where}.squad" if changes else "recipes.paper.squad")
        return config

    def _resolve(
        self, task: str, changes: Mapping[str, Any], where: str, own: Sequence[str]
    ) -> FinetuneConfig:
        recipe = build(Recipe, changes, where)
        _require_tasks(recipe.tasks, f"{where}.tasks", own)
        config = _merge(task, [("recipes.paper.", self), (f"{where}.", recipe)])
        if config.init_from_task is not None:
            _require_tasks([config.init_from_task], f"{where}.tasks.{task}.init_from_task", own)
        return config

    def check(
        self, changes: Mapping[str, Any], where: str = "recipes.*", own: Sequence[str] = ()
    ) -> None:
        """Raise BadConfig if anything is wrong with the changes, before anything is trained."""
        for name in (*GLUE, *own, "squad"):
            self._resolve(name, changes, where, own)
        self.selected(changes, where, own)

    def selected(
        self, changes: Mapping[str, Any], where: str = "recipes.*", own: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Return the tasks to run for a model: what it names, or else all of its own source or the
        GLUE tasks of `run`.

        A task that starts from another one comes after it.
        """
        chosen = build(Recipe, changes, where).run
        names = (own or self.run) if chosen is None else chosen
        _require_tasks(names, f"{where}.run", own)
        require_once(names, f"{where}.run", empty=True)
        configs = {name: self.resolve(name, changes, where, own) for name in names}
        for name, config in configs.items():
            if config.init_from_task is None:
                continue
            start = configs.get(config.init_from_task)
            key = f"{where}.tasks.{name}"
            runs_first = start is not None and start.init_from_task is None
            rule = "should be a task that is run as well and starts from no other; add it to `run`"
            require(runs_first, f"{key}.init_from_task: is {config.init_from_task!r}, {rule}")
            same = start is not None and config.new_layers == start.new_layers
            layers = f"is {config.new_layers}, should be {start.new_layers if start else 0}"
            rule = f"{layers} as for {config.init_from_task}, whose encoder it starts from"
            require(same, f"{key}.new_layers: {rule}")
        return tuple(sorted(names, key=lambda name: configs[name].init_from_task is not None))


def _merge(task: str, recipes: Sequence[tuple[str, Recipe]]) -> FinetuneConfig:
    """Return a task's settings of recipes, each with the place it stands at. Later ones win."""
    squad = task.startswith("squad")
    kind = SquadConfig if squad else FinetuneConfig
    values: dict[str, Any] = {}
    config = kind()
    for place, recipe in recipes:
        section = "squad" if squad else f"tasks.{task}"
        specific = recipe.squad if squad else recipe.tasks.get(task, {})
        for key, layer in (("defaults", recipe.defaults), (section, specific)):
            if layer:  # each is built on its own, so that an error names the layer it came with
                values = merge(values, layer)
                config = build(kind, values, f"{place}{key}")
    return config


def _require_tasks(names: Iterable[str], where: str, own: Sequence[str] = ()) -> None:
    known = (*GLUE, *own)
    for name in names:
        advice = nearest(name, known) or f"the tasks are {', '.join(known)}"
        require(name in known, f"{where}.{name}: no such task; {advice}")
