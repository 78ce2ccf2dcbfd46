"""published@P: a Hugging Face ELECTRA folder from elsewhere → build/models/P/encoder, as
pre-training leaves its own.

Any folder will do that holds an ELECTRA encoder as safetensors: a discriminator, a generator, a
backbone, a fine-tuned model. Its tokenizer.json is taken as it is; where there is only a vocab.txt,
one is made of it.
"""

import sys
from pathlib import Path
from typing import Any

from electra.card import model_card
from electra.data import tokenizer as tokenizers
from electra.files import atomic_folder, read_object, write_json
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
    warn_of_changes(folder, facts["source"], Path("runs") / f"published-{name}" / "source.json")
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


def warn_of_changes(folder: Path, hashes: dict[str, str], record: Path) -> None:
    """Remember a foreign folder's hashes when it is first read. Warn when they are others later."""
    known = read_object(record) if record.is_file() else hashes
    for file in sorted({*known, *hashes}):
        if known.get(file) != hashes.get(file):
            change = f"has sha256 {hashes.get(file)}, and had {known.get(file)} before"
            print(f"warning: {folder / file} {change}", file=sys.stderr)
    write_json(record, hashes)
