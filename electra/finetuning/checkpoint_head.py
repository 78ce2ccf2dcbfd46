"""The head of a fine-tuned network as a Hugging Face folder has it, on the way there and back."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from electra.errors import BadInput
from electra.nn.encoder import Encoder
from electra.storage.tensors import Tensors, fill, read_tensors, require_fit

DO = "give the folder of a fine-tuned model, as it was written"


@dataclass(frozen=True)
class Exported:
    """A head: `architecture` is the class of transformers that loads the folder whole."""

    architecture: str
    task_json: dict[str, Any]  # of task.json: what config.json has no place for
    config: dict[str, Any] = field(default_factory=dict)  # of config.json
    tensors: Tensors = field(default_factory=dict)  # of model.safetensors, beside and over the encoder's
    beside: dict[str, Tensors] = field(default_factory=dict)  # files of heads that no class of transformers has


@dataclass(frozen=True)
class Stored:
    """A folder, read: its encoder, and all that is told of its head."""

    folder: Path
    encoder: Encoder
    length: int
    config: dict[str, Any]  # config.json
    task_json: dict[str, Any]  # task.json; nothing in a folder that others have fine-tuned
    heads: Tensors  # what model.safetensors holds beside the encoder

    def beside(self, name: str) -> Tensors:
        """The tensors of another file of the folder."""
        return read_tensors(self.folder / name, DO)

    def labels(self) -> tuple[str, ...]:
        """What each output stands for."""
        names = self.config.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
        if not isinstance(names, dict) or set(names) != set(map(str, range(len(names)))):
            found = f"has id2label {names!r:.80}"
            raise BadInput(self.folder / "config.json", found, "a label for each number from 0", DO)
        return tuple(str(names[str(number)]) for number in range(len(names)))

    def fill(self, layers: dict[str, nn.Linear], heads: Tensors) -> None:
        """Fill layers from the tensors of their names, which must be all that there are."""
        if lacking := [name for name in layers if f"{name}.weight" not in heads]:
            raise BadInput(self.folder, f"has no {lacking[0]}", "a model that was fine-tuned", DO)
        heads = dict(heads)
        for name, layer in layers.items():
            own = {kind: heads.pop(f"{name}.{kind}") for kind in ("weight", "bias") if f"{name}.{kind}" in heads}
            fill(layer, own, f"{self.folder}: {name}", DO)
        require_fit({}, heads, self.folder, DO)


def named_outputs(names: tuple[str, ...]) -> dict[str, Any]:
    """The entries of config.json that say what the outputs are."""
    numbered = dict(enumerate(names))
    return {
        "id2label": {str(number): name for number, name in numbered.items()},
        "label2id": {name: number for number, name in numbered.items()},
    }
