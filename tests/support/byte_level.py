"""A tokenizer of the same parts as the one that ModernBERT's authors publish, in a folder written
by transformers.
"""

import tokenizers
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from electra.data.tokenizer import NAMES, SPECIALS
from electra.files import read_json, write_json

TEXTS = [
    "The ship didn't sail; it's in the harbour.",
    "  Two  spaces, a\ttab and a line\nthat ends ",
    "Ünïcode e\u0301clair, 日本語のテキスト, 🚢 and 100,000 €",
    "[MASK] and [CLS] are words here",
    "",
]


def write_byte_level(folder, added=("  ", "|||IP_ADDRESS|||"), **changes):
    """Write the folder; `changes` are of its tokenizer.json."""
    raw = tokenizers.Tokenizer(models.BPE())
    raw.normalizer = normalizers.NFC()
    raw.decoder = decoders.ByteLevel()
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator(
        TEXTS * 5,
        trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False),
    )
    raw.add_tokens(list(added))
    raw.add_special_tokens(
        [
            *("[UNK]", "[CLS]", "[SEP]", "[PAD]"),
            tokenizers.AddedToken("[MASK]", lstrip=True, special=True),
            "[unused0]",
        ]
    )
    ends = [(name, raw.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    raw.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]", ends
    )
    peer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw,
        **dict(zip(NAMES, SPECIALS, strict=True)),
        model_input_names=["input_ids"],
    )
    peer.save_pretrained(folder)
    rules = read_json(folder / "tokenizer.json")
    changes["model"] = rules["model"] | changes.get("model", {})
    write_json(folder / "tokenizer.json", {**rules, **changes})
