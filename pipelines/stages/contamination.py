"""contamination@M: how many dev and test texts share n-grams with the corpus that a model has read → results/M/.

1. benchmark  the n-grams of all dev and test texts, sorted                            pipelines/stages/benchmark.py
2. unit       one shard of documents: which of them it has, and in which line first    any process, in any order
3. collect    the texts of each task that have one of those, with an example

That a text is there says nothing of its answer: SQuAD's contexts are paragraphs of Wikipedia.
"""

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from electra.config import digest
from electra.errors import BadConfig
from electra.files import lock_folder, read_jsonl, remove, room, write_json
from electra.storage.manifest import check_file, read_manifest
from electra.storage.run_dir import RUNS, folder_of, name_run
from pipelines import again
from pipelines.runtime import code_deps
from pipelines.runtime.work_units import Counts, MadeOf, Shown, finish_unit, finish_units
from pipelines.stages.benchmark import SIZES, is_scored, of_rows, texts
from pipelines.text.ngrams import Hashes, NgramSet, ngrams, words

if TYPE_CHECKING:
    from pipelines.config.params import Params
    from pipelines.tracking import Tracker

FOUND = np.dtype([("place", "<u8"), ("line", "<u4")])  # of an n-gram in the sorted benchmark, and its first document
EXAMPLES = 2  # of each task and part
EXCERPT = 300  # characters


def run(name: str, params: "Params", tracker: "Tracker") -> None:
    """The stage: the corpus of `finetunings.<name>`'s model, its tasks → results/<name>/contamination.json."""
    corpus, tasks = params.corpus_of(name), params.finetunings[name].tasks
    if corpus is None:
        found = f"starts from {params.finetunings[name].model}, which was pre-trained elsewhere"
        raise BadConfig(f"finetunings.{name}.model", found, "a model whose corpus is here")
    counted = measure(Path("build/corpus") / corpus, Path("build/tasks") / tasks)
    noted = {"corpus": corpus, "source": tasks, "words": list(SIZES), "tasks": counted}
    write_json(Path("results") / name / "contamination.json", noted)
    tracker.summary({task: {part: of["shares"] for part, of in parts.items()} for task, parts in counted.items()})


def measure(corpus: Path, tasks: Path, runs: Path = RUNS) -> dict[str, Any]:
    """The counts of each task and part; `runs` holds unfinished runs' units."""
    manifest = read_manifest(corpus, again("corpus", corpus.name), kind="corpus", name=corpus.name)
    rows = read_manifest(tasks, again("tasks", tasks.name), kind="tasks", name=tasks.name)
    made = MadeOf(digest(manifest["files"], rows["files"]), code_deps.version("contamination"))
    work = folder_of("contamination", made.fingerprint, runs)
    name_run(work, f"{corpus.name}-{tasks.name}", made.fingerprint)
    shards = [shard["file"] for shard in manifest["shards"]]
    facts = {name: manifest["files"][name] for name in shards}
    with lock_folder(work):
        finish_unit(work / "benchmark", made, functools.partial(gather, tasks, rows))
        jobs = [ScanJob(corpus, name, facts[name], work / "benchmark") for name in shards]
        shown = Shown(f"contamination {corpus.name}", [facts[name]["bytes"] for name in shards], "documents")
        finish_units(work, made, scan, jobs, shown)
        found = {size: Found(work, size, shards) for size in SIZES}
        counted = {task: _count(tasks, task, sorted(splits), found) for task, splits in rows["tasks"].items()}
        remove(work)
    return counted


def gather(tasks: Path, manifest: dict[str, Any], folder: Path) -> Counts:
    """Write the n-grams of all rows that models are scored on, for each size."""
    for size in SIZES:
        np.save(folder / f"{size}.npy", of_rows(_scored(tasks, manifest), size))
    return {}


def _scored(tasks: Path, manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for task, splits in manifest["tasks"].items():
        for split in filter(is_scored, splits):
            check_file(tasks, name := f"{task}/{split}.jsonl", manifest, again("tasks", tasks.name))
            yield from read_jsonl(tasks / name)


@dataclass(frozen=True)
class ScanJob:
    """One shard of documents, and the folder of the benchmark's n-grams."""

    corpus: Path
    name: str
    fact: dict[str, Any]
    benchmark: Path


@functools.lru_cache(maxsize=1)
def _sets(folder: Path) -> dict[int, NgramSet]:
    return {size: NgramSet(np.load(folder / f"{size}.npy")) for size in SIZES}


def scan(job: ScanJob, folder: Path) -> Counts:
    """Write which n-grams of the benchmark a shard has, each once, and the line where it is first."""
    check_file(job.corpus, job.name, {"files": {job.name: job.fact}}, again("corpus", job.corpus.name))
    sets = _sets(job.benchmark)
    first: dict[int, dict[int, int]] = {size: {} for size in SIZES}
    line = 0
    with (job.corpus / job.name).open(encoding="utf-8", newline="\n") as file:
        for line, text in enumerate(file, 1):
            hashes, _ = words(json.loads(text)["text"])
            for size, grams in sets.items():
                for place in grams.find(ngrams(hashes, size)).tolist():
                    first[size].setdefault(place, line)
    with room(folder):
        for size in SIZES:
            np.array(sorted(first[size].items()), FOUND).tofile(folder / str(size))
    return {"documents": line}


class Found:
    """Which n-grams of a size were found: for each of the sorted hashes the shard and line, or shard -1."""

    def __init__(self, work: Path, size: int, shards: list[str]) -> None:
        self.grams, self.names = NgramSet(np.load(work / "benchmark" / f"{size}.npy")), shards
        count = len(self.grams.hashes)
        self.shard, self.line = np.full(count, -1, np.int32), np.zeros(count, np.uint32)
        for number in reversed(range(len(shards))):  # the first that has it comes last
            found = np.fromfile(work / f"unit-{number:05d}" / str(size), FOUND)
            self.shard[found["place"]], self.line[found["place"]] = number, found["line"]

    def document(self, grams: Hashes) -> str:
        """Where the first of these n-grams that was found stands, as file:line; "" where none was."""
        places = self.grams.find(grams)
        for place in places[self.shard[places] >= 0][:1]:
            return f"{self.names[self.shard[place]]}:{self.line[place]}"
        return ""


def _count(tasks: Path, task: str, splits: list[str], found: dict[int, Found]) -> dict[str, Any]:
    """By part: the different dev and test texts, how many share n-grams of each size, and the first that do."""
    parts: dict[str, dict[str, Any]] = {}
    for split in filter(is_scored, splits):
        rows, kind = read_jsonl(tasks / task / f"{split}.jsonl"), split.partition("_")[0]
        for part, text in dict.fromkeys(each for row in rows for each in texts(row)):
            of = parts.setdefault(part, {"shares": {}, "examples": []})
            counts = of.setdefault(kind, {"texts": 0, **{str(size): 0 for size in SIZES}})
            counts["texts"] += 1
            hashes, _ = words(text)
            for size, where in found.items():
                if document := where.document(ngrams(hashes, size)):
                    counts[str(size)] += 1
                    if size == SIZES[0] and len(of["examples"]) < EXAMPLES:
                        of["examples"].append({"split": split, "text": text[:EXCERPT], "document": document})
            of["shares"] |= {f"{kind}-{size}": round(counts[str(size)] / counts["texts"], 6) for size in SIZES}
    return parts
