"""Ablations as data: `ablations.<name>` of params.yaml to named arms, each changed settings
`{dotted.key: value}`.

arms      written out, one by one
grid      axes whose values are combined, all with all: `{axis: {value's name: settings}}`, or `{dotted.key: [values]}`
common    settings of every arm
"""

import itertools
import math
import re
from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from electra import config
from electra.config import Count, Fraction, nearest, require, require_once
from electra.errors import shown
from electra.pretraining.config import Flops

ARM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")  # arms become files and runs
ARMS = 1_000  # at most: far above all use, and checked before a grid's product is made
Settings = dict[str, Any]
OWN = {
    "pretrain.seed": "leave it to `seeds`",
    "pretrain.threads": "arms train with one thread each, side by side",
}


@dataclass(frozen=True, kw_only=True)
class Protocol(config.Settings):
    """How arms are trained and scored: shared by the ablations of a model, and changed by each.

    The budget is what the unchanged model spends in `steps` steps (null: its own): with
    `equal_flops` every arm trains until it has spent as much, with `equal_steps` for as many steps,
    with `own` for its own `pretrain.steps`. `points` are fractions of each run at which its
    checkpoint is fine-tuned too.
    """

    common: Settings = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    seeds: Annotated[int, Field(ge=1, le=10_000)] = 1
    steps: Count | Flops | None = None
    budget: Literal["equal_flops", "equal_steps", "own"] = "equal_flops"
    points: tuple[Fraction, ...] = ()  # of a run
    finetune: Settings = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in ("tasks", "points"):
            require_once(getattr(self, key), key, empty=True)


@dataclass(frozen=True, kw_only=True)
class Base(config.Settings):
    """What the arms change: a model, its `tokens` (again, so that dvc.yaml can name the files), the
    source of the tasks (`data`), and how they are fine-tuned."""

    model: str
    tokens: str
    data: str
    recipe: str


@dataclass(frozen=True, kw_only=True)
class Variants(config.Settings):
    """The arms, written out or as a grid; `reference` is the arm that the others are compared with."""

    title: str
    arms: dict[str, Settings] = field(default_factory=dict)
    grid: dict[str, dict[str, Settings] | tuple[Any, ...]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    reference: str = ""


@dataclass(frozen=True, kw_only=True)
class Entry(Variants):
    """An ablation as it is written in params.yaml."""

    base: Base
    protocol: Protocol = field(default_factory=Protocol)


@dataclass(frozen=True, kw_only=True)
class AblationConfig(Protocol, Base, Variants):
    """One model pre-trained and fine-tuned in several arms, by the protocol of the model and its
    own.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            bool(self.arms or self.grid),
            "arms: should have at least one arm, unless there is a grid",
        )
        for axis, values in self.grid.items():
            require(len(values) > 0, f"grid.{axis}: should have at least one value")
        count = len(self.arms) + math.prod(map(len, self.grid.values())) * bool(self.grid)
        key = "grid" if self.grid else "arms"
        require(count <= ARMS, f"{key}: makes {count:,} arms, should make at most {ARMS:,}")
        names = [*self.arms, *self.combinations()]
        require(len(set(names)) == len(names), f"grid: makes arms of equal names, {shown(names)}")
        for name in names:
            fits = ARM.fullmatch(name) is not None
            require(
                fits,
                f"arms.{shown(name)[1:-1]}: should be a name of letters, digits, _, ., - and +",
            )
        require(
            self.budget != "own" or self.steps is None, "steps: should be null with `budget: own`"
        )
        known = {*names, *(value for axis in self.grid for value in self.axis(axis))}
        for name in self.labels:
            require(
                name in known,
                f"labels.{name}: no such arm; {nearest(name, known)}".removesuffix("; "),
            )
        arm = f"reference: no arm {shown(self.reference)}; the arms are {', '.join(names)}"
        require(self.reference in {"", *names}, arm)
        for arm, settings in self.settings.items():
            for key, advice in OWN.items():
                require(
                    key not in settings, f"arms.{arm}.{key}: cannot be set for an arm; {advice}"
                )
            own = self.budget == "own" or "pretrain.steps" not in settings
            require(own, f"arms.{arm}.pretrain.steps: needs `budget: own`")

    @property
    def settings(self) -> dict[str, Settings]:
        """Every arm by name, with all that it changes."""
        return {
            arm: {**self.common, **changed}
            for arm, changed in {**self.arms, **self.combinations()}.items()
        }

    def axis(self, name: str) -> dict[str, Settings]:
        """The values of a grid's axis by name: `width0.5` for the 0.5 of `generator.width: [0.5,
        1.0]`.
        """
        values = self.grid[name]
        if isinstance(values, dict):
            return values
        return {f"{name.rpartition('.')[2]}{value}": {name: value} for value in values}

    def combinations(self) -> dict[str, Settings]:
        """The grid's arms: every value of each axis with every value of the others, the last axis
        fastest.
        """
        if not self.grid:
            return {}
        arms: dict[str, Settings] = {}
        for values in itertools.product(*(self.axis(axis).items() for axis in self.grid)):
            changed = [pair for _, settings in values for pair in settings.items()]
            arms["-".join(name for name, _ in values)] = dict(changed)
        return arms

    def label(self, arm: str) -> str:
        """The name of an arm in tables and figures; a grid's arm is called by its values."""
        if arm in self.labels or arm in self.arms:
            return self.labels.get(arm, arm)
        return ", ".join(self.labels.get(value, value) for value in self.values(arm)) or arm

    def values(self, arm: str) -> tuple[str, ...]:
        """The names of a grid arm's values, one an axis; empty for an arm that is written out."""
        names = itertools.product(*(self.axis(axis) for axis in self.grid))
        return next((values for values in names if "-".join(values) == arm), ())

    @property
    def compared(self) -> str:
        """The arm that the others are compared with."""
        return self.reference or next(iter(self.settings))
