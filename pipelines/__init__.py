"""The workflow around `electra/`: where data comes from, DVC stages, Prefect flows, MLflow tracking, the report.

Importing this package makes the tools below keep to themselves: no telemetry, state under the checkout, and a fair
share of the processors. What the user has set already wins.
"""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

ENVIRONMENT = {
    "DO_NOT_TRACK": "true",  # the word: MLflow does not take "1"
    "DVC_NO_ANALYTICS": "1",
    "DVC_SITE_CACHE_DIR": str(ROOT / ".dvc-site"),  # wherever DVC is started
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # the recorder tries again by itself
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",  # 20 is too little on a busy machine
    "PREFECT_HOME": str(ROOT / ".prefect"),
    "HF_HUB_DISABLE_TELEMETRY": "1",
}

for _name, _value in ENVIRONMENT.items():
    os.environ.setdefault(_name, _value)

# Threads of torch's OpenMP (libgomp) wait for each other by spinning for up to 3 ms, which beside other busy
# processes takes most of the time there is; sleeping at once costs a quiet machine a third of its speed. So
# many spins cover the waits between two parallel loops and no more (benchmarks/results/busy.json). Read when torch is
# imported; no result depends on it.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")


def again(stage: str, name: str) -> str:
    """The advice for damage in a stage's folder."""
    return f"run `python -m pipelines {stage} {name}` to make it again"
