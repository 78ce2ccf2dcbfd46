"""What do networks know before any fine-tuning? `python benchmarks/frozen_probe.py mini_plus`.

Of each model and of the first one's shape with fresh weights: the mean word vector, the mean hidden state and the state
at [CLS] of every sentence, never trained further. CoLA and SST-2: logistic regression on standardised features of as
many training rows as the model's `finetune` asks for, scored on dev. STS-B: Spearman of the cosine of a pair's two
features (centred), with no training at all. Writes benchmarks/results/frozen-probe.json.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, matthews_corrcoef
from sklearn.preprocessing import StandardScaler

from benchmarks.provenance import provenance
from electra.data import tokenizer as tokenizers
from electra.data.tokenizer import Tokenizer
from electra.files import write_json
from electra.finetuning.reading import read_rows, subset
from electra.finetuning.tasks import GLUE
from electra.nn.encoder import Encoder
from electra.nn.scratch_init import fresh_encoder
from electra.nn.weights import load_encoder
from pipelines.config.params import load

FEATURES = ("mean word vector", "mean hidden state", "state at [CLS]")
METRICS = {"cola": ("matthews", matthews_corrcoef), "sst2": ("accuracy", accuracy_score)}
LONGEST = 128


@torch.no_grad()
def features(encoder: Encoder, tokenizer: Tokenizer, texts: Sequence[str]) -> list[np.ndarray]:
    """Each of FEATURES for every text, (texts, H); means are over its own pieces, without [CLS] and [SEP]."""
    parts: list[list[torch.Tensor]] = []
    for start in range(0, len(texts), 256):
        lines = tokenizer.encode_lines(list(texts[start : start + 256]))
        rows = [[tokenizer.cls_id, *line[: LONGEST - 2], tokenizer.sep_id] for line in lines]
        length_B = torch.tensor([len(row) for row in rows])
        ids_BT = torch.full((len(rows), int(length_B.max())), tokenizer.pad_id)
        for i, row in enumerate(rows):
            ids_BT[i, : len(row)] = torch.tensor(row)
        hidden_BTH = encoder(ids_BT, torch.zeros_like(ids_BT), length_B)
        word_BTE = encoder.embeddings.tables()[0][ids_BT]
        position_T = torch.arange(ids_BT.shape[1])
        inside_BT1 = ((position_T > 0) & (position_T < length_B[:, None] - 1)).float()[..., None]
        count_B1 = inside_BT1.sum(1).clamp(min=1)
        means = [(states * inside_BT1).sum(1) / count_B1 for states in (word_BTE, hidden_BTH)]
        parts.append([*means, hidden_BTH[:, 0]])
    return [torch.cat(part).numpy() for part in zip(*parts, strict=True)]


def probe(encoder: Encoder, tokenizer: Tokenizer, rows: Path, most: dict[str, int | None]) -> dict[str, Any]:
    """Scores by task and feature, points."""
    encoder.eval()
    found: dict[str, Any] = {}
    for task, (metric, score) in METRICS.items():
        train = subset(read_rows(rows / task / "train.jsonl", GLUE[task], labelled=True), most[task], seed=0)
        dev = read_rows(rows / task / "dev.jsonl", GLUE[task], labelled=True)
        sides = [features(encoder, tokenizer, [row["a"] for row in part]) for part in (train, dev)]
        found[f"{task}, {metric}"] = {}
        for name, x, x_dev in zip(FEATURES, *sides, strict=True):
            scaler = StandardScaler().fit(x)
            model = LogisticRegression(C=0.1, max_iter=500).fit(scaler.transform(x), [row["label"] for row in train])
            points = 100 * score([row["label"] for row in dev], model.predict(scaler.transform(x_dev)))
            found[f"{task}, {metric}"][name] = round(float(points), 1)
    pairs = read_rows(rows / "stsb" / "dev.jsonl", GLUE["stsb"], labelled=True)
    sides = [features(encoder, tokenizer, [row[side] for row in pairs]) for side in "ab"]
    found["stsb, spearman of cosine, untrained"] = {}
    for name, a, b in zip(FEATURES, *sides, strict=True):
        centre = np.concatenate([a, b]).mean(0)
        a, b = a - centre, b - centre
        cosine = (a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))
        points = 100 * spearmanr(cosine, [row["label"] for row in pairs]).statistic
        found["stsb, spearman of cosine, untrained"][name] = round(float(points), 1)
    return found


def main() -> None:
    names = sys.argv[1:]
    params = load()
    model = params.models[names[0]]
    folder = Path("build/models") / names[0] / "encoder"
    tokenizer, rows = tokenizers.load(folder), Path("build/tasks") / params.finetunings[names[0]].tasks
    wanted = params.changes(names[0]).get("tasks", {})
    most = {task: wanted.get(task, {}).get("max_train_rows") for task in METRICS}
    encoders = {name: load_encoder(Path("build/models") / name / "encoder", dropout=0.0) for name in names}
    encoders["fresh weights"] = fresh_encoder(model.encoder, tokenizer.vocab_size, 1)
    found = {}
    for name, encoder in encoders.items():
        found[name] = probe(encoder, tokenizer, rows, most)
        print(name, found[name], flush=True)
    record = {
        "command": f"python benchmarks/frozen_probe.py {' '.join(names)}",
        "max_train_rows": most,
        "models": found,
    }
    write_json(Path("benchmarks/results/frozen-probe.json"), record | provenance(("torch", "scikit-learn", "scipy")))


if __name__ == "__main__":
    main()
