"""Ways to attend that few families have: tokens before texts, sinks outside the weights, pooled tokens, bands."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

import headwise as hw
from headwise.errors import InputError, ModelError
from headwise.measures import ATTENTION
from headwise.models.capture import eager, quiet
from headwise.models.tiny import randomise, tiny_tokenizer
from references import quantities as twins
from references.compare import assert_close

TEXTS = ("The old dog and the young cat sat in the sun, and so it was.", "It is said that the sea is big.")
TARGET = "the sea is old"
SEQ2SEQ = {"d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
           "decoder_attention_heads": 4, "encoder_ffn_dim": 37, "decoder_ffn_dim": 37,
           "max_position_embeddings": 160}  # fmt: skip


def loaded(model_type: str, **settings: Any) -> hw.Model:
    tokenizer = tiny_tokenizer("bytes")
    special = {"pad_token_id": 0, "bos_token_id": 3, "eos_token_id": 1}
    with torch.random.fork_rng(devices=[]), quiet():
        hf = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(model_type, **special, **settings))
    randomise(hf, 0)
    return hw.load((hf.eval(), tokenizer))


@pytest.fixture(scope="module")
def fsmt() -> hw.Model:
    size = len(tiny_tokenizer("bytes"))
    return loaded("fsmt", src_vocab_size=size, tgt_vocab_size=size, decoder_start_token_id=0, **SEQ2SEQ)


def test_tokens_before_texts_are_put_back(fsmt: hw.Model) -> None:
    """FSMT is token-first inside: the maps are its own, and Σ α V W_O + b_O is what each projection gave."""
    assert all(site.tokens_first for site in fsmt.proof.sites)
    trace = fsmt.trace(TEXTS[0], TARGET)
    with torch.no_grad(), eager(fsmt.hf):
        batch = fsmt.batch([trace.text], [trace.target])
        own = fsmt.hf(**batch.inputs, use_cache=False, output_attentions=True)
    for stack in trace.stacks:
        assert_close(trace.attention("raw", stack=stack), torch.cat(own[f"{stack}_attentions"]), 1e-6)


def test_a_text_is_the_same_alone_and_in_a_batch_where_tokens_come_first(fsmt: hw.Model) -> None:
    alone = [fsmt.trace(text, TARGET) for text in TEXTS]
    layers: list[Any] = []
    with torch.no_grad():
        fsmt.run(fsmt.batch([t.text for t in alone], [t.target for t in alone]), layers.append)
    for number, trace in enumerate(alone):
        n = len(trace.text)
        for one, many in zip(trace.layers, layers, strict=True):
            rows, keys = one.alpha.shape[2:]
            assert_close(many.alpha[number, :, :rows, :keys], one.alpha[0], 1e-5)
            assert_close(many.out[number, :rows], one.out[0], 1e-4)
            assert_close(many.residual[number, :rows], one.residual[0], 1e-4)
        assert n == trace.layers[0].alpha.shape[2]


def test_a_sink_that_the_weights_do_not_count_is_a_gate() -> None:
    """Granite-SWA: rows of α add up to 1, and what comes out is σ(logsumexp − sink) of it."""
    model = loaded("granite_swa", vocab_size=len(tiny_tokenizer("bytes")), hidden_size=24, num_hidden_layers=2,
                   num_attention_heads=4, num_key_value_heads=2, intermediate_size=37,
                   max_position_embeddings=160)  # fmt: skip
    trace = model.trace(TEXTS[0])
    for layer, site in zip(trace.layers, model.proof.sites, strict=True):
        assert site.scaled
        assert_close(layer.alpha.sum(-1), torch.ones_like(layer.alpha.sum(-1)), 1e-5)
        assert float((layer.gate - layer.gate[..., :1]).abs().max()) < 1e-4  # one number a row and head
        assert 0 < float(layer.gate.min()) < 0.999
        assert float(layer.gate.max()) <= 1
        mixed = torch.einsum("bhqk,bhkd->bhqd", layer.alpha, layer.head_value) * layer.gate
        assert_close(torch.einsum("bhqd,hde->bqe", mixed, layer.circuit.w_o) + layer.circuit.b_o, layer.out, 1e-4)


def test_tokens_put_together_on_the_way_are_said() -> None:
    with pytest.raises(ModelError, match="attends within windows or puts tokens together on the way") as error:
        loaded("funnel", architectures=["FunnelModel"], vocab_size=300, block_sizes=[1, 1], num_decoder_layers=1,
               d_model=24, n_head=4, d_head=6, d_inner=37)  # fmt: skip
    assert "\n" not in str(error.value)


def test_attention_of_another_kind_is_named_where_the_rest_is_shown() -> None:
    """LongT5's encoder multiplies blocks; its decoder and cross-attention are shown, and the model says so."""
    model = loaded("longt5", vocab_size=len(tiny_tokenizer("bytes")), decoder_start_token_id=0, d_model=24, d_kv=6,
                   d_ff=37, num_layers=2, num_heads=4, local_radius=4)  # fmt: skip
    assert model.stacks == ("decoder", "cross")
    assert "LongT5LocalAttention" in model.proof.unseen
    assert "not seen: " in repr(model)


def test_layers_with_more_heads_than_others_are_said() -> None:
    with pytest.raises(ModelError, match="some have 2 and some 4; it cannot be analysed") as error:
        loaded("laguna", vocab_size=len(tiny_tokenizer("bytes")), hidden_size=24, num_hidden_layers=2,
               num_attention_heads=4, num_key_value_heads=2, num_attention_heads_per_layer=[4, 2], head_dim=6,
               intermediate_size=37, moe_intermediate_size=16, num_experts=4, num_experts_per_tok=2,
               shared_expert_intermediate_size=16, max_position_embeddings=160)  # fmt: skip
    assert "\n" not in str(error.value)


def test_windows_of_a_picture_are_said() -> None:
    with pytest.raises(ModelError, match="within windows or puts tokens together on the way") as error:
        loaded("swin", image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)
    assert "16 × 16 tokens in 4 windows" in str(error.value)


@pytest.fixture(scope="module")
def convbert() -> hw.Model:
    return hw.load("tiny:convbert")


def test_heads_beside_convolutions_give_their_own_part(convbert: hw.Model) -> None:
    """W_O reads [heads, convolutions]: by hand, the first 24 of 48 columns are the heads', with the bias."""
    trace = convbert.trace(TEXTS[0])
    read: dict[Any, Any] = {}
    hooks = [
        site.projection.register_forward_hook(lambda m, given, out: read.update({m: (given[0], out)}))
        for site in convbert.proof.sites
    ]
    with torch.no_grad(), eager(convbert.hf):
        own = convbert.hf(**convbert.batch([trace.text]).inputs, output_attentions=True)
    for hook in hooks:
        hook.remove()
    for layer, site, alpha in zip(trace.layers, convbert.proof.sites, own.attentions, strict=True):
        assert_close(layer.alpha, alpha, 1e-5)
        given, gave = read[site.projection]
        weight, bias = site.projection.weight.detach(), site.projection.bias.detach()
        heads = sum(layer.alpha[:, h] @ layer.value[:, h] @ weight[:, 6 * h : 6 * h + 6].T for h in range(4))
        assert_close(heads + bias, layer.out, 1e-5)
        assert_close(heads + given[..., 24:] @ weight[:, 24:].T + bias, gave, 1e-5)


def test_quantities_of_heads_beside_convolutions_equal_their_twins(convbert: hw.Model) -> None:
    layer = convbert.trace(TEXTS[0]).layers[1]
    for name in ("effective", "norm"):
        assert_close(ATTENTION[name](layer), twins.ATTENTION[name](layer), 1e-5)


def test_what_convolutions_mix_is_no_residual(convbert: hw.Model) -> None:
    trace = convbert.trace(TEXTS[1])
    trace.mixing("norm-sum")
    for name in ("norm-residual", "globenc"):
        with pytest.raises(ModelError, match="convolutions beside its heads"):
            trace.mixing(name)


def test_convolutions_that_see_padding_are_read_in_equal_lengths(convbert: hw.Model) -> None:
    texts = [convbert.encode(text) for text in ("the old dog sat", "the old cat sat", "the sea")]
    assert not convbert.proof.padding
    assert hw.load("tiny:bert").proof.padding
    with pytest.raises(InputError, match="one length"):
        convbert.batch(texts)
    assert len(texts[0]) == len(texts[1])
    layers: list[Any] = []
    with torch.no_grad():
        convbert.run(convbert.batch(texts[:2]), layers.append)
    for number, text in enumerate(("the old dog sat", "the old cat sat")):
        for many, one in zip(layers, convbert.trace(text).layers, strict=True):
            assert_close(many.alpha[number], one.alpha[0], 1e-5)
            assert_close(many.out[number], one.out[0], 1e-5)


def test_tokens_with_global_attention_have_values_of_their_own() -> None:
    with pytest.raises(ModelError, match="values of their own") as error:
        hw.load("tiny:longformer", task="classification")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["llama", "gpt2"])  # a linear module, and one whose matrix is the other way round
def test_w_o_is_the_models_own_memory_in_its_own_precision(name: str) -> None:
    """No copies are kept: of a bfloat16 model they would be a sixth of its size."""
    model = hw.load(f"tiny:{name}", dtype="bfloat16")
    for site in model.proof.sites:
        assert site.circuit.stored.dtype == torch.bfloat16
        assert site.circuit.stored.untyped_storage().data_ptr() == site.projection.weight.untyped_storage().data_ptr()
        assert site.circuit.w_o.dtype == torch.float32
    trace = model.trace(TEXTS[1])
    layer = trace.layers[0]
    rebuilt = torch.einsum("bhqk,bhkd,hde->bqe", layer.alpha, layer.head_value, layer.circuit.w_o) + layer.circuit.b_o
    assert_close(rebuilt, layer.out, 5e-2)
