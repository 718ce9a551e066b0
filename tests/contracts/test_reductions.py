"""Sums over keys and diagonals of maps that are not formed equal those of the maps."""

from __future__ import annotations

import pytest
import torch

from headwise.measures import ATTENTION
from headwise.measures.reductions import diagonal, key_sums
from headwise.measures.rows import at_offset
from references import synthetic
from references.compare import assert_close

MASKS = ("full", "causal", "window")
LENGTHS = [(13, 7), (5, 3), (13, 4)]  # with and without a null space, and both in one batch


@pytest.mark.parametrize("name", list(ATTENTION))
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("kv_heads", [1, 3])
def test_key_sums(name: str, kind: str, lengths: tuple[int, ...], kv_heads: int) -> None:
    layer = synthetic.layer(kind, lengths=lengths, kv_heads=kv_heads)
    weights = torch.randn(2, max(lengths), 11, generator=torch.Generator().manual_seed(1))
    expected = torch.einsum(
        "bhqk,bkc->bhqc", ATTENTION[name](synthetic.layer(kind, lengths=lengths, kv_heads=kv_heads)), weights
    )
    assert_close(key_sums(layer, name, weights), expected.masked_fill(~layer.query_mask[:, None, :, None], torch.nan))


@pytest.mark.parametrize("name", list(ATTENTION))
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("offset", [-2, -1, 0, 1])
def test_diagonals(name: str, kind: str, lengths: tuple[int, ...], offset: int) -> None:
    layer = synthetic.layer(kind, lengths=lengths, kv_heads=1)
    expected = at_offset(ATTENTION[name](synthetic.layer(kind, lengths=lengths, kv_heads=1)), offset)
    expected = expected.masked_fill(~layer.query_mask[:, None], torch.nan)
    got = diagonal(layer, name, offset)
    assert_close(got, expected)
    assert torch.equal(got[0, 0].isnan(), expected[0, 0].isnan())


@pytest.mark.parametrize("name", list(ATTENTION))
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("size", [1, 5])
def test_blocks_of_rows(name: str, kind: str, size: int) -> None:
    whole = synthetic.layer(kind)
    weights = torch.randn(2, 13, 3, generator=torch.Generator().manual_seed(1))
    blocks = synthetic.blocks(whole, size)
    sums = torch.cat([key_sums(block, name, weights) for block in blocks], dim=2)
    assert_close(sums, key_sums(whole, name, weights))
    lines = torch.cat([diagonal(block, name, -1) for block in synthetic.blocks(whole, size)], dim=2)
    assert_close(lines, diagonal(whole, name, -1))


@pytest.mark.parametrize("name", list(ATTENTION))
@pytest.mark.parametrize("size", [5, 13])
def test_with_a_gate_of_the_query(name: str, size: int) -> None:
    """What a key sends then depends on who reads it, in sums and diagonals as in the map."""
    whole, weights = synthetic.layer("causal", gated=True), torch.randn(2, 13, 3)
    map_ = ATTENTION[name](synthetic.layer("causal", gated=True))
    sums = torch.cat([key_sums(block, name, weights) for block in synthetic.blocks(whole, size)], dim=2)
    lines = torch.cat([diagonal(block, name, -1) for block in synthetic.blocks(whole, size)], dim=2)
    padding = ~whole.query_mask[:, None]
    assert_close(sums, (map_ @ weights[:, None]).masked_fill(padding[..., None], torch.nan))
    assert_close(lines, at_offset(map_, -1).masked_fill(padding, torch.nan))
