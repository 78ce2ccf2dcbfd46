"""Start the Dockerfile's image and say how each command in it ended: `python benchmarks/image.py IMAGE`, by buildah.

The image is built beforehand: `buildah build --isolation chroot --tag electra .`, with `--build-arg BASE=…` where no
registry is to be had. The tests are not in it (.dockerignore) and are mounted. Writes benchmarks/results/image.json
after each command, with how its image was built; commands that were not reached keep their earlier entry.
"""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import ROOT, arguments, provenance, write_record
from electra.files import read_json

COMMANDS = (
    "id -un",
    "python -c 'import torch; print(torch.__version__, torch.version.cuda)'",
    "gcc --version",
    "electra --help",
    "python -m pipelines params small",
    "dvc repro --dry --force",  # forced: DVC hashes the input of a stage that it would run, and none has been made yet
    "python -m pytest -q -p no:cacheprovider tests/electra/nn",
    "dvc repro",
    "dvc repro --dry",
)


def buildah(*words: str) -> str:
    return subprocess.run(["buildah", *words], capture_output=True, text=True, check=True).stdout.strip()


def ended(container: str, command: str) -> dict[str, Any]:
    """Exit code, seconds, the first and the last line of what a command printed (of its errors, where it failed)."""
    mounts = ["--volume", f"{ROOT / 'tests'}:/app/tests:ro"]
    words = ["buildah", "run", "--isolation", "chroot", *mounts, container, "--", "sh", "-c", command]
    begun = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    printed = done.stderr if done.returncode else done.stdout
    lines = [line for line in printed.splitlines() if line.strip()] or [""]
    seconds = round(time.monotonic() - begun)
    return {"exit code": done.returncode, "seconds": seconds, "first": lines[0], "last": lines[-1]}


def main() -> None:
    parse = arguments(__doc__, "image.json")
    parse.add_argument("image")
    parse.add_argument("--built", required=True, help="a sentence: of which commit, on which base")
    options = parse.parse_args()
    container = buildah("from", "--pull=never", options.image)
    origin, output = provenance(), options.output
    known = {each["command"]: each for each in read_json(output)["commands"]} if output.is_file() else {}
    try:
        for command in COMMANDS:
            known[command] = {"command": command, **ended(container, command), "built": options.built}
            print(f"{known[command]['exit code']}  {command}: {known[command]['last']}", flush=True)
            write_record(output, {"commands": [known[each] for each in COMMANDS if each in known]}, origin)
    finally:
        buildah("rm", container)


if __name__ == "__main__":
    main()
