"""Pre-training by replaced token detection: two networks, what binds them, and the loop that trains them.

    a token's way:  generator.py → corruption.py → discriminator.py → objectives.py, all in model.py; vocabulary.py is
                    the generator's output at the masked positions
    a step's way:   dataloader.py → step.py → gradients.py → distributed.py, in trainer.py; saved by state.py

`config.py` holds the settings, `flops.py` counts, `evaluation.py` measures on held-out rows, `phases.py`
says what is due at a step, `nonfinite.py` ends
a run that has left the numbers.
"""
