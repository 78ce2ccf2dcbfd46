"""Ablations as data: `ablations.<name>` of params.yaml to named arms, each changed settings
`{dotted.key: value}`.

arms      written out, one by one
grid      axes whose values are combined, all with all: `{axis: {value's name: settings}}`, or
          `{dotted.key: [values]}`
common    settings of every arm, in the protocol
label     among the settings of an arm or of a value: its name in tables and figures
"""

import itertools
import math
import re
from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from electra import config
from electra.config import Count, Fraction, require, require_unique
from electra.errors import short_repr
from electra.pretraining.config import Flops

ARM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")  # arms become files and runs
ARMS = 1_000  # upper limit, checked before a grid is expanded
LABEL = "label"
Settings = dict[str, Any]
FIXED = {
    "pretrain.seed": "leave it to `seeds`",
    "pretrain.threads": "arms train with one thread each, side by side",
}


@dataclass(frozen=True, kw_only=True)
class Protocol(config.Settings):
    """Rules for training and scoring arms: shared by the ablations of a model, and changed by each.

    The budget is the FLOPs of the unchanged model in `steps` steps (null: its own): with
    `equal_flops` every arm trains until it has spent them, with `equal_steps` for as many steps,
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
            require_unique(getattr(self, key), key, empty=True)


@dataclass(frozen=True, kw_only=True)
class Base(config.Settings):
    """The settings that arms change: a model, its `tokens` (again, so that dvc.yaml can name the
    files), the source of the tasks (`data`), and how they are fine-tuned.
    """

    model: str
    tokens: str
    data: str
    recipe: str


@dataclass(frozen=True, kw_only=True)
class AblationConfig(config.Settings):
    """One model pre-trained and fine-tuned in several arms; `reference` is the arm that the others
    are compared with.
    """

    title: str
    base: Base
    protocol: Protocol = field(default_factory=Protocol)
    arms: dict[str, Settings] = field(default_factory=dict)
    grid: dict[str, dict[str, Settings] | tuple[Any, ...]] = field(default_factory=dict)
    reference: str = ""

    def __post_init__(self) -> None:
        require(
            bool(self.arms or self.grid),
            "arms: should have at least one arm, unless there is a grid",
        )
        for axis, values in self.grid.items():
            require(len(values) > 0, f"grid.{axis}: should have at least one value")
        count = len(self.arms)
        if self.grid:
            count += math.prod(map(len, self.grid.values()))
        key = "grid" if self.grid else "arms"
        require(count <= ARMS, f"{key}: makes {count:,} arms, should make at most {ARMS:,}")
        names = list(self.settings)
        require(len(names) == count, f"grid: makes arms of equal names, {short_repr(names)}")
        for name in names:
            require(
                bool(ARM.fullmatch(name)),
                f"arms.{short_repr(name)[1:-1]}: should be a name of letters, digits, _, ., - "
                "and +",
            )
        require(
            self.reference in {"", *names},
            f"reference: no arm {short_repr(self.reference)}; the arms are {', '.join(names)}",
        )
        own_steps = self.protocol.budget == "own"
        require(
            not own_steps or self.protocol.steps is None,
            "protocol.steps: should be null with `budget: own`",
        )
        for arm, settings in self.settings.items():
            for key, advice in FIXED.items():
                require(
                    key not in settings,
                    f"arms.{arm}.{key}: cannot be set for an arm; {advice}",
                )
            require(
                own_steps or "pretrain.steps" not in settings,
                f"arms.{arm}.pretrain.steps: needs `budget: own`",
            )

    @property
    def settings(self) -> dict[str, Settings]:
        """Every arm by name, with its changed settings."""
        arms = dict(self.arms)
        for arm, values in self.combinations.items():
            arms[arm] = {}
            for axis, value in zip(self.grid, values, strict=True):
                arms[arm] |= self.axis(axis)[value]
        return without_labels({arm: self.protocol.common | arms[arm] for arm in arms})

    def axis(self, name: str) -> dict[str, Settings]:
        """Return the values of a grid's axis by name: `width0.5` for the 0.5 of `generator.width:
        [0.5, 1.0]`.
        """
        values = self.grid[name]
        if isinstance(values, dict):
            return values
        return {f"{name.rpartition('.')[2]}{value}": {name: value} for value in values}

    @property
    def combinations(self) -> dict[str, tuple[str, ...]]:
        """The grid's arms and the names of their values: every value of each axis with every value
        of the others, the last axis fastest.
        """
        products = itertools.product(*map(self.axis, self.grid)) if self.grid else ()
        return {"-".join(values): values for values in products}

    def values(self, arm: str) -> tuple[str, ...]:
        """Return the names of a grid arm's values, one an axis. None for an arm that is written
        out.
        """
        return self.combinations.get(arm, ())

    @property
    def labels(self) -> dict[str, str]:
        """The names, in tables and figures, of arms that are written out or of an axis's values."""
        labels = {}
        for named in (self.arms, *map(self.axis, self.grid)):
            for name, settings in named.items():
                labels[name] = str(settings.get(LABEL, name))
        return labels

    def label(self, arm: str) -> str:
        """Return an arm's name in tables and figures. A grid's arm is named by its values."""
        return ", ".join(self.labels[name] for name in self.values(arm) or (arm,))

    @property
    def compared(self) -> str:
        """The arm that the others are compared with."""
        return self.reference or next(iter(self.settings))


def without_labels(arms: dict[str, Settings]) -> dict[str, Settings]:
    """Return the changed settings of arms or values."""
    return {
        arm: {key: value for key, value in settings.items() if key != LABEL}
        for arm, settings in arms.items()
    }
