"""A made-up language's tokenizer, encoders and rows of every task."""

import pytest

from electra.files import write_jsonl
from electra.finetuning.classification import encode
from electra.finetuning.tasks import GLUE
from tests.support.models import write_encoder
from tests.support.tasks import CONFIG, MODERN, glue_rows, make_tokenizer, squad_rows


@pytest.fixture(scope="session")
def tokenizer():
    return make_tokenizer()


@pytest.fixture(scope="session")
def model(tmp_path_factory, tokenizer):
    return write_encoder(CONFIG, tmp_path_factory.mktemp("model"), tokenizer)


@pytest.fixture(scope="session")
def modern_model(tmp_path_factory, tokenizer):
    return write_encoder(MODERN, tmp_path_factory.mktemp("modern"), tokenizer)


@pytest.fixture(params=["model", "modern_model"])
def each_model(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def examples(tokenizer):
    return encode(glue_rows("mrpc", 60, 1), GLUE["mrpc"], tokenizer, 40)


@pytest.fixture(scope="session")
def task_rows(tmp_path_factory):
    """A folder as the tasks stage leaves it."""
    folder = tmp_path_factory.mktemp("tasks")
    for name, task in GLUE.items():
        write_jsonl(folder / name / "train.jsonl", glue_rows(name, 60, 1))
        for split in task.evaluation:
            write_jsonl(folder / name / f"{split}.jsonl", glue_rows(name, 24, 2))
    for name in ("squad1", "squad2"):
        write_jsonl(folder / name / "train.jsonl", squad_rows(40, 1, impossible=name == "squad2"))
        write_jsonl(folder / name / "dev.jsonl", squad_rows(15, 2, impossible=name == "squad2"))
    return folder
