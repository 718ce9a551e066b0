"""The look that all figures share, and how they are written to files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import altair as alt

from headwise.errors import InputError
from headwise.plots.tikz import tikz
from headwise.results.files import write_files
from headwise.results.inline import inline
from headwise.results.shown import worded

# Both are white at zero; orange against purple is told apart in every kind of colour blindness.
DIVERGING = ["#7f3b08", "#e08214", "#fee0b6", "#ffffff", "#d8daeb", "#8073ac", "#2d004b"]
SEQUENTIAL = ["#ffffff", "#c7e9c0", "#74c476", "#238b45", "#00441b"]
CATEGORIES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]  # Okabe and Ito
FONT = "Helvetica Neue, Helvetica, Arial, DejaVu Sans, sans-serif"
FORMATS = (".svg", ".png", ".pdf", ".tikz", ".html")
Chart = alt.Chart | alt.LayerChart | alt.HConcatChart | alt.VConcatChart | alt.FacetChart | alt.RepeatChart

LOOK = alt.Config(
    font=FONT,
    background="white",
    padding=16,
    title=alt.TitleConfig(anchor="start", fontSize=16, subtitleFontSize=12, subtitleColor="#444", offset=14),
    axis=alt.AxisConfig(labelFontSize=11, titleFontSize=12, titleFontWeight="normal", grid=False),
    legend=alt.LegendConfig(labelFontSize=11, titleFontSize=12, titleFontWeight="normal", titleLimit=260),
    view=alt.ViewConfig(stroke="#ddd"),
    range=alt.RangeConfig(category=CATEGORIES),
)

alt.data_transformers.disable_max_rows()


def themed(chart: Any, title: str, *caption: str) -> Any:
    """The chart with a title, a caption below it that says what to see, and the common look."""
    # subtle: one change for all of it, as altair copies a chart with all its parts at each `configure_…`
    told = alt.TitleParams(title, subtitle=[worded(line) for line in caption])
    return inline(chart.properties(title=told, config=LOOK))


def save_chart(chart: Any, path: str | Path) -> Path:
    """Write a chart as SVG, PNG, PDF, TikZ or one HTML page that needs no network; the file is whole or not there."""
    path = Path(path)
    if path.suffix not in FORMATS:
        raise InputError(f"A figure is written as {', '.join(FORMATS)}, but {path.name} ends otherwise; rename it.")
    options = {"inline": True} if path.suffix == ".html" else {"ppi": 150} if path.suffix == ".png" else {}
    buffer = io.BytesIO() if path.suffix in (".png", ".pdf") else io.StringIO()
    chart.save(buffer, format="svg" if path.suffix == ".tikz" else path.suffix.removeprefix("."), **options)
    content = buffer.getvalue()
    content = tikz(str(content)) if path.suffix == ".tikz" else content
    write_files(path.parent, {path.name: content if isinstance(content, bytes) else content.encode("utf-8")})
    return path
