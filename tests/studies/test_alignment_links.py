"""From scores to links: every extraction by hand, and grow-diag against its pseudo-code."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.studies.alignment.extract import EXTRACTIONS, backwards, forwards, grown, only
from references.alignment import can_grow, grow_diag, pairs_of

SCORES = torch.tensor([[0.5, 0.3, 0.0, 0.2], [0.1, 0.2, 0.1, 0.6], [0.3, 0.3, 0.4, 0.0]])[None, None]  # the last: </s>
THREE = torch.ones(1, 3, dtype=torch.bool)


def test_links_by_hand() -> None:
    assert pairs_of(EXTRACTIONS["argmax"](SCORES, THREE, 3, 0)) == {(0, 0), (2, 2)}, "the end is no word"
    assert pairs_of(backwards(SCORES, THREE, 3)) == {(0, 0), (0, 1), (2, 2)}, "the first of equals"
    assert pairs_of(EXTRACTIONS["threshold"](SCORES, THREE, 3, 0.3)) == {(0, 0), (0, 1), (2, 0), (2, 1), (2, 2)}
    assert pairs_of(EXTRACTIONS["mutual"](SCORES, THREE, 3, 0)) == {(0, 0), (0, 1), (2, 2)}
    missing = torch.tensor([[True, False, True]])
    for extract in EXTRACTIONS.values():
        assert not {pair for pair in pairs_of(extract(SCORES, missing, 3, 0.3)) if pair[0] == 1}
    hidden = only(SCORES.clone(), torch.tensor([[False, True, True, True]]))
    assert pairs_of(forwards(hidden, THREE, 3)) == {(0, 1), (2, 2)}
    assert pairs_of(backwards(hidden, THREE, 3)) == {(0, 1), (2, 2)}


def test_growing_by_hand() -> None:
    """Both say 0-0 and 3-3. 1-1 is next to 0-0; 1-2, next to that, links a free word; 0-3 is next to nothing."""
    one, other = np.zeros((2, 4, 4), bool)
    one[[0, 1, 3], [0, 1, 3]] = True
    other[[0, 1, 3, 0], [0, 2, 3, 3]] = True
    assert {tuple(at) for at in np.argwhere(grown(one, other)).tolist()} == {(0, 0), (1, 1), (3, 3), (1, 2)}


@given(st.integers(0, 2**24 - 1), st.integers(0, 2**24 - 1))
def test_growing_is_between_both_and_either(left: int, right: int) -> None:
    one, other = (np.array([number >> bit & 1 for bit in range(24)], bool).reshape(4, 6) for number in (left, right))
    links = grown(one, other)
    assert not (one & other & ~links).any()
    assert not (links & ~(one | other)).any()
    found, both, either = (
        {tuple(at) for at in np.argwhere(maps).tolist()} for maps in (links, one & other, one | other)
    )
    assert found == grow_diag(*({tuple(at) for at in np.argwhere(side).tolist()} for side in (one, other)), 4, 6)
    assert not can_grow(found, either), "grown to the end"
    assert found == both or can_grow(both, either), "and only where it could begin"


def test_growing_goes_on_in_the_order_of_the_pseudo_code() -> None:
    """Larger and sparser, as sentences have them: a link behind is grown from in the next sweep, one ahead in this."""
    random = np.random.default_rng(0)
    for rows, wide, share in ((1, 9, 0.5), (9, 1, 0.5), (8, 9, 0.2), (9, 8, 0.3), (13, 11, 0.15), (11, 17, 0.1)):
        for _ in range(20):
            one, other = random.random((2, rows, wide)) < share
            other |= one & (random.random(one.shape) < 0.5)  # so that there is something to begin with
            sides = ({tuple(at) for at in np.argwhere(side).tolist()} for side in (one, other))
            assert {tuple(at) for at in np.argwhere(grown(one, other)).tolist()} == grow_diag(*sides, rows, wide)


# --- words ---
