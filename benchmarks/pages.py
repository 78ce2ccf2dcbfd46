"""Writes the numbers of README.md and docs/ from records and estimates: `python benchmarks/pages.py`.

What stands between <!-- NAME --> and <!-- end --> on a page is what a function here makes of benchmarks/results or of
`electra estimate`; tests/benchmarks/test_pages.py holds the pages to it. A record that is older than the code which it
measures is called so beside its numbers.
"""

import functools
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from electra.files import read_json, write_atomic
from electra.finetuning.tasks import GLUE
from electra.pretraining.flops import training_steps
from electra.storage.fingerprint import of_code
from pipelines import ROOT
from pipelines.commands import estimate
from pipelines.config.params import Params, load
from pipelines.report.comparison import around, difference
from pipelines.runtime import code_deps, roofline

PAGES = ("README.md", "docs/own-text.md", "docs/real-text.md", "docs/sample-world.md")
ARMS = ("scratch", "pretrained")
TRAINING = tuple(dict.fromkeys((*code_deps.RUNS["pretrain"], *code_deps.RUNS["finetune"])))
WORLD = ("pipelines/sources/sample_world",)
CODE = {"classical": ("pipelines/sources/glue.py", "pipelines/stages/baselines.py")}  # what others do not measure
used: set[str] = set()
CARDS = ("h100", "a100", "rtx_4090")


@functools.cache
def content(name: str) -> dict[str, Any]:
    found: dict[str, Any] = read_json(ROOT / f"benchmarks/results/{name}.json")
    return found


def record(name: str) -> dict[str, Any]:
    """A record, noted as one that the present region speaks of."""
    used.add(name)
    return content(name)


def git(*words: str) -> bytes | None:
    """What git prints; None where it fails."""
    done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, check=False)
    return None if done.returncode else done.stdout


@functools.cache
def changed(commit: str, paths: tuple[str, ...]) -> bool:
    """Whether any of this code executes something else than at a commit, or git does not have the commit."""
    names = git("diff", "--name-only", commit, "--", *paths)
    with tempfile.TemporaryDirectory() as folder:
        for name in (names or b"").decode().split():
            write_atomic(Path(folder) / name, git("show", f"{commit}:{name}") or b"")
            if not (ROOT / name).is_file() or of_code(Path(folder), [name]) != of_code(ROOT, [name]):
                return True
    return names is None


def older(names: set[str]) -> list[str]:
    """`2026-11-23 at 2a054f4`: when those of these records were made that other code than the present one made."""
    found = []
    for name in sorted(names):
        known, commit = content(name), content(name)["commit"].split()[0]
        paths = CODE.get(name, TRAINING + WORLD * (known.get("data") == "sample world"))
        if changed(commit, paths):
            found.append(f"{known['recorded']} at {commit[:7]}")
    return found


def spread(of: dict[str, Any]) -> str:
    return f"{of['mean']:.1f} ± {of['std']:.1f}".replace("-", "−")


def baselines() -> dict[str, dict[str, float]]:
    """What the demo's own run found without a network, by task."""
    tasks = read_json(ROOT / "results/tiny/glue.json")["tasks"]
    return {name: of["baselines"] for name, of in tasks.items()}


def overlap_sentence() -> str:
    """The tasks on which features of a pair reach far, best first."""
    found = {GLUE[name].title: of["word_overlap"] for name, of in baselines().items() if of.get("word_overlap", 0) > 65}
    return ", ".join(f"{value:.1f} on {title}" for title, value in sorted(found.items(), key=lambda item: -item[1]))


def tiny_table() -> str:
    """The default model over several pre-trainings, with what needs no network."""
    known = record("tiny-marks")
    lines = ["| sample world, points on dev | from scratch | pre-trained | chance | bag of words | overlap features |"]
    lines.append("|---" * 6 + "|")
    for name, task in GLUE.items():
        of, metric = known["tasks"][name], f" ({task.metrics[0].title()})" * (task.metrics[0] != "accuracy")
        simple = [baselines()[name].get(key) for key in ("chance", "bag_of_words", "word_overlap")]
        cells = ["–" if value is None else f"{value:.1f}".replace("-", "−") for value in simple]
        lines.append(
            f"| {task.title}{metric} | {spread(of['scratch'])} | **{spread(of['pretrained'])}** | {' | '.join(cells)} |"
        )
    mean, squad = known["mean_of_nine"], known["tasks"]["squad2"]
    chance = sum(baselines()[name]["chance"] for name in GLUE) / len(GLUE)
    lines.append(f"| mean of nine | {spread(mean['scratch'])} | **{spread(mean['pretrained'])}** | {chance:.1f} | | |")
    never = f"{known['never_answering_f1']:.1f} (never answering)"
    lines.append(
        f"| SQuAD 2.0 layout, F1 | {spread(squad['scratch'])} | **{spread(squad['pretrained'])}** | {never} | | |"
    )
    return "\n" + "\n".join(lines) + "\n"


def tiny_sentence() -> str:
    """Its means, and where the next run will lie."""
    known = record("tiny-marks")
    mean, squad = known["mean_of_nine"], known["tasks"]["squad2"]
    another = mean["pretrained"]
    low, high = around(another["scores"], another=True) or (0.0, 100.0)
    return (
        f"from {spread(mean['scratch'])} to {spread(another)} points (SQuAD 2.0 F1 from {spread(squad['scratch'])} to "
        f"{spread(squad['pretrained'])}; mean ± standard deviation of {len(known['pretrainings'])} pre-trainings), "
        f"and another run lies between {low:.1f} and {min(high, 100.0):.1f} 95 times in 100"
    )


def own_text() -> str:
    """Four own tasks from fresh weights and after pre-training on own text, with what needs no network."""
    known, titles = record("own-text"), {"word_overlap": "overlap features", "bag_of_words": "bag of words"}
    lines = ["| points on dev | from scratch | pre-trained | difference, 95 % interval | without a network |"]
    lines.append("|---" * 5 + "|")
    for name, of in [*known["tasks"].items(), ("mean", known["mean"])]:
        found = difference(of["pretrained"], of["scratch"])
        assert found is not None
        cells = [spread({"mean": statistics.fmean(of[arm]), "std": statistics.stdev(of[arm])}) for arm in ARMS]
        simple = {titles[key]: value for key, value in of.get("baselines", {}).items() if key in titles}
        best = max(simple, key=simple.__getitem__, default="")
        cells.append(f"{found.points:+.1f}, {found.low:+.1f} to {found.high:+.1f}")
        cells.append(f"{simple[best]:.1f} ({best})" if best else "")
        lines.append(f"| {name} | {' | '.join(cells)} |".replace("-", "−"))
    return "\n" + "\n".join(lines) + "\n"


def own_text_run() -> str:
    """What the pre-trainings read, and what their discriminators have learnt."""
    runs = record("own-text")["pretrainings"]
    auc, recall = ([run[key] for run in runs] for key in ("disc_auc", "disc_recall"))
    return (
        f"{len(runs)} pre-trainings of {runs[0]['steps']:,} steps, {runs[0]['tokens'] / 1e6:.0f} million tokens each, "
        f"end at AUC {min(auc):.2f} to {max(auc):.2f} and find {100 * min(recall):.0f} to {100 * max(recall):.0f} % "
        "of the replaced tokens"
    )


def classical() -> str:
    """The mean of six GLUE tasks that scikit-learn reaches, on the same real rows."""
    return f"{record('classical')['mean_of_six']:.1f}"


def classical_tasks() -> str:
    """The same, task by task."""
    found = record("classical")["tasks"]
    return ", ".join(f"{GLUE[name].title} {of['best']:.1f}" for name, of in found.items())


def published_start() -> str:
    """The same from the published initial values, one pre-training."""
    known = record("controls")
    return f"{known['controls']['published_start']['mean_of_nine']['pretrained']:.1f}"


def real_text() -> str:
    """The mean of six GLUE tasks on real text: scratch, masked language model, ELECTRA, and a modern encoder's."""
    arms, modern = (
        record("real-text-12000")["tasks"]["mean of 6"],
        record("real-text-12000-modern")["tasks"]["mean of 6"],
    )
    scratch, electra, mlm = (f"{arms[arm]['mean']:.1f}" for arm in ("scratch", "electra", "mlm"))
    return (
        f"from {scratch} to {electra} (a masked language model of equal FLOPs: {mlm}); a modern encoder has "
        f"{modern['scratch']['mean']:.1f} without any pre-training"
    )


@functools.cache
def params() -> Params:
    return load(ROOT / "params.yaml")


def cost() -> str:
    """Time and money of the paper's presets by card: ranges from the bound to bound / 0.7."""
    titles = " | ".join(roofline.CARDS[card].name for card in CARDS)
    lines = [f"| model | GPU memory | {titles} |", "|---" * (2 + len(CARDS)) + "|"]
    for name in ("small", "base", "large"):
        config, vocab_size = params().models[name].electra(), estimate.vocabulary(name, params())
        weights, steps = roofline.parameters(config, vocab_size), training_steps(config, vocab_size)
        memory = roofline.memory(config, weights, vocab_size)
        cells = [f"{name}, {steps:,} steps", f"{memory / 1e9:.0f} GB"]
        for card in CARDS:
            low = roofline.training_bound(config, vocab_size, roofline.CARDS[card])
            high, price = low / roofline.GOOD, getattr(params().gpu_prices, card) / 3600
            cells.append(f"{estimate.span(low, high)}, {estimate.money(low * price, high * price)}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n" + "\n".join(lines) + "\n"


WRITERS = {
    "tiny table": tiny_table,
    "tiny": tiny_sentence,
    "overlap": overlap_sentence,
    "own text": own_text,
    "own text run": own_text_run,
    "classical": classical,
    "classical tasks": classical_tasks,
    "published start": published_start,
    "real text": real_text,
    "cost": cost,
}


def written(text: str) -> str:
    """A page with its regions as they ought to be; of a record that is older than the code, the first one says so."""
    told: set[str] = set()

    def region(found: re.Match[str]) -> str:
        used.clear()
        said = WRITERS[found[1]]()
        if made := " and ".join(older(used - told)):
            table = said.endswith("\n")
            said += f"\nRecorded {made}, by earlier code.\n" if table else f" (recorded {made}, by earlier code)"
        told.update(used)
        return f"<!-- {found[1]} -->{said}<!-- end -->"

    return re.sub(r"<!-- (.+?) -->.*?<!-- end -->", region, text, flags=re.S)


if __name__ == "__main__":
    for page in PAGES:
        write_atomic(ROOT / page, written((ROOT / page).read_text(encoding="utf-8")))
