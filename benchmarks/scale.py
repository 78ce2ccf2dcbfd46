"""Both data stages on all the real text at hand, for docs/scale.md: `python benchmarks/scale.py`.

Runs `corpus` and `tokens` (rows of 128 and 512, repeated documents and paragraphs dropped) on a third and on all of the
files of `local_wiki_books`, and records time, processor time, memory of every process, and disk. Writes
benchmarks/results/scale.json. A hundredth of 3.3 B tokens is 33 M, a hundredth of 33 B is 330 M; the text has 99 M.
"""

import json
import os
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
from electra.files import write_json
from electra.workers import worker_count
from pipelines.params import load
from pipelines.stages.corpus import gather
from pipelines.stages.tokens import make_rows

SIZES = {"a third": ("wiki-0*",), "all": ("wiki-*", "books-*")}


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


def measure(files: tuple[str, ...], folder: Path) -> dict[str, Any]:
    params = load()
    corpus = params.corpora["local_wiki_books"]
    cleaning = replace(corpus.cleaning, duplicate_documents="drop", duplicate_paragraphs="drop")
    sources = []
    for source in corpus.sources:
        wanted = tuple(path for path in source.files for name in files if name.partition("-")[0] in path)
        if wanted:
            sources.append(
                replace(source, files=wanted if len(files) > 1 else (wanted[0].replace("wiki-*", files[0]),))
            )
    settings = replace(corpus, sources=tuple(sources), cleaning=cleaning, expected=None)
    rows = replace(params.tokens["local_wiki_books"], lengths=(128, 512))
    with Watch(folder) as reading:
        read = gather(settings, "corpora.x", folder / "corpus", folder / "work-corpus")
    with Watch(folder) as packing:
        made = make_rows(rows, "tokens.x", folder / "corpus", folder / "rows", folder / "work-rows")
    tokens = made["tokens"]
    return {
        "documents": read["documents"],
        "text_bytes": read["bytes"],
        "dropped": read["dropped"],
        "dropped_lines": read["dropped_lines"],
        "tokens": tokens,
        "corpus": reading.facts(),
        "rows": packing.facts(),
        "row_bytes": sum(file.stat().st_size for file in (folder / "rows").rglob("rows-*/*.*s")),
        "tokens_per_cpu_second": {
            "corpus": round(tokens / reading.cpu),
            "rows": round(tokens / packing.cpu),
            "both": round(tokens / (reading.cpu + packing.cpu)),
        },
    }


def main() -> None:
    origin = provenance()
    sizes = {}
    for name, files in SIZES.items():
        with tempfile.TemporaryDirectory() as folder:
            sizes[name] = measure(files, Path(folder))
        print(name, json.dumps(sizes[name], indent=2), flush=True)
    result = {
        "command": "python benchmarks/scale.py",
        "what": "real text of files of `local_wiki_books`, clean documents and rows of 128 and 512 from it",
        "workers": worker_count(),
        "tokenizers_threads": os.environ.get("TOKENIZERS_PARALLELISM", ""),
        "share_of": {
            name: {f"{full:.1e} tokens": round(size["tokens"] / full, 4) for full in (3.3e9, 3.3e10)}
            for name, size in sizes.items()
        },
        "sizes": sizes,
        **origin,
    }
    write_json(Path("benchmarks/results/scale.json"), result)


if __name__ == "__main__":
    main()
