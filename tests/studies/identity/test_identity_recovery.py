"""Nearest neighbours within a sentence: by hand, against loops, and what must not matter."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.studies.identity import recovery
from headwise.studies.identity.recovery import DISTANCES, Sentences, Targets, blocks, credit_of, search
from references import identity as twin

D = 6
LENGTHS = (5, 2, 11, 3, 7)


def corpus(seed: int, lengths: tuple[int, ...] = LENGTHS, words: int = 6) -> tuple[Sentences, torch.Tensor]:
    """Sentences with repeated words, each word one vector: as where x holds no position."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(words, (sum(lengths),), generator=generator)
    return Sentences(torch.tensor(lengths), ids), torch.randn(words, D, generator=generator)[ids]


def all_of(sentences: Sentences) -> torch.Tensor:
    return torch.arange(len(sentences.lengths))


def test_by_hand() -> None:
    sentences = Sentences(torch.tensor([3, 2]), torch.tensor([1, 2, 1, 3, 4]))
    x = torch.tensor([[1.0, 0], [0, 1], [2, 0], [1, 0], [0, 3]])
    mapped = torch.tensor([[[0.9, 0], [0.1, 0.2], [1.6, 0.1], [0, 1], [0, 1]]])
    targets = Targets.of(x, sentences)
    tokens = torch.arange(5)
    found = search(mapped, tokens, targets, sentences, chosen=all_of(sentences), distances=DISTANCES)
    # token 3 lies along (0, 3), but (1, 0) is less far from it than (0, 3)
    assert found["l2"].nearest.tolist() == [[0, 1, 2, 3, 3]]
    assert found["cosine"].nearest[0, 1:].tolist() == [1, 0, 4, 4], "token 2 is as near to (1, 0) as to (2, 0)"
    scores = credit_of(found["l2"].nearest, tokens, targets, sentences)
    assert scores["position"].tolist() == [[1, 1, 1, 1, 0]]
    assert credit_of(torch.tensor([2, 1, 0, 3, 4]), tokens, targets, sentences)["word"].tolist() == [1, 1, 1, 1, 1]
    assert found["l2"].margin[0, 0] == pytest.approx(1.1**2 - 0.1**2)


@pytest.mark.parametrize("offset", [0, 1, -2])
@pytest.mark.parametrize("distance", DISTANCES)
@given(seed=st.integers(0, 10_000))
def test_equal_to_its_twin(distance: str, offset: int, seed: int) -> None:
    sentences, x = corpus(seed)
    x = x.double()
    mapped = (x + 0.8 * torch.randn(x.shape, generator=torch.Generator().manual_seed(seed + 1)).double())[None]
    targets, tokens = Targets.of(x, sentences), torch.arange(len(x))
    chosen = all_of(sentences)
    found = search(mapped, tokens, targets, sentences, chosen=chosen, distances=[distance], offset=offset)[distance]
    there = sentences.inside(offset)
    scores = credit_of(found.nearest[:, there], tokens[there], targets, sentences, offset=offset)
    position, word, counted = twin.rates(
        mapped[0].numpy(), x.numpy(), sentences.ids.tolist(), LENGTHS, distance, offset
    )
    assert tokens[there].tolist() == counted
    np.testing.assert_allclose(scores["position"][0].numpy(), position)
    np.testing.assert_allclose(scores["word"][0].numpy(), word)


@pytest.mark.parametrize("distance", DISTANCES)
def test_margins_are_those_of_loops(distance: str) -> None:
    generator = torch.Generator().manual_seed(2)
    sentences, _ = corpus(0)
    x, mapped = torch.randn(2, 1, sum(LENGTHS), D, generator=generator).double()
    targets = Targets.of(x[0], sentences)
    found = search(mapped, torch.arange(len(x[0])), targets, sentences, chosen=all_of(sentences), distances=[distance])[
        distance
    ]
    start = 0
    for length in LENGTHS:
        for at in range(length):
            expected = twin.margin(mapped[0, start + at].numpy(), x[0, start : start + length].numpy(), at, distance)
            assert float(found.margin[0, start + at]) == pytest.approx(expected, rel=1e-9)
        start += length


def test_a_word_that_cannot_be_told_from_its_twin_scores_its_share() -> None:
    sentences = Sentences(torch.tensor([4, 2]), torch.tensor([7, 8, 7, 9, 7, 8]))
    x = torch.eye(3)[torch.tensor([0, 1, 0, 2, 0, 1])]
    targets = Targets.of(x, sentences)
    assert targets.twins.tolist() == [2, 1, 2, 1, 1, 1], "only within the sentence"
    scores = credit_of(torch.tensor([0, 1, 0, 3, 4, 5]), torch.arange(6), targets, sentences)
    assert scores["position"].tolist() == [0.5, 1, 0.5, 1, 1, 1]
    assert scores["word"].tolist() == [1] * 6
    assert scores["possible"].tolist() == scores["position"].tolist(), "all were found that could be"


def test_blocks_and_order_of_sentences_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sentences, x = corpus(3)
    mapped = torch.randn(2, len(x), D, generator=torch.Generator().manual_seed(0))
    targets = Targets.of(x, sentences)

    def nearest(chosen: list[int]) -> dict[int, list[int]]:
        tokens = sentences.tokens(torch.tensor(chosen))
        found = search(mapped[:, tokens], tokens, targets, sentences, chosen=torch.tensor(chosen), distances=["l2"])
        return dict(zip(tokens.tolist(), targets.twin[found["l2"].nearest].mT.tolist(), strict=True))

    whole = nearest([0, 1, 2, 3, 4])
    assert nearest([4, 2, 0, 3, 1]) == whole
    monkeypatch.setattr(recovery, "BLOCK", 1)
    assert nearest([0, 1, 2, 3, 4]) == whole
    assert nearest([3]) == {token: found for token, found in whole.items() if sentences.of_token[token] == 3}


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40))
def test_blocks_hold_every_sentence_once_and_stay_small(lengths: list[int]) -> None:
    found = list(blocks(torch.tensor(lengths)))
    assert sorted(int(number) for block in found for number in block) == list(range(len(lengths)))
    assert all(len(b) == 1 or len(b) * max(lengths[int(n)] for n in b) <= recovery.BLOCK for b in found)


def test_a_guess_scores_one_over_the_mean_length() -> None:
    sentences, _ = corpus(0)
    assert float(sentences.chance.mean()) == pytest.approx(1 / np.mean(LENGTHS))
