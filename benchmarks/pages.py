"""Write the numbers of README.md and docs/ from records and estimates: `python
benchmarks/pages.py`.

A region of a page, from <!-- NAME --> to <!-- end -->, is written by a function below from
benchmarks/results or `electra estimate`; tests/benchmarks/test_pages.py compares them. The last
region of a page, `records`, lists the date and commit of each record that the page uses.
"""

import csv
import dataclasses
import functools
import itertools
import re
import statistics
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import real_text
from electra.files import read_json, write_atomic
from electra.finetuning.tasks import GLUE
from electra.pretraining.flops import training_flops, training_steps
from pipelines import ROOT
from pipelines.cli import cost as cost_of
from pipelines.config.params import ModelConfig, Params, load
from pipelines.report.comparison import compare_scores, predict_next
from pipelines.report.table import signed
from pipelines.stages.ablation import plan_arms

PAGES = (
    "README.md",
    "docs/ablations.md",
    "docs/gpu.md",
    "docs/own-text.md",
    "docs/continue.md",
    "docs/real-text.md",
    "docs/reliability.md",
    "docs/reproduce.md",
    "docs/sample-world.md",
)
GPU_HOUR_DOLLARS = 3  # of an H100: nanochat's speedrun.sh
ARMS = ("scratch", "pretrained")
OWN_TEXT = {"English": "own-text", "Greek": "own-text-el", "Russian": "own-text-ru"}
OWN_TEXT_BASELINES = ("bag_of_words", "word_overlap")
used: set[str] = set()  # names of the records of the current page
GPUS = ("h100", "a100", "rtx_4090")


@functools.cache
def content(name: str) -> dict[str, Any]:
    """Read a record of benchmarks/results."""
    return dict(read_json(ROOT / f"benchmarks/results/{name}.json"))


def record(name: str) -> dict[str, Any]:
    """Return a record and list it for the current page."""
    used.add(name)
    return content(name)


def spread(score: dict[str, Any]) -> str:
    """Format a mean and its standard deviation, with a proper minus sign."""
    return real_text.spread(score).replace("-", "−")


def table(columns: str, rows: Iterable[str]) -> str:
    """Return a Markdown table: `columns` and each row are cells joined by ` | `."""
    rule = "|---" * (columns.count("|") + 1) + "|"
    lines = [f"| {columns} |", rule, *(f"| {row} |" for row in rows)]
    return "\n" + "\n".join(lines) + "\n"


def baselines() -> dict[str, dict[str, float]]:
    """Return the scores without a network in the demo's run, by task."""
    tasks = read_json(ROOT / "results/tiny/glue.json")["tasks"]
    return {name: task["baselines"] for name, task in tasks.items()}


def tiny_table() -> str:
    """Return the table of the default model over several pre-trainings, with the baselines."""
    marks = record("tiny-marks")
    columns = (
        "sample world, points on dev | from scratch | pre-trained | chance | bag of words | "
        "overlap features"
    )
    rows = []
    for name, task in GLUE.items():
        metric = task.metrics[0]
        title = task.title if metric == "accuracy" else f"{task.title} ({metric.title()})"
        simple = [baselines()[name].get(key) for key in ("chance", "bag_of_words", "word_overlap")]
        cells = ["–" if value is None else f"{value:.1f}".replace("-", "−") for value in simple]
        rows.append(f"{title} | {both_arms(marks['tasks'][name])} | {' | '.join(cells)}")
    chance = sum(baselines()[name]["chance"] for name in GLUE) / len(GLUE)
    rows.append(f"mean of nine | {both_arms(marks['mean_of_nine'])} | {chance:.1f} | |")
    never = f"{marks['never_answering_f1']:.1f} (never answering)"
    squad = both_arms(marks["tasks"]["squad2"])
    rows.append(f"SQuAD 2.0 layout, F1 | {squad} | {never} | |")
    return table(columns, rows)


def both_arms(task: dict[str, Any]) -> str:
    """Return the cells of both arms, the pre-trained one bold."""
    return f"{spread(task['scratch'])} | **{spread(task['pretrained'])}**"


def tiny_sentence() -> str:
    """Return the means of the default model and the prediction interval of another run."""
    marks = record("tiny-marks")
    mean = marks["mean_of_nine"]
    squad = marks["tasks"]["squad2"]
    low, high = predict_next(mean["pretrained"]["scores"]) or (0.0, 100.0)
    runs = len(marks["pretrainings"])
    return (
        f"from {spread(mean['scratch'])} to {spread(mean['pretrained'])} points "
        f"(SQuAD 2.0 F1 from {spread(squad['scratch'])} to {spread(squad['pretrained'])}; "
        f"mean ± standard deviation of {runs} pre-trainings); "
        f"95 % prediction interval of another run: {low:.1f} to {min(high, 100.0):.1f}"
    )


def own_text() -> str:
    """Return the table of four tasks of a user's own in each language: the mean from scratch and
    pre-trained on the user's own text, the interval of the difference, and the best baseline.
    """
    runs = [record(name) for name in OWN_TEXT.values()]
    rows = []
    for name in [*runs[0]["tasks"], "mean"]:
        cells = [own_text_cell({"mean": run["mean"], **run["tasks"]}[name]) for run in runs]
        rows.append(f"{name} | {' | '.join(cells)}")
    return table(f"points on dev | {' | '.join(OWN_TEXT)}", rows)


def own_text_cell(task: dict[str, Any]) -> str:
    """Return the scores of a task in one language."""
    gain = compare_scores(task["pretrained"], task["scratch"])
    assert gain is not None
    scratch, pretrained = (statistics.fmean(task[arm]) for arm in ARMS)
    baselines = task.get("baselines", {})
    simple = max((baselines[key] for key in OWN_TEXT_BASELINES if key in baselines), default=None)
    without = "" if simple is None else f"; {simple:.1f}"
    scores = f"{scratch:.1f} → {pretrained:.1f} ({gain.low:+.1f} to {gain.high:+.1f}){without}"
    return scores.replace("-", "−")


def own_text_run() -> str:
    """Return the size of the pre-trainings on own text, and the quality of their discriminators."""
    records = map(record, OWN_TEXT.values())
    runs = list(itertools.chain.from_iterable(one["pretrainings"] for one in records))
    auc, recall = ([run[key] for run in runs] for key in ("disc_auc", "disc_recall"))
    return (
        f"{len(runs) // len(OWN_TEXT)} pre-trainings of {runs[0]['steps']:,} steps, "
        f"{runs[0]['tokens'] / 1e6:.0f} million tokens each, "
        f"end at AUC {min(auc):.2f} to {max(auc):.2f} and find "
        f"{100 * min(recall):.0f} to {100 * max(recall):.0f} % of the replaced tokens"
    )


def continued() -> str:
    """Return the table of a checkpoint before and after further pre-training on the user's own
    text, with its lead over a fresh start on as many tokens of the same text.
    """
    run = record("own-text")["continued"]
    fresh_start = {"mean": run["fresh"]["mean"], **run["fresh"]["tasks"]}
    rows = []
    for name, arms in {**run["tasks"], "mean": run["mean"]}.items():
        scores = (fresh_start[name]["pretrained"], arms["before"], arms["pretrained"])
        gain = compare_scores(arms["pretrained"], fresh_start[name]["pretrained"])
        assert gain is not None
        means = (f"{statistics.fmean(points):.1f}" for points in scores)
        lead = f"{gain.points:+.1f} ({gain.low:+.1f} to {gain.high:+.1f})"
        rows.append(f"{name} | {' | '.join(means)} | {lead}".replace("-", "−"))
    columns = "points on dev | fresh start | checkpoint | continued | continued − fresh start"
    return table(columns, rows)


def continued_run() -> str:
    """Return the sizes of the checkpoint's pre-training and of its continuation."""
    run = record("own-text")["continued"]
    runs = (run["base"], run["pretrainings"][0])
    base, further = (f"{one['tokens'] / 1e6:.0f} million tokens" for one in runs)
    return f"{base} of Wikipedia and books, continued with {further}"


def classical() -> str:
    """Return scikit-learn's mean of six GLUE tasks, on the same rows of real text."""
    return f"{record('classical')['mean_of_six']:.1f}"


def published_start() -> str:
    """Return the demo's mean with the published initial values, from one pre-training."""
    start = record("controls")["controls"]["published_start"]
    return f"{start['mean_of_nine']['pretrained']:.1f}"


def real_text_sentence() -> str:
    """Return the means of six GLUE tasks on real text: from scratch, ELECTRA, masked language
    model, and a modern encoder from scratch.
    """
    arms = record("real-text-12000")["tasks"]["mean of 6"]
    modern = record("real-text-12000-modern")["tasks"]["mean of 6"]
    scratch, electra, mlm = (f"{arms[arm]['mean']:.1f}" for arm in ("scratch", "electra", "mlm"))
    return (
        f"from {scratch} to {electra} (a masked language model of equal FLOPs: {mlm}); "
        f"a modern encoder scores {modern['scratch']['mean']:.1f} without any pre-training"
    )


def real_text_table() -> str:
    """Return the table of every task on real text, with ELECTRA's leads over the other arms."""
    columns = (
        "points on dev | ELECTRA | masked language model | from scratch | ELECTRA − scratch | "
        "ELECTRA − MLM"
    )
    rows = real_text.table_rows(real_text.compare_arms(record("real-text-12000")["finetunings"]))
    return table(columns, rows)


def real_text_runs() -> str:
    """Return the tokens, steps and minutes of the pre-trainings on real text."""
    arms = record("real-text-12000")["pretraining"]
    electra, mlm = (
        {"tokens": runs[0]["curve"][-1]["tokens"] / 1e6, **runs[0]} for runs in arms.values()
    )
    minutes = [run["seconds"] / 60 for run in itertools.chain(*arms.values())]
    return (
        f"for {electra['flops_matmul_convention'] / 1e13:.1f} × 10¹³ FLOPs of matrix products and "
        f"{min(minutes):.0f} to {max(minutes):.0f} minutes of one thread each: "
        f"ELECTRA reads {electra['tokens']:.0f} million tokens in {electra['steps']:,} steps, "
        f"the masked language model {mlm['tokens']:.0f} million in {mlm['steps']:,}"
    )


def without_cola() -> str:
    """Return the mean of the other five tasks: ELECTRA, masked language model, from scratch."""
    scores = record("real-text-12000")["finetunings"]
    five = [task for task in real_text.SIX if task != "cola"]
    cells = []
    for arm in real_text.ARMS:
        means = [real_text.mean_of_tasks(run, five) for run in scores[arm]]
        cells.append(f"{statistics.fmean(means):.1f}")
    return f"{', '.join(cells[:-1])} and {cells[-1]}"


def gpu_speed() -> str:
    """Return the table of a pre-training step on a GPU: rates, ratios, memory, a whole run."""
    columns = (
        "model, rows of a step | tokens per second | transformers' time | with logits at masked "
        "positions only | memory, ours and transformers' | a whole pre-training"
    )
    rows = []
    for name in ("small", "base", "modern-base"):
        run = record("pretrain-step-h200")["models"][name]
        arms = run["arms"]
        ours = arms["ours-bf16"]
        settings = run["settings"]["pretrain"]
        seconds = settings["steps"] * settings["batch"] * settings["length"]
        seconds /= ours["tokens per second"]
        cells = [f"{name}, {run['rows']}", f"{ours['tokens per second']:,.0f}"]
        for arm in ("peer", "expert"):
            ratio = run["ratios"].get(f"{arm}-bf16 / ours-bf16")
            cells.append(f"{ratio['wall']['median']:.1f} ×" if ratio else "")
        memory = [f"{ours['peak bytes'] / 1e9:.1f}"]
        if "peer-bf16" in arms:
            memory.append(f"{arms['peer-bf16']['peak bytes'] / 1e9:.1f}")
        days = seconds / 86_400
        span = f"{days:.1f} days" if days > 1 else f"{24 * days:.1f} hours"
        cells += [f"{' and '.join(memory)} GB", span]
        rows.append(" | ".join(cells))
    return table(columns, rows)


def gpu_small() -> str:
    """Return the results of the short pre-training of `small` on a GPU."""
    run = record("gpu-small")
    auc = {point["step"]: point["valid/disc_auc"] for point in run["curve"]}
    return (
        f"{run['steps']:,} steps of `small` took {run['seconds']:.0f} seconds, with compilation, "
        f"evaluations and saving: {run['tokens per second'] / 1e6:.1f} million tokens per second. "
        f"Held-out AUC: {auc[5000]:.2f} after 5,000 steps, {auc[run['steps']]:.2f} at the end"
    )


def learned() -> str:
    """Return the table of each package's score after the same time on the same rows: the lowest and
    highest seed, each a mean over the replacements of three generators.
    """
    learning = record("learning")
    titles = {"preset": "this project", "paper": "this project, the paper's recipe"}
    rows = []
    for arm in (*titles, *sorted(learning["runs"].keys() - titles.keys())):
        ends = [run["curve"][-1] for run in learning["runs"][arm]]
        cells = [
            titles.get(arm, arm),
            f"{statistics.fmean(end['tokens'] for end in ends) / 1e6:.1f}",
        ]
        for metric in ("auc", "recall"):
            values = [
                statistics.fmean(end[name][metric] for name in learning["sets"]) for end in ends
            ]
            extremes = sorted({f"{min(values):.2f}", f"{max(values):.2f}"})
            cells.append("–".join(extremes))
        rows.append(" | ".join(cells))
    return table("package | million tokens | AUC | recall", rows)


def blimp() -> str:
    """Return the mean over BLiMP's paradigms of the discriminator and the generator."""
    models = record("blimp")["models"]
    return " and ".join(
        f"its {name.rpartition(' ')[2]} in {model['mean']:.1f} %" for name, model in models.items()
    )


def claims() -> str:
    """Count and list the paper's statements that the recorded ablations confirm or reverse."""
    with (ROOT / "results/report/tables/claims.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if "recorded, 2 tasks" in row["measured on"]]
    listed = {}
    for verdict in ("came out", "reversed"):
        claims = [f"{row['claim']} ({row['points']})" for row in rows if row["here"] == verdict]
        listed[verdict] = ", ".join(claims) or "none"
    return (
        f"Of {len(rows)} comparisons with the paper, these came out: {listed['came out']}. "
        f"Reversed: {listed['reversed']}. The others are undecided"
    )


def arm_scores(ablation: str) -> dict[str, list[float]]:
    """Return the scores of every arm of a recorded ablation."""
    arms = record(f"ablations/{ablation}")["arms"]
    return {arm: results["average"]["scores"] for arm, results in arms.items()}


def main_claim() -> str:
    """Return ELECTRA's lead over BERT at the demo's full length and equal FLOPs."""
    scores = arm_scores("electra_bert_whole")
    electra, mlm = (
        f"{statistics.fmean(points):.1f} ± {statistics.stdev(points):.1f}"
        for points in scores.values()
    )
    pair = compare_scores(scores["electra"], scores["mlm"])
    assert pair
    interval = f"95 % interval {pair.low:.1f} to {pair.high:.1f}"
    points = f"{signed(pair.points)} ({interval})"
    return f"ELECTRA has {electra} points and BERT {mlm}, a difference of {points}"


def masks() -> str:
    """Return the gain of BERT from ELECTRA's masks, and ELECTRA's lead over both."""
    scores = arm_scores("table5")
    pairs = [
        compare_scores(scores[arm], scores[base])
        for arm, base in (("mlm_85", "mlm"), ("electra", "mlm_85"))
    ]
    gain, lead = (f"{signed(pair.points)} points ({pair.verdict})" for pair in pairs if pair)
    return f"with them BERT scores {gain}, and ELECTRA another {lead}"


def attacks() -> str:
    """Return the table of the attacks of benchmarks/reliability, by kind."""
    results = record("reliability")
    groups: dict[str, Counter[str]] = {}
    for kind, counts in sorted(results["kinds"].items()):
        group = "a damaged file" if kind.startswith("file: ") else kind.partition(" (")[0]
        groups.setdefault(group, Counter()).update(counts)
    groups["all"] = Counter(results["total"])
    columns = "attack | tried | same bytes | refused | bugs"
    rows = []
    for group, counts in groups.items():
        cells = [f"{counts[key]:,}" for key in ("tried", "same", "refused", "bugs")]
        rows.append(f"{group} | {' | '.join(cells)}")
    return table(columns, rows)


@functools.cache
def params() -> Params:
    """Return the shipped settings."""
    return load(ROOT / "params.yaml")


def vocabulary(model: ModelConfig) -> int:
    """Return the vocabulary size of a model."""
    return cost_of.vocabulary(params().tokens[model.tokens].tokenizer)


def span(flops: float, gpu: cost_of.Gpu, hidden: int) -> str:
    """Return an estimated time as a table shows it: 2.1–4.6 hours."""
    return re.sub(r"^([\d.]+) to ([\d.]+ \w+)$", r"\1–\2", cost_of.span(flops, gpu, hidden))


def cost() -> str:
    """Return the table of memory and time of the paper's presets, by GPU."""
    gpus = [cost_of.GPUS[name] for name in GPUS]
    columns = f"model | GPU memory | {' | '.join(gpu.name for gpu in gpus)}"
    rows = []
    for name in ("small", "base", "large"):
        model = params().models[name]
        config = model.electra()
        vocab_size = vocabulary(model)
        memory = cost_of.pretraining_memory(config, vocab_size, config.pretrain.accumulate)
        flops = training_flops(config, vocab_size, "matmul")
        cells = [f"{name}, {training_steps(config, vocab_size):,} steps", f"{memory / 1e9:.0f} GB"]
        cells += [span(flops, gpu, config.encoder.hidden) for gpu in gpus]
        rows.append(" | ".join(cells))
    return table(columns, rows)


def paper_runs() -> str:
    """Return the table of docs/reproduce.md: commands, estimated time and price, scores."""
    gpu = cost_of.GPUS["h100"]
    columns = "result | command | H100 | price | paper"
    rows = []
    for run in read_json(Path(__file__).with_name("paper_runs.json")):
        title, name, changes, stage, score = run.values()
        target = f"pipelines/dvc.yaml:{stage}@{name}"
        settings = " ".join(f"-S models.{name}.{key}={value}" for key, value in changes.items())
        command = f"dvc exp run {settings} {target}" if changes else f"dvc repro {target}"
        hours = "with GLUE"
        price = ""
        if stage != "squad":
            flops, hidden = paper_flops(name, changes)
            hours = span(flops, gpu, hidden)
            low, high = (
                max(1.0, float(f"{GPU_HOUR_DOLLARS * flops / (gpu.flops * share * 3600):.2g}"))
                for share in cost_of.utilisation(gpu, hidden)
            )
            price = f"${low:,.0f}" if low == high else f"${low:,.0f}–{high:,.0f}"
        rows.append(f"{title} | `{command}` | {hours} | {price} | {score}")
    return table(columns, rows)


def paper_flops(name: str, changes: dict[str, Any]) -> tuple[float, int]:
    """Return the FLOPs of a changed model's pre-training, or of all arms of an ablation, and the
    model's width.
    """
    if ablation := params().ablations.get(name):
        model = params().models[ablation.base.model]
        configs = [arm.config for arm in plan_arms(name, params(), vocabulary(model))]
    else:
        model = params().models[name]
        config = model.electra()
        for key, value in changes.items():
            section, _, field = key.partition(".")
            changed = dataclasses.replace(getattr(config, section), **{field: value})
            config = dataclasses.replace(config, **{section: changed})
        configs = [config]
    flops = sum(training_flops(config, vocabulary(model), "matmul") for config in configs)
    return flops, model.encoder.hidden


def records() -> str:
    """Return the date and commit of each record that the page uses."""
    origins = set()
    for name in used:
        source = content(name).get("record", content(name))  # an ablation's are one level down
        origins.add(f"{source['recorded']} at {source['commit'].split()[0][:7]}")
    return f"Recorded {', '.join(sorted(origins))}."


WRITERS = {
    "tiny table": tiny_table,
    "tiny": tiny_sentence,
    "own text": own_text,
    "own text run": own_text_run,
    "continued": continued,
    "continued run": continued_run,
    "classical": classical,
    "published start": published_start,
    "real text": real_text_sentence,
    "real text table": real_text_table,
    "real text runs": real_text_runs,
    "without CoLA": without_cola,
    "GPU small": gpu_small,
    "GPU speed": gpu_speed,
    "learned": learned,
    "BLiMP": blimp,
    "claims": claims,
    "main claim": main_claim,
    "masks": masks,
    "attacks": attacks,
    "cost": cost,
    "paper runs": paper_runs,
    "records": records,
}


def fill_regions(text: str) -> str:
    """Return a page with all its regions written again."""
    used.clear()

    def region(match: re.Match[str]) -> str:
        return f"<!-- {match[1]} -->{WRITERS[match[1]]()}<!-- end -->"

    return re.sub(r"<!-- (.+?) -->.*?<!-- end -->", region, text, flags=re.S)


if __name__ == "__main__":
    for page in PAGES:
        write_atomic(ROOT / page, fill_regions((ROOT / page).read_text(encoding="utf-8")))
