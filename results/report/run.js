window.electraRun = {
  "date": "2026-11-22 23:32:30 UTC",
  "commit": "387e8e2fecd4 with changes",
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
    "ablation-table5": 176.3,
    "corpus-sample_world": 9.6,
    "glue-tiny": 181.5,
    "pretrain-tiny": 235.4,
    "report": 6.3,
    "squad-tiny": 60.9,
    "tasks-sample_world": 4.8,
    "tokens-sample_world": 4.6
  }
};
