"""published@P: a Hugging Face ELECTRA folder from elsewhere → build/models/P/encoder, as
pre-training leaves its own.

Any folder will do that holds an ELECTRA encoder as safetensors: a discriminator, a generator, a
backbone, a fine-tuned model. Its tokenizer.json is taken as it is; where there is only a vocab.txt,
one is made of it.
"""

from pathlib import Path
from typing import Any

from electra.card import model_card
from electra.data import tokenizer as tokenizers
from electra.files import atomic_folder
from electra.finetuning.folder import load_tokenizer
from electra.nn.hf_names import config_json
from electra.nn.huggingface import encoder_tensors, open_folder, verify_folder, write_folder
from electra.storage.manifest import write_manifest
from pipelines.config.params import Params
from pipelines.sources.paths import require_folder
from pipelines.stages import BUILD


def run(name: str, params: Params, tracker: Any) -> None:
    """Run the stage."""
    folder = require_folder(Path(params.published[name].folder), f"published.{name}.folder")
    source = open_folder(folder)
    encoder = source.encoder()
    facts = {"source": verify_folder(folder)}
    with atomic_folder(BUILD / "models" / name) as temporary:
        tokenizer = load_tokenizer(source)
        tokenizers.save(tokenizer, temporary / "tokenizer")
        files = tokenizers.read_files(temporary / "tokenizer", source.trained_positions)
        config = config_json(
            encoder.config,
            encoder.vocab_size,
            "ElectraModel",
            pad_token_id=tokenizer.pad_id,
            trained_positions=source.trained_positions,
        )
        card = model_card(f"ELECTRA {name}: encoder of a published model", "embed", facts)
        tensors = encoder_tensors(encoder, "")
        target = temporary / "encoder"
        write_folder(target, tensors, config, files, card, model=name, part="encoder")
        write_manifest(temporary, kind="model", name=name, **facts)
    tracker.summary({"parameters": sum(parameter.numel() for parameter in encoder.parameters())})
