"""The benchmark of stacked seeds on a made-up task: both arms are measured, and nothing is measured twice."""

from pathlib import Path

import pytest

from benchmarks import finetune_gpu
from electra.data.tokenizer import SPECIALS
from electra.files import read_json, write_jsonl
from electra.finetuning.tasks import FinetuneConfig
from electra.nn.config import EncoderConfig

SIZE = EncoderConfig(layers=1, hidden=16, heads=2, ffn=32, embedding=16, positions=32)
CONFIG = FinetuneConfig(seeds=(1, 2), arms=("pretrained",), keep="none", batch=8, length=16)


def test_both_arms_are_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIALS, "good", "bad", "cat", "dog"]))
    rows = [
        {"id": str(at), "a": "good cat" if at % 2 else "bad dog", "b": None, "label": str(at % 2)} for at in range(20)
    ]
    for split in ("train", "dev"):
        write_jsonl(tmp_path / "rows" / "cola" / f"{split}.jsonl", rows)
    model = finetune_gpu.write_model(tmp_path, tmp_path / "vocab.txt", SIZE)
    output, tasks = tmp_path / "out.json", [("cola", CONFIG)]

    def start(key: str = "k", workers: int = 1):
        facts = {"key": key}
        return finetune_gpu.run(output, facts, tasks, tmp_path / "rows", model, most=16, rounds=2, workers=workers)

    first = start(workers=0)
    assert first["whole"] is None and read_json(output) == first
    compared = first["compared"]["cola"]
    assert [set(run) for run in compared["runs"]] == [{"stacked", "alone"}] * 2
    assert all(run[arm]["steps"] == 2 and len(run[arm]["scores"]) == 2 for run in compared["runs"] for arm in run)
    spread = compared["alone / stacked, seconds"]
    assert 0 < spread["lowest"] <= spread["median"] <= spread["highest"]
    second = start()
    assert second["compared"] == first["compared"] and len(second["whole"]["scores"]["cola"]) == 2
    assert 0 <= second["whole"]["ended"]["cola"] <= second["whole"]["seconds"]
    for name in ("compare", "whole"):
        monkeypatch.setattr(finetune_gpu, name, lambda *_: pytest.fail("was measured again"))
    assert start() == second
    with pytest.raises(pytest.fail.Exception):
        start("other settings")
