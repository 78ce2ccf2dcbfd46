window.electraRun = {
  "date": "2026-11-24 05:08:43 UTC",
  "commit": "d07cf4d37d2d",
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
    "ablation-electra_bert": 71.1,
    "corpus-sample_world": 5.8,
    "glue-tiny": 122.9,
    "pretrain-tiny": 126.6,
    "report": 6.8,
    "squad-tiny": 42.8,
    "tasks-sample_world": 5.4,
    "tokens-sample_world": 4.2
  }
};
