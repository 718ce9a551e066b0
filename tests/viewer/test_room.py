"""Where a weight has room: what a page says of a head is true of every interval of it, and its cells can be dragged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headwise as hw
from headwise.explanations.why import Cell
from headwise.viewer import room
from headwise.viewer.of_trace import page_of_trace
from headwise.viewer.room import BESIDE, ROOM, Search, roomiest, said, searched
from headwise.viewer.why import cell_told

LONG, SHORT, MIXED = "the old dog and the cat ran along the river", "the dog", "the old dog and"


def widths(trace: hw.Trace, layer: int, head: int) -> np.ndarray:
    """Of all cells of a head, by every linear programme there is."""
    queries = range(len(trace.queries("self")))
    rows = [trace.attention_interval(layer, head, query) for query in queries]
    return np.stack([(high - low).numpy() for low, high in rows])


def checked(trace: hw.Trace, one: dict[str, Any]) -> Iterator[str]:
    """What is said of a cell, once it is known to be so."""
    layer, head, query, key = one["at"]
    own = widths(trace, layer, head)
    assert (one["room"] is None) == (own[query, key] >= ROOM)
    if one["room"] is None:
        return
    for cell in one["room"]["cells"]:
        assert widths(trace, *cell[:2])[tuple(cell[2:])] >= ROOM - 1e-6, f"{cell} cannot be dragged"
    says = one["room"]["says"]
    if not says.startswith("This head has room"):
        assert own.max() < ROOM, says
    if "has any" in says:
        assert own.max() < 1e-6, says
    yield says


@pytest.mark.parametrize(
    ("name", "text", "begins"),
    [("tiny:bert", LONG, {"This head has"}), ("tiny:bert", SHORT, {"No weight of"}),
     ("tiny:bert", MIXED, {"This head has", "A search of"}), ("tiny:gpt2", LONG, {"This head has"})],
)  # fmt: skip
def test_what_a_file_says_of_a_weight_without_room_is_true(name: str, text: str, begins: set[str], load) -> None:
    trace = load(name).trace(text)
    why = page_of_trace(trace, besides=()).stacks[0].why
    told = [says for one in why for says in checked(trace, dict(one))]
    assert {" ".join(says.split()[:3]) for says in told} == begins
    held = [one["at"] for one in why]
    assert all(cell in held for one in why if one["room"] for cell in one["room"]["cells"]), "the file has them"


def test_telling_heads_that_are_not_unique_have_a_cell_that_can_be_dragged(load) -> None:
    trace = load("tiny:gpt2").trace(LONG)
    stack = page_of_trace(trace, besides=()).stacks[0]
    assert stack.facts is not None
    doubted = [one for one in stack.telling if stack.facts.lamps[one.layer, one.head].unique.colour != "green"]
    assert doubted
    roomy = [tuple(one["at"][:2]) for one in stack.why if one["room"] is None]
    for one in doubted:
        if widths(trace, one.layer, one.head).max() >= ROOM:
            assert (one.layer, one.head) in roomy, (
                "its strongest cells may be pinned down, and then the widest is there"
            )


def test_a_served_cell_without_room_names_one_that_has(load) -> None:
    trace = load("tiny:bert").trace(MIXED)
    for at in [(0, 2, 5, 1), (1, 3, 2, 6)]:
        told = cell_told(trace, "self", *at)
        (says,) = checked(trace, told)
        (cell,) = told["room"]["cells"]
        assert (cell[:2] == [at[0], at[1]]) == says.startswith("This head has")
        assert cell_told(trace, "self", *cell)["room"] is None


def test_the_roomiest_cell_is_the_widest_of_the_row_that_moves_most(load) -> None:
    trace = load("tiny:bert").trace(LONG)
    cell = roomiest(trace, "self", (1, 3))
    assert cell is not None
    wide = widths(trace, 1, 3)
    assert wide[cell.query, cell.key] == pytest.approx(wide[cell.query].max())
    assert wide[cell.query, cell.key] > wide.max() / 2


def test_a_cell_that_cannot_be_dragged_far_is_not_named(load, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = load("tiny:bert").trace(MIXED)
    widest = widths(trace, 0, 2).max()
    for least, named in ((0.99 * widest, True), (1.01 * widest, False)):
        monkeypatch.setattr(room, "ROOM", least)
        assert (roomiest(trace, "self", (0, 2)) is not None) == named


def test_a_cell_that_is_there_anyway_is_named_where_the_search_found_none(load, monkeypatch) -> None:
    monkeypatch.setattr(room, "roomiest", lambda *_: None)
    why = page_of_trace(load("tiny:bert").trace(LONG), besides=()).stacks[0].why
    narrow = next(one for one in why if one["room"] and any(each["room"] is None and each["at"][:2] == one["at"][:2]
                                                            for each in why))  # fmt: skip
    (cell,) = narrow["room"]["cells"]
    assert narrow["room"]["says"].startswith("This head has room")
    assert cell[:2] == narrow["at"][:2]


def test_a_long_text_is_not_searched_and_says_so(load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "LONGEST", 7)
    search = searched(load("tiny:bert").trace(MIXED), "self", [(1, 3)])
    assert (1, 3) in search.free
    assert search.found == {}
    says = said((1, 3), search)["says"]
    assert says == f"The other cells of this head were not searched. {BESIDE} On this text 12 heads may have room; " \
                   "none was searched."  # fmt: skip


CELLS = {(0, 1): Cell("self", 0, 1, 3, 4), (2, 2): Cell("self", 2, 2, 5, 6)}
NONE, PROVED = "found no weight that may move by 0.05 or more", "each of its rows is the only distribution"


@pytest.mark.parametrize(
    ("head", "search", "has", "cells"),
    [
        ((0, 1), Search([(0, 1)], CELLS), ["This head has room elsewhere, as in"], [[0, 1, 3, 4]]),
        ((1, 0), Search([(0, 1)], CELLS), [PROVED, "Other heads have room, as in"], [[0, 1, 3, 4], [2, 2, 5, 6]]),
        ((1, 0), Search([(1, 0), (0, 1)], {(1, 0): None, (0, 1): CELLS[0, 1]}), [NONE, "Another head has room, as in"],
         [[0, 1, 3, 4]]),
        ((1, 0), Search([], {}), [PROVED, "So it is for every head, on this text."], []),
        ((1, 0), Search([(1, 0)], {(1, 0): None}), [NONE, "1 head may have room; 1 was searched, and none"], []),
        ((1, 0), Search([(1, 0), (0, 1), (2, 2)], {(1, 0): None, (0, 1): None}),
         [NONE, "3 heads may have room; 2 were searched, and none was found."], []),
    ],
)  # fmt: skip
def test_what_is_said_is_as_sure_as_the_search(head: room.Head, search: Search, has: list[str], cells: list) -> None:
    told = said(head, search)
    assert all(part in told["says"] for part in has)
    assert told["cells"] == cells
    assert (BESIDE in told["says"]) == (not told["says"].startswith("This head"))


@pytest.mark.parametrize(("least", "heads"), [(1, 1), (3, 3)])
def test_a_click_searches_more_heads_of_a_longer_text_than_a_file(
    least: int, heads: int, load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "affordable", lambda _: 1)
    monkeypatch.setattr(room, "roomiest", lambda *_: None)
    search = searched(load("tiny:bert").trace(MIXED), "self", [(1, 3)], least=least)
    assert len(search.found) == heads
    assert next(iter(search.found)) == (1, 3)
