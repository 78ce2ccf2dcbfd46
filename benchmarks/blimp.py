"""Score BLiMP's minimal pairs (Warstadt et al., TACL 2020) with networks that real_text.py
pre-trained, without fine-tuning:

    python benchmarks/blimp.py --pairs data/*.jsonl -- build/models/modern-electra-1-6012

The files of BLiMP's repository are JSON lines with `sentence_good`, `sentence_bad` and `UID`. The
score of a discriminator, generator or masked language model is the percentage of pairs in which it
prefers the good sentence; chance is 50. Writes benchmarks/results/blimp.json.

discriminator   Σ log (1 - p_t), p_t the probability that token t was replaced
generator       Σ log p(x_t | all others), each token masked in turn (Salazar et al., ACL 2020)

Shapes: N texts, B rows per batch, T tokens per row, V vocabulary.
"""

import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.harness import arguments, provenance, write_record
from electra import Model, load
from electra.files import read_json, read_jsonl
from electra.inference import encode
from electra.pretraining.networks import Generator

FACTS = ("steps", "flops", "parameters", "rows_sha256", "tokens")
ROWS = 256  # rows per batch


def accuracies(model: Model, pairs: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the percentage of pairs with the higher score for the good sentence, by paradigm; ties
    count half.
    """
    good_N = scores(model, [pair["sentence_good"] for pair in pairs])
    bad_N = scores(model, [pair["sentence_bad"] for pair in pairs])
    points: dict[str, list[float]] = defaultdict(list)
    for pair, good, bad in zip(pairs, good_N, bad_N, strict=True):
        points[pair["UID"]].append(50.0 * (float(good > bad) + float(good >= bad)))
    return {paradigm: statistics.fmean(values) for paradigm, values in points.items()}


def scores(model: Model, texts: Sequence[str]) -> NDArray[np.float64]:
    """Return the acceptability score (N,) of each text: higher is better."""
    if isinstance(model.network, Generator):
        return likelihoods(model, texts)
    results = (result.probability.astype(np.float64) for result in model.replaced(texts))
    return np.array([np.log1p(-probability_T).sum() for probability_T in results])


@torch.inference_mode()
def likelihoods(model: Model, texts: Sequence[str]) -> NDArray[np.float64]:
    """Return pseudo-log-likelihoods (N,), with one row per token of each text, in which that token
    is masked.
    """
    tokenizer = model.tokenizer
    sequences = []
    positions = []
    for number, text in enumerate(texts):
        ids = encode(text, tokenizer)[0][: model.length - 2]
        sequences.append(torch.tensor([tokenizer.cls_id, *ids, tokenizer.sep_id]))
        positions += [(number, position) for position in range(1, len(ids) + 1)]
    positions.sort(key=lambda pair: len(sequences[pair[0]]))
    total_N = np.zeros(len(texts))
    for start in range(0, len(positions), ROWS):
        part = positions[start : start + ROWS]
        rows = [sequences[number] for number, _ in part]
        ids_BT = torch.nn.utils.rnn.pad_sequence(
            rows, batch_first=True, padding_value=tokenizer.pad_id
        )
        lengths_B = torch.tensor([len(row) for row in rows])
        position_B1 = torch.tensor([[position] for _, position in part])
        masked_BT = ids_BT.scatter(1, position_B1, tokenizer.mask_id)
        inputs = [
            tensor.to(model.device)
            for tensor in (masked_BT, torch.zeros_like(ids_BT), lengths_B, position_B1)
        ]
        logits_BV, _ = model.network(*inputs)
        log_probability_BV = logits_BV[:, : tokenizer.vocab_size].double().log_softmax(-1).cpu()
        score_B = log_probability_BV.gather(1, ids_BT.gather(1, position_B1))[:, 0].numpy()
        np.add.at(total_N, [number for number, _ in part], score_B)
    return total_N


def main() -> None:
    parser = arguments(__doc__, "blimp.json")
    origin = provenance("torch")
    parser.add_argument(
        "folders", nargs="+", type=Path, metavar="FOLDER", help="a model of real_text.py"
    )
    parser.add_argument("--pairs", nargs="+", type=Path, required=True, help="BLiMP's JSON lines")
    options = parser.parse_args()
    pairs = []
    for path in options.pairs:
        pairs += read_jsonl(path)
    models: dict[str, Any] = {}
    for folder in options.folders:
        results = read_json(folder / "results.json")
        for part in ("discriminator", "generator", "masked_lm"):
            path = folder / part
            if path.is_dir():
                points = accuracies(load(path), pairs)
                paradigms = {name: round(value, 1) for name, value in points.items()}
                mean = round(statistics.fmean(paradigms.values()), 1)
                facts = {key: results[key] for key in FACTS}
                models[f"{folder.name} {part}"] = {**facts, "mean": mean, "paradigms": paradigms}
                print(folder.name, part, mean, flush=True)
    write_record(options.output, {"pairs": len(pairs), "models": models}, origin)


if __name__ == "__main__":
    main()
