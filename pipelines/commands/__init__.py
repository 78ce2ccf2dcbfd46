"""The commands beside the stages: check, estimate, new, predict, compare, runs, replay, play and gpu-check."""
