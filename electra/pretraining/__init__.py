"""Pre-training by replaced token detection: two networks, what binds them, and the loop that trains them.

    a token's way:  corruption.py → networks.py → objectives.py, all in model.py; vocabulary.py is the generator's
                    output at the masked positions
    a step's way:   dataloader.py → step.py → gradients.py → distributed.py, in trainer.py; saved by state.py

`config.py` holds the settings, `flops.py` counts, `evaluation.py` measures on held-out rows, `phases.py` says what is
due at a step.
"""
