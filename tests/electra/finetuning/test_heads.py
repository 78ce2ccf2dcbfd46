"""What heads read of a padded batch is what its rows hold, and each kind of network stays on its
device.
"""

import numpy as np
import pytest
import torch

from electra.finetuning.classification import encode
from electra.finetuning.heads import Classifier, pooled, pooled_size
from electra.finetuning.squad.head import SpanFinder
from electra.finetuning.squad.windows import encode as encode_squad
from electra.finetuning.tagging import Tagger, Tagging
from electra.finetuning.tasks import GLUE, FinetuneConfig, SquadConfig, Task
from electra.nn.huggingface import load_encoder

from .conftest import glue_rows, squad_rows

SQUAD = SquadConfig(length=40, stride=12, question_length=10, beam=3)


@pytest.fixture(params=["model", "modern_model"])
def encoder(request):
    return load_encoder(request.getfixturevalue(request.param), dropout=0.0).eval()


def align(row, side):
    """Align one row's tokens with the other text's, a token at a time."""
    texts = [row[side == number] for number in (0, 1)]
    distances = []
    for text, other in (texts, texts[::-1]):
        cosines = [torch.cosine_similarity(token[None], other) for token in text]
        likes = torch.stack([(10 * cosine).softmax(0) @ other for cosine in cosines])
        distances.append((text - likes).abs().mean(0))
    return torch.cat(distances)


def test_pooling_reads_each_rows_own_tokens(encoder, examples):
    for numbers in ([0, 1, 2, 3], [5]):
        batch = examples.batch(np.array(numbers))
        rows, sides = [], []
        for ids, segments, length in zip(
            batch.ids_BT, batch.segments_BT, batch.lengths_B, strict=True
        ):
            rows.append(encoder(ids[None, :length], segments[None, :length])[0])
            sides.append(segments[:length])
        texts = [
            [row[side == number].mean(0) for number in (0, 1)]
            for row, side in zip(rows, sides, strict=True)
        ]
        pair = torch.stack([torch.cat([u, v, (u - v).abs(), u * v]) for u, v in texts])
        expected = {
            "cls": torch.stack([row[0] for row in rows]),
            "mean": torch.stack([row.mean(0) for row in rows]),
            "max": torch.stack([row.amax(0) for row in rows]),
            "pair": pair,
            "align": torch.cat([pair, torch.stack(list(map(align, rows, sides)))], 1),
        }
        for pooling, vectors in expected.items():
            assert torch.allclose(pooled(encoder, batch, pooling), vectors, atol=1e-5), pooling
            assert pooled_size(encoder, pooling) == vectors.shape[1]


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
    hooks = [
        part.register_forward_hook(lambda *call: expected.append(call[-1]))
        for part in encoder.layers
    ]
    hooks.append(encoder.project.register_forward_hook(lambda *call: expected.append(call[-1])))
    whole = encoder(*inputs)
    for hook in hooks:
        hook.remove()
    for ours, theirs in zip(states, [*expected[:-1], whole], strict=True):
        assert torch.equal(ours, theirs)
    for pooling in ("cls", "mean", "pair", "align"):
        vectors = pooled(encoder, batch, pooling, "all")
        assert (
            vectors.shape[1]
            == pooled_size(encoder, pooling, "all")
            == len(states) * pooled_size(encoder, pooling)
        )
        last = torch.cat(vectors.split(32, 1)[len(states) - 1 :: len(states)], 1)
        assert torch.allclose(last, pooled(encoder, batch, pooling), atol=1e-5)


def networks(encoder, tokenizer):
    """Yield each kind of network with rows for it."""
    squad = encode_squad(squad_rows(20, 1, impossible=True), tokenizer, SQUAD)
    yield SpanFinder(encoder, SQUAD), squad.examples
    task = Task(name="chunks", title="chunks", labels=("NP",), metrics=("entity_f1",), tagging=True)
    rows = [
        {"id": str(length), "words": ["cat"] * length, "tags": ["B-NP"] * length}
        for length in range(1, 21)
    ]
    tags = Tagging(task).encode(rows, tokenizer, FinetuneConfig(length=40))
    yield Tagger(encoder, len(task.classes), 40), tags.examples
    yield Classifier(encoder, 3, 0.1), encode(glue_rows("mnli", 20, 1), GLUE["mnli"], tokenizer, 40)


def test_losses_and_outputs_do_not_depend_on_padding(encoder, tokenizer):
    for network, examples in networks(encoder, tokenizer):
        network.eval()
        whole = examples.batch(np.arange(8))
        losses, outputs = network.losses(whole), network.outputs(whole)
        for number in range(8):
            alone = examples.batch(np.array([number]))
            assert torch.allclose(network.losses(alone)[0], losses[number], atol=1e-5)
            for name, values in network.outputs(alone).items():
                ours, theirs = values[0], outputs[name][number]
                if name in {"tags", "share"}:
                    ours, theirs = ours[: int(alone.lengths_B)], theirs[: int(alone.lengths_B)]
                assert torch.allclose(ours, theirs, atol=1e-4), name


def test_a_step_stays_on_its_device(model, tokenizer):
    """On torch's device without data, what is left on the CPU, or is read back to it, raises."""
    for network, examples in networks(load_encoder(model, dropout=0.1), tokenizer):
        network.to("meta").train()
        loss_B = network.losses(examples.batch(np.arange(8), "meta"))
        loss_B.sum().backward()
        assert loss_B.shape == (8,) and loss_B.device.type == "meta"
        assert all(parameter.grad is not None for parameter in network.parameters())
