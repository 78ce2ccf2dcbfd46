"""Kill the corpus and tokens stages at random moments with SIGKILL: `python benchmarks/kill.py 40`.

Each of so many runs is killed after a random time and started again until it ends; the bytes of documents, tokenizer and
rows are compared with those of a run left alone. Writes benchmarks/results/kill-corpus.json.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.provenance import provenance
from electra.files import write_json
from electra.workers import VARIABLE

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = """
import json, sys
from pathlib import Path
from electra.config import build
from electra.data.packing import TokensConfig
from pipelines.sources import CorpusConfig, documents, survey
from pipelines.stages.corpus import gather
from pipelines.stages.tokens import make_rows

documents.GROUP_BYTES, survey.RANGE_BYTES = 0, 40_000
source = {"kind": "local", "files": ["text/*"]}
cleaning = {"duplicate_documents": "drop", "duplicate_paragraphs": "drop", "shortest_paragraph": 20}
corpus = build(CorpusConfig, {"sources": [source], "cleaning": cleaning}, "corpora.x")
rows = build(TokensConfig, {"corpus": "x", "tokenizer": {"kind": "train", "vocab_size": 400}, "lengths": [32, 128],
                            "valid_fraction": 0.1}, "tokens.x")
here = Path(sys.argv[1])
gather(corpus, "corpora.x", here / "corpus", here / "work-corpus")
make_rows(rows, "tokens.x", here / "corpus", here / "rows", here / "work-rows")
"""


def write_text(folder: Path) -> None:
    """Some 600 kB in files small and large; made up, with repetitions."""
    numbers = random.Random(1)
    words = ["".join(numbers.choices("abcdefgh", k=numbers.randrange(2, 9))) for _ in range(900)]
    pool = [" ".join(numbers.choices(words, k=numbers.randrange(3, 25))) + "." for _ in range(2500)]
    folder.mkdir()
    for number, rows in enumerate((20, 20, 20, 300, 60, 5)):
        texts = ["\n".join(numbers.choices(pool, k=numbers.randrange(1, 20))) for _ in range(rows)]
        (folder / f"{number}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


def start(folder: Path, here: Path, workers: int) -> "subprocess.Popen[bytes]":
    """One run of both stages, in a process group of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: str(workers)}
    command = [sys.executable, "-c", PROGRAM, str(here)]
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)


def digest(here: Path) -> str:
    state = hashlib.sha256()
    for name in ("corpus", "rows"):
        for file in sorted((here / name).rglob("*")):
            if file.is_file():
                state.update(str(file.relative_to(here)).encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return state.hexdigest()


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    origin = provenance()
    numbers = random.Random(2)
    kills, runs, different, leftovers = 0, 0, 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_text(folder / "text")
        started = time.monotonic()
        assert start(folder, folder / "alone", 1).wait() == 0
        whole = time.monotonic() - started
        expected = digest(folder / "alone")
        while kills < wanted:
            here, attempts = folder / f"run-{runs}", 0
            while True:
                process = start(folder, here, 1 + runs % 2)
                try:
                    code = process.wait(None if attempts == 4 else numbers.uniform(0.25, 1.1) * whole)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    kills, attempts = kills + 1, attempts + 1
                    continue
                assert code == 0, code
                break
            runs += 1
            different += digest(here) != expected
            leftovers += sum(path.name.startswith(".") and path.name != ".lock" for path in here.rglob("*"))
            shutil.rmtree(here)
            print(f"{runs} runs, {kills} kills, {different} different", flush=True)
    result = {
        "command": f"python benchmarks/kill.py {wanted}",
        "what": "corpus and tokens stages on made-up text, killed with SIGKILL (the whole process group) at random moments",
        "seconds_of_a_run_left_alone": round(whole, 2),
        "kills": kills,
        "runs_finished": runs,
        "runs_with_other_bytes": different,
        "temporary_files_left": leftovers,
        **origin,
    }
    write_json(Path("benchmarks/results/kill-corpus.json"), result)
    if different or leftovers:
        raise SystemExit(f"{different} of {runs} runs differ, {leftovers} files left")


if __name__ == "__main__":
    main()
