window.electraRun = {
  "date": "2026-11-22 19:30:49 UTC",
  "commit": "b183cef43bed with changes",
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
    "ablation-table5": 268.3,
    "corpus-sample_world": 9.2,
    "glue-tiny": 195.8,
    "pretrain-tiny": 276.0,
    "squad-tiny": 36.8,
    "tasks-sample_world": 4.4,
    "tokens-sample_world": 6.2
  }
};
