"""published@P: a Hugging Face ELECTRA folder from elsewhere → build/models/P/encoder, as pre-training leaves its own.

Any folder will do that holds an ELECTRA encoder as safetensors: a discriminator, a generator, a backbone, a fine-tuned
model. Its tokenizer.json is taken as it is; where there is only a vocab.txt, one is made of it.
"""

from pathlib import Path
from typing import Any

from electra.data import tokenizer as tokenizers
from electra.export import config_json, encoder_tensors, load_encoder, model_card, write_folder
from electra.files import atomic_folder, read_json, sha256_file
from electra.manifest import write_manifest
from pipelines.params import Params
from pipelines.sources.local import require_folder


def run(name: str, params: Params, tracker: Any) -> None:
    """The stage."""
    folder = require_folder(Path(params.published[name].folder), f"published.{name}.folder")
    encoder = load_encoder(folder)
    facts = {"weights_sha256": sha256_file(folder / "model.safetensors")}
    with atomic_folder(Path("build/models") / name) as temporary:
        tokenizers.save(tokenizer(folder), temporary / "tokenizer")
        files = {path.name: path.read_text("utf-8") for path in sorted((temporary / "tokenizer").iterdir())}
        write_folder(
            temporary / "encoder",
            encoder_tensors(encoder, ""),
            config_json(encoder.config, encoder.vocab_size, "ElectraModel"),
            files,
            model_card(f"ELECTRA {name}: encoder of a published model", facts),
        )
        write_manifest(temporary, kind="model", **facts)
    tracker.summary({"parameters": sum(parameter.numel() for parameter in encoder.parameters())})


def tokenizer(folder: Path) -> tokenizers.Tokenizer:
    """The folder's tokenizer."""
    if (folder / "tokenizer.json").is_file() or not (folder / "vocab.txt").is_file():
        return tokenizers.load(folder)
    path = folder / "tokenizer_config.json"
    settings = read_json(path) if path.is_file() else {}
    return tokenizers.from_vocab(
        folder / "vocab.txt",
        lowercase=settings.get("do_lower_case", True),
        strip_accents=settings.get("strip_accents"),
    )
