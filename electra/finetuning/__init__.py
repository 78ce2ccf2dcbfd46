"""Fine-tuning: a task's rows become token arrays, the encoder gets a head, a short training, official metrics.

    tasks.py → reading.py → batches.py → unpadded.py → heads.py → training.py → predictions.py → metrics.py

What differs between kinds of task is in one class each, by the plan of `task_kind.py`: `classification.py` (classes and
numbers of texts), `tagging.py` (words), `squad/kind.py` (questions: squad/windows.py → head.py → answers.py →
official.py). In `runs/`, `job.py` says what one run of (task, arm, seed) is, `solve.py` does it, `plan.py` makes of it
a whole folder, a function of its inputs alone, `pool.py` runs them side by side, `summary.py` says what they add up
to and `leaderboard.py` writes what is handed in. `stacked.py` trains the seeds of one task as one network, on GPUs;
`folder.py` makes of a fine-tuned network a Hugging Face folder, and of any such folder one that answers.
"""
