"""Golden losses: five steps of every objective in fp32 with dropout, from fixed rows and seeds.

They pin everything that a step does on a CPU: rows, masks, samples, dropout, both networks, losses, clipping,
optimizer and schedule. Another CPU or thread count rounds sums in another order, hence the tolerance: 2e-4 of a loss.
A change of more than that is a change of numerics and must be meant; `python -m
tests.electra.pretraining.test_golden` then prints the new values.
"""

import sys
import tempfile
from pathlib import Path

import pytest
import torch

from electra.pretraining.trainer import pretrain
from tests.electra.helpers import config, data

TWIN = {"objective__sharing": "none", "generator__width": 1.0}
CASES = {
    "electra": {},
    "electra, published masking": {"objective__faithful_masking": True},
    "electra_15": {"objective__name": "electra_15"},
    "replace_mlm": {"objective__name": "replace_mlm"},
    "all_tokens_mlm": {"objective__name": "all_tokens_mlm"},
    "mlm": {"objective__name": "mlm", "objective__mask_token_rate": 0.85, "objective__random_token_rate": 0.0},
    "two_stage": {"objective__training": "two_stage", **TWIN},
    "adversarial": {"objective__training": "adversarial"},
    "gradient_disentangled": {"objective__sharing": "gradient_disentangled"},
    "bias correction": {"pretrain__bias_correction": True, "pretrain__schedule": "warmup_then_decay"},
    "mimetic, a faster generator": {"encoder__init": "mimetic", "pretrain__generator_rate": 4.0},
}
GOLDEN = {
    "electra": [38.34471, 38.45743, 32.29476, 26.91042, 24.79789, 23.22485],
    "electra, published masking": [38.30940, 38.36658, 31.45038, 26.32474, 23.76694, 22.71985],
    "electra_15": [39.75226, 39.31265, 35.37830, 29.12571, 23.35613, 20.25056],
    "replace_mlm": [8.16541, 8.18310, 8.12244, 8.14273, 8.09417, 8.06519],
    "all_tokens_mlm": [5.24423, 5.27997, 5.16774, 5.12089, 5.12260, 5.03088],
    "mlm": [4.07689, 4.11849, 4.05422, 4.05065, 4.05246, 4.01427],
    "two_stage": [4.08483, 4.10755, 39.06460, 39.08962, 35.57357, 32.31981],
    "adversarial": [36.00618, 36.13244, 35.07362, 31.86515, 28.76154, 26.39132],
    "gradient_disentangled": [38.49780, 38.31748, 30.80704, 24.81203, 23.85047, 23.26775],
    "bias correction": [38.34471, 36.37465, 33.98597, 32.11757, 31.13208, 30.07363],
    "mimetic, a faster generator": [38.33909, 38.45328, 32.30231, 26.91458, 24.79130, 23.45529],
}


def losses(name, run):
    """Mean loss of each of the five steps, then the held-out loss after them."""
    torch.set_num_threads(1)
    found = []

    def log(step, numbers):
        found.extend(value for key, value in numbers.items() if key == "train/loss")

    few = {"steps": 5, "warmup": 1, "log_every": 1, "eval_every": 5, "save_every": 5, "learning_rate": 2e-3}
    settings = config(**CASES[name], **{f"pretrain__{key}": value for key, value in few.items()})
    history = pretrain(settings, data(), run, {}, log=log).history
    return [*found, history[-1]["loss"]]


@pytest.mark.parametrize("name", CASES)
def test_losses_are_the_golden_ones(name, tmp_path):
    assert losses(name, tmp_path) == pytest.approx(GOLDEN[name], rel=2e-4)


if __name__ == "__main__":
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            values = ", ".join(f"{value:.5f}" for value in losses(case, Path(folder)))
            sys.stdout.write(f'    "{case}": [{values}],\n')
