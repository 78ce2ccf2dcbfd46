"""One check as a process: `python -m pipelines.commands.gpu_check losses|resume|train …`, which writes `--out`."""

import argparse
import tempfile
from pathlib import Path

import torch

from electra.devices import default_device
from electra.files import write_json
from pipelines.commands.gpu_check import losses, resume


def main() -> None:
    """Do what the words say."""
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("part", choices=["losses", "resume", "train"])
    parse.add_argument("--device", choices=["cpu", "cuda"], required=True)
    parse.add_argument("--out", type=Path)
    parse.add_argument("--folder", type=Path)
    parse.add_argument("--deterministic", action="store_true")
    parse.add_argument("--die", action="store_true")
    options = parse.parse_args()
    torch.set_num_threads(1)
    device = torch.device("cpu") if options.device == "cpu" else default_device()
    if options.part == "train":
        resume.train(options.folder, device, deterministic=options.deterministic, die=options.die)
    elif options.part == "losses":
        write_json(options.out, losses.check(device))
    else:
        with tempfile.TemporaryDirectory() as folder:
            write_json(options.out, resume.check(device, Path(folder)))


if __name__ == "__main__":
    main()
