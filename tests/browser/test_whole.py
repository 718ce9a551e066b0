"""Whatever is drawn is seen whole, or fades where it goes on; and what is shown has its name and its numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from browser.conftest import Opened
from headwise.reports.comparison.page import page_of
from headwise.viewer.build import html_of
from headwise.viewer.of_trace import page_of_trace
from headwise.viewer.payload import Page
from viewer.samples import full_page

pytestmark = pytest.mark.browser
Open = Callable[..., Opened]
CUT = "e => e.scrollWidth > e.clientWidth + 1"


@pytest.fixture(scope="module")
def page() -> Page:
    return full_page()


def test_layer_by_layer_names_the_head_and_whose_the_lamps_are(page: Page, open_html: Open) -> None:
    opened = open_html(html_of(page), "#view=layers&layer=1&head=2").drawn()
    assert opened.page.inner_text(".about h2") == "Raw attention, head 2 of every layer"
    assert opened.page.inner_text(".badge .lamps-of") == "L1.H2 alone:"
    opened.to(view="layers", quantity="hidden-token")
    assert opened.page.inner_text(".about h2").endswith(", every layer"), "heads are merged there"
    opened.to(view="matrix", quantity="raw", layer=1, head=2)
    assert opened.page.inner_text(".about h2") == "Raw attention, L1.H2"


def test_the_scale_says_the_largest_value_beside_its_round_end(page: Page, open_html: Open) -> None:
    largest = float(np.nanmax(page.stacks[0].quantities[0].values[1, 2]))
    opened = open_html(html_of(page), "#view=matrix&layer=1&head=2").drawn()
    assert float(opened.page.locator(".ends span").last.inner_text()) > largest + 0.005
    assert opened.page.inner_text(".scale figcaption").endswith(f"; the largest value shown is {largest:.3f}")
    opened.to(view="model")
    assert "largest value shown" not in opened.page.inner_text(".scale figcaption"), "each map has its own there"


def test_maps_that_are_the_same_are_said_to_be(page: Page, open_html: Open) -> None:
    opened = open_html(html_of(page), "#view=compare&quantity=raw&quantity2=raw&layer=1&head=2").drawn()
    assert opened.page.inner_text(".finding") == "The two maps are the same, to the digits that the page holds."
    opened.to(view="compare", quantity="raw", quantity2="effective")
    assert opened.page.inner_text(".finding").startswith(
        "Two quantities of one model. Pearson correlation of the two maps: 0."
    )


@pytest.mark.parametrize("width", [420, 800, 1300])
def test_the_last_row_of_the_model_has_its_frame(width: int, page: Page, open_html: Open) -> None:
    opened = open_html(html_of(page), "#view=model&layer=1&head=2", width=width).drawn()
    frame = opened.page.locator(".thumb.here").bounding_box()
    box = opened.page.locator("#view").bounding_box()
    assert frame["y"] + frame["height"] + 3 <= box["y"] + box["height"], "its outline stands three pixels off"


def test_a_drawing_that_goes_on_fades_at_its_edge(open_html: Open) -> None:
    wide = html_of(full_page(heads=23))
    opened = open_html(wide, "#view=model", width=420).drawn()
    assert "more" in opened.page.get_attribute("#view", "class")
    assert "gradient" in opened.page.evaluate("getComputedStyle(document.getElementById('view')).maskImage")
    opened.page.evaluate("document.getElementById('view').scrollLeft = 1e6")
    opened.until("!document.getElementById('view').classList.contains('more')")


@pytest.mark.parametrize("width", [420, 800])
def test_no_reason_is_cut(width: int, load, open_html: Open) -> None:
    made = page_of_trace(load("tiny:bert").trace("the internationalisation of the river"), besides=())
    layer, head, query, key = made.stacks[0].why[0]["at"]
    link = f"#view=matrix&layer={layer}&head={head}&token={query}&key={key}"
    opened = open_html(html_of(made), link, width=width).drawn()
    names = opened.page.locator(".why-name")
    assert names.count() > 3
    assert [name.inner_text() for name in names.all() if name.evaluate(CUT)] == []


def comparison(number: str) -> str:
    row = {"stack": "self", "name": "L0.H0", "matched": "L0.H0", "what": number, "a": 0.25, "b": 0.5, "change": 0.25,
           "low": 0.1, "high": 0.4, "clear": True}  # fmt: skip
    settings = {"intervals": True, "documents": 9, "paired": True, "match": "position"}
    manifest = {"settings": settings, "sides": [], "versions": {}, "platform": "", "time": "", "seed": 0}
    return page_of(manifest, pl.DataFrame([row]), {}, "A", "B")


def test_tables_of_a_comparison_are_whole_on_a_phone_and_shaded_where_they_go_on(open_html: Open) -> None:
    opened = open_html(comparison("to_first"), width=420)
    assert [sheet.inner_text() for sheet in opened.page.locator(".sheet").all() if sheet.evaluate(CUT)] == []
    heads = "all => all.map((cell) => getComputedStyle(cell, '::before').content)"
    told = opened.page.eval_on_selector_all(".sheet:last-of-type td", heads)
    assert {'"low "', '"high "', '"number "'} <= {one.replace('" " "', ' "') for one in told}, "each says its column"
    dark = open_html(comparison("to_first").replace("<h2>Figures</h2>", '<img alt="">'), theme="dark").page
    assert "invert" in dark.evaluate("getComputedStyle(document.querySelector('img')).filter"), (
        "figures follow the theme"
    )
    assert not dark.locator("pre").is_visible(), "and the settings are folded away"
    wide = open_html(comparison("x" * 200), width=800)
    assert any(sheet.evaluate(CUT) for sheet in wide.page.locator(".sheet").all())
    shade = wide.page.evaluate("getComputedStyle(document.querySelector('.sheet')).backgroundAttachment")
    assert shade.startswith("local, scroll"), "the shade at the right goes when the end is reached"
    assert wide.page.evaluate("getComputedStyle(document.querySelector('table')).backgroundColor") == "rgba(0, 0, 0, 0)"


def test_a_link_that_names_a_head_draws_that_head(page: Page, open_html: Open) -> None:
    """The heading said L0.H1 above the lines of the head that the page opens with."""
    opening = {"stack": "self", "layer": 1, "head": 2, "heads": "2"}
    html = html_of(replace(page, start=opening))
    opened = open_html(html, "#view=head&layer=0&head=1&quantity=raw").drawn()
    assert opened.page.locator(".chip.on").all_inner_texts() == ["H1"]
    assert opened.page.inner_text(".about h2").endswith("L0.H1")
    opened.to(view="head", layer=0, head=1, heads="all", quantity="raw")
    assert opened.page.locator(".chip.on").count() == 3
