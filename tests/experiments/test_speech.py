"""experiments/speech: which frames a word has, which row predicts a token, and how heads are ranked; all by hand."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from references.scripts import ROOT, script


@pytest.fixture(scope="module")
def heads() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "experiments" / "speech"))  # voice.py stands beside it
        yield script("experiments/speech/heads.py")


def test_weights_on_the_frames_of_a_word_are_summed(heads: ModuleType) -> None:
    """Four frames of half a second: the second row has 0.2 + 0.3 between 0.5 s and 1.4 s (middles 0.75 and 1.25)."""
    alpha = torch.tensor([[[[0.1, 0.2, 0.3, 0.4], [0.5, 0.2, 0.3, 0.0]]]])
    source = SimpleNamespace(places=tuple((0.5 * n, 0.5 * n + 0.5) for n in range(4)))
    got = heads.mass_in(alpha, source, [0, 1], [(0.0, 0.5), (0.5, 1.4)])
    assert got.flatten().tolist() == pytest.approx([0.1, 0.5])


def test_a_token_is_predicted_by_the_row_before_it(heads: ModuleType) -> None:
    """ "it rained." as <s> it, rain, ed, ".": the full stop belongs to the word that it is written with."""
    target = SimpleNamespace(
        offsets=((0, 0), (0, 2), (3, 7), (7, 9), (9, 10)), special=(True, False, False, False, False)
    )
    sound = heads.Spoken(np.zeros(1), 1, (("it", 0.2, 0.4), ("rained.", 0.5, 0.9)))
    found = list(heads.tokens_of(target, "it rained.", sound))
    assert found == [(0, (0.2, 0.4)), (1, (0.5, 0.9)), (2, (0.5, 0.9)), (3, (0.5, 0.9))]


def test_heads_are_ranked_by_their_mean_weight(heads: ModuleType) -> None:
    scores = torch.zeros(4, 6, 2)
    for rank, (layer, head) in enumerate(heads.KNOWN):
        scores[layer, head] = 1.0 - 0.05 * rank
    scores[0, 0] = torch.tensor([0.9, 0.94])  # one that was not published comes third
    got = heads.found(scores)
    assert got["recall"] == 7
    assert got["top"][:4] == [[1, 0], [2, 0], [0, 0], [2, 5]]
    assert got["auc"] == (8 * 15 + 2) / 128  # all eight are above fifteen others, two above this one
    assert got["table"][0] == {"layer": 1, "head": 0, "score": 1.0, "se": 0.0, "published": True}


def test_a_head_that_follows_the_sound_has_correlation_one(heads: ModuleType) -> None:
    """Rows that look at the frame of their word, and rows that look at it backwards."""
    source = SimpleNamespace(places=tuple((0.5 * n, 0.5 * n + 0.5) for n in range(3)))
    spans = [(0.0, 0.5), (0.5, 1.0), (1.0, 1.5)]
    within = torch.stack([torch.eye(3), torch.eye(3).flip(0)])[None]
    assert heads.follows(within, source, [0, 1, 2], spans).flatten().tolist() == pytest.approx([1.0, -1.0])


def test_words_are_timed_by_the_path_of_most_weight(heads: ModuleType) -> None:
    """Three tokens of two words and the end of the text, over 16 frames of 0.1 s; the second head looks backwards."""
    weights = np.full((4, 16), 0.01)
    for row, (start, stop) in enumerate([(0, 4), (4, 8), (8, 12), (12, 16)]):
        weights[row, start:stop] = 0.2
    times = heads.word_times(np.stack([weights, weights[::-1]]), [0, 0, 1], 0.1)
    assert times[0].tolist() == [pytest.approx([0.0, 0.8]), pytest.approx([0.8, 1.2])]
    assert np.abs(times[1] - times[0]).max() > 0.3


def test_a_recall_is_drawn_over_sentences(heads: ModuleType) -> None:
    """One sentence has all eight first, the other none: the drawn recalls go from 0 to 8."""
    good = torch.zeros(4, 6, 3)
    for layer, head in heads.KNOWN:
        good[layer, head] = 1.0
    assert heads.interval([good, good]) == [8, 8]
    assert heads.interval([good, 1 - good]) == [0, 8]
