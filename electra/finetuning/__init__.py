"""Fine-tuning: a task's rows become token arrays, the encoder gets a head, a short training,
official metrics.

    tasks.py → batches.py → reading.py → heads.py → training.py → predictions.py → metrics.py

Each kind of task is one class with the methods of `task_kind.py`: `classification.py` (classes and
numbers of texts), `tagging.py` (words), `squad/kind.py` (questions: squad/windows.py → head.py →
answers.py → official.py). `labels.py` reads their labels. `folder.py` writes a fine-tuned network
as a Hugging Face folder, and loads any such folder.
"""
