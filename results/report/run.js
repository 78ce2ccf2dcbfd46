window.electraRun = {
  "date": "2026-11-23 02:07:36 UTC",
  "commit": "cde6fbef61c1 with changes",
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
    "ablation-table5": 166.0,
    "corpus-sample_world": 6.7,
    "glue-tiny": 157.1,
    "pretrain-tiny": 186.4,
    "squad-tiny": 43.9,
    "tasks-sample_world": 7.5,
    "tokens-sample_world": 4.8
  }
};
