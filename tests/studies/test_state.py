"""Statistics by key: the grammar of keys, and reading by kind."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.stats import Moments, Pieces, Sums
from headwise.studies.state import Key, State, packed, plus, unpacked

NAMES = st.text("abc /.-+", min_size=1)
PLACES = st.from_regex(r"[a-z-]{1,6}", fullmatch=True)


def sums(number: float) -> Sums:
    return Sums(torch.tensor([number], dtype=torch.float64), torch.ones(1, dtype=torch.float64))


@given(NAMES, PLACES, st.integers(0, 99))
def test_a_key_is_read_as_it_was_written(name: str, place: str, layer: int) -> None:
    for key in (Key(name), Key(name, place), Key(name, place, layer)):
        assert Key.read(str(key)) == key


def test_layers_come_in_order_and_only_those_of_the_name_and_the_stack() -> None:
    keys = ["a@self.10", "a@self.2", "a@decoder.0", "a b@self.1", "a@self", "ab@self.0"]
    state = State({key: sums(number) for number, key in enumerate(keys)})
    assert [float(found.total) for found in state.by_layer(Sums, "a", "self")] == [1.0, 0.0]
    assert [float(found.total) for found in state.by_layer(Sums, "a b", "self")] == [3.0]
    assert state.by_layer(Sums, "nothing", "self") == []


def test_what_is_of_another_kind_or_not_there_is_not_read() -> None:
    state = State({"a": sums(1.0)})
    assert state.sums("a") is state["a"]
    with pytest.raises(TypeError, match="a must be of kind Moments, but it is Sums"):
        state.moments("a")
    with pytest.raises(TypeError, match="Pieces"):
        state.pieces("a")
    with pytest.raises(KeyError):
        state.sums("b")


def test_pieces_are_found_by_document_and_keys_by_their_beginning() -> None:
    pieces = Pieces.of({4: torch.tensor([[1.0]]), 2: torch.tensor([[2.0], [3.0]])})
    state = State({"tau/b": sums(1.0), "p": pieces, "tau/a": sums(2.0)})
    assert {number: rows.tolist() for number, rows in state.documents("p").items()} == {2: [[2.0], [3.0]], 4: [[1.0]]}
    assert [(name, float(found.total)) for name, found in state.after(Sums, "tau/")] == [("b", 1.0), ("a", 2.0)]


def test_states_are_added_key_by_key_and_keep_their_kind() -> None:
    total = plus({"a": sums(1.0)}, {"b": sums(2.0), "a": sums(3.0)})
    assert isinstance(total, State)
    assert list(total) == ["a", "b"]
    assert float(total.sums("a").total) == 4.0
    again = unpacked(packed(total))
    assert isinstance(again, State)
    assert again.sums("b") == total.sums("b") or torch.equal(again.sums("b").total, total.sums("b").total)
    assert isinstance(unpacked(packed({"m": Moments.of(torch.ones(1, 3), torch.ones(()))})).moments("m"), Moments)
