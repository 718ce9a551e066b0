"""Grids of heads: no panel is a white rectangle without a word."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
import vl_convert

from headwise.plots.grid import head_grid
from headwise.plots.theme import themed

TITLES = {"null_share": "changes nothing", "carried": "follows the weights", "parked": "parked on no word"}


def drawn(top: float | None = 1.0, **most: float) -> list[dict[str, Any]]:
    """The panels of a grid whose largest values are `most`."""
    rows = [{"what": what, "layer": 0, "head": head, "name": f"L0.H{head}", "value": value * head / 2}
            for what, value in most.items() for head in range(3)]  # fmt: skip
    tops = None if top is None else dict.fromkeys(TITLES, top)
    return head_grid(pl.DataFrame(rows), {what: TITLES[what] for what in most}, tops=tops).to_dict()["hconcat"]


def test_a_panel_that_is_0_everywhere_is_a_line_and_no_panel() -> None:
    panels = drawn(null_share=0.0, carried=0.8, parked=0.5)
    assert [panel["title"]["text"] for panel in panels] == ["follows the weights", "parked on no word"]
    assert panels[0]["title"]["subtitle"] == ["changes nothing: 0 everywhere"]
    assert "subtitle" not in panels[1]["title"]
    alone = drawn(null_share=0.0, carried=0.0)
    assert [panel["title"]["text"] for panel in alone] == [f"{TITLES[what]} (0 everywhere)"
                                                           for what in ("null_share", "carried")]  # fmt: skip


def test_the_top_of_a_faint_bar_reads_as_its_title() -> None:
    """“up to 0.016” stood over a bar that ended at “0.02”."""
    table = pl.DataFrame({"layer": [0, 0], "head": [0, 1], "name": ["a", "b"], "what": ["w", "w"], "value": [0.016, 0]})
    svg = vl_convert.vegalite_to_svg(themed(head_grid(table, {"w": "share"}, tops={"w": 1.0}), "Grid").to_dict())
    assert ">up to 0.016</text>" in svg
    assert ">0.016</text>" in svg
    assert ">0.02</text>" not in svg


@pytest.mark.parametrize(("most", "end", "said"), [(0.0123, 0.0123, "up to 0.012"), (0.1, 1.0, None), (0.7, 1.0, None)])
def test_a_scale_ends_at_the_largest_value_where_a_tenth_of_it_would_be_more(
    most: float, end: float, said: str | None
) -> None:
    colour = drawn(carried=most)[0]["encoding"]["color"]
    assert colour["scale"]["domain"] == [0, end]
    assert colour["legend"].get("title") == said
    assert drawn(top=None, carried=most)[0]["encoding"]["color"]["legend"].get("title") is None
