"""Tables of the documentation say what the records in benchmarks/results say."""

import math
import re
import statistics
import subprocess
from typing import Any

import pytest

from benchmarks import pages, real_text
from electra.files import read_json
from electra.finetuning.tasks import GLUE
from tests.conftest import ROOT

SQUAD = "squad2"
TITLES = {task.title: name for name, task in GLUE.items()}
TITLES |= {"SQuAD 2.0": SQUAD, "SQuAD 2.0, F1": SQUAD, "SQuAD 2.0 layout, F1": SQUAD, "mean of nine": "mean_of_nine"}
KINDS = ("swapped", "dropped", "inflected")


def record(name: str) -> dict[str, Any]:
    return dict(read_json(ROOT / f"benchmarks/results/{name}.json"))


def page(name: str, start: str = "", end: str = "\n## ") -> str:
    """A page, or what stands between a heading and the next."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("−", "-")
    return text[text.index(start) + len(start) :].partition(end)[0] if start else text


def git(*words: str) -> str:
    return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False).stdout.strip()


needs_history = pytest.mark.skipif(git("rev-parse", "--is-shallow-repository") != "false", reason="git has no history")


@needs_history
@pytest.mark.parametrize("name", pages.PAGES)
def test_regions_are_as_they_would_be_written(name: str) -> None:
    """Run `python benchmarks/pages.py` where this fails."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "<!-- end -->" in text and pages.written(text) == text


@needs_history
def test_a_record_that_is_older_than_its_code_is_called_so_once_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    first = git("rev-list", "--max-parents=0", "HEAD").split()[0]
    text = "<!-- tiny --><!-- end --> <!-- tiny table --><!-- end -->"
    for commit, told in ((git("rev-parse", "HEAD"), 0), (first, 1), ("0" * 40 + " with changes", 1)):
        monkeypatch.setattr(pages, "content", lambda name, commit=commit: record(name) | {"commit": commit})
        found = re.findall(r"recorded \S+ at (\w+), by earlier code", pages.written(text), re.I)
        assert found == [commit[:7]] * told


def test_the_table_of_controls() -> None:
    known = record("controls")
    controls = [known["controls"][name] for name in ("published_head", "published_start", "both", "another_world")]
    columns = [known["tiny"], *(of["tasks"] | {"mean_of_nine": of["mean_of_nine"]} for of in controls)]
    section = page("benchmarks/notes/sample-world.md", "## Controls")
    found = re.findall(r"^\| ([^|]*?) \|((?: -?[\d.]+ \(-?[\d.]+\) \|)+)$", section, re.M)
    assert sorted(TITLES[title] for title, _ in found) == sorted([*GLUE, SQUAD, "mean_of_nine"])
    for title, cells in found:
        scores = [of[TITLES[title]] for of in columns]
        expected = [f"{of['pretrained']:.1f} ({of['scratch']:.1f})" for of in scores]
        assert re.findall(r"-?[\d.]+ \(-?[\d.]+\)", cells) == expected, title


def test_the_table_without_articles() -> None:
    known, kind, kinds = record("without-articles"), "", []
    section = page("benchmarks/notes/sample-world.md", "## Without the articles")
    pattern = r"^\| (\w*).*?\| ([^|(]+?)(?: \(.*\))? \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$"
    for left_out, title, *numbers in re.findall(pattern, section, re.M):
        kind, task = left_out or kind, TITLES[title]
        kinds.append((kind, task))
        of = (known["with_all"], known["without"][kind]["scores"], known["from_scratch"])
        assert numbers == [f"{scores[task]:.1f}" for scores in of], title
    assert sorted(kinds) == sorted((kind, task) for kind, each in known["without"].items() for task in each["scores"])


@pytest.mark.parametrize(
    ("name", "file", "heading"),
    [
        ("modern-seconds-80", "benchmarks/notes/modern.md", "## What each part gave on real text"),
        ("modern-flops-5e+12", "benchmarks/notes/modern.md", "## At equal operations"),
        ("modern-published-weights", "benchmarks/notes/modern.md", "## With the published first weights"),
    ],
)
def test_the_tables_of_modern_parts(name: str, file: str, heading: str) -> None:
    """Each line of the record stands in the table, and none else: by its numbers, since titles are free."""
    known, section = record(name), page(file, heading)
    scales = {"masked_token_loss": (1, 2), "fixed_loss_over_entropy": (1, 3), "fixed_auc": (1, 3)}
    scales |= {f"pairs_{kind}": (100, 1) for kind in KINDS}
    tasks = {"cola_matthews": (1, 1), "stsb_spearman": (1, 1)} if "fine_tuning" in known else {}

    def cells(arm: str, of: dict[str, tuple[int, int]]) -> str:
        values = (known["mean_and_deviation"][arm][key] for key in of)
        return " | ".join(
            " ± ".join(f"{by * x:.{places}f}" for x in value)
            for value, (by, places) in zip(values, of.values(), strict=True)
        )

    steps = {arm: runs[0]["steps"] for arm, runs in known["runs"].items()}
    lines = re.findall(r"^\| .*? \| (\d+ \| .* ± .*) \|$", section, re.M)
    assert sorted(lines) == sorted(f"{steps[arm]} | {cells(arm, scales)}" for arm in steps)
    lines = re.findall(r"^\| [^|]* \| (\d[\d.]* ± [\d.]+ \| \d[\d.]* ± [\d.]+) \|$", section, re.M)
    assert sorted(lines) == sorted(cells(arm, tasks) for arm in steps if tasks)


def test_the_launches_of_modern_presets() -> None:
    cases = record("rehearsal")["cases"]
    kernels, nodes, memory = [], [], []
    for preset in ("small", "modern-small", "base", "modern-base"):
        (eager,), (recorded,) = (
            cases[f"{preset}, {mode}, 80 GB, 1 GPU"]["processes"] for mode in ("eager", "compiled recorded")
        )
        halves, (first, *more) = preset == "modern-base", recorded["graphs"]
        assert more[:-1] == ([first] if halves else [])
        kernels.append(f"{eager['late step']['launch'] + eager['late step']['gemm']:,}{' (two halves)' * halves}")
        nodes.append(f"{first:,}{' a half' * halves} + {more[-1]}")
        memory.append(f"{recorded['peak GiB']:.1f} GiB{' (two halves)' * halves}")
    text = page("benchmarks/notes/modern.md")
    assert f"| kernels of a step, as torch launches them | {' | '.join(kernels)} |" in text
    assert f"| nodes of the recorded graphs, compiled | {' | '.join(nodes)} |" in text
    assert f"| memory, compiled and recorded | {' | '.join(memory)} |" in text


def test_the_doubts_about_electras_lead() -> None:
    """The mean of the other tasks, and the interval with the deviation that a mean of six such tasks should have."""
    known = record("real-text-12000")
    scores, lead = known["finetunings"], known["tasks"]["mean of 6"]["electra - mlm"]["points"]

    def mean(arm: str, *of: str) -> float:
        return round(statistics.fmean(statistics.fmean(run[task]) for run in scores[arm] for task in of), 1)

    def variance(arm: str) -> float:
        each = (statistics.variance([statistics.fmean(run[task]) for run in scores[arm]]) for task in real_text.SIX)
        return sum(each) / len(real_text.SIX) ** 2

    assert [mean(arm, *real_text.SIX[1:]) for arm in ("electra", "mlm", "scratch")] == [68.3, 68.6, 65.3]
    assert [mean(arm, *real_text.SIX[1:], "qqp", "mnli") for arm in ("electra", "mlm")] == [67.5, 67.6]
    assert round(math.sqrt(variance("electra")), 1) == 0.6
    students_t = 2.31  # of eight degrees of freedom: six variances of each, some far larger than others
    assert students_t * math.sqrt((variance("electra") + variance("mlm")) / 3) > lead > 0


@pytest.mark.parametrize(
    ("name", "title"),
    [("12000", "two layers, paper's"), ("12000-deep", "four layers, paper's"), ("12000-modern", "two layers, modern")],
)
def test_the_note_on_networks(name: str, title: str) -> None:
    known, note = record(f"real-text-{name}"), page("benchmarks/notes/real-text-networks.md")
    for arm, (words, _) in real_text.ARMS.items():
        if runs := known["pretraining"].get(arm):
            ends = [run["curve"][-1] for run in runs]
            auc = f"{statistics.fmean(end['disc_auc'] for end in ends):.3f}" if "disc_auc" in ends[0] else "–"
            cells = [f"{runs[0]['steps']:,}", ", ".join(f"{run['seconds'] / 60:.0f}" for run in runs)]
            cells += [f"{statistics.fmean(end['mlm_loss'] for end in ends):.2f}", auc]
            cells += [f"{statistics.fmean(run['pairs'][kind] for run in runs):.1f}" for kind in KINDS]
            assert f"| {title}, {words} | {' | '.join(cells)} |" in note
        if arm in known["finetunings"]:
            means = (known["tasks"][task][arm] for task in ("mean of 6", *real_text.SIX))
            cells = [f"{of['mean']:.1f}" + ("" if of["std"] is None else f" ± {of['std']:.1f}") for of in means]
            assert f"| {title}, {words} | {' | '.join(cells)} |" in note


def test_the_table_of_scale_on_paper() -> None:
    size = record("scale")["sizes"]["four times"]
    text, rate = size["text_bytes"] / size["tokens"], size["tokens_per_cpu_second"]["both"]
    rows, disk = size["row_bytes"] / size["tokens"], size["rows"]["peak_disk_megabytes"] * 1e6 / size["tokens"]

    def written(count: float) -> str:
        return f"{count / 1e12:.2g} TB" if count >= 1e12 else f"{count / 1e9:.0f} GB"

    for column, tokens in enumerate((3.3e9, 3.3e10, 1e12)):
        expected = {
            "processor time, both stages": f"{float(f'{tokens / rate / 3600:.2g}'):g} core hours",
            "clean documents on disk": written(tokens * text),
            "rows of 128 and 512": written(tokens * rows),
            "most disk at a time": written(tokens * disk),
        }
        for what, cell in expected.items():
            (line,) = re.findall(rf"^\| {what} \|(.*)\|$", page("docs/scale.md"), re.M)
            assert line.split("|")[column].strip() == cell, (what, column)


def test_the_sentences_on_the_scheduler() -> None:
    runs, text = record("scale")["scheduler"]["hundredth_of"], " ".join(page("benchmarks/notes/scale.md").split())
    stages = [stage for run in runs.values() for stage in run.values()]
    cost = [stage["cpu_milliseconds_per_unit"] for stage in stages]
    assert f"took {min(cost):.0f} to {max(cost):.0f} ms of processor time a unit" in text
    assert f"{max(stage['peak_megabytes'] for stage in stages):.0f} MB at most" in text
    for stage, what in (("corpus", "units of documents took "), ("rows", "of rows ")):
        unit = runs["1.0e+12 tokens"][stage]
        assert f"{unit['units']:,} {what}{unit['seconds']:.0f} s where {unit['ideal_seconds']:.0f} s" in text
