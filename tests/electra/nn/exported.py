"""Models with weights of their own in every tensor, and their folders as pre-training exports them."""

import torch

from electra.nn.hf_names import config_json, transformers_class
from electra.nn.huggingface import encoder_tensors, extra_tensors, network_tensors, write_folder
from electra.pretraining.model import Pretraining
from tests.electra.helpers import SPECIAL, VOCAB


def make_model(settings):
    """Return a model whose biases and norms are not those of the start: a part that is left out
    would go unseen.
    """
    torch.manual_seed(0)
    model = Pretraining(settings, VOCAB, SPECIAL, torch.ones(VOCAB)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    return model


def export(model, folder):
    """Write the encoder and each network with its head."""
    encoder = model.discriminator.encoder
    config = config_json(encoder.config, VOCAB, "ElectraModel")
    fields = {"model": "test", "part": "encoder"}
    write_folder(folder / "encoder", encoder_tensors(encoder, ""), config, {}, "# card\n", **fields)
    extras = model.extras()
    for name, (part, head) in model.networks().items():
        write_folder(
            folder / name,
            network_tensors(part, head),
            config_json(part.config, VOCAB, transformers_class(head)),
            {},
            "# card\n",
            extra_files=extra_tensors(part, extras.get(name, {})),
            model="test",
            part=name,
        )
