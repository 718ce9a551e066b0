"""How far a weight may go by moves between near keys: by hand, by loops, by the very moves, for any mask and block."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import headwise as hw
from headwise.measures.loose import loose
from headwise.types import Layer
from references import synthetic
from references.compare import assert_close
from references.loose import EPSILON, moves, naive, rows_of
from references.synthetic import D_HEAD, TOKENS


def near(kind: str, *, kv_heads: int = 3) -> Layer:
    """Keys 1, 4 and 9 have nearly one vector, 2 and 6 another; in head 0 alone 5 and 7."""
    values = torch.randn(2, kv_heads, TOKENS, D_HEAD, generator=torch.Generator().manual_seed(1))
    for of, other in ((4, 1), (9, 1), (6, 2)):
        values[:, :, of] = (1 + of / 500) * values[:, :, other]  # no two the same, or which are the nearest is not told
    values[:, 0, 7] = 1.01 * values[:, 0, 5]
    return synthetic.layer(kind, kv_heads=kv_heads, values=values)


def test_by_hand() -> None:
    """Weights (.5, .2, .3) on 1, 2 and 1 again: the output is 1.2, of which .012 may be spent.

    The first may have all of the third's (.3) and .012 of the second's, or nothing at all: a room of .812.
    """
    values = torch.tensor([1.0, 2, 1]).reshape(1, 1, 3, 1)
    layer = synthetic.layer(lengths=(3,), heads=1, kv_heads=1, d_head=1, values=values)
    layer = dataclasses.replace(layer, alpha=torch.tensor([0.5, 0.2, 0.3]).expand(1, 1, 3, 3))
    assert_close(loose(layer), torch.full((1, 1, 3), 0.812, dtype=torch.float64), 1e-7)


@pytest.mark.parametrize("kind", ["full", "causal", "window"])
@pytest.mark.parametrize("kv_heads", [3, 1])
def test_by_loops(kind: str, kv_heads: int) -> None:
    layer = near(kind, kv_heads=kv_heads)
    exact = dataclasses.replace(layer, alpha=layer.alpha.double(), value=layer.value.double(), memo={}, text_memo={})
    found = loose(exact)
    real = layer.query_mask[:, None].expand_as(found)
    assert_close(found[real], naive(exact)[real], 1e-9)
    assert (found > 0.05).any()


def test_the_moves_are_distributions_that_change_the_output_by_no_more() -> None:
    for _, alpha, value, seen in rows_of(near("causal")):
        for key in seen:
            for moved in moves(alpha, value, seen, key):
                assert moved.min() >= -1e-12
                assert float(moved.sum()) == pytest.approx(float(alpha.sum()))
                change = ((moved - alpha) @ value).norm()
                assert change <= EPSILON * (alpha @ value).norm() + 1e-9


def test_a_row_that_sees_one_key_has_no_room() -> None:
    assert (loose(near("causal"))[:, :, 0] == 0).all()
    alone = synthetic.layer("full", lengths=(1,))
    assert (loose(alone) == 0).all()


def test_blocks_change_nothing_nor_do_batch_mates() -> None:
    whole = near("causal")
    assert_close(torch.cat([loose(block) for block in synthetic.blocks(whole, 5)], dim=2), loose(whole), 1e-8)
    short = dataclasses.replace(
        whole, alpha=whole.alpha[1:, :, :7, :7], value=whole.value[1:, :, :7], visible=whole.visible[1:, :7, :7],
        key_mask=whole.key_mask[1:, :7], query_mask=whole.query_mask[1:, :7],
        out=whole.out[1:, :7], residual=whole.residual[1:, :7], memo={}, text_memo={},
    )  # fmt: skip
    assert_close(loose(short), loose(whole)[1:, :, :7], 1e-9)


def test_vectors_that_are_far_apart_leave_little_room() -> None:
    """By ε and no more: 1 % of the output moves some hundredths of weight between random vectors."""
    assert float(loose(synthetic.layer("full")).max()) < 0.1
    assert float(loose(near("full")).max()) > 0.5


def test_no_interval_is_narrower_than_what_copies_share() -> None:
    """A word that is there twice, below rotary positions: linear programmes find intervals at least so wide."""
    trace = hw.load("tiny:llama").trace("it is the sea and the sea")
    found = loose(trace.of(None)[0])[0]
    assert (found[:, -2:] > 0.05).any()
    for head, row in ((0, 9), (1, 9), (2, 8), (3, 8)):
        low, high = trace.attention_interval(0, head, query=row)
        assert float((high - low).max()) >= float(found[head, row]) - 2 * EPSILON * 5, "but for what ε allows"
