"""The figure of a head by its specification: which field is on which axis, the data that lie in it, its titles."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from headwise.plots.head import Panel, Row, head_figure

MATRIX = np.arange(6.0).reshape(2, 3)
ROW = Row("From “b” (token 1)", pl.DataFrame(
    {"key": ["0000␟x"], "raw": [0.5], "effective": [0.25], "low": [0.125], "high": [0.75]}
))  # fmt: skip


def spec(row: Row | None = None) -> dict[str, Any]:
    panels = [
        Panel("raw", "Raw: the weights", MATRIX, signed=True, top=7.0, unit="weight"),
        Panel("norm", "Norm", 2 * MATRIX, signed=False, top=9.0, unit="length"),
    ]
    return head_figure(
        panels, ("a", "b"), ("x", "y", "z"), title="demo, layer 3, head 4 (L3.H4)", caption=["One.", "Two."], row=row
    ).to_dict()


def maps_of(figure: dict[str, Any]) -> list[dict[str, Any]]:
    found = []

    def look(part: Any) -> None:
        if isinstance(part, dict):
            if isinstance(part.get("mark"), dict) and part["mark"].get("type") == "rect":
                found.append(part)
            for value in part.values():
                look(value)
        elif isinstance(part, list):
            for value in part:
                look(value)

    look(figure)
    return found


def test_rows_attend_and_columns_are_attended_to() -> None:
    figure = spec()
    raw, norm = maps_of(figure)
    for panel in (raw, norm):
        assert (panel["encoding"]["y"]["field"], panel["encoding"]["x"]["field"]) == ("from", "to")
        assert (panel["encoding"]["y"]["title"], panel["encoding"]["x"]["title"]) == ("from", "to")
        assert panel["encoding"]["color"]["field"] == "value"
    assert (raw["title"]["text"], norm["title"]["text"]) == ("Raw: the weights", "Norm")
    data = figure["datasets"][raw["data"]["name"]]
    assert {(cell["from"][5:], cell["to"][5:]): cell["value"] for cell in data} == {
        ("a", "x"): 0.0, ("a", "y"): 1.0, ("a", "z"): 2.0, ("b", "x"): 3.0, ("b", "y"): 4.0, ("b", "z"): 5.0,
    }  # fmt: skip


def test_signed_maps_have_a_scale_about_zero() -> None:
    raw, norm = maps_of(spec())
    assert raw["encoding"]["color"]["scale"]["domain"] == [-7.0, 7.0]
    assert norm["encoding"]["color"]["scale"]["domain"] == [0, 9.0]
    assert (raw["encoding"]["color"]["title"], norm["encoding"]["color"]["title"]) == ("weight", "length")


def test_the_title_and_the_caption_are_those_given() -> None:
    title = spec()["title"]
    assert title["text"] == "demo, layer 3, head 4 (L3.H4)"
    assert title["subtitle"] == ["One.", "Two."]


def test_whiskers_span_the_interval_and_dots_are_weight_and_effective_part() -> None:
    figure = spec(ROW)
    layered = [part for part in figure["vconcat"] if "layer" in part]
    assert len(layered) == 1
    assert layered[0]["title"]["text"] == ROW.title
    rule, dots = layered[0]["layer"]
    assert (rule["encoding"]["y"]["field"], rule["encoding"]["y2"]["field"]) == ("low", "high")
    assert (dots["encoding"]["x"]["field"], dots["encoding"]["y"]["field"]) == ("key", "value")
    assert (dots["encoding"]["color"]["field"], dots["encoding"]["shape"]["field"]) == ("shown", "shown")
    shown = figure["datasets"][dots["data"]["name"]]
    assert {dot["shown"]: dot["value"] for dot in shown} == {"weights": 0.5, "effective": 0.25}
