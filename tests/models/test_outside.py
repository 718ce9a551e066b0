"""Attention outside transformers' registry, gates between attention and W_O, and blocks without attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

import headwise as hw
from headwise.changes import cut, zero
from headwise.errors import ModelError
from headwise.measures.nullspace import effective
from headwise.models.capture import OUTSIDE, eager, quiet
from headwise.models.follow import Following, following
from headwise.models.tiny import randomise, tiny_tokenizer
from headwise.studies import STUDIES
from references.compare import assert_close

Load = Callable[..., hw.Model]
TEXT, SHORT = "The old dog and the young cat sat in the sun, and so it was.", "the sea"
SMALL = {"hidden_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 37,
         "max_position_embeddings": 160}  # fmt: skip
GATED: dict[str, dict[str, Any]] = {
    "qwen3_next": {**SMALL, "num_hidden_layers": 4, "head_dim": 8, "num_experts": 0, "linear_num_key_heads": 2,
                   "linear_num_value_heads": 4, "linear_key_head_dim": 6, "linear_value_head_dim": 6,
                   "layer_types": ["linear_attention", "full_attention", "linear_attention", "full_attention"]},
    "bitnet": {**SMALL, "num_hidden_layers": 2},  # an RMSNorm before W_O
}  # fmt: skip


def built(model_type: str, settings: dict[str, Any]) -> hw.Model:
    tokenizer = tiny_tokenizer("bytes")
    special = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in ("pad", "bos", "eos")}
    with torch.random.fork_rng(devices=[]), quiet():
        config = transformers.AutoConfig.for_model(model_type, vocab_size=len(tokenizer), **settings, **special)
        hf = transformers.AutoModel.from_config(config)
    randomise(hf, 0)
    return hw.load((hf.eval(), tokenizer))


@pytest.fixture(scope="module", params=GATED)
def gated(request: pytest.FixtureRequest) -> hw.Model:
    return built(request.param, GATED[request.param])


def test_a_gate_is_part_of_what_w_o_reads(gated: hw.Model) -> None:
    """Σ_h (g ⊙ α_h V_h) W_O,h + b_O is the projection's own output, and the weights are the model's own."""
    assert all(site.gated for site in gated.proof.sites)
    trace = gated.trace(TEXT)
    with torch.no_grad(), eager(gated.hf):
        own = gated.hf(**gated.batch([trace.text]).inputs, output_attentions=True).attentions
    own = [alpha for alpha in own if alpha is not None]
    for layer, alpha in zip(trace.layers, own, strict=True):
        assert layer.gate is not None
        assert_close(layer.alpha, alpha, 1e-6)
        mixed = torch.einsum("bhqk,bhkd->bhqd", layer.alpha, layer.head_value) * layer.gate
        assert_close(torch.einsum("bhqd,hde->bqe", mixed, layer.circuit.w_o) + layer.circuit.b_o, layer.out, 1e-5)


def test_the_norm_of_a_gated_head_is_that_of_the_gated_vector(gated: hw.Model) -> None:
    """By hand, in float64: α_ij ‖(g_i ⊙ v_j) W_O‖."""
    trace = gated.trace(SHORT)
    for layer, got in zip(trace.layers, trace.attention("norm"), strict=True):
        for head in range(4):
            for i in range(len(trace.text)):
                for j in range(len(trace.text)):
                    vector = (layer.gate[0, head, i] * layer.head_value[0, head, j]).double()
                    length = (vector @ layer.circuit.w_o[head].double()).norm()
                    assert got[head, i, j].item() == pytest.approx(
                        float(layer.alpha[0, head, i, j] * length), rel=1e-4, abs=1e-6
                    )


def test_what_adds_up_heads_is_refused_where_it_depends_on_the_query(gated: hw.Model) -> None:
    trace = gated.trace(SHORT)
    for name in ("norm-sum", "norm-residual", "globenc", "alti"):
        with pytest.raises(ModelError, match="gate") as error:
            trace.mixing(name)
        assert "\n" not in str(error.value)


def test_the_study_of_lengths_is_left_out_in_one_line(gated: hw.Model) -> None:
    """‖f(x)‖ of a key alone is no length that a gated head sends."""
    with pytest.raises(ModelError, match=r"gate .* surface with quantities=norm") as error:
        STUDIES["norms"]().check(gated)
    assert "\n" not in str(error.value)


def test_gated_batches_and_blocks_are_the_single_whole(gated: hw.Model) -> None:
    texts = [gated.encode(TEXT), gated.encode(SHORT)]
    batched: list[Any] = []
    blocks: list[Any] = []
    with torch.no_grad():
        gated.run(gated.batch(texts), batched.append)
        gated.run(gated.batch(texts[:1]), blocks.append, rows=5)
    for text, encoding in zip((TEXT, SHORT), texts, strict=True):
        row, n = texts.index(encoding), len(encoding)
        for one, layer in zip(batched, gated.trace(text).layers, strict=True):
            assert_close(one.alpha[row, :, :n, :n], layer.alpha[0], 1e-5)
            assert_close(one.gate[row, :, :n], layer.gate[0], 1e-3)
            assert_close(effective(one)[row, :, :n, :n], effective(layer)[0], 1e-4)
    whole = gated.trace(TEXT).layers[1]
    parts = [block for block in blocks if block.index == 1]
    assert len(parts) == -(-len(texts[0]) // 5)
    assert_close(torch.cat([part.alpha for part in parts], dim=2), whole.alpha, 1e-5)
    assert_close(torch.cat([part.gate for part in parts], dim=2), whole.gate, 1e-3)


def test_blocks_without_attention_are_named_and_hidden_states_stay_with_their_layers() -> None:
    model = built("qwen3_next", GATED["qwen3_next"])
    assert model.proof.bare == {"self": (0, 2)}
    assert [site.block for site in model.sites()] == [1, 3]
    assert "no attention in self blocks 0, 2" in repr(model)
    trace = model.trace(TEXT)
    assert trace.hidden["self"].shape[0] == 3
    for layer in trace.layers:
        assert layer.residual is not None
        assert_close(layer.residual[0], trace.hidden["self"][layer.index], 1e-5)


@pytest.mark.parametrize("family", ["bloom", "deberta", "falcon", "mpnet"])
def test_changes_act_outside_the_registry_too(load: Load, family: str) -> None:
    model = load(f"tiny:{family}")
    assert model.hf in OUTSIDE
    before = model.trace(TEXT)
    changed = model.trace(TEXT, change=cut((None, 3), heads="L1.H2"))
    assert not changed.layers[1].alpha[0, 2, :, 3].any()
    assert_close(changed.layers[1].alpha[0, 1], before.layers[1].alpha[0, 1])
    assert not torch.allclose(changed.hidden["self"][2], before.hidden["self"][2])
    silent = model.trace(TEXT, change=zero("L0.H1"))
    assert not torch.allclose(silent.hidden["self"][1], before.hidden["self"][1])
    assert_close(model.trace(TEXT).attention("raw"), before.attention("raw"))


def test_a_model_inside_the_registry_is_not_followed(load: Load) -> None:
    assert load("tiny:bert").hf not in OUTSIDE


class Odd(nn.Module):
    """Attention by einsum with its own order of axes."""

    def __init__(self, equation: str):
        super().__init__()
        self.equation = equation

    def forward(self, scores: Tensor, value: Tensor) -> Tensor:
        alpha = torch.softmax(scores, dim=-1).to(value.dtype)
        return torch.einsum(self.equation, nn.functional.dropout(alpha, 0.5, training=False), value)


@pytest.mark.parametrize("order", ["bkhd", "bhkd", "kbhd"])
def test_products_by_einsum_are_seen_in_any_order(order: str) -> None:
    generator = torch.Generator().manual_seed(0)
    scores, value = torch.randn(2, 3, 5, 7, generator=generator), torch.randn(2, 3, 7, 4, generator=generator)
    scores[:, :, 0, 6] = torch.finfo(torch.float32).min
    calls: list[tuple[Tensor, Tensor, Tensor]] = []

    def seen(_module: nn.Module, alpha: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        assert mask is not None
        calls.append((alpha, values, mask))
        return torch.einsum("bhqk,bhkd->bqhd", alpha, values)

    given = torch.einsum(f"bhkd->{order}", value)
    module = Odd(f"bhqk,{order}->bqhd")
    with following(module, Following(seen)):
        out = module(scores, given)
    ((alpha, values, mask),) = calls
    assert_close(out, module(scores, given))
    assert_close(alpha, scores.softmax(-1))
    assert_close(values, value)
    assert (mask < -1e30).nonzero().tolist() == [[0, 0, 0, 6], [1, 0, 0, 6]]
