"""Charts of two sides: which field is on which axis, what a pointer is told, and the numbers that lie in it."""

from __future__ import annotations

import re
from itertools import pairwise

import polars as pl
import pytest
import vl_convert

from headwise.plots.differences import NOBODY, against, change_grids, matching
from headwise.plots.theme import themed
from references.specs import signature, sizes, views

TABLE = pl.DataFrame(
    {
        "layer": [0, 0, 1, 1], "head": [0, 1, 0, 1], "name": ["L0.H0", "L0.H1", "L1.H0", "L1.H1"],
        "matched": ["L0.H1", "L0.H0", "L1.H0", "L1.H1"], "what": ["entropy"] * 4, "a": [1.0, 2.0, 3.0, 4.0],
        "b": [1.5, 2.0, 2.0, 4.5], "change": [0.5, 0.0, -1.0, 0.5], "clear": [True, False, True, False],
        "low": [0.4, -0.1, -1.2, -0.1], "high": [0.6, 0.1, -0.8, 1.1],
    }
)  # fmt: skip
PAIRS = pl.DataFrame(
    {"layer": [0, 0, 1], "matched_layer": [1, 1, 0], "cost": [0.2, 0.4, 0.6], "name": ["a", "b", "c"],
     "matched": ["d", "e", "f"]}
)  # fmt: skip

LETTER = 6.0  # pixels of a digit


def test_changes_lie_by_layer_and_head_about_zero() -> None:
    spec = change_grids(TABLE, {"entropy": "Entropy"}, layers=2, heads=2).to_dict()
    assert signature(spec) == "rect(x=head y=layer color=change) circle(x=head y=layer)"
    cells, _ = views(spec)
    assert cells.told == {"name", "matched", "a", "b", "change"}
    assert {(row["layer"], row["head"]): row["change"] for row in cells.rows}[1, 0] == -1.0
    (panel,) = spec["concat"]
    assert panel["title"]["text"] == "Entropy"
    assert panel["layer"][0]["encoding"]["color"]["scale"]["domain"] == [-1.0, 1.0]
    assert panel["layer"][1]["transform"] == [{"filter": "datum.clear"}]
    assert min(sizes(spec)) >= 20


def test_every_head_has_its_place_and_those_that_are_not_compared_are_grey() -> None:
    """Rows and columns without a compared head were missing, as if their neighbours were adjacent, and white."""
    spec = change_grids(TABLE, {"entropy": "Entropy"}, layers=3, heads=4).to_dict()
    assert signature(spec) == "rect(x=head y=layer) rect(x=head y=layer color=change) circle(x=head y=layer)"
    missing, cells, _ = views(spec)
    there = [(row["layer"], row["head"]) for row in cells.rows]
    assert sorted([*there, *((row["layer"], row["head"]) for row in missing.rows)]) == [
        (layer, head) for layer in range(3) for head in range(4)
    ]
    (panel,) = spec["concat"]
    assert panel["layer"][0]["mark"]["color"] == NOBODY
    for layer in panel["layer"]:
        assert (layer["encoding"]["x"]["scale"], layer["encoding"]["y"]["scale"]) == (
            {"domain": [0, 1, 2, 3]}, {"domain": [0, 1, 2]},
        )  # fmt: skip


@pytest.mark.parametrize(("lift", "least"), [(0.0, 0.0), (-1.5, -1.7)])
def test_an_axis_of_what_is_nowhere_below_zero_starts_there(lift: float, least: float) -> None:
    """An interval reached below 0, and the axis of a share began at −0.05."""
    table = TABLE.with_columns(a=pl.col("a") + lift, b=pl.col("b") + lift, low=pl.lit(-1.2))
    line, *_ = views(against(table, {"entropy": "Entropy"}, a="before", b="after").to_dict())
    assert min(row["x"] for row in line.rows) == pytest.approx(least)


def test_both_axes_are_the_same_so_that_the_line_of_no_change_is_the_diagonal() -> None:
    *_, points = against(TABLE, {"entropy": "Entropy"}, a="before", b="after").to_dict()["concat"][0]["layer"]
    scales = [points["encoding"][axis]["scale"] for axis in "xy"]
    assert scales[0] == scales[1]
    assert scales[0]["zero"] is False, "else altair starts one of them at 0"


@pytest.mark.parametrize(("least", "most"), [(0.0, 0.9), (0.0, 0.297), (0.1, 5.3), (0.0, 0.04)])
def test_the_numbers_of_an_axis_do_not_touch(least: float, most: float) -> None:
    """They were "0.00.1" and "0.80.9", and "0.25 0.30" in one."""
    table = TABLE.with_columns(a=pl.Series([least, most, least, most]), b=pl.Series([least, most, most, least]),
                               low=pl.lit(None, pl.Float64), high=pl.lit(None, pl.Float64))  # fmt: skip
    spec = themed(against(table, {"entropy": "Entropy"}, a="before", b="after"), "Both").to_dict()
    drawn = vl_convert.vegalite_to_svg(spec)
    numbers = re.findall(r'<text text-anchor="(\w+)" transform="translate\(([\d.]+),16\)"[^>]*>([\d.]+)<', drawn)
    assert len(numbers) >= 3
    ends = [spread(at, float(x), LETTER * len(said)) for at, x, said in numbers]
    assert all(right + LETTER < left for (_, right), (left, _) in pairwise(ends))


def spread(anchor: str, x: float, width: float) -> tuple[float, float]:
    left = x - width * {"start": 0, "middle": 0.5, "end": 1}[anchor]
    return left, left + width


def test_one_side_against_the_other_with_the_interval_of_the_change() -> None:
    spec = against(TABLE, {"entropy": "Entropy"}, a="before", b="after").to_dict()
    assert signature(spec) == "line(x=x y=x) rule(x=a y=bottom y2=top color=clear) circle(x=a y=b color=clear)"
    line, bars, points = views(spec)
    assert [row["x"] for row in line.rows] == [1.0, 5.1]  # from the least to the most, intervals included: 4 + 1.1
    assert points.told == {"name", "matched", "a", "b", "low", "high"} <= set(points.rows[0])
    assert [(row["bottom"], row["top"]) for row in bars.rows][:2] == [(1.4, 1.6), (1.9, 2.1)]
    encoded = spec["concat"][0]["layer"][2]["encoding"]
    assert (encoded["x"]["title"], encoded["y"]["title"]) == ("before", "after")


def test_heads_are_counted_from_layer_to_layer() -> None:
    spec = matching(PAIRS, a="old", b="new", unit="distance").to_dict()
    assert signature(spec) == (
        "circle(x=layer y=matched_layer color=cost size=heads) text(x=layer y=matched_layer text=heads)"
    )
    circles, _ = views(spec)
    assert circles.told == {"layer", "matched_layer", "heads", "cost"}
    found = {(row["layer"], row["matched_layer"]): (row["heads"], round(row["cost"], 9)) for row in circles.rows}
    assert found == {(0, 1): (2, 0.3), (1, 0): (1, 0.6)}
    encoded = spec["layer"][0]["encoding"]
    assert (encoded["x"]["title"], encoded["y"]["title"]) == ("layer of old", "layer of new")
    assert (encoded["color"]["title"], encoded["x"]["scale"]["domain"]) == ("distance", [0, 1])
