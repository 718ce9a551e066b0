"""Rows of few keys: what is certified for all rows from one factor is what each row alone gives, and never wrong."""

from __future__ import annotations

import pytest
import torch

from headwise.measures.independence import independent, independent_prefixes, independent_rows
from headwise.measures.whitening import EPS

SIZE = 6


def values_of(seed: int, keys: int = 10) -> torch.Tensor:
    """Two texts, three heads: plain values, a repeated one, and one that is almost in the span of two others."""
    values = torch.randn(2, 3, keys, SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    values[:, 1, 3] = values[:, 1, 1]
    values[:, 2, 4] = values[:, 2, 0] + values[:, 2, 2] + 1e-9 * values[:, 2, 4]
    values[1, 0, 2] = 0
    return values


def masks(keys: int = 10) -> dict[str, torch.Tensor]:
    row, key = torch.arange(keys)[:, None], torch.arange(keys)
    causal = key <= row
    kinds = {
        "causal": causal,
        "padded left": causal & (key >= 3),
        "window": causal & (key > row - 4),
        "any keys": torch.rand(keys, keys, generator=torch.Generator().manual_seed(5)) < 0.5,
        "none": torch.zeros_like(causal),
    }
    return {name: mask.expand(2, -1, -1) for name, mask in kinds.items()}


@pytest.mark.parametrize("kind", masks())
@pytest.mark.parametrize("seed", range(4))
def test_what_is_certified_is_independent_by_the_svd(kind: str, seed: int) -> None:
    values, visible = values_of(seed), masks()[kind]
    for text, head, row in independent_rows(values, visible).nonzero().tolist():
        seen = values[text, head, visible[text, row]]
        singular = torch.linalg.svdvals(seen)
        assert len(seen) <= SIZE
        assert singular[-1] > singular[0] * SIZE * EPS


@pytest.mark.parametrize("kind", masks())
@pytest.mark.parametrize("seed", range(4))
def test_every_row_that_is_certified_alone_is_certified(kind: str, seed: int) -> None:
    values, visible = values_of(seed), masks()[kind]
    found = independent_rows(values, visible)
    for text, head, row in (torch.ones_like(found)).nonzero().tolist():
        seen = values[text, head, visible[text, row]]
        alone = 0 < len(seen) <= SIZE and bool(independent(seen, torch.ones(len(seen), dtype=torch.bool)))
        assert found[text, head, row] == alone


def test_leading_parts_are_decided_up_to_the_first_dependent_vector() -> None:
    vectors = torch.eye(4, dtype=torch.float64)
    vectors[2] = vectors[0] + vectors[1]
    assert independent_prefixes(vectors).tolist() == [True, True, False, False]
    assert independent_prefixes(torch.zeros(2, 3, dtype=torch.float64)).tolist() == [False, False]
