"""Imported by the server process that workers are forked from: loads what every worker needs, once."""

import electra.finetuning.runs.plan  # noqa: F401
