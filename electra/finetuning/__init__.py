"""Fine-tuning: rows of a task become token arrays, a head goes on the encoder, a short training, predictions, official metrics.

    tasks.py -> examples.py -> heads.py -> loop.py -> predictions.py -> metrics.py          (GLUE)
    squad.py -> squad_head.py -> loop.py -> squad_answers.py -> squad_metrics.py            (SQuAD 1.1 and 2.0)

`jobs.py` makes of this one job for each (task, arm, seed), a function of its inputs alone; `pool.py` runs them side by
side; `summary.py` says what they add up to.
"""
