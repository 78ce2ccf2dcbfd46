"""The published numbers (paper.json): Clark et al., ICLR 2020, by the numbers of their tables.

Where the paper only plots (Figures 3 and 4), there is nothing to carry over but the order of the
arms, its claims.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.files import read_json

PUBLISHED = read_json(Path(__file__).with_name("paper.json"))
TABLE_1, TABLE_4 = (
    [tuple(row) for row in PUBLISHED[f"Table {number}"]["rows"]] for number in (1, 4)
)
# what an arm has that does not change the setting
DEFAULTS = {"Table 5": "electra", "section 3.2": "embeddings"}


@dataclass(frozen=True)
class Claim:
    """`upper` scores above `lower` (`no_gain`: no better than it), by the paper's `source`; `text`
    says so in words.

    Both are settings by dotted key: what one arm has and the other has not.
    """

    text: str
    source: str
    upper: dict[str, Any]
    lower: dict[str, Any]
    no_gain: bool = False


CLAIMS = tuple(Claim(**values) for values in PUBLISHED["claims"])


@dataclass(frozen=True)
class Beside:
    """What the paper says of an ablation: its source, and by our arm's name the paper's name and
    score, best first.
    """

    source: str
    arms: dict[str, tuple[str, float]]


def beside(settings: Mapping[str, Mapping[str, Any]]) -> Beside | None:
    """Recognise an ablation of the paper by what its arms change (arm -> {dotted key: value}); None
    if it has no table.

    What all arms change alike does not count; an arm that changes anything else is not the paper's.
    """
    shared = (
        set.intersection(*(set(map(str, changed.items())) for changed in settings.values()))
        if settings
        else set()
    )
    own = {
        arm: {k: v for k, v in changed.items() if str((k, v)) not in shared}
        for arm, changed in settings.items()
    }
    for source, default in DEFAULTS.items():
        key, rows = PUBLISHED[source]["columns"][0], PUBLISHED[source]["rows"]
        arm_of = {
            str(changed.get(key, default)): arm
            for arm, changed in own.items()
            if set(changed) <= {key}
        }
        found = {arm_of[value]: (name, score) for value, name, score in rows if value in arm_of}
        if len(found) > 1:
            return Beside(
                f"paper, {source}", dict(sorted(found.items(), key=lambda item: -item[1][1]))
            )
    return None
