"""A checkout after the demo, as far as models go."""

import shutil

import pytest

from electra.files import write_json, write_jsonl
from tests.conftest import SMOKE
from tests.electra.made_up_models import write_finetuned, write_pretrained

TEXT = "The chef cooked the meal, and the cat ate bread."
CONTEXT = "The home of Mopol is Dornwick. Mopol does eat corn each day."


@pytest.fixture(scope="session")
def checkout(tmp_path_factory):
    """params.yaml with the model smoke; all that its stages leave; `made` has a fine-tuned model of
    each kind.
    """
    root = tmp_path_factory.mktemp("checkout")
    (root / "params.yaml").write_text(
        SMOKE.replace("published: {}", "published: {theirs: {folder: x}}")
    )
    models = root / "build/models/smoke"
    write_pretrained(models)
    pieces = ["[CLS]", "the", "cat", ",", "##s", "[SEP]"]
    write_json(models / "examples.json", [{"original": pieces, "tokens": pieces}])
    shutil.copytree(models, root / "made", ignore=shutil.ignore_patterns("examples.json"))
    write_finetuned(root / "made")
    places = {"glue/smoke/rte/pretrained-seed10": "rte", "glue/smoke/rte/pretrained-seed2": "rte"}
    places |= {"glue/smoke/rte/scratch-seed1": "cola", "squad/smoke/2.0/pretrained-seed1": "squad2"}
    for place, name in places.items():
        shutil.copytree(root / "made" / name, root / "build" / place)
    rte = {"id": "1", "a": "the cat is red.", "b": "the cat is black.", "label": "not_entailment"}
    question = {
        "id": "1",
        "question": "what does Mopol eat?",
        "context": CONTEXT,
        "impossible": False,
    }
    answered = question | {"answers": [{"text": "corn", "start": CONTEXT.index("corn")}]}
    write_jsonl(root / "build/tasks/smoke/rte/dev.jsonl", [rte])
    write_jsonl(root / "build/tasks/smoke/squad2/dev.jsonl", [answered])
    return root
