"""Both data stages on all the real text at hand, for docs/scale.md: `python benchmarks/scale.py`.

Runs `corpus` and `tokens` (rows of 128 and 512, repeated documents and paragraphs dropped) on a third and on all of the
files of `local_wiki_books`, then on four times as much, and records time, processor time, memory of every process, and
disk. A hundredth of 3.3 B tokens is 33 M, a hundredth of 33 B is 330 M; the text has 99 M. The fourfold size is not
four times as much real text: it is the text and three copies, in which every paragraph begins with a word of the copy's
own, so that none is dropped as repeated. Writes benchmarks/results/scale.json, after each size.

`python benchmarks/scale.py scheduler` simulates the other side: a Dask scheduler with 64 workers gives out a hundredth
of the units of 33 B and of 1 T tokens. A unit sleeps as long as one of its kind takes by the largest size, and leaves
a folder of one small file. All workers are threads of one process, so its processor time is the scheduler's, the
client's and the workers' together.
"""

import json
import lzma
import math
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil

from benchmarks.provenance import provenance
from electra.files import lock_folder, read_json, write_json
from electra.workers import worker_count
from pipelines.config.params import load
from pipelines.runtime import dask_cluster, work_units
from pipelines.sources.documents import RANGE_BYTES
from pipelines.sources.local import find_files
from pipelines.stages.corpus import PART_BYTES, gather
from pipelines.stages.tokens import make_rows

SIZES = {"a third": ("wiki-0", ()), "all": ("", ()), "four times": ("", ("once", "twice", "thrice"))}  # files; copies
RESULT = Path("benchmarks/results/scale.json")
WORKERS, SHARE = 64, 0.01  # of the simulated cluster; of the units


class Watch:
    """The largest resident memory of one process, this one and workers apart, and the most disk that a folder took."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.done = folder, threading.Event()
        self.parent = self.worker = self.disk = 0

    def __enter__(self) -> "Watch":
        self.started, self.cpu = time.monotonic(), self._cpu()
        self.thread = threading.Thread(target=self._look)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()
        self.seconds, self.cpu = time.monotonic() - self.started, self._cpu() - self.cpu

    def _cpu(self) -> float:
        usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(usage.ru_utime + usage.ru_stime for usage in usages)

    def _look(self) -> None:
        me = psutil.Process()
        while not self.done.wait(1.0):
            self.parent = max(self.parent, me.memory_info().rss)
            for child in me.children():
                try:
                    self.worker = max(self.worker, child.memory_info().rss)
                except psutil.Error:
                    continue
            found = subprocess.run(["du", "-s", "--block-size=1", str(self.folder)], capture_output=True, text=True)
            self.disk = max(self.disk, int(found.stdout.split()[0] or 0))

    def facts(self) -> dict[str, float]:
        return {
            "seconds": round(self.seconds, 1),
            "cpu_seconds": round(self.cpu, 1),
            "peak_megabytes_parent": round(self.parent / 1e6, 1),
            "peak_megabytes_worker": round(self.worker / 1e6, 1),
            "peak_disk_megabytes": round(self.disk / 1e6, 1),
        }


def copy(path: str, word: str, hard_wrapped: bool, folder: Path) -> str:
    """The path of a plain file with the documents of `path` and `word` at the head of every paragraph."""
    head = re.compile(r"(\A|\n\n)(?=[^\n])" if hard_wrapped else r"(\A|\n)(?=[^\n])")
    written = folder / f"{word}-{Path(path).stem}"
    with lzma.open(path, "rt", encoding="utf-8") as read, written.open("w", encoding="utf-8") as write:
        for line in read:
            write.write(json.dumps({"text": head.sub(rf"\1{word} ", json.loads(line)["text"])}) + "\n")
    return str(written)


def measure(part: str, words: tuple[str, ...], folder: Path) -> dict[str, Any]:
    """Both stages on the files whose path has `part` in it, and on a copy of them for each word."""
    params = load()
    corpus = params.corpora["local_wiki_books"]
    cleaning = replace(corpus.cleaning, duplicate_documents="drop", duplicate_paragraphs="drop")
    sources = []
    copies = folder / "copies"
    copies.mkdir()
    for source in corpus.sources:
        files = [str(path) for path in find_files(source.files, "scale") if part in path.name]
        files += [copy(path, word, source.hard_wrapped, copies) for word in words for path in files]
        if files:
            sources.append(replace(source, files=tuple(files)))
    settings = replace(corpus, sources=tuple(sources), cleaning=cleaning, expected=None)
    rows = replace(params.tokens["local_wiki_books"], lengths=(128, 512))
    stages = folder / "made"
    stages.mkdir()
    with Watch(stages) as reading:
        read = gather(settings, "corpora.x", stages / "corpus", stages / "work-corpus")
    with Watch(stages) as packing:
        made = make_rows(rows, "tokens.x", stages / "corpus", stages / "rows", stages / "work-rows")
    tokens = made["tokens"]
    return {
        "documents": read["documents"],
        "text_bytes": read["bytes"],
        "dropped": read["dropped"],
        "dropped_lines": read["dropped_lines"],
        "tokens": tokens,
        "corpus": reading.facts(),
        "rows": packing.facts(),
        "row_bytes": sum(file.stat().st_size for file in (stages / "rows").rglob("rows-*/*.*s")),
        "tokens_per_cpu_second": {
            "corpus": round(tokens / reading.cpu),
            "rows": round(tokens / packing.cpu),
            "both": round(tokens / (reading.cpu + packing.cpu)),
        },
    }


def record(sizes: dict[str, Any]) -> dict[str, Any]:
    return {
        "command": "python benchmarks/scale.py",
        "what": __doc__,
        "workers": worker_count(),
        "tokenizers_threads": os.environ.get("TOKENIZERS_PARALLELISM", ""),
        "share_of": {
            name: {f"{full:.1e} tokens": round(size["tokens"] / full, 4) for full in (3.3e9, 3.3e10)}
            for name, size in sizes.items()
        },
        "sizes": sizes,
    }


def pretend(seconds: float, folder: Path) -> dict[str, int]:
    """A unit that takes as long as a real one and no processor."""
    time.sleep(seconds)
    (folder / "file").write_text("a unit")
    return {"units": 1}


def schedule(tokens: float, size: dict[str, Any]) -> dict[str, Any]:
    """Give out a hundredth of both stages' units of a corpus of so many tokens, with rates as the `size` measured."""
    from distributed import LocalCluster

    found: dict[str, Any] = {}
    for stage, unit in (("corpus", RANGE_BYTES), ("rows", PART_BYTES)):
        unit_tokens = unit * size["tokens"] / size["text_bytes"]
        seconds = unit_tokens / size["tokens_per_cpu_second"][stage]
        jobs = [seconds] * math.ceil(SHARE * tokens / unit_tokens)
        options = {"n_workers": WORKERS, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
        with tempfile.TemporaryDirectory() as folder, LocalCluster(**options) as local:
            os.environ[dask_cluster.VARIABLE] = local.scheduler_address
            ideal = math.ceil(len(jobs) / WORKERS) * seconds
            work = Path(folder) / "work"
            with Watch(work) as watch, lock_folder(work):
                shown = work_units.Shown(stage, [1] * len(jobs), "units")
                made = work_units.finish_units(work, "simulated", pretend, jobs, shown)
        found[stage] = {
            "units": len(made),
            "unit_seconds": round(seconds, 2),
            "seconds": round(watch.seconds, 1),
            "ideal_seconds": round(ideal, 1),
            "cpu_milliseconds_per_unit": round(1000 * watch.cpu / len(jobs), 1),
            "peak_megabytes": round(watch.parent / 1e6, 1),
        }
    return found


def main() -> None:
    if sys.argv[1:] == ["scheduler"]:
        os.nice(19)
        result = read_json(RESULT)
        origin = provenance(("distributed",))
        size = result["sizes"]["four times"]
        runs = {f"{tokens:.1e} tokens": schedule(tokens, size) for tokens in (3.3e10, 1e12)}
        result["scheduler"] = {"workers": WORKERS, "share_of_units": SHARE, "hundredth_of": runs, **origin}
        write_json(RESULT, result)
        return
    origin = provenance()
    sizes: dict[str, Any] = {}
    for name, (part, words) in SIZES.items():
        with tempfile.TemporaryDirectory() as folder:
            sizes[name] = measure(part, words, Path(folder))
        print(name, json.dumps(sizes[name], indent=2), flush=True)
        write_json(RESULT, {**read_json(RESULT), **record(sizes), **origin})


if __name__ == "__main__":
    main()
