"""The benchmark of whole tasks on a made-up one."""

from pathlib import Path

from benchmarks import finetune_gpu
from electra.data.tokenizer import SPECIALS
from electra.files import write_jsonl
from electra.finetuning.tasks import FinetuneConfig
from electra.nn.config import EncoderConfig

SIZE = EncoderConfig(layers=1, hidden=16, heads=2, ffn=32, embedding=16, positions=32)
CONFIG = FinetuneConfig(seeds=(1, 2), arms=("pretrained",), keep="none", batch=8, length=16)


def test_every_seed_is_timed_and_scored(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIALS, "good", "bad", "cat", "dog"]))
    rows = [
        {"id": str(at), "a": "good cat" if at % 2 else "bad dog", "b": None, "label": str(at % 2)} for at in range(20)
    ]
    for split in ("train", "dev"):
        write_jsonl(tmp_path / "rows" / "cola" / f"{split}.jsonl", rows)
    model = finetune_gpu.write_model(tmp_path, tmp_path / "vocab.txt", SIZE)
    found = finetune_gpu.whole([("cola", CONFIG)], tmp_path / "rows", model, "cpu", 1)
    assert len(found["scores"]["cola"]) == 2 and 0 <= found["ended"]["cola"] <= found["seconds"]
