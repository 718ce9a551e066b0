"""Weight on keys that send the same: by hand, by loops, and for any mask, block and batch."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.measures.twins import shared
from headwise.types import Layer
from references import synthetic
from references.compare import assert_close
from references.synthetic import D_HEAD, TOKENS


def naive(layer: Layer) -> Tensor:
    """For every row and key the weight of all visible keys with the key's own vector, where there are several."""
    found = torch.zeros(layer.alpha.shape[:3], dtype=torch.float64)
    heads = layer.alpha.shape[1] // layer.value.shape[1]
    for text, head, row in torch.cartesian_prod(*map(torch.arange, found.shape)).tolist():
        value, seen = layer.value[text, head // heads], layer.visible[text, row].nonzero()[:, 0].tolist()
        for key in seen:
            alike = [other for other in seen if torch.equal(value[key], value[other])]
            if len(alike) > 1:
                weight = float(layer.alpha[text, head, row, alike].double().sum())
                found[text, head, row] = max(float(found[text, head, row]), weight)
    return found


def repeated(kind: str, *, kv_heads: int = 3) -> Layer:
    """Keys 1, 4 and 9 have one vector, 2 and 6 another; in head 0 alone 5 and 7 a third."""
    values = torch.randn(2, kv_heads, TOKENS, D_HEAD, generator=torch.Generator().manual_seed(1))
    values[:, :, [4, 9]], values[:, :, 6], values[:, 0, 7] = values[:, :, [1]], values[:, :, 2], values[:, 0, 5]
    return synthetic.layer(kind, kv_heads=kv_heads, values=values)


def test_by_hand() -> None:
    """Of weights (.5, .2, .3) on a word, another and the first again, .8 can be shared out in any way."""
    values = torch.tensor([1.0, 2, 1]).reshape(1, 1, 3, 1)
    layer = synthetic.layer(lengths=(3,), heads=1, kv_heads=1, d_head=1, values=values)
    layer = dataclasses.replace(layer, alpha=torch.tensor([0.5, 0.2, 0.3]).expand(1, 1, 3, 3))
    assert_close(shared(layer), torch.full((1, 1, 3), 0.8, dtype=torch.float64), 1e-7)


@pytest.mark.parametrize("kind", ["full", "causal", "window"])
@pytest.mark.parametrize("kv_heads", [3, 1])
def test_by_loops(kind: str, kv_heads: int) -> None:
    layer = repeated(kind, kv_heads=kv_heads)
    assert_close(shared(layer), naive(layer), 1e-12)
    assert (shared(layer) > 0).any()


def test_a_row_that_sees_one_of_them_has_none_to_share() -> None:
    found = shared(repeated("causal"))
    assert (found[:, 1, :4] == 0).all(), "1 is first there again at 4"
    assert (found[:, 1, 4] > 0).all()


def test_blocks_and_batch_mates_change_nothing() -> None:
    whole = repeated("causal")
    assert_close(torch.cat([shared(block) for block in synthetic.blocks(whole, 5)], dim=2), shared(whole), 1e-12)


def test_vectors_that_differ_are_not_the_same() -> None:
    assert (shared(synthetic.layer("full")) == 0).all()
    layer = repeated("full")
    nudged = layer.value.clone()
    nudged[:, :, 4] *= 1.001
    nudged[:, :, 9] *= 0.999
    nudged[:, :, 6] *= 1.001
    nudged[:, 0, 7] *= 1.001
    assert (shared(dataclasses.replace(layer, value=nudged, memo={}, text_memo={})) == 0).all()


def test_no_interval_is_narrower_than_what_twins_share() -> None:
    """A word that is there twice, below rotary positions: linear programmes find intervals at least so wide."""
    trace = hw.load("tiny:llama").trace("it is the sea and the sea")
    found = shared(trace.of(None)[0])[0]
    assert (found[:, -2:] > 0.05).any()
    assert (found[:, 3] == 0).all(), "here every word is there once"
    for head, row in ((0, 9), (1, 9), (2, 8), (3, 8)):
        low, high = trace.attention_interval(0, head, query=row)
        assert float((high - low).max()) >= float(found[head, row]) - 1e-4
    last = shared(trace.of(None)[-1])[0]
    assert (last == 0).all(), "above a layer that knows positions the same word sends something else"
