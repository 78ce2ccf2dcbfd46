window.electraRun = {
  "date": "2026-11-23 08:36:06 UTC",
  "commit": "8868908e6660 with changes",
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
    "ablation-electra_bert": 87.8,
    "corpus-sample_world": 6.6,
    "glue-tiny": 126.0,
    "pretrain-tiny": 137.9,
    "squad-tiny": 48.1,
    "tasks-sample_world": 4.0,
    "tokens-sample_world": 4.6
  }
};
