window.electraRun = {
  "date": "2026-11-23 09:09:18 UTC",
  "commit": "585e1e522327",
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
    "ablation-electra_bert": 8.3,
    "corpus-sample_world": 6.6,
    "glue-tiny": 126.0,
    "pretrain-tiny": 137.9,
    "report": 8.4,
    "squad-tiny": 48.1,
    "tasks-sample_world": 4.0,
    "tokens-sample_world": 4.6
  }
};
