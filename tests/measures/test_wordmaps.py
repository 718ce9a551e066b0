"""Word maps against loops, in blocks and whole; padding and words without a token."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headwise.measures import ATTENTION
from headwise.measures.wordmaps import of_rows, only, visible_words, word_map, words
from references.synthetic import alone, blocks, layer
from references.words import naive_word_map

# thirteen and seven tokens; word 2 of the first text and word 3 of the second have no token
OF_TOKEN = ((-1, 0, 0, 1, 3, 3, 3, 4, 5, -1, 6, 6, -1), (-1, 0, 1, 1, 2, 4, -1))
COUNTS = (7, 5)


@pytest.mark.parametrize("kind", ["full", "causal"])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("quantity", ["raw", "effective", "norm"])
def test_against_loops(kind: str, first: bool, quantity: str) -> None:
    given = layer(kind)
    found = word_map(given, quantity, words(OF_TOKEN, COUNTS, first=first))
    assert found is not None
    for text, (owners, count) in enumerate(zip(OF_TOKEN, COUNTS, strict=True)):
        maps = ATTENTION[quantity](alone(given, text))[0].double().numpy()
        for head, tokens in enumerate(maps):
            expected = naive_word_map(tokens, owners, count, first=first)
            there = [word for word in range(count) if word in owners]
            got = found[text, head, :count, :count].numpy()
            np.testing.assert_allclose(got[there], expected[there], atol=2e-5)


def test_rows_of_weights_sum_to_what_goes_to_words() -> None:
    given = layer()
    found = word_map(given, "raw", words(OF_TOKEN, COUNTS))
    assert found is not None
    owned = torch.tensor(OF_TOKEN[0]) >= 0
    to_words = given.alpha[0][..., owned].sum(-1)
    assert torch.allclose(found[0, :, 0].sum(-1), to_words[:, 1:3].mean(-1), atol=1e-6)


@pytest.mark.parametrize("quantity", ["raw", "effective", "norm"])
@pytest.mark.parametrize("size", [1, 4, 5])
def test_blocks_of_rows_give_the_same(quantity: str, size: int) -> None:
    """Blocks of five cut word 3 of the first text, tokens 4 to 6, in two."""
    given, known = layer("causal"), words(OF_TOKEN, COUNTS)
    whole, seen = word_map(given, quantity, known), visible_words(given, known)
    assert whole is not None
    assert seen is not None
    parts = blocks(given, size)
    maps = [word_map(part, quantity, known) for part in parts]
    sights = [visible_words(part, known) for part in parts]
    assert all(part is None for part in maps[:-1])
    assert all(part is None for part in sights[:-1])
    assert maps[-1] is not None
    assert torch.allclose(maps[-1], whole, atol=2e-5)
    assert sights[-1] is not None
    assert torch.equal(sights[-1], seen)


def test_visible_words_of_a_causal_model_are_those_before_and_itself() -> None:
    known = words(OF_TOKEN, COUNTS)
    seen = visible_words(layer("causal"), known)
    assert seen is not None
    there = [word for word in range(7) if word in OF_TOKEN[0]]
    for query in range(7):
        expected = [key for key in there if query in there and key <= query]
        assert torch.nonzero(seen[0, query]).flatten().tolist() == expected
    assert known.there.tolist() == [
        [True, True, False, True, True, True, True],
        [True, True, True, False, True, False, False],
    ]


def test_some_rows_only() -> None:
    given, known = layer(), words(OF_TOKEN, COUNTS)
    some = of_rows(known, [[4, 0], [1]])
    whole, part = word_map(given, "raw", known), word_map(given, "raw", some)
    assert whole is not None
    assert part is not None
    assert torch.allclose(part[0], whole[0, :, [4, 0]])
    assert torch.allclose(part[1, :, 0], whole[1, :, 1])
    assert part[1, :, 1].eq(0).all()


def test_the_first_of_equals_is_chosen() -> None:
    maps = torch.tensor([[[[0.0, 2.0, 2.0], [1.0, 1.0, 1.0], [0.0, 0.0, 9.0]]]])
    candidates = ~torch.eye(3, dtype=torch.bool)[None]
    masked = only(maps, candidates)
    assert masked.max(-1).indices.tolist() == [[[1, 0, 0]]]
    assert masked.max(-2).indices.tolist() == [[[1, 0, 0]]]
