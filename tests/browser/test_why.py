"""A click on a cell of a map: why the head looks there, from the file itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from browser.conftest import Opened
from headwise.viewer.build import html_of
from headwise.viewer.of_trace import page_of_trace
from headwise.viewer.payload import Page, numbered

pytestmark = pytest.mark.browser
Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def made(load) -> Page:
    return page_of_trace(load("tiny:bert").trace("the <b>river</b> of the city"), besides=())


def click(opened: Opened, query: int, key: int) -> None:
    opened.page.locator("#view .heat svg").click(position=centre(opened, query, key))
    opened.drawn()


def hover(opened: Opened, query: int, key: int) -> None:
    opened.page.locator("#view .heat svg").hover(position=centre(opened, query, key))


def centre(opened: Opened, query: int, key: int) -> dict[str, float]:
    picture = opened.page.locator("#view .heat svg")
    whole, frame = picture.bounding_box(), picture.locator("> rect").first.bounding_box()
    rows, cols = (opened.page.locator(f"#view .{side}-label").count() for side in ("row", "col"))
    x, y = (frame[a] - whole[a] + frame[size] * (at + 0.5) / count
            for a, size, at, count in (("x", "width", key, cols), ("y", "height", query, rows)))  # fmt: skip
    return {"x": x, "y": y}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_cell_says_why(made: Page, open_html: Open, theme: str) -> None:
    one = made.stacks[0].why[0]
    layer, head, query, key = one["at"]
    opened = open_html(html_of(made), f"#view=matrix&layer={layer}&head={head}", theme=theme, width=420).drawn()
    assert opened.page.locator(".why").is_hidden()
    click(opened, query, key)
    tokens = numbered(made.stacks[0].queries.tokens)
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
    tokens = numbered(made.stacks[0].queries.tokens)
    assert f"“{tokens[query]}” to “{tokens[key]}”" in opened.drawn().page.inner_text(".why h3")
    assert opened.page.locator(".why li").count() > 0


def test_cells_of_words_that_are_there_twice_are_told_apart(load, open_html: Open) -> None:
    page = page_of_trace(load("tiny:bert").trace("the cat saw the cat and the cat ran"), besides=())
    stack = page.stacks[0]
    names = numbered(stack.queries.tokens)
    assert {"the (1st)", "the (2nd)", "the (3rd)"} <= {*names}
    opened = open_html(html_of(page), "#view=matrix&token=0&key=0").drawn()
    for one in stack.why:
        layer, head, query, key = one["at"]
        link = opened.page.locator(f'[data-cell="{layer},{head},{query},{key}"]').first
        assert link.inner_text() == f"L{layer}.H{head} {names[query]} → {names[key]}"
    links = {each.get_attribute("data-cell"): each.inner_text() for each in opened.page.locator("[data-cell]").all()}
    assert len({*links.values()}) == len(links), "no two cells have one name"
    roomy = next(one["at"] for one in stack.why if one["rivals"])
    opened.page.locator(f'[data-cell="{",".join(map(str, roomy))}"]').first.click()
    said = opened.drawn().page.inner_text(".why-rivals")
    assert f"Drag the weight of “{names[roomy[3]]}”" in said
    assert "the (3rd)" in opened.page.locator(".why-rivals .why-name").all_inner_texts()
    the = names.index("the (2nd)")
    opened.to(view="text", token=the, way="from")
    assert opened.page.inner_text(".headline mark") == "the (2nd)"
    opened.page.hover(f'.word[data-at="{names.index("the (3rd)")}"]')
    assert "“the (2nd)” takes from “the (3rd)”" in opened.page.inner_text(".tip")
    opened.to(view="matrix", token=-1)
    click(opened, the, the)
    opened.page.mouse.move(0, 0)
    hover(opened, the, the)
    assert opened.page.inner_text(".tip").split("\n")[1:] == ["from: the (2nd)", "to: the (2nd)"]
    opened.to(view="head", heads="0", layer=0)
    opened.page.hover(f'.token.from[data-at="{the}"]')
    assert opened.page.inner_text(".tip").startswith("the (2nd)")
    opened.to(view="layers", token=the)
    assert "“the (2nd)” through the layers" in opened.page.text_content("#view svg")


def test_the_number_of_a_word_is_written_as_in_python(load, open_html: Open) -> None:
    page = page_of_trace(load("tiny:bert").trace("the " * 23), quantities=["raw"])
    names = numbered(page.stacks[0].queries.tokens)
    opened = open_html(html_of(page), "#view=text&way=from").drawn()
    for token in (1, 2, 3, 4, 11, 12, 13, 21, 22, 23):
        for words in (0, 1):
            opened.to(view="text", token=token, words=words)
            assert opened.page.inner_text(".headline mark") == names[token]


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
