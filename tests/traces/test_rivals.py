"""One weight moved within its interval: the others follow, and the head's output stays."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headwise.errors import InputError
from headwise.text.written import in_a_line
from headwise.traces import Rivals

TEXT = "the old dog and the cat ran along the river of the city"


@pytest.mark.parametrize("name", ["bert", "llama", "gpt-oss"])  # all seen; those before; a sink beside the keys
def test_along_the_way_the_output_stays(load, name: str) -> None:
    trace = load(f"tiny:{name}").trace(TEXT)
    layer, query, key = trace.of()[1], len(trace.tokens) - 2, 3
    low, high = trace.attention_interval(1, 2, query)
    found = trace.rival_weights(1, 2, query, key)
    own = layer.alpha[0, 2, query].double()
    torch.testing.assert_close(found.own, own)
    assert float(found.low[key]) == pytest.approx(float(low[key]), abs=1e-6)
    assert float(found.high[key]) == pytest.approx(float(high[key]), abs=1e-6)
    assert float(found.high[key] - found.low[key]) > 1e-3, "else nothing is tested"
    sent = layer.head_value[0, 2].double()
    for weight in np.linspace(float(found.low[key]), float(found.high[key]), 7):
        row = found.at(float(weight))
        assert float(row[key]) == pytest.approx(weight, abs=1e-9)
        assert float(row.min()) >= 0
        assert float(row.sum()) == pytest.approx(float(own.sum()), abs=1e-6)
        assert not row[~layer.visible[0, query]].any(), "a key that is not seen gets nothing"
        torch.testing.assert_close(row @ sent, own @ sent, atol=1e-5, rtol=1e-5)
    assert found.change < 1e-5
    torch.testing.assert_close(found.at(float(own[key])), found.own)


def test_a_row_that_is_unique_does_not_move(load) -> None:
    found = load("tiny:bert").trace("the dog").rival_weights(1, 2, 1, 2)
    assert torch.equal(found.low, found.own)
    assert torch.equal(found.high, found.own)
    assert torch.equal(found.at(float(found.own[2])), found.own)


def test_half_way_by_hand() -> None:
    rows = (torch.tensor([0.25, 0.5, 0.25]), torch.tensor([0.0, 1.0, 0.0]), torch.tensor([0.5, 0.0, 0.5]))
    found = Rivals(0, *rows, change=0.0)
    assert found.at(0.125).tolist() == [0.125, 0.75, 0.125]
    assert found.at(0.375).tolist() == [0.375, 0.25, 0.375]
    with pytest.raises(InputError, match=r"This weight goes from 0 to 0\.5, but 0\.6 was asked for"):
        found.at(0.6)


def test_in_words_whose_weight_it_is_how_far_it_goes_and_which_others_move_most() -> None:
    """print(trace.rival_weights(…)) gave three raw tensors, without a token."""
    tokens, own = ("▁the", "▁dog", "Ċ", "▁saw", "▁it"), torch.tensor([0.4, 0.3, 0.1, 0.15, 0.05])
    low, high = torch.tensor([0.1, 0.45, 0.1, 0.24, 0.11]), torch.tensor([0.5, 0.2, 0.1, 0.15, 0.05])
    found = Rivals(0, own, low, high, 2e-16, tokens, "L3.H4", "saw")
    assert str(found) == repr(found)
    cell, moves = str(found).split("\n")
    said = "L3.H4, the weight from 'saw' to 'the' (0) is 0.400 and could be 0.100 to 0.500"
    assert cell == f"{said}: the head's output changes by 2e-16 of its length."
    least = "at its least 'dog' (1) +0.15, 'saw' (3) +0.09, 'it' (4) +0.06"
    assert moves == f"The others move with it: {least}; at its largest 'dog' (1) -0.1."
    one = Rivals(0, own, low, own, 2e-16, tokens, "L3.H4", "saw")
    assert str(one).endswith(f"with it: {least}."), "no other end"
    fixed = "L3.H4, the weight from 'saw' to '↵' (2) is 0.100; no other gives this output of the head."
    assert str(Rivals(2, own, own, own, 0.0, tokens, "L3.H4", "saw")) == fixed


def test_the_words_are_those_of_the_text(load) -> None:
    trace = load("tiny:llama").trace(TEXT)
    query, key = len(trace.tokens) - 2, 3
    said = f"L1.H2, the weight from {in_a_line([trace.tokens[query]])!r} to {in_a_line([trace.tokens[key]])!r} (3) is "
    assert str(trace.rival_weights(1, 2, query, key)).startswith(said)


def test_cells_that_are_none_are_refused(load) -> None:
    with pytest.raises(InputError, match="1 does not see 3"):
        load("tiny:llama").trace(TEXT).rival_weights(0, 0, 1, 3)
