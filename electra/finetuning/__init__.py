"""Fine-tuning: rows of a task become token arrays, a head goes on the encoder, a short training, predictions, official metrics.

    tasks.py → examples.py → batches.py → unpadded.py → heads.py → trainer.py → predictions.py → metrics.py
    words:  spans.py → tagging.py          SQuAD:  squad/windows.py → head.py → answers.py → metrics.py

In `runs/`, `job.py` says what one run of (task, arm, seed) is, `solve.py` does it, `plan.py` makes of it a whole folder, a
function of its inputs alone, `pool.py` runs them side by side, `summary.py` says what they add up to and `leaderboard.py`
writes what is handed in. `stacked.py` trains the seeds of one task as one network, on GPUs; `folder.py` makes of a
fine-tuned network a Hugging Face folder, and of any such folder one that answers.
"""
