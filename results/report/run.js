window.electraRun = {
  "date": "2026-11-21 17:57:16 UTC",
  "commit": "49ed037c0d5d with changes",
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
    "ablation-table5": 280.6,
    "corpus-sample_world": 5.0,
    "glue-tiny": 143.9,
    "pretrain-tiny": 142.4,
    "report": 9.9,
    "squad-tiny": 69.8,
    "tasks-sample_world": 3.6,
    "tokens-sample_world": 4.5
  }
};
