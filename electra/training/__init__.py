"""Optimizer, schedule, checkpoints and the pre-training loop."""
