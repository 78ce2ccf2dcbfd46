"""The modern encoder is ModernBERT: with its weights transformers gives the same outputs, losses and gradients."""

import json

import pytest
import torch
import torch.nn.functional as F
import transformers

from electra.config import build
from electra.errors import BadConfig, BadInput
from electra.nn.config import ModernConfig
from electra.nn.encoder import View, initialise
from electra.nn.factory import make_encoder
from electra.nn.hf_names import config_json
from electra.nn.huggingface import encoder_tensors, load_encoder, load_networks, network_tensors, read_config
from electra.nn.modern import apply_rotary
from electra.pretraining.model import Pretraining
from electra.pretraining.networks import Discriminator, Generator
from electra.pretraining.objectives import masked_token_loss
from electra.storage.tensors import read_tensors, write_tensors
from tests.electra.helpers import MODERN, SPECIAL, VOCAB, config
from tests.electra.nn.test_weights import export, moved

SHAPES = {
    "small": ModernConfig(kind="modern", layers=4, hidden=256, heads=4, ffn=384, embedding=256, window=16),
    "base": ModernConfig(kind="modern", layers=4, hidden=768, heads=12, ffn=1152, embedding=768, window=8),
    "factorised": ModernConfig(
        kind="modern",
        layers=3,
        hidden=64,
        heads=4,
        ffn=96,
        embedding=128,
        window=64,
        global_every=2,
        global_theta=500.0,
    ),
    "all global": ModernConfig(kind="modern", layers=2, hidden=64, heads=1, ffn=96, embedding=64, global_every=1),
}
PIECES, LENGTH = 997, 40
CLASSES = {
    "discriminator": (Discriminator, "ElectraForPreTraining", transformers.ModernBertForTokenClassification),
    "generator": (Generator, "ElectraForMaskedLM", transformers.ModernBertForMaskedLM),
}


def networks(kind, shape):
    torch.manual_seed(0)
    settings = SHAPES[shape]
    ours, name, theirs = CLASSES[kind]
    network = ours(make_encoder(settings, PIECES))
    initialise(network, settings)
    with torch.no_grad():  # norms and biases too: a swapped one would go unseen
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    peer = theirs(transformers.ModernBertConfig(**config_json(settings, PIECES, name)))
    missing, unexpected = peer.load_state_dict(network_tensors(network.encoder, network.head), strict=False)
    assert not unexpected and set(missing) <= {"decoder.weight"}  # tied
    peer.tie_weights()
    return network.eval(), peer.eval()


def rows(padded):
    ids = torch.randint(5, PIECES, (3, LENGTH), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([LENGTH, 27, 9] if padded else [LENGTH] * 3)
    real = torch.arange(LENGTH) < lengths[:, None]
    return ids * real, lengths if padded else None, real


def outputs(network, ids, lengths):
    if isinstance(network, Discriminator):
        return network(ids, torch.zeros_like(ids), lengths)[..., None]
    everywhere = torch.arange(LENGTH).expand(3, LENGTH)
    return network(ids, torch.zeros_like(ids), lengths, everywhere)[0].view(3, LENGTH, -1)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", CLASSES)
def test_outputs_losses_and_gradients_equal_transformers(kind, shape, padded):
    """Tolerance: fp32 sums of different order, relative to the largest element of each gradient."""
    network, peer = networks(kind, shape)
    ids, lengths, real = rows(padded)
    logits, theirs = outputs(network, ids, lengths), peer(ids, attention_mask=real.long()).logits
    torch.testing.assert_close(logits[real], theirs[real], atol=1e-5, rtol=1e-5)
    targets = (ids * 3 + 5) % PIECES
    losses = []
    for each in (logits, theirs):
        if kind == "discriminator":
            losses.append(F.binary_cross_entropy_with_logits(each[real][:, 0], (ids[real] % 7 == 0).float()))
        else:
            losses.append(masked_token_loss(each[real], targets[real], torch.ones(int(real.sum()))) / real.sum())
        losses[-1].backward()
    torch.testing.assert_close(*losses, atol=1e-6, rtol=1e-6)
    table = network.encoder.embeddings
    with torch.no_grad():
        if table.factors():  # of the product, and no other part, the gradient is not of that name
            theirs = peer.model.embeddings.tok_embeddings.weight.grad
            folded = theirs @ table.project.weight
            close(table.word.weight.grad[1:], folded[1:], "words")
            table.word.weight.zero_()
        for parameter in network.parameters():
            parameter.data = parameter.grad
    ours = network_tensors(network.encoder, network.head)
    for name, expected in peer.named_parameters():
        if not (name.endswith("tok_embeddings.weight") and table.factors()):
            first = name.endswith("tok_embeddings.weight")  # transformers gives [PAD] no lookup gradient
            close(ours[name][first:], expected.grad[first:], name)


def test_gradients_of_a_long_row_equal_transformers():
    """Large first weights make sharp attention, which shows how the angles of far positions are rounded."""
    settings = ModernConfig(kind="modern", layers=3, hidden=128, heads=2, ffn=96, embedding=128, init_std=0.2)
    torch.manual_seed(0)
    ours = make_encoder(settings, PIECES).eval()
    initialise(ours, settings)
    peer = transformers.ModernBertModel(transformers.ModernBertConfig(**config_json(settings, PIECES, "ElectraModel")))
    peer.eval().load_state_dict(encoder_tensors(ours, ""))
    ids, weight = torch.randint(5, PIECES, (1, 1024)), torch.randn(1, 1024, 128)
    for states in (ours(ids, ids), peer(ids).last_hidden_state):
        (states * weight).sum().backward()
    for layer, theirs in zip(ours.layers, peer.layers, strict=True):
        found, expected = layer.attention.qkv.weight.grad, theirs.attn.Wqkv.weight.grad
        assert (found - expected).abs().max() <= 1e-5 * expected.abs().max()


@pytest.mark.parametrize("embedding", [32, 64])
def test_the_residual_stream_is_fp32_in_bf16_too(embedding):
    settings = ModernConfig(kind="modern", layers=3, hidden=64, heads=2, ffn=96, embedding=embedding)
    encoder, ids = make_encoder(settings, PIECES), torch.randint(5, PIECES, (2, 8))
    seen = list[torch.dtype]()
    for layer in encoder.layers:
        layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].dtype))
    with torch.autocast("cpu", torch.bfloat16):
        states = encoder(ids, ids)
    assert [*seen, states.dtype] == [torch.float32] * 4
    assert encoder.to(torch.float64)(ids, ids).dtype == torch.float64


def close(ours, theirs, name):
    assert (ours - theirs).abs().max() <= 1e-4 * theirs.abs().max().clamp(min=1e-6) + 1e-8, name


def test_attention_is_local_where_it_should_be():
    """What lies beyond the window of a local layer bears on nothing; a global layer sees it."""
    ids, far = torch.randint(5, PIECES, (1, LENGTH)), torch.tensor([[30]])
    changed = ids.scatter(1, far, ids.gather(1, far) - 4)
    settings = ModernConfig(kind="modern", layers=2, hidden=64, heads=2, ffn=96, embedding=64, window=8)
    for every, seen in ((3, True), (1, True)):
        encoder = make_encoder(build(ModernConfig, {**vars(settings), "global_every": every}, ""), PIECES).eval()
        assert bool((encoder(ids, ids)[0, 0] != encoder(changed, ids)[0, 0]).any()) is seen
    encoder.layers[0].sees_all = encoder.layers[1].sees_all = False
    before, after = encoder(ids, ids), encoder(changed, ids)
    reach = (before != after).any(-1)[0].nonzero().flatten().tolist()
    assert reach == list(range(30 - 8, LENGTH if LENGTH < 39 else 39))  # 4 to each side, twice


def test_scores_of_turned_vectors_depend_on_their_distance_alone():
    torch.manual_seed(0)
    query, key = torch.randn(1, 1, 1, 1, 8).expand(1, 12, 1, 1, 8), torch.randn(1, 1, 1, 1, 8).expand(1, 12, 1, 1, 8)
    angle = torch.arange(12)[:, None] / 100.0 ** (torch.arange(0, 8, 2) / 8)
    turned = [apply_rotary(each, View(None, angle.cos(), angle.sin()))[0, :, 0, 0] for each in (query, key)]
    scores = turned[0] @ turned[1].T
    for distance in range(-11, 12):
        line = scores.diagonal(distance)
        assert torch.allclose(line, line[:1], atol=1e-5)
    assert not torch.allclose(scores.diagonal(1)[:1], scores.diagonal(2)[:1], atol=1e-3)


def test_first_weights_are_spread_as_in_transformers():
    settings = SHAPES["small"]
    ours = Discriminator(make_encoder(settings, PIECES))
    torch.manual_seed(0)
    initialise(ours, settings)
    torch.manual_seed(1)
    peer = transformers.ModernBertForTokenClassification(
        transformers.ModernBertConfig(**config_json(settings, PIECES, "ElectraForPreTraining"))
    )
    mine = network_tensors(ours.encoder, ours.head)
    for name, theirs in peer.state_dict().items():
        if theirs.numel() > 10_000:
            assert float(mine[name].std()) == pytest.approx(float(theirs.std()), rel=0.03), name
            assert float(mine[name].abs().max()) == pytest.approx(float(theirs.abs().max()), rel=0.02), name
        elif theirs.numel() == 1 or theirs.std() == 0:
            assert torch.equal(mine[name], theirs), name
    narrow = make_encoder(SHAPES["factorised"], PIECES)
    initialise(narrow, SHAPES["factorised"])
    assert narrow.embeddings.tables()[0].std().item() == pytest.approx(0.02 * 0.88**2, rel=0.1)  # 0.88: what is cut off


KINDS = {
    "encoder": transformers.AutoModel,
    "discriminator": transformers.AutoModelForTokenClassification,
    "generator": transformers.AutoModelForMaskedLM,
}
TOKENS = {"encoder": MODERN, "objective": {"sharing": "tokens"}}


@pytest.mark.parametrize("name", KINDS)
def test_exported_folders_load_in_transformers_whole_and_here_again(tmp_path, name):
    model = moved(config(**TOKENS))
    export(model, tmp_path)
    peer, report = KINDS[name].from_pretrained(tmp_path / name, output_loading_info=True)
    assert type(peer).__name__.startswith("ModernBert")
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    ids = torch.randint(5, VOCAB, (2, 24), generator=torch.Generator().manual_seed(0))
    network = getattr(model, "discriminator" if name == "encoder" else name)
    with torch.no_grad():
        again, states = load_encoder(tmp_path / name)(ids, ids), network.encoder(ids, ids)
        theirs = peer.eval()(ids)
        if name == "encoder":
            assert torch.allclose(states, theirs.last_hidden_state, atol=1e-5)
        elif name == "discriminator":
            assert torch.allclose(network(ids, ids, None), theirs.logits[..., 0], atol=1e-5)
        else:
            ours = network(ids, ids, None, torch.arange(24).expand(2, 24))[0].view(2, 24, -1)
            assert torch.allclose(ours, theirs.logits, atol=1e-5)
    assert torch.allclose(again, states, atol=1e-5)
    parts = read_config(tmp_path / name)[0]
    if name != "generator":  # whose words are a product here, and one table in the folder
        assert parts == network.encoder.config and torch.equal(again, states)


SHARED = {
    "none": {"sharing": "none"},
    "tokens": {"sharing": "tokens"},
    "gradient_disentangled": {"sharing": "gradient_disentangled"},
    "embeddings": {"sharing": "embeddings"},
    "all": {"sharing": "all"},
}
OBJECTIVES = ("electra", "electra_15", "replace_mlm", "all_tokens_mlm", "mlm")
CASES = [
    *({"objective": {"name": name, "sharing": "tokens"}} for name in OBJECTIVES),
    *({"objective": shared} for name, shared in SHARED.items() if name not in {"embeddings", "all"}),
    *({"objective": SHARED[name], "generator": {"width": 1.0}} for name in ("embeddings", "all")),
    {"objective": {"sharing": "gradient_disentangled"}, "encoder": {**MODERN, "embedding": 16}},
    {"objective": {"sharing": "embeddings"}, "generator": {"width": 1.0}, "encoder": {**MODERN, "embedding": 16}},
    {"objective": {"training": "adversarial", "sharing": "tokens"}},
    {"objective": {"training": "two_stage", "sharing": "none"}, "generator": {"width": 1.0}},
]


@pytest.mark.parametrize("changes", CASES, ids=str)
def test_continued_pretraining_starts_where_the_exported_one_ended(tmp_path, changes):
    """Every trained number to the bit, and folders of equal bytes when it is exported again."""
    settings = config(**{"encoder": MODERN, **changes})
    model = moved(settings)
    export(model, tmp_path / "one")
    torch.manual_seed(9)
    fresh = Pretraining(settings, VOCAB, SPECIAL).eval()
    load_networks(fresh.networks(), tmp_path / "one", fresh.extras())
    export(fresh, tmp_path / "two")
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert len(files) > 4
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file


def test_a_generators_folder_that_lacks_the_factors_of_its_words_is_refused(tmp_path):
    model = moved(config(**TOKENS))
    export(model, tmp_path)
    (tmp_path / "generator/MANIFEST.json").unlink()
    beside = tmp_path / "generator/extras.safetensors"
    factors = read_tensors(beside, "")
    write_tensors(beside, {**factors, "embeddings.word": factors["embeddings.word"] * 1.01})
    with pytest.raises(BadInput, match="holds factors of another word table"):
        load_networks(model.networks(), tmp_path)
    beside.unlink()
    with pytest.raises(BadInput, match=r"extras\.safetensors: has no tensor embeddings\.word, embeddings\.project"):
        load_networks(model.networks(), tmp_path)


def test_what_a_modern_encoder_cannot_share_is_a_sentence():
    with pytest.raises(BadConfig, match=r"embeddings with generator\.width 0\.5; expected tokens: a modern encoder's"):
        config(encoder=MODERN)
    config(encoder=MODERN, generator={"width": 1.0})
    config(encoder=MODERN, objective={"name": "mlm"})
    for changes, told in (
        ({"heads": 32}, r"encoder\.heads: is 32; expected a divisor of half of hidden \(32\)"),
        ({"window": 7}, r"encoder\.window: is 7; expected an even number"),
        ({"token_types": 2}, r"encoder\.token_types: is not a parameter"),
        ({"kind": "moderm"}, r"encoder\.kind: is 'moderm'; expected one of bert, modern; did you mean modern"),
    ):
        with pytest.raises(BadConfig, match=told):
            config(encoder={**MODERN, **changes}, objective={"sharing": "tokens"})
    assert config().encoder.kind == "bert"


def published(folder, **changes):
    """A folder as ModernBERT's authors stored it: the old spelling of kinds and thetas, no table in the decoder."""
    torch.manual_seed(0)
    old = {"global_attn_every_n_layers": 2, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0}
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 2}
    ends = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 0)
    peer = transformers.ModernBertForMaskedLM(
        transformers.ModernBertConfig(vocab_size=VOCAB, local_attention=6, **old, **sizes, **ends)
    ).eval()
    peer.save_pretrained(folder)
    values = json.loads((folder / "config.json").read_text())
    if changes.pop("old", False):
        values = {key: value for key, value in values.items() if key not in {"layer_types", "rope_parameters"}} | old
    (folder / "config.json").write_text(json.dumps(values | changes))
    return peer


@pytest.mark.parametrize("old", [False, True])
def test_a_published_folder_is_read_for_fine_tuning_and_continued_pre_training(tmp_path, old):
    peer = published(tmp_path / "masked_lm", old=old)
    ids = torch.randint(5, VOCAB, (2, 24))
    encoder = load_encoder(tmp_path / "masked_lm")
    assert encoder.config.global_theta == 160_000 and encoder.config.global_every == 2
    model = Pretraining(
        config(
            encoder={**MODERN, "global_every": 2, "global_theta": 160_000.0},
            objective={"name": "mlm", "sharing": "tokens"},
        ),
        VOCAB,
        SPECIAL,
    ).eval()
    load_networks(model.networks(), tmp_path)
    with torch.no_grad():
        states = encoder.eval()(ids, ids)
        assert torch.allclose(states, peer.model(ids).last_hidden_state, atol=1e-5)
        ours = model.token_head(
            model.discriminator.encoder(ids, ids), model.discriminator.encoder.embeddings.tables()[0]
        )
        assert torch.allclose(ours, peer(ids).logits, atol=1e-5)


def test_the_first_releases_of_transformers_meant_the_global_theta_by_none(tmp_path):
    published(tmp_path, old=True, local_rope_theta=None)
    assert load_encoder(tmp_path).config.local_theta == 160_000.0


def test_dropout_that_a_folder_does_not_name_is_none(tmp_path):
    published(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text()) | {"mlp_dropout": 0.1}
    del values["embedding_dropout"]
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(BadInput, match=r"has embedding_dropout 0\.0; expected 0\.1, as mlp_dropout"):
        load_encoder(tmp_path)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"mlp_bias": True}, "has mlp_bias True; expected False"),
        ({"hidden_activation": "silu"}, "has hidden_activation 'silu'; expected 'gelu'"),
        (
            {"layer_types": ["sliding_attention", "full_attention", "full_attention"]},
            "has layer_types in another order",
        ),
        ({"embedding_dropout": 0.1}, r"has embedding_dropout 0\.1; expected 0\.0, as mlp_dropout"),
        ({"local_attention": 7}, "local_attention: is 7; expected an even number"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "has rope_type 'yarn'; expected default"),
        ({"rope_parameters": {"full_attention": {"type": "linear"}}}, "has rope_type 'linear'; expected default"),
        ({"old": True, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}, "has rope_scaling .*; expected none"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 7.0}}, "expected those of full_attention and sli"),
        ({"rope_parameters": {"full_attention": "x"}}, "has rope_parameters .*; expected those of full_attention"),
        ({"rope_parameters": [1]}, r"has rope_parameters \[1\]; expected those of full_attention"),
        ({"layer_types": 5}, "has layer_types 5; expected the kinds of 3 layers"),
        ({"layer_types": ["full_attention"]}, r"has layer_types \['full_attention'\]; expected the kinds of 3 layers"),
        ({"hidden_size": "x"}, "hidden_size: is 'x'; expected a whole number"),
    ],
)
def test_what_this_encoder_has_not_is_refused(tmp_path, changes, told):
    published(tmp_path, **changes)
    with pytest.raises(BadInput, match=told):
        load_encoder(tmp_path)


def test_keys_that_transformers_passes_over_are_passed_over(tmp_path):
    peer = published(tmp_path, position_embedding_type="sans_pos", hidden_act="silu")
    ids = torch.randint(5, VOCAB, (2, 24))
    again = transformers.ModernBertModel.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        states = load_encoder(tmp_path).eval()(ids, ids)
        for each in (peer.model, again):
            assert torch.allclose(states, each(ids).last_hidden_state, atol=1e-5)


@pytest.mark.parametrize(("layers", "every"), [(2, 3), (3, 3), (2, 1)])
def test_a_folder_that_transformers_has_saved_again_is_gone_on_with(tmp_path, layers, every):
    """It tells the layers' kinds alone: every third of two is every second of two."""
    shape = {**MODERN, "layers": layers, "global_every": every}
    settings = config(encoder=shape, objective={"name": "mlm"})
    export(moved(settings), tmp_path / "ours")
    peer = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "ours/masked_lm")
    peer.save_pretrained(tmp_path / "theirs/masked_lm")
    other = {"window": 32, "local_theta": 7.0} if every == 1 else {}  # of local layers, which there are none of
    again = config(encoder={**shape, **other}, objective={"name": "mlm"})
    load_networks(Pretraining(again, VOCAB, SPECIAL).networks(), tmp_path / "theirs")


def test_weights_that_compute_something_else_under_these_settings_are_refused(tmp_path):
    published(tmp_path / "masked_lm")
    for changes, told in (
        ({"window": 8, "global_every": 2}, "has local_attention 6; expected 8"),
        ({"global_every": 3}, "has global_attn_every_n_layers 2; expected 3"),
        ({"global_every": 2}, r"has global_rope_theta 160000\.0; expected 10000\.0"),
    ):
        settings = config(encoder={**MODERN, **changes}, objective={"name": "mlm"})
        with pytest.raises(BadInput, match=told):
            load_networks(Pretraining(settings, VOCAB, SPECIAL).networks(), tmp_path)
    with pytest.raises(BadInput, match="is of an encoder of the kind modern; expected bert"):
        load_networks(Pretraining(config(objective={"name": "mlm"}), VOCAB, SPECIAL).networks(), tmp_path)
