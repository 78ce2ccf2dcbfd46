"""Imported by the server process that workers are forked from: loads what every worker needs, once.

torch imports its compiler when the first optimizer is built, which takes longer than a small fine-tuning; building one
here hands it to all workers.
"""

from electra.finetuning.lifeline import die_with_parent

die_with_parent()  # first, since the imports below take seconds

import torch  # noqa: E402

import electra.finetuning.jobs  # noqa: E402, F401
from electra.training.optimizer import build_optimizer  # noqa: E402

torch.set_num_threads(1)
build_optimizer([("weight", torch.nn.Parameter(torch.zeros(1)))], weight_decay=0.0)
