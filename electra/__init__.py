"""ELECTRA (Clark et al., ICLR 2020) in plain PyTorch: text to tokens, tokens to batches, two networks, losses, checkpoints, heads, metrics.

Nothing in here knows of DVC, Prefect or MLflow; `pipelines/` puts these around it.
"""
