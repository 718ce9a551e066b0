"""The figure of one head: what it says under its title is what the lamps say, and no map of nothing is drawn."""

# ruff: noqa: E501 - sentences are compared whole

from __future__ import annotations

from typing import Any

import pytest

from headwise.lamps import ASKED, Head, lamps
from headwise.traces.lamps import trace_lamps
from headwise.viewer.figure import judged, panels

GOOD = Head(null_share=0.0, unique_rows=1.0, carried=0.9, parked=0.1, sent=0.1)
LOOSE = (
    "The map should not be shown as what the head did. Unique? A weight may move by 40 % of its row to tokens that send "
    "nearly the same, as a word said twice: the output stays within 1 %. Carries anything? 90 % of what is sent follows "
    "the weights. Yes, but held back: not to be shown (Unique?)."
)


@pytest.mark.parametrize(
    ("changes", "said"),
    [({}, "The map may be shown as what the head did."), ({"loose": 0.4}, LOOSE),
     ({"carried": 0.6}, "The map may be shown with care as what the head did. Carries anything? 60 % of what is sent follows "
                        "the weights.")],
)  # fmt: skip
def test_a_caption_says_what_the_lamps_come_to_and_which_are_not_green(changes: dict[str, Any], said: str) -> None:
    """“The weights are unique” stood under a head whose map should not be shown."""
    assert judged(lamps(Head(**{**vars(GOOD), **changes}))) == said


def test_the_caption_of_a_head_is_that_of_its_own_lamps(load) -> None:
    trace = load("tiny:bert").trace("the old man went to the city, and the dog saw him.")
    for layer, head in ((0, 1), (2, 3)):
        under = " ".join(trace.figure(layer, head).to_dict()["title"]["subtitle"])
        found = trace_lamps(trace)[layer][head]
        assert judged(found) in under
        assert all(
            (f"{ASKED[lamp.question]} {lamp.says}" in under) == (lamp.colour in ("red", "amber")) for lamp in found
        )


@pytest.mark.parametrize(
    ("text", "drawn"), [("the sea", ["raw", "norm"]), ("it is the sea of the city and the dog", None)]
)
def test_where_nothing_changes_nothing_two_maps_are_drawn(load, text: str, drawn: list[str] | None) -> None:
    trace = load("tiny:bert").trace(text)
    found = panels(trace, 0, 0, False, None)
    assert [panel.name for panel in found] == (drawn or ["raw", "effective", "null", "norm"])
    raw, *_, norm = found
    assert (raw.signed, raw.unit is not None) == ((False, True) if drawn else (True, False))
    assert norm.unit is not None
