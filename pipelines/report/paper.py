"""The published numbers (paper.json): Clark et al., ICLR 2020, by the numbers of their tables.

Where the paper only plots (Figures 3 and 4), there is nothing to carry over but the order of the
arms, its claims.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.files import read_json
from pipelines.report.comparison import Kind

PUBLISHED = read_json(Path(__file__).with_name("paper.json"))
TABLE_1 = [tuple(row) for row in PUBLISHED["Table 1"]["rows"]]
TABLE_4 = [tuple(row) for row in PUBLISHED["Table 4"]["rows"]]
# value of a table's setting in an arm that does not change it
DEFAULTS = {"Table 5": "electra", "section 3.2": "embeddings"}


@dataclass(frozen=True)
class Claim:
    """`upper` scores above `lower`, or gains nothing over it, or is level with it, by the paper's
    `source`. `text` says so in words.

    Both are settings by dotted key, in which the two arms differ.
    """

    text: str
    source: str
    upper: dict[str, Any]
    lower: dict[str, Any]
    kind: Kind = "above"


CLAIMS = tuple(Claim(**values) for values in PUBLISHED["claims"])


@dataclass(frozen=True)
class PaperScores:
    """The paper's scores of an ablation: their source, and by our arm's name the paper's name and
    score, best first.
    """

    source: str
    arms: dict[str, tuple[str, float]]


def find_scores(settings: Mapping[str, Mapping[str, Any]]) -> PaperScores | None:
    """Recognise an ablation of the paper by the settings of its arms (arm -> {dotted key: value}).
    Return None if it has no table. Changes common to all arms do not count. An arm that changes
    anything else is not the paper's.
    """
    items = [{(key, str(value)) for key, value in changed.items()} for changed in settings.values()]
    shared = set.intersection(*items) if items else set()
    for source, default in DEFAULTS.items():
        table = PUBLISHED[source]
        key = table["columns"][0]
        arm_of = {}
        for arm, changed in zip(settings, items, strict=True):
            differing = dict(changed - shared)
            if differing.keys() <= {key}:
                arm_of[differing.get(key, default)] = arm
        scores = {
            arm_of[value]: (name, score) for value, name, score in table["rows"] if value in arm_of
        }
        if len(scores) > 1:
            best_first = sorted(scores.items(), key=lambda item: -item[1][1])
            return PaperScores(f"paper, {source}", dict(best_first))
    return None
