"""The slider for rival attention: one weight follows it, the others make room, and stay weights."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from browser.conftest import Opened
from headwise.viewer.build import html_of
from headwise.viewer.of_trace import page_of_trace

pytestmark = pytest.mark.browser
Open = Callable[..., Opened]


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 400)])
def test_the_weight_follows_the_slider(load, open_html: Open, theme: str, width: int) -> None:
    page = page_of_trace(load("tiny:bert").trace("the old dog and the cat ran along the river"), besides=())
    one = next(each for each in page.stacks[0].why if each["rivals"])
    layer, head, query, key = one["at"]
    link = f"#view=matrix&layer={layer}&head={head}&token={query}&key={key}"
    opened = open_html(html_of(page), link, theme=theme, width=width).drawn()
    box, slider = opened.page.locator(".why-rivals"), opened.page.locator('[data-control="rival"]')
    own = float(box.get_attribute("data-weight"))
    assert own == pytest.approx(one["rivals"]["own"][key], abs=1e-6)
    step = (one["rivals"]["high"][key] - one["rivals"]["low"][key]) / 200
    for key_name, end in (("Home", "low"), ("End", "high")):
        slider.focus()
        slider.press(key_name)
        assert float(box.get_attribute("data-weight")) == pytest.approx(one["rivals"][end][key], abs=step)
        assert float(box.get_attribute("data-sum")) == pytest.approx(1, abs=1e-4)
        assert float(box.get_attribute("data-least")) >= -1e-6
        shown = [float(bar.get_attribute("data-weight")) for bar in box.locator("li").all()]
        assert shown == pytest.approx(one["rivals"][end], abs=2 * step), "every bar is drawn, in the order of the text"
    assert "it can be anything from" in box.locator("output").inner_text()
    opened.page.click('[data-tool="rival-back"]')
    assert float(box.get_attribute("data-weight")) == pytest.approx(own, abs=1e-9)
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_weight_that_is_pinned_down_says_so(load, open_html: Open) -> None:
    page = page_of_trace(load("tiny:bert").trace("the dog"), besides=())
    layer, head, query, key = page.stacks[0].why[0]["at"]
    opened = open_html(html_of(page), f"#view=matrix&layer={layer}&head={head}&token={query}&key={key}").drawn()
    assert "this one is pinned down" in opened.page.inner_text(".why")
    assert opened.page.locator('[data-control="rival"]').count() == 0
