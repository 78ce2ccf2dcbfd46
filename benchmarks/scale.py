"""Both data stages on all the real text at hand, for docs/scale.md: `python benchmarks/scale.py`.

Runs `corpus` and `tokens` (rows of 128 and 512, repeated documents and paragraphs dropped) on a third and on all of the
files of `local_wiki_books` (benchmarks/real_text.yaml), then on four times as much, and records time, processor time,
memory of every process, and disk. A hundredth of 3.3 B tokens is 33 M, a hundredth of 33 B is 330 M; the text has 99 M.
The fourfold size is not four times as much real text: it is the text and three copies, in which every paragraph begins
with a word of the copy's own, so that none is dropped as repeated. Writes benchmarks/results/scale.json, after each
size.
"""

import json
import lzma
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

from benchmarks.harness import arguments, local_params, provenance, write_record
from electra.files import read_json
from electra.workers import worker_count
from pipelines.sources.paths import find_files
from pipelines.stages.corpus import gather
from pipelines.stages.tokens import make_rows

SIZES = {"a third": ("wiki-0", ()), "all": ("", ()), "four times": ("", ("once", "twice", "thrice"))}  # files; copies


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
    params = local_params()
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
        read = gather(settings, "corpora.x", stages / "corpus", stages / "runs")
    with Watch(stages) as packing:
        made = make_rows(rows, "tokens.x", stages / "corpus", stages / "rows", stages / "runs")
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


def main() -> None:
    parse = arguments(__doc__, "scale.json")
    parse.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    options = parse.parse_args()
    known = read_json(options.output) if options.output.is_file() else {}
    origin, sizes = provenance(), dict[str, Any]()
    for name in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            sizes[name] = measure(*SIZES[name], Path(folder))
        print(name, json.dumps(sizes[name], indent=2), flush=True)
        shares = {
            each: {f"{full:.1e} tokens": round(size["tokens"] / full, 4) for full in (3.3e9, 3.3e10)}
            for each, size in sizes.items()
        }
        write_record(options.output, {**origin, "workers": worker_count(), "share_of": shares, "sizes": sizes}, known)


if __name__ == "__main__":
    main()
