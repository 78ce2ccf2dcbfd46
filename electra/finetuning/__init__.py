"""Fine-tuning: rows of a task become token arrays, a head goes on the encoder, a short training, predictions, official metrics.

    tasks.py -> examples.py -> heads.py -> loop.py -> predictions.py -> metrics.py          (GLUE)
    squad.py -> squad_head.py -> loop.py -> squad_answers.py -> squad_metrics.py            (SQuAD 1.1 and 2.0)

`jobs.py` runs many (task, arm, seed) jobs side by side, each a function of its inputs alone.
"""
