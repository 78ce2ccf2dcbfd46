window.electraRun = {
  "date": "2026-11-21 10:23:30 UTC",
  "commit": "a417f2b1092a",
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
    "ablation-table5": 286.6,
    "corpus-sample_world": 58.8,
    "glue-tiny": 251.2,
    "pretrain-tiny": 461.7,
    "squad-tiny": 159.0,
    "tasks-sample_world": 53.2,
    "tokens-sample_world": 17.5
  }
};
