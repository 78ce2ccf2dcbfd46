"""The workflow around `electra/`: sources of data, DVC stages, Prefect flows, MLflow tracking, the
report.

Importing this package sets the environment of its tools (environment.py).
"""

from pathlib import Path

from pipelines import environment

ROOT = Path(environment.ROOT)


def rebuild_advice(stage: str, name: str) -> str:
    """Return the advice for damage in a stage's folder."""
    return f"run `electra {stage} {name}` to make it again"
