"""Rows that see other keys each: the block-wise ways against the SVD of every row, whatever the values are."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from headwise.measures import prefixes, rowwise
from headwise.measures.copies import find_copies, may_repeat
from headwise.measures.nullspace import effective, rank, simplex_rank
from headwise.types import Layer
from references import quantities as twins
from references import synthetic
from references.compare import assert_close

KINDS = ("any", "copies", "zeros", "plane", "sink", "late")


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """Blocks of four keys, so that short texts have several."""
    before, prefixes.BLOCK = prefixes.BLOCK, 4
    yield
    prefixes.BLOCK = before


def values_of(kind: str, shape: tuple[int, ...], seed: int) -> Tensor:
    """Value vectors in general position, or with what decoders have: copies, dead keys, few directions, sinks."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(shape, generator=generator)
    if kind == "copies":
        return drawn[:, :, torch.randint(0, max(1, shape[2] // 2), (shape[2],), generator=generator)]
    if kind == "zeros":
        return drawn * (torch.rand(shape[2], 1, generator=generator) > 0.4)
    if kind == "plane":
        return drawn[..., :2] @ torch.randn(*shape[:2], min(2, shape[3]), shape[3], generator=generator)
    if kind == "sink":
        drawn[:, :, 0] *= 1000
    if kind == "late":  # one direction that only the last keys have
        drawn[:, :, : -max(1, shape[2] // 4), 0] = 0
    return drawn


def layer_of(kind: str, mask: str, seed: int, lengths: tuple[int, ...], d_head: int, groups: int) -> Layer:
    values = values_of(kind, (len(lengths), 2, max(lengths), d_head), seed)
    return synthetic.layer(
        mask, seed=seed, lengths=lengths, heads=2 * groups, kv_heads=2, d_head=d_head, values=values, window=9
    )


@settings(max_examples=60)
@given(
    kind=st.sampled_from(KINDS),
    mask=st.sampled_from(("causal", "window")),
    seed=st.integers(0, 10**6),
    lengths=st.tuples(st.integers(1, 19), st.integers(1, 19)),
    d_head=st.integers(1, 6),
    groups=st.sampled_from((1, 3)),
)
def test_any_way_is_the_svd_of_every_row(kind, mask, seed, lengths, d_head, groups) -> None:
    layer = layer_of(kind, mask, seed, lengths, d_head, groups)
    assert_close(effective(layer), twins.effective(layer))
    rows = layer.query_mask[:, None].expand(-1, 2 * groups, -1)
    assert torch.equal(rank(layer)[rows], torch.tensor(twins.rank(layer))[rows])
    assert torch.equal(simplex_rank(layer)[rows], torch.tensor(twins.simplex_rank(layer))[rows])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mask", ["causal", "window"])
def test_block_by_block_equals_row_by_row(kind: str, mask: str) -> None:
    """The cheap ways against the one that looks at every row by itself, in float64."""
    layer = layer_of(kind, mask, 5, (23, 11), 5, 3)
    alpha, values = layer.alpha.double().unflatten(1, (2, 3)), layer.value.double()
    found, ranks = rowwise.project_rowwise(layer, alpha, values)
    for text in range(2):
        real = layer.query_mask[text]
        for head in range(2):
            by_row = rowwise._project_rows(alpha[text, head][:, real], values[text, head], layer.visible[text, real])
            assert_close(found[text, head][:, real], by_row[0], 1e-8)
            assert torch.equal(ranks[text, head, real], by_row[1])


def test_the_sweep_does_the_usual_rows_and_copies_the_repeated_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in general position and rows of copies are never factorised by themselves."""
    monkeypatch.setattr(rowwise, "row_grams", lambda *_: pytest.fail("a row was looked at by itself"))
    monkeypatch.setattr(rowwise, "_project_rows", lambda *_: pytest.fail("a row was looked at by itself"))
    usual = layer_of("any", "causal", 3, (23, 11), 5, 3)
    effective(usual)
    simplex_rank(usual)
    repeated = synthetic.layer(
        "causal", lengths=(23,), values=usual.value[:1, :1, torch.arange(23) % 4].repeat(1, 3, 1, 1)
    )
    effective(repeated)


def test_who_is_in_the_batch_changes_no_bit() -> None:
    for kind in KINDS:
        here, there = (layer_of(kind, "causal", seed, (19, 19), 5, 3) for seed in (1, 2))
        mixed = {name: torch.cat([getattr(here, name)[:1], getattr(there, name)[1:]]) for name in ("alpha", "value")}
        other = dataclasses.replace(here, **mixed, memo={}, text_memo={})
        assert torch.equal(effective(here)[0], effective(other)[0])
        assert torch.equal(rank(here)[0], rank(other)[0])


def test_padding_changes_nothing() -> None:
    for kind in KINDS:
        whole = layer_of(kind, "causal", 4, (23, 9), 5, 3)
        alone = synthetic.alone(whole, 1)
        assert_close(effective(whole)[1, :, :9, :9], effective(alone)[0], 1e-6)
        assert torch.equal(rank(whole)[1, :, :9], rank(alone)[0])


@pytest.mark.parametrize("noise", [0.0, 1e-7, 9e-7])
def test_copies_are_never_missed_by_their_lengths(noise: float) -> None:
    generator = torch.Generator().manual_seed(int(noise * 1e8))
    for at in range(40):
        values = torch.randn(12, 5, dtype=torch.float64, generator=generator)
        values[at % 11 + 1] = values[0] * (1 + noise)
        assert (int(find_copies(values).rank[-1]) < 12) <= may_repeat(values)
    assert not may_repeat(torch.diag(torch.arange(1.0, 6.0, dtype=torch.float64)))
    assert may_repeat(torch.zeros(2, 3, dtype=torch.float64))
