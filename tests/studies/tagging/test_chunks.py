"""Chunk F1: conlleval's cases by hand, its word-by-word twin, and what must hold for any tags."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.studies.adversary.tagging.chunks import Counts, Scheme, counts
from references.chunks import conlleval

TAGS = ("O", "B-NP", "I-NP", "B-VP", "I-VP", "B-PP", "I-PP")
SCHEME = Scheme.of(TAGS)


def padded(sentences: list[list[str]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Tag numbers and mask; the padding holds a tag that would open a chunk."""
    width = max(len(tags) for tags in sentences) + 2
    rows = [[TAGS.index(tag) for tag in tags] + [1] * (width - len(tags)) for tags in sentences]
    mask = [[True] * len(tags) + [False] * (width - len(tags)) for tags in sentences]
    return torch.tensor(rows), torch.tensor(mask)


def counted(gold: str, guessed: str) -> Counts:
    (true, mask), (said, _) = padded([gold.split()]), padded([guessed.split()])
    return counts(true, said, mask, SCHEME)


@pytest.mark.parametrize(
    ("gold", "guessed", "expected"),  # chunks of the gold tags, guessed ones, found ones
    [
        ("B-NP I-NP O", "B-NP I-NP O", (1, 1, 1)),
        ("B-NP I-NP O", "I-NP I-NP O", (1, 1, 1)),  # I- after nothing opens: IOB1 and IOB2 agree
        ("O B-NP I-NP", "O I-NP I-NP", (1, 1, 1)),  # I- after O opens
        ("B-NP B-NP", "B-NP I-NP", (2, 1, 0)),  # B- after B- opens another; a chunk too long is not found
        ("B-NP B-NP", "I-NP B-NP", (2, 2, 2)),
        ("B-NP I-VP", "B-NP B-VP", (2, 2, 2)),  # I- of another type opens
        ("I-NP I-VP I-NP", "B-NP B-VP B-NP", (3, 3, 3)),
        ("B-NP I-NP", "B-NP I-VP", (1, 2, 0)),  # a chunk too short is not found
        ("B-NP I-NP", "B-VP I-VP", (1, 1, 0)),  # the same words, another type
        ("B-NP I-NP I-NP", "B-NP I-NP B-NP", (1, 2, 0)),
        ("O O", "B-NP O", (0, 1, 0)),
        ("B-NP I-NP B-VP", "B-NP I-NP O", (2, 1, 1)),
        ("O O", "O O", (0, 0, 0)),
    ],
)
def test_cases_by_hand(gold: str, guessed: str, expected: tuple[int, int, int]) -> None:
    found = counted(gold, guessed)
    assert (int(found.gold), int(found.guessed), int(found.found)) == expected


def test_scores_by_hand() -> None:
    """Three gold chunks, two guessed, one right: precision ½, recall ⅓, F1 0.4; three words of four."""
    found = counted("B-NP I-NP B-VP B-NP", "B-NP I-NP B-VP I-VP")
    assert float(found.precision) == 0.5
    assert float(found.recall) == pytest.approx(1 / 3)
    assert float(found.f1) == pytest.approx(0.4)
    assert float(found.accuracy) == 0.75


def test_no_chunk_goes_over_the_end_of_a_sentence() -> None:
    gold, mask = padded([["O", "B-NP"], ["I-NP", "O"]])
    assert int(counts(gold, gold, mask, SCHEME).gold) == 2


def test_nothing_guessed_scores_zero() -> None:
    found = counted("O O", "O O")
    assert [float(found.precision), float(found.recall), float(found.f1)] == [0.0, 0.0, 0.0]


sentence = st.integers(1, 9).flatmap(
    lambda n: st.tuples(*[st.lists(st.sampled_from(TAGS), min_size=n, max_size=n)] * 2)
)


@given(st.lists(sentence, min_size=1, max_size=5))
def test_equal_to_going_word_by_word(pairs: list[tuple[list[str], list[str]]]) -> None:
    gold, mask = padded([true for true, _ in pairs])
    said, _ = padded([said for _, said in pairs])
    found, expected = counts(gold, torch.stack([gold, said]), mask, SCHEME), conlleval(pairs)
    for name, value in expected.items():
        assert float(getattr(found, name)[1]) == pytest.approx(value, abs=1e-12)
    assert float(found.accuracy[0]) == 1.0
    parts = [counts(g[None], s[None, None], m[None], SCHEME) for g, s, m in zip(gold, said, mask, strict=True)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    assert float(total.f1[0]) == pytest.approx(expected["f1"], abs=1e-12)
