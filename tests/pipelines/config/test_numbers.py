"""No setting takes a number that can only be a slip, however the settings are built."""

import dataclasses
import typing
from collections.abc import Iterator
from math import inf, nan
from typing import Any

import pytest

from electra.config import build, plain
from electra.errors import BadConfig
from electra.finetuning.tasks import FinetuneConfig, ScratchConfig, SquadConfig
from electra.nn.config import ModernConfig
from electra.pretraining.config import Flops
from pipelines.config.ablation_config import AblationConfig
from pipelines.config.params import Params, load
from pipelines.sources import OwnTask
from tests.conftest import ROOT


def dataclasses_within(hint: Any) -> Iterator[type]:
    """The settings that a type leads to, itself among them."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        yield hint
        for field in dataclasses.fields(hint):
            yield from dataclasses_within(typing.get_type_hints(hint)[field.name])
    for inner in typing.get_args(hint):
        yield from dataclasses_within(inner)


def instances_within(value: Any) -> Iterator[Any]:
    """The settings that a value holds, itself among them."""
    if dataclasses.is_dataclass(value):
        yield value
        value = vars(value)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ():
        yield from instances_within(inner)


def numbers_of(hint: Any) -> tuple[set[type], bool]:
    """Which numbers a field may hold, and whether in a list."""
    if hint in {int, float}:
        return {hint}, False
    options = typing.get_args(hint)  # none where a name may stand in the number's place
    inner = [numbers_of(option) for option in options if typing.get_origin(hint) is not dict and str not in options]
    return set().union(*(kinds for kinds, _ in inner)), typing.get_origin(hint) is tuple or any(
        many for _, many in inner
    )


NOTHING = {  # fields for which 0 makes sense
    "dropout": "none of it",
    "attention_dropout": "none of it",
    "head_dropout": "none of it",
    "weight_decay": "none of it",
    "min_save_interval_minutes": "at every multiple of save_every",
    "min_eval_interval_minutes": "at every multiple of eval_every",
    "warmup": "none of it",
    "mask_token_rate": "other tokens only",
    "random_token_rate": "none of them",
    "single_segment_rate": "none of them",
    "short_rate": "none of them",
    "fraction": "no bad row is tolerated",
    "handful": "no bad row is tolerated",
    "beta1": "Adam without memory of gradients",
    "beta2": "Adam without memory of squares",
    "generator_weight": "a generator that does not learn",
    "answerability_weight": "a head that does not learn",
    "seed": "a name like any other",
    "seeds": "names like any other (finetune.seeds)",
    "workers": "as many as there are threads",
}
ANY = {"null_threshold": "a difference of scores"}


def test_every_number_has_a_domain() -> None:
    """Whatever dataclass params.yaml becomes, however built: no absurd number gets in; the sentence names the key."""
    known: dict[type, Any] = {type(each): each for each in instances_within(load(ROOT / "params.yaml"))}
    known |= {kind: kind() for kind in (FinetuneConfig, SquadConfig, ScratchConfig)}
    sizes = {"layers": 2, "hidden": 32, "heads": 2, "ffn": 48, "embedding": 32}
    known |= {ModernConfig: ModernConfig(kind="modern", **sizes)}
    known |= {Flops: Flops(flops=1e15), OwnTask: OwnTask(train="a", dev="b", labels=("x", "y"))}
    kinds = {each for root in (Params, FinetuneConfig, SquadConfig) for each in dataclasses_within(root)}
    tried = 0
    for kind in kinds:
        for key in (field.name for field in dataclasses.fields(kind)):
            types, many = numbers_of(typing.get_type_hints(kind)[key])
            if not types:
                continue
            number = float if types == {float} else int
            absurd = [number("-1"), *([] if key in NOTHING and kind is not AblationConfig else [number(0)])]
            absurd = [*absurd, *([10**300, -(10**300)] if number is int else [1e300, -1e300, nan, inf, -inf])]
            for value in absurd[2:] if key in ANY else absurd:
                tried += 1
                with pytest.raises(BadConfig) as direct:
                    dataclasses.replace(known[kind], **{key: (value,) if many else value})
                assert direct.value.where.split("[")[0] == key, f"{kind.__name__}.{key} = {value!r}: {direct.value}"
                with pytest.raises(BadConfig) as built:
                    build(kind, plain(known[kind]) | {key: [value] if many else value}, "here")
                assert built.value.where.split("[")[0] == f"here.{key}", f"{kind.__name__}.{key}: {built.value}"
    assert tried > 300
