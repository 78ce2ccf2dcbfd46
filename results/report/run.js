window.electraRun = {
  "date": "2026-11-23 16:02:09 UTC",
  "commit": "9cd7fee4df86",
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
    "ablation-electra_bert": 308.0,
    "corpus-sample_world": 21.0,
    "glue-tiny": 444.8,
    "pretrain-tiny": 438.4,
    "report": 19.7,
    "squad-tiny": 146.8,
    "tasks-sample_world": 9.9,
    "tokens-sample_world": 11.5
  }
};
