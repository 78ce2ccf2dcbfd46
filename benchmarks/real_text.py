"""ELECTRA, masked language models of equal FLOPs by either convention, and no pre-training, on real text:

    python benchmarks/real_text.py mini_plus mini_plus_mlm mini_plus_mlm_long

Models: ELECTRA's, fine-tuned from scratch too; the masked language model with as many FLOPs in matrix products; the one
with as many by the authors' count, which takes lookups in the word table for products. Reads what pretrain, glue and
squad left of them and writes benchmarks/results/real-text.json (every seed's score, differences by the rule of
pipelines/report/comparison.py, pre-training curves) and real-text.svg.
"""

import bisect
import csv
import dataclasses
import itertools
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.provenance import provenance
from electra.config import plain
from electra.files import read_json, write_json
from electra.finetuning.runs.summary import sd
from electra.finetuning.tasks import GLUE
from pipelines.params import ModelConfig, load
from pipelines.report.comparison import difference
from pipelines.report.inputs import METRIC_TITLES
from pipelines.report.style import BLUE, GREEN, GREY, INK, ORANGE, context, new_figure, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OUT = Path("benchmarks/results")
ARMS = {
    "electra": ("ELECTRA", BLUE),
    "mlm": ("MLM, equal FLOPs in products", ORANGE),
    "mlm_long": ("MLM, equal FLOPs as the authors count", GREEN),
    "scratch": ("from scratch", GREY),
}
PAIRS = (
    ("electra", "scratch"),
    ("mlm", "scratch"),
    ("mlm_long", "scratch"),
    ("electra", "mlm"),
    ("electra", "mlm_long"),
)
FACTS = ("steps", "batch", "length", "tokens", "flops", "flops_matmul_convention", "rows_sha256", "parameters", "seed")
SQUAD_METRICS = {"exact": "exact match", "f1": "F1", "best_f1": "F1, best threshold", "HasAns_f1": "F1, answerable"}
CURVE = ("mlm_loss", "mlm_accuracy", "replaced_rate", "disc_loss", "disc_baseline", "disc_auc", "disc_recall")


def pretraining(models: dict[str, ModelConfig], name: str) -> dict[str, Any]:
    """What a model's pre-training was and cost, and its held-out curve with the length of the rows that were read."""
    facts = read_json(Path(f"results/{name}/pretrain.json"))
    seconds = read_json(Path("runs/timings.json")).get(f"pretrain-{name}", {}).get("seconds")
    phases = facts.get("phases") or [{key: facts[key] for key in ("length", "batch", "steps")}]
    ends = list(itertools.accumulate(phase["steps"] for phase in phases))
    curve: list[dict[str, Any]] = []
    with Path(f"results/{name}/pretrain.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            values = {key: round(float(row[key]), 4) for key in CURVE if row.get(key)}
            if values:
                length = phases[bisect.bisect_left(ends, int(row["step"]))]["length"]
                curve.append({"tokens": int(row["tokens"]), "length": length, **values})
    known = {key: facts[key] for key in FACTS}
    return {
        "model": name,
        "phases": phases,
        **known,
        "seconds": seconds,
        "settings": plain(models[name]),
        "curve": curve,
    }


def scores(names: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Task and metric -> rows, and each arm's scores by seed; GLUE's tasks in the paper's order, then SQuAD."""
    arms = {arm: (name, "pretrained") for arm, name in names.items()} | {"scratch": (names["electra"], "scratch")}
    found: dict[str, dict[str, Any]] = {}

    for arm, (name, kind) in arms.items():
        glue = read_json(Path(f"results/{name}/glue.json"))["tasks"]
        for task in [task for task in GLUE if task in glue]:
            row = found.setdefault(f"{GLUE[task].title}, {METRIC_TITLES[glue[task]['metric']]}", rows(glue[task]))
            row[arm] = glue[task][kind]["scores"]
            row.setdefault("failed", {})[arm] = glue[task][kind]["failed"]
        for version, values in read_json(Path(f"results/{name}/squad.json"))["versions"].items():
            for metric, title in SQUAD_METRICS.items():
                if metric in values[kind]:
                    row = found.setdefault(f"SQuAD {version}, {title}", rows(values))
                    row[arm] = values[kind][metric]["scores"]
    glued = [row for title, row in found.items() if not title.startswith("SQuAD")]
    means = {arm: [statistics.fmean(seed) for seed in zip(*(row[arm] for row in glued), strict=True)] for arm in arms}
    return {f"mean of these {len(glued)} tasks": means, **found}


def rows(values: dict[str, Any]) -> dict[str, Any]:
    """How many rows a task was trained and measured on."""
    return {key: values[key] for key in ("train_rows", "dev_rows")}


def judged(values: dict[str, Any]) -> dict[str, Any]:
    """A task's scores with means, standard deviations, and what may be said of each pair of arms."""
    result = {key: value for key, value in values.items() if key not in ARMS}
    for arm in ARMS:
        seeds = values[arm]
        result[arm] = {"scores": seeds, "mean": round(statistics.fmean(seeds), 2), "std": round(sd(seeds) or 0.0, 2)}
    for first, second in PAIRS:
        pair = difference(values[first], values[second])
        assert pair is not None
        result[f"{first} - {second}"] = dataclasses.asdict(pair)
    return result


def draw(record: dict[str, Any]) -> "Figure":
    """Left: held-out AUC of the discriminator over tokens; right: each task, mean and standard deviation by arm."""
    figure = new_figure(9.0, 5.0)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.35))
    curve = [point for point in record["pretraining"]["electra"]["curve"] if "disc_auc" in point]
    for length in sorted({point["length"] for point in curve}):
        part = [point for point in curve if point["length"] == length]
        x = [point["tokens"] / 1e6 for point in part]
        style = "-" if length == curve[0]["length"] else ":"
        left.plot(x, [point["disc_auc"] for point in part], style, color=BLUE, label=f"AUC, rows of {length}")
        left.plot(x, [point["disc_recall"] for point in part], style, color=INK, label=f"recall, rows of {length}")
    left.set_ylim(0, 1)
    left.set_xlabel("million tokens read")
    left.set_title("Replaced tokens found, held-out text")
    left.legend(frameon=False, loc="center right", bbox_to_anchor=(1, 0.42))
    titles = list(record["tasks"])
    for place, title in enumerate(titles):
        for i, (arm, (_, colour)) in enumerate(ARMS.items()):
            found = record["tasks"][title][arm]
            y = place + 0.2 * (i - (len(ARMS) - 1) / 2)
            right.errorbar(found["mean"], y, xerr=found["std"], fmt="o", color=colour, markersize=4.5)
    right.set_yticks(range(len(titles)), titles, color=INK)
    right.set_ylim(len(titles) - 0.4, -0.6)
    right.grid(axis="y", visible=False)
    right.set_xlabel("points on dev, mean ± standard deviation")
    handles = [right.plot([], [], "o", color=colour, markersize=5)[0] for _, colour in ARMS.values()]
    right.legend(
        handles,
        [label for label, _ in ARMS.values()],
        frameon=False,
        loc="lower center",
        bbox_to_anchor=(0.3, 1),
        ncols=2,
    )
    return figure


def main() -> None:
    names = dict(zip(("electra", "mlm", "mlm_long"), sys.argv[1:], strict=True))
    models = load().models
    record = {
        "command": [
            f"dvc repro pipelines/dvc.yaml:{stage}@{name}" for name in names.values() for stage in ("glue", "squad")
        ]
        + [f"python benchmarks/real_text.py {' '.join(names.values())}"],
        "pretraining": {arm: pretraining(models, name) for arm, name in names.items()},
        "tasks": {title: judged(values) for title, values in scores(names).items()},
        **provenance(("torch",)),
    }
    write_json(OUT / "real-text.json", record)
    with context():
        save(draw(record), OUT, "real-text")
    for title, values in record["tasks"].items():
        arms = "  ".join(f"{arm} {values[arm]['mean']:.1f} ± {values[arm]['std']:.1f}" for arm in ARMS)
        verdicts = "  ".join(f"{pair}: {values[pair]['verdict']}" for pair in ("electra - mlm", "electra - mlm_long"))
        print(f"{title}: {arms}  {verdicts}")


if __name__ == "__main__":
    main()
