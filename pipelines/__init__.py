"""The workflow around `electra/`: where data comes from, DVC stages, Prefect flows, MLflow tracking, the report.

Importing this package makes the tools below keep to themselves: no telemetry, state under the checkout. What the
user has set already wins.
"""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

ENVIRONMENT = {
    "DO_NOT_TRACK": "true",  # the word: MLflow does not take "1"
    "DVC_NO_ANALYTICS": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",  # 20 is too little on a busy machine
    "PREFECT_HOME": str(ROOT / ".prefect"),
    "HF_HUB_DISABLE_TELEMETRY": "1",
}

for _name, _value in ENVIRONMENT.items():
    os.environ.setdefault(_name, _value)
