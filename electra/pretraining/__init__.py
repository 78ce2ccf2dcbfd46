"""Pre-training by replaced token detection: two networks, their joint loss, and the training loop.

    a token's way:  dataloader.py → corruption.py → networks.py → the losses, all in model.py
    a step's way:   trainer.py → step.py → distributed.py; compiling.py compiles, state.py saves

`config.py` holds the settings, `flops.py` counts, `evaluation.py` measures on held-out rows,
`phases.py` has the schedule of steps.
"""
