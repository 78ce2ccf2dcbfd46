"""Fine-tuning: rows of a task become token arrays, a head goes on the encoder, a short training, predictions, official metrics.

    tasks.py -> examples.py -> batches.py -> unpadded.py -> heads.py -> loop.py -> predictions.py -> metrics.py
    words:  spans.py -> tagging.py                 SQuAD:  squad.py -> squad_head.py -> squad_answers.py -> squad_metrics.py

`job.py` says what one run of (task, arm, seed) is, `solve.py` does it, `jobs.py` makes of it a whole folder, a function of
its inputs alone; `stacked.py` trains the seeds of one task as one network, on GPUs; `pool.py` runs jobs side by side;
`summary.py` says what they add up to; `leaderboard.py` writes what is handed in; `folder.py` makes of a fine-tuned network
a Hugging Face folder, and of any such folder one that answers.
"""
