"""The page of a comparison: on a telephone its panels stand below each other, and can be read."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

from browser.conftest import Opened
from headwise.reports.comparison.page import figures_of, page_of

Open = Callable[..., Opened]
NUMBERS = ("to_first", "to_separator", "entropy")


@pytest.fixture(scope="module")
def compared() -> str:
    rows = [{"stack": "self", "layer": 0, "head": head, "name": f"L0.H{head}", "matched_layer": 0,
             "matched": f"L0.H{head}", "what": what, "cost": 0.5, "a": 0.25, "b": 0.5, "change": 0.25, "low": 0.1,
             "high": 0.4, "clear": True} for head in range(12) for what in NUMBERS]  # fmt: skip
    table = pl.DataFrame(rows)
    settings = {"intervals": True, "documents": 12, "paired": True, "match": "profile"}
    manifest = {"settings": settings, "sides": [], "versions": {}, "platform": "", "time": "", "seed": 0}
    names = ("./before on reviews.csv", "./after on reviews.csv")
    return page_of(manifest, table, figures_of(table, *names, settings, {"self": [1, 12]}), *names)


@pytest.mark.parametrize(("width", "below"), [(400, True), (641, False)])
def test_panels_stand_below_each_other_on_a_telephone(width: int, below: bool, compared: str, open_html: Open) -> None:
    """Figures of 1228 and 985 pixels were squeezed to 374: their letters had three."""
    pictures = open_html(compared, width=width).page.evaluate(
        "[...document.images].map((one) => [one.naturalWidth, one.naturalHeight, one.clientWidth])"
    )
    assert len(pictures) == 3
    grids, points, _ = pictures
    assert [tall > wide for wide, tall, _ in (grids, points)] == [below, below]
    if below:
        assert all(shown >= 0.85 * wide for wide, _, shown in pictures), "of its own size, as in report.js"
