"""Heads read from a padded batch the same as from its rows, and each kind of network stays on its
device.
"""

import numpy as np
import pytest
import torch

from electra.finetuning.classification import encode
from electra.finetuning.heads import Classifier, pooled
from electra.finetuning.tasks import GLUE
from electra.nn.huggingface import load_encoder
from tests.support.tasks import glue_rows, make_kinds


@pytest.fixture
def encoder(each_model):
    return load_encoder(each_model, dropout=0.0).eval()


def test_a_new_head_is_spread_as_glorot_says(encoder):
    torch.manual_seed(0)
    head = Classifier(encoder, 40, 0.0).head
    bound = (6 / (32 + 40)) ** 0.5
    assert 0.95 * bound < head.weight.abs().max() <= bound and not head.bias.any()
    assert head.weight.std() > 0.95 * bound / 3**0.5


def align(text, other):
    """Return how far each token of a text is from its best match in the other, one token at a time."""
    cosines = [torch.cosine_similarity(token[None], other) for token in text]
    likes = torch.stack([(10 * cosine).softmax(0) @ other for cosine in cosines])
    return (text - likes).abs().mean(0)


def test_pooling_reads_each_rows_own_tokens(encoder, examples):
    batch = examples.batch(np.arange(4))
    for row, length in enumerate(batch.lengths_B):
        segments = batch.segments_BT[row, :length]
        hidden = encoder(batch.ids_BT[row : row + 1, :length], segments[None])[0]
        first = hidden[segments == 0]
        second = hidden[segments == 1]
        u = first.mean(0)
        v = second.mean(0)
        pair = torch.cat([u, v, (u - v).abs(), u * v])
        expected = {
            "cls": hidden[0],
            "mean": hidden.mean(0),
            "max": hidden.amax(0),
            "pair": pair,
            "align": torch.cat([pair, align(first, second), align(second, first)]),
        }
        for pooling, vector in expected.items():
            assert torch.allclose(pooled(encoder, batch, pooling)[row], vector, atol=1e-5), pooling


def test_a_pair_without_a_second_text_has_zeros_in_its_place(encoder, tokenizer):
    batch = encode(glue_rows("cola", 3, 1), GLUE["cola"], tokenizer, 40).batch(np.arange(3))
    vectors = pooled(encoder, batch, "align")
    assert vectors[:, :32].any() and not vectors[:, 32:64].any() and not vectors[:, 128:].any()
    assert torch.equal(vectors[:, 64:96], vectors[:, :32].abs())


def test_all_layers_are_the_embeddings_and_each_layers_states(encoder, examples):
    """The last state is the encoder's: a modern one's is normed, and no other."""
    batch = examples.batch(np.arange(5))
    inputs = (batch.ids_BT, batch.segments_BT, batch.lengths_B)
    states = encoder(*inputs, all_layers=True).split(32, -1)
    expected = []
    for part in (encoder.project, *encoder.layers):
        part.register_forward_hook(lambda *call: expected.append(call[-1]))
    whole = encoder(*inputs)
    for ours, theirs in zip(states, [*expected[:-1], whole], strict=True):
        assert torch.equal(ours, theirs)
    for pooling in ("cls", "mean", "pair", "align"):
        vectors = pooled(encoder, batch, pooling, "all")
        last = torch.cat(vectors.split(32, 1)[len(states) - 1 :: len(states)], 1)
        assert torch.allclose(last, pooled(encoder, batch, pooling), atol=1e-5)


def test_losses_and_outputs_do_not_depend_on_padding(each_model, tokenizer):
    for _, network, _, _, examples in make_kinds(each_model, tokenizer):
        network.eval()
        whole = examples.batch(np.arange(8))
        losses = network.losses(whole)
        outputs = network.outputs(whole)
        for number in range(8):
            alone = examples.batch(np.array([number]))
            assert torch.allclose(network.losses(alone)[0], losses[number], atol=1e-5)
            for name, values in network.outputs(alone).items():
                read = slice(int(alone.lengths_B)) if name in {"tags", "share"} else ...
                assert torch.allclose(values[0][read], outputs[name][number][read], atol=1e-4), name


def test_a_step_stays_on_its_device(model, tokenizer):
    """On torch's device without data, what is left on the CPU, or is read back to it, raises."""
    for _, network, _, _, examples in make_kinds(model, tokenizer):
        network.to("meta").train()
        loss_B = network.losses(examples.batch(np.arange(8), "meta"))
        loss_B.sum().backward()
        assert loss_B.shape == (8,) and loss_B.device.type == "meta"
        assert all(parameter.grad is not None for parameter in network.parameters())
