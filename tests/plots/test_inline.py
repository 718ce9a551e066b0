"""A chart in a notebook needs no network: it is drawn here, and nothing of altair is changed for others."""

import altair as alt
import polars as pl

from headwise.plots.theme import themed

CHART = alt.Chart(pl.DataFrame({"x": [1, 2]})).mark_bar().encode(x="x:O")


def test_a_chart_shows_itself_as_svg() -> None:
    chart = themed(CHART, "A title", "and what it says")
    shown = chart._repr_mimebundle_(include=None, exclude=None)
    assert list(shown) == ["image/svg+xml"]
    assert "A title" in shown["image/svg+xml"]
    assert "<script" not in shown["image/svg+xml"]
    assert "_repr_mimebundle_" not in chart.to_dict()
    assert alt.renderers.active == "default"
