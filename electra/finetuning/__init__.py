"""Fine-tuning: a task's rows become token arrays, the encoder gets a head, a short training, official metrics.

    tasks.py → batches.py → reading.py → unpadded.py → heads.py → training.py → step.py → predictions.py → metrics.py

Each kind of task is one class with the methods of `task_kind.py`: `classification.py` (classes and numbers of texts),
`tagging.py` (words), `squad/kind.py` (questions: squad/windows.py → head.py → answers.py → official.py). In `runs/`,
`job.py` defines one run of (task, arm, seed), `solve.py` computes it, `plan.py` writes its folder, a function of its
inputs alone, `pool.py` runs several in parallel, `summary.py` aggregates their records and `leaderboard.py` writes
GLUE's submission files. `folder.py` writes a fine-tuned network as a Hugging Face folder, and loads any such folder.
"""
