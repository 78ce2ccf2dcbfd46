"""Optimizers, the schedule of their rates, and the precision they work in."""
