"""The workflow around `electra/`: sources of data, DVC stages, Prefect flows, MLflow tracking, the
report.

Importing this package sets the environment of its tools (environment.py).
"""

import os
from pathlib import Path

from pipelines import environment

ROOT = Path(environment.ROOT)

# In a git hook these lead every git away from its folder, such as that of a run to the user's HEAD.
for _name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"):
    os.environ.pop(_name, None)


def rebuild_advice(stage: str, name: str) -> str:
    """Return the advice for damage in a stage's folder."""
    return f"run `electra {stage} {name}` to make it again"
