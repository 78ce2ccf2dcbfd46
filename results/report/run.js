window.electraRun = {
  "date": "2026-11-21 21:01:37 UTC",
  "commit": "29d0f8aae929 with changes",
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
    "ablation-table5": 318.9,
    "corpus-sample_world": 8.6,
    "glue-tiny": 161.9,
    "pretrain-tiny": 455.3,
    "report": 10.7,
    "squad-tiny": 55.6,
    "tasks-sample_world": 3.2,
    "tokens-sample_world": 6.0
  }
};
