"""Fine-tuning runs, one for each task, arm and seed: planned, spread over workers, summed up."""
