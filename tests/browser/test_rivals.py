"""The slider for rival attention: one weight follows it, the others make room, and stay weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 400)])
def test_the_slider_opens_at_the_models_own_weight_and_a_mouse_drags_it(
    load, open_html: Open, theme: str, width: int
) -> None:
    page = page_of_trace(load("tiny:bert").trace("the old dog and the cat ran along the river"), besides=())
    one = next(each for each in page.stacks[0].why if each["rivals"] and not each["room"])
    (own, low, high), key = (one["rivals"][name] for name in ("own", "low", "high")), one["at"][-1]
    opened = open_html(html_of(page), place(one), theme=theme, width=width).drawn()
    box, slider = opened.page.locator(".why-rivals"), opened.page.locator('[data-control="rival"]')

    def weights() -> list[float]:
        assert float(box.get_attribute("data-weight")) == pytest.approx(float(slider.input_value()), abs=1e-9)
        assert float(box.get_attribute("data-sum")) == pytest.approx(sum(own), abs=1e-4)
        return [float(bar.get_attribute("data-weight")) for bar in box.locator("li").all()]

    assert float(slider.input_value()) == pytest.approx(own[key], abs=1e-12), "exactly, not the nearest step"
    assert weights() == pytest.approx(own, abs=1e-12)
    step = (high[key] - low[key]) / 200
    for arrow, by in (("ArrowRight", 1), ("ArrowLeft", 0), ("ArrowUp", 1), ("ArrowDown", 0)):
        slider.press(arrow)
        assert weights()[key] == pytest.approx(own[key] + by * step, abs=1e-6)
    slider.scroll_into_view_if_needed()
    track, mouse, least, most = slider.bounding_box(), opened.page.mouse, low[key], high[key]
    share = (own[key] - least) / (most - least)
    height = track["y"] + track["height"] / 2
    mouse.move(track["x"] + 8 + share * (track["width"] - 16), height)
    mouse.down()
    seen = []
    for part in (1.2, 0.75, 0.25, -0.2):  # beyond both ends too
        mouse.move(track["x"] + part * track["width"], height, steps=5)
        seen.append(weights())
    mouse.up()
    for row in seen:
        assert all(weight >= -1e-6 for weight in row)
        assert all(min(ends) - 1e-4 <= weight <= max(ends) + 1e-4
                   for weight, *ends in zip(row, own, low, high, strict=True))  # fmt: skip
    assert [row[key] for row in seen] == sorted((row[key] for row in seen), reverse=True)
    assert seen[0] == pytest.approx(high, abs=1e-6)
    assert seen[-1] == pytest.approx(low, abs=1e-6)
    assert box.locator("output").inner_text().startswith(box.locator("li.chosen .why-part").inner_text()[:4])


@pytest.mark.parametrize("width", [1280, 400])
def test_the_numbers_that_are_shown_add_up(load, open_html: Open, width: int) -> None:
    """24 keys have a bar of their own; what the others weigh together stands below them, and moves too."""
    page = page_of_trace(load("tiny:bert").trace("the old dog and the cat ran along the river " * 4), besides=())
    one = next(each for each in page.stacks[0].why if each["rivals"])
    keys, key = len(one["rivals"]["own"]), one["at"][-1]
    for row, weight in (("low", 0.0), ("own", 1 / keys), ("high", 0.5)):
        one["rivals"][row] = [weight if at == key else (1 - weight) / (keys - 1) for at in range(keys)]
    opened = open_html(html_of(page), place(one), width=width).drawn()
    slider, rows = opened.page.locator('[data-control="rival"]'), opened.page.locator(".why-rivals li")
    assert rows.count() == 25
    assert rows.last.locator(".why-name").inner_text() == f"{keys - 24} others together"
    for key_name, weight in (("Tab", 1 / keys), ("Home", 0.0), ("End", 0.5)):
        slider.press(key_name)
        said = [float(number) for number in rows.locator(".why-part").all_inner_texts()]
        assert said[-1] == pytest.approx((keys - 24) * (1 - weight) / (keys - 1), abs=1e-3)
        assert sum(said) == pytest.approx(1, abs=0.005), "1.00, as the sentence has it"
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def place(one: Mapping[str, Any]) -> str:
    return "#view=matrix&layer={}&head={}&token={}&key={}".format(*one["at"])


def test_a_text_without_room_says_so_of_every_head(load, open_html: Open) -> None:
    page = page_of_trace(load("tiny:bert").trace("the dog"), besides=())
    opened = open_html(html_of(page), place(page.stacks[0].why[0])).drawn()
    said = opened.page.inner_text(".why-room")
    assert said.startswith("This weight has no room: whatever weights (none negative, with the same sum) give the head")
    assert "No weight of this head has any" in said
    assert "So it is for every head, on this text. Any other cell: trace.rival_weights(" in said
    assert opened.page.locator('[data-control="rival"], .why-room button').count() == 0


@pytest.mark.parametrize("width", [1280, 400])
def test_a_weight_without_room_leads_to_one_that_has(load, open_html: Open, width: int) -> None:
    page = page_of_trace(load("tiny:bert").trace("the old dog and"), besides=())
    why = page.stacks[0].why
    one = next(each for each in why if each["rivals"] is None and each["room"]["says"].startswith("A search of"))
    opened = open_html(html_of(page), place(one), width=width).drawn()
    assert opened.page.locator(".why-room button").count() == len(one["room"]["cells"]) > 0
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    opened.page.locator(".why-room button").first.click()
    opened.drawn().page.locator('[data-control="rival"]').wait_for()
    assert opened.page.locator(".why-room").count() == 0, "this one has room"
    narrow = next(each for each in why if each["rivals"] and each["room"])
    opened.to(**dict(part.split("=") for part in place(narrow)[1:].split("&")))
    said, key = opened.page.inner_text(".why-room"), narrow["at"][-1]
    room = narrow["rivals"]["high"][key] - narrow["rivals"]["low"][key]
    assert said.startswith(f"This weight has hardly any room ({room:.2g}")
    assert "is in other cells" not in opened.page.inner_text(".why")


def test_a_cell_that_a_file_does_not_hold_names_those_that_can_be_dragged(load, open_html: Open) -> None:
    page = page_of_trace(load("tiny:bert").trace("the old dog and"), besides=())
    why = page.stacks[0].why
    roomy = [one["at"] for one in why if one["room"] is None]
    for layer, head, *_ in (roomy[0], next(one["at"] for one in why if one["at"][:2] not in [at[:2] for at in roomy])):
        own = [at for at in roomy if at[:2] == [layer, head]]
        free = next(key for key in range(8) if [layer, head, 7, key] not in [one["at"] for one in why])
        opened = open_html(html_of(page), place({"at": [layer, head, 7, free]})).drawn()
        said = opened.page.inner_text(".why-room")
        assert f"A weight of {'this' if own else 'another'} head can be dragged at" in said
        links = [each.get_attribute("data-cell") for each in opened.page.locator(".why-room button").all()]
        assert links == [",".join(map(str, at)) for at in [*(one["at"] for one in why), *(own or roomy)]]
    pinned = page_of_trace(load("tiny:bert").trace("the dog"), besides=())
    opened = open_html(html_of(pinned), place({"at": [0, 0, 0, 0]})).drawn()
    assert "None of these weights has room to be dragged." in opened.page.inner_text(".why-room")
