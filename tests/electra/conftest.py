"""Models that several tests load and none changes."""

import pytest
import torch

import electra
from tests.support.models import write_finetuned, write_pretrained


@pytest.fixture(autouse=True)
def one_thread():
    """Bytes go by the number of threads, and some tests ask for two."""
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """A folder with discriminator, generator, encoder and a fine-tuned model of each kind."""
    root = tmp_path_factory.mktemp("made-up")
    write_pretrained(root)
    write_finetuned(root)
    return root


@pytest.fixture
def load(models):
    """Load one of these models by its name."""
    return lambda name, **options: electra.load(models / name, **options)
