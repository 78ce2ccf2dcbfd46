"""Models that several tests load and none changes."""

from pathlib import Path

import pytest

from tests.electra.made_up_models import write_finetuned, write_pretrained


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with discriminator, generator, encoder and a fine-tuned model of each kind."""
    root = tmp_path_factory.mktemp("made-up")
    write_pretrained(root)
    write_finetuned(root)
    return root
