window.electraRun = {
  "date": "2026-11-23 23:47:38 UTC",
  "commit": "ec79aac1a9df",
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
    "ablation-electra_bert": 71.4,
    "corpus-sample_world": 5.0,
    "glue-tiny": 114.5,
    "pretrain-tiny": 119.2,
    "report": 17.3,
    "squad-tiny": 32.8,
    "tasks-sample_world": 6.5,
    "tokens-sample_world": 3.0
  }
};
