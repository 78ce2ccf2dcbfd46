"""One check as a process: `python -m pipelines.commands.gpu_check PART|train DEVICE PLACE [FLAG ...]`.

PLACE is the file of records to write or, of `train`, the folder of the run; its flags are `deterministic` and `die`.
"""

import sys
import tempfile
from pathlib import Path

import torch

from electra.devices import default_device
from electra.files import write_json
from pipelines.commands.gpu_check import finetune, losses, networks, rates, resume

CHECKS = {"rates": rates.check, "losses": losses.check, "networks": networks.check, "finetune": finetune.check}

if __name__ == "__main__":
    part, name, place, *flags = sys.argv[1:]
    torch.set_num_threads(1)
    device = torch.device("cpu") if name == "cpu" else default_device()
    if part == "train":
        resume.train(Path(place), device, **dict.fromkeys(flags, True))
    elif part in CHECKS:
        write_json(Path(place), CHECKS[part](device))
    else:
        with tempfile.TemporaryDirectory() as folder:
            write_json(Path(place), resume.check(device, Path(folder)))
