window.electraRun = {
  "date": "2026-11-23 06:16:34 UTC",
  "commit": "4aedfe8e2775",
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
    "ablation-electra_bert": 81.8,
    "corpus-sample_world": 5.0,
    "glue-tiny": 119.5,
    "pretrain-tiny": 158.1,
    "report": 8.9,
    "squad-tiny": 41.8,
    "tasks-sample_world": 6.4,
    "tokens-sample_world": 3.6
  }
};
