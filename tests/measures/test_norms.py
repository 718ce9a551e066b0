"""Norm-based quantities: by hand, and against the n × n × d vectors themselves."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.errors import ModelError
from headwise.measures.norms import norm, norm_residual, norm_residual_ln, norm_sum, sent_gram
from headwise.types import Circuit, Layer, Norm
from references import quantities as twins
from references import synthetic
from references.compare import assert_close

MASKS = ("full", "causal", "window")


def by_hand() -> Layer:
    """One query-key pair of two heads of size 1 into two dimensions: f_1(x) = 2·(1, 0), f_2(x) = 3·(0, 1)."""
    ones = torch.ones(1, 1, dtype=torch.bool)
    circuit = Circuit(
        stored=torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]]), b_o=torch.tensor([5.0, 7.0]), scale=2.0,
        outer=Norm(gain=torch.tensor([1.0, 3.0]), bias=torch.tensor([9.0, 9.0]), eps=0.0, centred=True),
    )  # fmt: skip
    return Layer(
        stack="self", index=0, first_row=0, alpha=torch.ones(1, 2, 1, 1),
        value=torch.tensor([2.0, 3.0]).reshape(1, 2, 1, 1),
        visible=ones[None], query_mask=ones, key_mask=ones, out=torch.tensor([[[7.0, 10.0]]]),
        residual=torch.tensor([[[-1.0, 2.0]]]), circuit=circuit,
    )  # fmt: skip


def test_by_hand() -> None:
    """norm 2 and 3; norm-sum √(2² + 3²); with the residual 2·(2, 3) + (−1, 2) = (3, 8).

    The true sum is (−1, 2) + 2·(7, 10) = (13, 22): mean 17.5, σ = 4.5. (3, 8) centred is (−2.5, 2.5), times the gains
    (−2.5, 7.5), over σ of length √62.5 / 4.5.
    """
    layer = by_hand()
    assert norm(layer).flatten().tolist() == [2.0, 3.0]
    assert_close(norm_sum(layer), torch.tensor(13.0).sqrt().reshape(1, 1, 1), 1e-6)
    assert_close(norm_residual(layer), torch.tensor(73.0).sqrt().reshape(1, 1, 1), 1e-6)
    assert_close(norm_residual_ln(layer), (torch.tensor(62.5).sqrt() / 4.5).reshape(1, 1, 1), 1e-6)


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize(("heads", "kv_heads"), [(3, 3), (3, 1), (6, 2)])
@pytest.mark.parametrize("inner", [False, True], ids=["bare", "sandwich"])
@pytest.mark.parametrize("centred", [False, True], ids=["RMSNorm", "LayerNorm"])
def test_equal_to_the_vectors_themselves(kind: str, heads: int, kv_heads: int, inner: bool, centred: bool) -> None:
    layer = synthetic.layer(kind, heads=heads, kv_heads=kv_heads, inner=inner, centred=centred, scale=0.22)
    assert_close(norm(layer), twins.norm(layer))
    assert_close(norm_sum(layer), twins.norm_sum(layer))
    assert_close(norm_residual(layer), twins.norm_residual(layer))
    assert_close(norm_residual_ln(layer), twins.norm_residual_ln(layer))


@given(seed=st.integers(0, 10**6), size=st.integers(1, 12))
@settings(max_examples=10)
def test_blocks_of_rows_put_the_residual_on_their_own_diagonal(seed: int, size: int) -> None:
    whole = synthetic.layer("causal", seed=seed, inner=True)
    for block in synthetic.blocks(whole, size):
        rows = slice(block.first_row, block.first_row + size)
        for measure in (norm_sum, norm_residual, norm_residual_ln):
            assert_close(measure(block), measure(whole)[:, rows])
    last = synthetic.blocks(whole, size)[-1]
    if last.query_mask.any():
        assert_close(norm_residual_ln(last), twins.norm_residual_ln(last))


def test_norm_sum_is_at_most_the_sum_of_norms() -> None:
    layer = synthetic.layer()
    assert (norm_sum(layer) <= norm(layer).sum(1) + 1e-5).all()


def test_vectors_add_up_to_the_blocks_output() -> None:
    """The twin itself: Σ_j of the vectors + the bias is what the block computes."""
    layer = synthetic.layer("causal", scale=0.5)
    total = torch.tensor(twins.with_residual(layer))[0, 4].sum(0)
    assert_close(total + 0.5 * layer.circuit.b_o, layer.residual[0, 4] + 0.5 * layer.out[0, 4])
    assert sent_gram(layer).shape == (2, 13, 3, 3)


def test_a_measure_does_not_write_into_what_others_share() -> None:
    layer = synthetic.layer()
    before = norm_sum(layer).clone(), layer.alpha.clone(), layer.residual.clone()
    norm_residual(layer), norm_residual_ln(layer)
    assert torch.equal(norm_sum(layer), before[0])
    assert torch.equal(layer.alpha, before[1])
    assert torch.equal(layer.residual, before[2])


@pytest.mark.parametrize("measure", [norm_residual, norm_residual_ln])
def test_refusals(measure) -> None:
    layer = synthetic.layer()
    with pytest.raises(ModelError, match="parallel"):
        measure(dataclasses.replace(layer, residual=None, memo={}, text_memo={}))
    with pytest.raises(ModelError, match="cross"):
        measure(dataclasses.replace(layer, stack="cross", memo={}, text_memo={}))


def test_norm_residual_ln_needs_a_norm_that_reads_the_sum() -> None:
    layer = synthetic.layer()
    bare = dataclasses.replace(layer, circuit=dataclasses.replace(layer.circuit, outer=None))
    assert norm_residual(bare).shape == (2, 13, 13)
    with pytest.raises(ModelError, match="norm-residual"):
        norm_residual_ln(bare)


def test_what_a_gate_turns_away_from_w_o_has_no_length() -> None:
    """(g ⊙ v) W_O = 0, which rounding makes a tiny number of either sign before the root is taken."""
    draw = torch.Generator().manual_seed(0)
    direction = torch.randn(8, generator=draw)
    gate, value = torch.randn(1, 1, 64, 8, generator=draw), torch.ones(1, 1, 1, 8)
    gate = gate - (gate @ direction)[..., None] * direction / direction.square().sum()
    circuit = Circuit(stored=(direction[:, None] * torch.ones(1, 8, 4)), b_o=torch.zeros(4))
    ones = torch.ones(1, 64, dtype=torch.bool)
    layer = dataclasses.replace(
        by_hand(), alpha=torch.ones(1, 1, 64, 1), value=value, visible=ones[..., None], query_mask=ones,
        key_mask=ones[:, :1], out=torch.zeros(1, 64, 4), residual=None, circuit=circuit, gate=gate,
    )  # fmt: skip
    found = norm(layer)
    assert found.isfinite().all()
    assert found.max() < 1e-2
