window.electraRun = {
  "date": "2026-11-21 14:17:44 UTC",
  "commit": "e9fe2e85a658 with changes",
  "machine": "Linux, x86_64, 2 CPU cores, Python 3.11.7",
  "versions": {
    "torch": "2.13.0+cpu",
    "numpy": "2.4.6",
    "tokenizers": "0.23.3",
    "safetensors": "0.8.0",
    "datasets": "5.2.0",
    "dvc": "3.67.1",
    "prefect": "3.8.8",
    "mlflow": "3.17.2",
    "matplotlib": "3.11.2"
  },
  "durations": {
    "ablation-table5": 269.5,
    "corpus-sample_world": 12.2,
    "glue-tiny": 202.3,
    "pretrain-tiny": 315.2,
    "squad-tiny": 86.4,
    "tasks-sample_world": 3.7,
    "tokens-sample_world": 5.2
  }
};
