window.electraRun = {
  "date": "2026-11-23 19:56:42 UTC",
  "commit": "914a2fddd3ea",
  "machine": "Linux, x86_64, 2 CPU cores, Python 3.11.2",
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
    "ablation-electra_bert": 90.4,
    "corpus-sample_world": 4.9,
    "glue-tiny": 123.0,
    "pretrain-tiny": 135.3,
    "report": 7.3,
    "squad-tiny": 46.2,
    "tasks-sample_world": 5.9,
    "tokens-sample_world": 3.3
  }
};
