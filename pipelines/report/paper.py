"""The published numbers: Clark et al., ICLR 2020 (`CITATION`).

Each table names its number in the paper. Where the paper only plots (Figures 3 and 4), there is nothing to carry over.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CITATION = (
    "Clark, Luong, Le, Manning: ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators. ICLR 2020"
)

# Table 1: model, pre-training FLOPs, parameters, GLUE dev score.
TABLE_1: tuple[tuple[str, float, str, float], ...] = (
    ("ELMo", 3.3e18, "96M", 71.2),
    ("GPT", 4.0e19, "117M", 78.8),
    ("BERT-Small", 1.4e18, "14M", 75.1),
    ("BERT-Base", 6.4e19, "110M", 82.2),
    ("ELECTRA-Small", 1.4e18, "14M", 79.9),
    ("ELECTRA-Small, 50 % trained", 7.1e17, "14M", 79.0),
    ("ELECTRA-Small, 25 % trained", 3.6e17, "14M", 77.7),
    ("ELECTRA-Small, 12.5 % trained", 1.8e17, "14M", 76.0),
    ("ELECTRA-Small, 6.25 % trained", 8.9e16, "14M", 74.1),
    ("ELECTRA-Base", 6.4e19, "110M", 85.1),
)

# Table 2: model, pre-training FLOPs, then the GLUE dev scores in the order of TABLE_2_TASKS and their mean.
TABLE_2_TASKS = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte")
TABLE_2: tuple[tuple[str, float, tuple[float, ...], float], ...] = (
    ("BERT", 1.9e20, (60.6, 93.2, 88.0, 90.0, 91.3, 86.6, 92.3, 70.4), 84.0),
    ("RoBERTa-100K", 6.4e20, (66.1, 95.6, 91.4, 92.2, 92.0, 89.3, 94.0, 82.7), 87.9),
    ("RoBERTa-500K", 3.2e21, (68.0, 96.4, 90.9, 92.1, 92.2, 90.2, 94.7, 86.6), 88.9),
    ("XLNet", 3.9e21, (69.0, 97.0, 90.8, 92.2, 92.3, 90.8, 94.9, 85.9), 89.1),
    ("BERT (theirs)", 7.1e20, (67.0, 95.9, 89.1, 91.2, 91.5, 89.6, 93.5, 79.5), 87.2),
    ("ELECTRA-400K", 7.1e20, (69.3, 96.0, 90.6, 92.1, 92.4, 90.5, 94.5, 86.8), 89.0),
    ("ELECTRA-1.75M", 3.1e21, (69.1, 96.9, 90.8, 92.6, 92.4, 90.9, 95.0, 88.0), 89.5),
)


@dataclass(frozen=True)
class Squad:
    """Exact match and F1 on the SQuAD dev sets; None where the paper has no number."""

    model: str
    exact_1: float | None
    f1_1: float | None
    exact_2: float | None
    f1_2: float | None


# Table 4, dev columns of the single models.
TABLE_4 = (
    Squad("BERT-Base", 80.8, 88.5, None, None),
    Squad("BERT-Large", 84.1, 90.9, 79.0, 81.8),
    Squad("SpanBERT", 88.8, 94.6, 85.7, 88.7),
    Squad("XLNet-Base", 81.3, None, 78.5, None),
    Squad("XLNet", 89.7, 95.1, 87.9, 90.6),
    Squad("RoBERTa-100K", None, 94.0, None, 87.7),
    Squad("RoBERTa-500K", 88.9, 94.6, 86.5, 89.4),
    Squad("ALBERT", 89.3, 94.8, 87.4, 90.2),
    Squad("BERT (theirs)", 88.0, 93.7, 84.7, 87.5),
    Squad("ELECTRA-Base", 84.5, 90.8, 80.5, 83.3),
    Squad("ELECTRA-400K", 88.7, 94.2, 86.9, 89.6),
    Squad("ELECTRA-1.75M", 89.7, 94.9, 88.0, 90.6),
)

# Table 5: objective (its name in params.yaml), the paper's name, GLUE dev score. Base size, Wikipedia and books.
TABLE_5: tuple[tuple[str, str, float], ...] = (
    ("electra", "ELECTRA", 85.0),
    ("all_tokens_mlm", "All-Tokens MLM", 84.3),
    ("replace_mlm", "Replace MLM", 82.4),
    ("electra_15", "ELECTRA 15 %", 82.4),
    ("mlm", "BERT", 82.2),
)

# Section 3.2: weight tying at equal sizes, GLUE dev score (base size, 500k steps).
TYING: tuple[tuple[str, str, float], ...] = (
    ("none", "no tying", 83.6),
    ("tokens", "token embeddings", 84.3),
    ("all", "all weights", 84.4),
)


@dataclass(frozen=True)
class Beside:
    """What the paper says of an ablation: its source, and by our arm's name the paper's name and score, best first."""

    source: str
    arms: dict[str, tuple[str, float]]


def beside(settings: Mapping[str, Mapping[str, Any]]) -> Beside | None:
    """Recognise an ablation of the paper by what its arms change (arm -> {dotted key: value}); None if it has no table.

    What all arms change alike is passed by; an arm that changes anything else besides is not the paper's.
    """
    shared = set.intersection(*(set(map(str, changed.items())) for changed in settings.values())) if settings else set()
    own = {arm: {k: v for k, v in changed.items() if str((k, v)) not in shared} for arm, changed in settings.items()}
    for key, default, source, rows in (
        ("objective.name", "electra", "paper, Table 5", TABLE_5),
        ("objective.sharing", "embeddings", "paper, section 3.2", TYING),
    ):
        value_of = {str(changed.get(key, default)): arm for arm, changed in own.items() if set(changed) <= {key}}
        found = {value_of[value]: (name, score) for value, name, score in rows if value in value_of}
        if len(found) > 1:
            return Beside(source, dict(sorted(found.items(), key=lambda item: -item[1][1])))
    return None
