"""Effective attention and the null space: by hand, against the full SVD, and the laws of §3."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.measures import runs
from headwise.measures.nullspace import edge, effective, keys_seen, null, rank, simplex_rank
from headwise.types import Layer
from references import quantities as twins
from references import synthetic
from references.compare import assert_close
from references.synthetic import D_HEAD, D_MODEL, HEADS, TOKENS

MASKS = ("full", "causal", "window")
seeds = st.integers(0, 10**6)


def test_by_hand() -> None:
    """Three keys with values 1, 1, 2 of one dimension: LN(T) is all that is orthogonal to (1, 1, 2).

    a = (½, ¼, ¼): a·(1,1,2) = 5/4, |(1,1,2)|² = 6, so a⊥ = 5/24 · (1, 1, 2).
    """
    row = torch.tensor([0.5, 0.25, 0.25])
    layer = synthetic.layer(
        lengths=(3,), heads=1, kv_heads=1, d_head=1, values=torch.tensor([1.0, 1, 2]).reshape(1, 1, 3, 1)
    )
    layer = dataclasses.replace(layer, alpha=row.expand(1, 1, 3, 3))
    assert_close(effective(layer)[0, 0, 1], torch.tensor([5, 5, 10]) / 24, 1e-7)
    assert_close(null(layer)[0, 0, 1], row - torch.tensor([5, 5, 10]) / 24, 1e-7)
    assert rank(layer).tolist() == [[[1, 1, 1]]]
    assert simplex_rank(layer).tolist() == [[[2, 2, 2]]]


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize(("heads", "kv_heads"), [(HEADS, HEADS), (HEADS, 1), (6, 2)])
def test_equal_to_the_svd_of_every_row(kind: str, heads: int, kv_heads: int) -> None:
    layer = synthetic.layer(kind, heads=heads, kv_heads=kv_heads)
    assert_close(effective(layer), twins.effective(layer))
    assert_close(null(layer), twins.null(layer))
    rows = layer.query_mask[:, None].expand(-1, heads, -1)
    assert torch.equal(rank(layer)[rows], torch.tensor(twins.rank(layer))[rows])
    assert torch.equal(simplex_rank(layer)[rows], torch.tensor(twins.simplex_rank(layer))[rows])


@given(seed=seeds, kind=st.sampled_from(MASKS), tokens=st.integers(1, 23), d_head=st.integers(1, 11))
def test_laws_of_the_decomposition(seed: int, kind: str, tokens: int, d_head: int) -> None:
    """A⊥V = AV; A∥V = 0; A⊥ + A∥ = A; projecting twice changes nothing; nothing gets longer."""
    layer = synthetic.layer(kind, seed=seed, lengths=(tokens,), d_head=d_head)
    reached, idle = effective(layer), null(layer)
    assert_close(reached @ layer.value, layer.alpha @ layer.value, 1e-4)
    assert_close(idle @ layer.value, torch.zeros_like(layer.value), 1e-4)
    assert torch.equal(layer.alpha - reached, idle)
    again = effective(dataclasses.replace(layer, alpha=reached, memo={}, text_memo={}))
    assert_close(again, reached, 1e-4)
    assert (reached.norm(dim=-1) <= layer.alpha.norm(dim=-1) + 1e-5).all()
    assert not reached.movedim(1, -1)[~layer.visible].any()


@given(seed=seeds, kind=st.sampled_from(MASKS), tokens=st.integers(1, 23), d_head=st.integers(1, 11))
def test_rank_facts(seed: int, kind: str, tokens: int, d_head: int) -> None:
    """rank(T) ≤ min(n, d_v), with equality for values in general position; n ≤ rank leaves the weights untouched."""
    layer = synthetic.layer(kind, seed=seed, lengths=(tokens,), d_head=d_head)
    seen = keys_seen(layer)[:, None].expand(-1, HEADS, -1)
    assert torch.equal(keys_seen(layer), layer.visible.sum(-1))
    assert torch.equal(rank(layer), seen.clamp(max=d_head))
    assert torch.equal(simplex_rank(layer), seen.clamp(max=d_head + 1))
    whole = seen <= d_head
    assert torch.equal(effective(layer)[whole], layer.alpha[whole]), "must be equal to the last bit"


@pytest.mark.parametrize("kind", MASKS)
def test_copies_of_a_token_add_nothing_to_the_rank(kind: str) -> None:
    """Four different values, each many times over: rank at most 4, and copies get equal effective weight."""
    distinct = synthetic.layer(lengths=(4, 4)).value
    which = torch.arange(TOKENS) % 4
    layer = synthetic.layer(kind, lengths=(TOKENS, TOKENS), values=distinct[:, :, which])
    assert torch.equal(rank(layer), keys_seen(layer)[:, None].expand(-1, HEADS, -1).clamp(max=4))
    assert torch.equal(simplex_rank(layer), rank(layer))
    assert_close(effective(layer), twins.effective(layer))
    last = effective(layer)[:, :, -1]
    assert_close(last[..., -1], last[..., -5])


def test_no_values_at_all() -> None:
    """Values of zero carry nothing: everything is in the null space."""
    layer = synthetic.layer(values=torch.zeros(2, HEADS, TOKENS, D_HEAD))
    assert not rank(layer).any()
    assert not effective(layer).any()
    assert (simplex_rank(layer)[:, :, 0] == 1).all()


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
def test_float32_noise_does_not_inflate_the_rank(kind: str, size: float) -> None:
    """Values on a plane of two dimensions, computed in float32 as a model would: rank 2, not 5."""
    generator = torch.Generator().manual_seed(7)
    plane = torch.randn(1, HEADS, 2, D_HEAD, generator=generator)
    values = torch.randn(1, HEADS, 31, 2, generator=generator) @ plane * size
    exact = torch.linalg.matrix_rank(values.double(), rtol=1e-12)
    assert (exact == D_HEAD).all(), "the noise is there"
    layer = synthetic.layer(kind, lengths=(31,), values=values)
    assert torch.equal(rank(layer), keys_seen(layer)[:, None].expand(-1, HEADS, -1).clamp(max=2))
    assert_close(effective(layer), twins.effective(layer))


@pytest.mark.parametrize("kind", MASKS)
def test_a_direction_that_the_projection_does_not_read_is_null(kind: str) -> None:
    """Head 1's W_O drops two directions of its value space; heads share their values and still differ."""
    w_o = torch.randn(HEADS, D_HEAD, D_MODEL, generator=torch.Generator().manual_seed(3))
    turn = torch.linalg.qr(torch.randn(D_HEAD, D_HEAD, generator=torch.Generator().manual_seed(5)))[0]
    keep = torch.tensor([1.0, 1, 1, 0, 0])
    w_o[1] = turn @ torch.diag(keep) @ turn.T @ w_o[1]
    layer = synthetic.layer(kind, kv_heads=1, w_o=w_o)
    assert layer.circuit.reader is not None
    assert_close(layer.circuit.reader[1], turn @ torch.diag(keep) @ turn.T, 1e-5)
    assert rank(layer)[0, :, -1].tolist() == [5, 3, 5]
    assert_close(effective(layer), twins.effective(layer))
    assert_close(null(layer), twins.null(layer))
    rows = layer.query_mask[:, None].expand(-1, HEADS, -1)
    assert torch.equal(simplex_rank(layer)[rows], torch.tensor(twins.simplex_rank(layer))[rows])


def test_a_head_whose_projection_is_zero_reaches_nothing() -> None:
    w_o = torch.randn(HEADS, D_HEAD, D_MODEL, generator=torch.Generator().manual_seed(3))
    w_o[2] = 0
    layer = synthetic.layer(w_o=w_o)
    assert rank(layer)[0, :, 0].tolist() == [5, 5, 0]
    assert not effective(layer)[:, 2].any()
    assert_close(effective(layer), twins.effective(layer))


def test_a_full_rank_projection_needs_no_reader() -> None:
    assert synthetic.layer().circuit.reader is None


def test_large_values_that_leave_the_window_leave_no_trace() -> None:
    """A first token a thousand times longer than the others (as sinks are) slides out of sight; the rows after it
    see copies of two tokens, so rank 2, whatever rounding the sum of the outer products kept of the first."""
    generator = torch.Generator().manual_seed(11)
    two = torch.randn(1, HEADS, 2, D_HEAD, generator=generator)
    values = two[:, :, torch.arange(29) % 2].clone()
    values[:, :, 0] = 1000 * torch.randn(1, HEADS, D_HEAD, generator=generator)
    layer = synthetic.layer("window", lengths=(29,), values=values)
    assert (rank(layer)[..., 10:] == 2).all()
    assert_close(effective(layer), twins.effective(layer))


def test_rows_in_small_chunks_equal_rows_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = synthetic.layer("window")
    expected, ranks = effective(whole), rank(whole)
    monkeypatch.setattr(runs, "CHUNK_BYTES", 4 * D_HEAD**2 * 8)  # four rows
    layer = synthetic.layer("window")
    assert torch.equal(rank(layer), ranks)
    assert_close(effective(layer), expected, 1e-6)


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("size", [1, 4, 7])
def test_blocks_of_rows_have_the_ranks_of_the_whole(kind: str, size: int) -> None:
    """What blocks share must not depend on which rows the first of them has."""
    whole = synthetic.layer(kind)
    blocks = synthetic.blocks(whole, size)
    assert torch.equal(torch.cat([rank(block) for block in blocks], -1), rank(whole))
    assert torch.equal(torch.cat([simplex_rank(block) for block in blocks], -1), simplex_rank(whole))
    assert_close(torch.cat([effective(block) for block in blocks], -2), effective(whole))


def test_effective_attention_is_the_shortest_with_the_same_output() -> None:
    """a⊥ = o V⁺, the least-norm weights."""
    layer = synthetic.layer(lengths=(TOKENS,))
    pseudo = torch.linalg.pinv(layer.value.double())
    assert_close(effective(layer), layer.alpha.double() @ layer.value.double() @ pseudo)


def test_float64_stays_float64() -> None:
    layer = synthetic.layer("causal")
    wide = {f.name: getattr(layer, f.name) for f in dataclasses.fields(Layer)} | {"memo": {}, "text_memo": {}}
    wide |= {name: wide[name].double() for name in ("alpha", "value", "out", "residual")}
    circuit = dataclasses.replace(layer.circuit, stored=layer.circuit.w_o.double(), b_o=layer.circuit.b_o.double())
    double = Layer(**{**wide, "circuit": circuit})
    assert effective(double).dtype == torch.float64
    assert_close(effective(double), twins.effective(double), 1e-10)


@pytest.mark.parametrize("kind", MASKS)
def test_the_rank_follows_the_precision_of_the_model(kind: str) -> None:
    """A direction of relative size 1e-9 is noise in float32 and real in float64, whoever is in the batch."""
    values = torch.randn(2, HEADS, TOKENS, D_HEAD, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    values[..., -1] *= 1e-9
    narrow = synthetic.layer(kind, lengths=(TOKENS, TOKENS), values=values.float())
    wide = dataclasses.replace(narrow, alpha=narrow.alpha.double(), value=values, memo={}, text_memo={})
    assert rank(narrow)[..., -1].unique().tolist() == [D_HEAD - 1]
    assert rank(wide)[..., -1].unique().tolist() == [D_HEAD]
    assert torch.equal(rank(wide), torch.tensor(twins.rank(wide)))
    assert torch.equal(simplex_rank(wide), torch.tensor(twins.simplex_rank(wide)))
    assert_close(effective(wide), twins.effective(wide), 1e-6)
    alone = synthetic.alone(wide, 0)
    assert torch.equal(rank(alone)[0], rank(wide)[0])


def test_the_edge_of_the_rank_by_hand() -> None:
    """Singular values 4, 2 and 4e-9 of three orthogonal values: in float32 the third is dropped."""
    values = torch.diag(torch.tensor([4.0, 2.0, 4e-9])).reshape(1, 1, 3, 3)
    layer = synthetic.layer(lengths=(3,), heads=1, kv_heads=1, d_head=3, values=values)
    kept, dropped = edge(layer, 2)
    assert kept.tolist() == [0.5]
    assert_close(dropped, torch.tensor([1e-9]), 1e-12)
    three = torch.diag(torch.tensor([4.0, 2.0, 1.0])).reshape(1, 1, 3, 3)
    all_count = synthetic.layer(lengths=(3,), heads=1, kv_heads=1, d_head=3, values=three)
    assert [end.tolist() for end in edge(all_count, 0)] == [[0.25], [0.0]]
