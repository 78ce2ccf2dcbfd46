window.electraRun = {
  "date": "2026-11-24 05:50:41 UTC",
  "commit": "69fcb5cbbda3 with changes",
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
    "ablation-electra_bert": 55.9,
    "corpus-sample_world": 5.8,
    "glue-tiny": 82.2,
    "pretrain-tiny": 86.7,
    "report": 4.9,
    "squad-tiny": 26.4,
    "tasks-sample_world": 5.4,
    "tokens-sample_world": 4.2
  }
};
