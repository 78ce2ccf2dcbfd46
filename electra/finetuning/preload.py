"""Imported by the server process that workers are forked from: loads what every worker needs, once.

torch imports its compiler when the first optimizer is built, which takes longer than a small fine-tuning; building one
here hands it to all workers.
"""

import torch

import electra.finetuning.jobs  # noqa: F401
from electra.training.optimizer import build_optimizer

torch.set_num_threads(1)
build_optimizer([("weight", torch.nn.Parameter(torch.zeros(1)))], weight_decay=0.0)
