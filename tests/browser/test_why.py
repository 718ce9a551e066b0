"""A click on a cell of a map: why the head looks there, from the file itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from browser.conftest import Opened
from headwise.viewer.build import html_of
from headwise.viewer.of_trace import page_of_trace
from headwise.viewer.payload import Page

pytestmark = pytest.mark.browser
Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def made(load) -> Page:
    return page_of_trace(load("tiny:bert").trace("the <b>river</b> of the city"), besides=())


def click(opened: Opened, query: int, key: int) -> None:
    picture = opened.page.locator("#view .heat svg")
    whole, frame = picture.bounding_box(), picture.locator("> rect").first.bounding_box()
    rows, cols = (opened.page.locator(f"#view .{side}-label").count() for side in ("row", "col"))
    x, y = (frame[a] - whole[a] + frame[size] * (at + 0.5) / count
            for a, size, at, count in (("x", "width", key, cols), ("y", "height", query, rows)))  # fmt: skip
    picture.click(position={"x": x, "y": y})
    opened.drawn()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_cell_says_why(made: Page, open_html: Open, theme: str) -> None:
    one = made.stacks[0].why[0]
    layer, head, query, key = one["at"]
    opened = open_html(html_of(made), f"#view=matrix&layer={layer}&head={head}", theme=theme, width=420).drawn()
    assert opened.page.locator(".why").is_hidden()
    click(opened, query, key)
    tokens = made.stacks[0].queries.tokens
    said = opened.page.inner_text(".why h3")
    assert said == f"Why does L{layer}.H{head} look from “{tokens[query]}” to “{tokens[key]}”?"
    rows = opened.page.locator(".why-sides li").all_inner_texts()
    assert len(rows) == sum(len(side["parts"]) + (side["others"] > 0) for side in one["sides"])
    component, token, part = one["sides"][0]["parts"][0]
    assert component in rows[0]
    assert token is None or f"from “{token}”" in rows[0]
    assert ("−" if part < 0 else "+") in rows[0]
    parts = opened.page.locator(".why-picture g")
    assert parts.count() == len(one["product"]["parts"])
    assert parts.first.get_attribute("data-dimensions") == "0"
    assert "The score is" in opened.page.inner_text(".why-product p")
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert opened.hash()["key"] == str(key), "a copied link opens the same cell"
    opened.page.click('[data-tool="close-why"]')
    assert opened.drawn().page.locator(".why").is_hidden()


def test_another_cell_says_where_reasons_are(made: Page, open_html: Open) -> None:
    layer, head, query, key = made.stacks[0].why[0]["at"]
    opened = open_html(html_of(made), f"#view=matrix&layer={layer}&head={head}").drawn()
    click(opened, 0, 0)  # between special tokens, which no file holds
    assert "trace.why(layer, head, query, key)" in opened.page.inner_text(".why p")
    opened.page.locator(".why p button").first.click()
    tokens = made.stacks[0].queries.tokens
    assert f"“{tokens[query]}” to “{tokens[key]}”" in opened.drawn().page.inner_text(".why h3")
    assert opened.page.locator(".why li").count() > 0


def test_the_name_of_a_row_is_still_read_as_text(made: Page, open_html: Open) -> None:
    opened = open_html(html_of(made), "#view=matrix").drawn()
    opened.page.locator("#view .row-label").nth(2).click()
    assert opened.drawn().hash()["view"] == "text"
    assert opened.hash()["token"] == "2"


def test_a_page_without_reasons_is_as_before(open_html: Open, load) -> None:
    plain = page_of_trace(load("tiny:bert").trace("the river"), quantities=["raw"])
    opened = open_html(html_of(plain), "#view=matrix").drawn()
    click(opened, 1, 1)
    assert opened.hash()["view"] == "text"
