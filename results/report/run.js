window.electraRun = {
  "date": "2026-11-22 20:00:15 UTC",
  "commit": "9880474db45c with changes",
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
    "ablation-table5": 192.5,
    "corpus-sample_world": 5.6,
    "glue-tiny": 299.4,
    "pretrain-tiny": 339.4,
    "report": 16.7,
    "squad-tiny": 46.4,
    "tasks-sample_world": 4.1,
    "tokens-sample_world": 3.8
  }
};
