window.electraRun = {
  "date": "2026-11-22 00:10:35 UTC",
  "commit": "927f89bba815 with changes",
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
    "ablation-table5": 241.5,
    "corpus-sample_world": 3.6,
    "glue-tiny": 150.0,
    "pretrain-tiny": 99.6,
    "report": 10.6,
    "squad-tiny": 52.2,
    "tasks-sample_world": 3.1,
    "tokens-sample_world": 3.2
  }
};
