window.electraRun = {
  "date": "2026-11-24 14:18:48 UTC",
  "commit": "69c1ce0efd60 with changes",
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
    "ablation-electra_bert": 97.8,
    "corpus-sample_world": 24.5,
    "glue-tiny": 214.8,
    "pretrain-tiny": 543.4,
    "squad-tiny": 99.9,
    "tasks-sample_world": 14.0,
    "tokens-sample_world": 17.6
  }
};
