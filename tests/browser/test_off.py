"""A head is switched off by a click: the page shows the maps without it, what the model then says, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from browser.conftest import Opened
from headwise.viewer.build import html_of
from headwise.viewer.payload import Page, Switched
from viewer.samples import full_page, quantity

pytestmark = pytest.mark.browser
Open = Callable[..., Opened]
BEFORE, AFTER = "Next comes: “cats” (90 %)", "Next comes: “<b>dogs</b>” (80 %)"


def page_with_a_switch() -> Page:
    page = full_page()
    (stack,) = page.stacks
    changed = stack.quantities[0].values.copy()
    changed[1, 2] = np.roll(changed[1, 2], 1, axis=-1)
    maps = quantity("without-L0.H1", "attention", changed)
    moved = (("self", 1, 2, 0.4), ("self", 1, 0, 0.004))
    one = Switched("L0.H1", "self", 0, 1, maps.name, "The loss goes up by 2 nats.", AFTER, moved)
    return replace(
        page, stacks=(replace(stack, quantities=(*stack.quantities, maps)),), off=(one,), answer=BEFORE, live=True
    )


@pytest.fixture(scope="module")
def html() -> str:
    return html_of(page_with_a_switch())


def test_a_click_switches_it_off_and_another_on_again(html: str, open_html: Open) -> None:
    opened = open_html(html, "#view=matrix&layer=0&head=1").drawn()
    page = opened.page
    assert page.locator(".off").inner_text() == "Switch L0.H1 off"
    page.click('[data-switch="L0.H1"]')
    opened.drawn()
    assert opened.shown == "self without-L0.H1 1 2", "it goes to the map that moves most"
    assert page.get_attribute(".off", "data-off") == "L0.H1"
    assert page.locator(".badge .lamp").count() == 0, "the lamps are of the model as it is, not of the one without"
    assert page.inner_text(".badge").endswith("with a head off its maps were not judged.")
    said = page.locator(".off").inner_text()
    assert "L0.H1 is switched off. The loss goes up by 2 nats." in said
    assert "L1.H2 40 %" in said
    assert "L1.H0 < 1 %" in said
    assert page.locator(".off q").all_inner_texts() == [BEFORE, AFTER]  # as text: no element is made of it
    held = " ".join(page.locator(".notes li").all_text_contents())
    assert "L0.H1" in held
    assert "l0.h1" not in held, "names keep their case"
    page.click('[data-moved="self L1.H0"]')
    opened.drawn()
    assert opened.shown == "self without-L0.H1 1 0"
    page.click("[data-before-after]")
    opened.drawn()
    assert page.locator("#view .heat").count() == 2
    assert opened.hash()["quantity2"] == "without-L0.H1"
    page.click("[data-on]")
    opened.drawn()
    assert opened.shown == "self raw 1 0"
    assert page.get_attribute(".off", "data-off") == ""


def test_side_by_side_compares_like_with_like_or_says_that_it_does_not(html: str, open_html: Open) -> None:
    """ "Largest difference" was of raw weights with a head off and of effective ones of the model as it is."""
    opened = open_html(html, "#view=compare&layer=1&head=2&quantity=without-L0.H1").drawn()
    page = opened.page
    assert page.input_value('[data-control="quantity2"]') == "raw"
    models = "on the left the model with L0.H1 off, on the right as it is. Pearson"
    assert page.inner_text(".finding").startswith(f"One quantity of two models: {models}")
    opened.to(view="compare", layer=1, head=2, quantity="without-L0.H1", quantity2="effective")
    both = "Two models and two quantities, so the numbers do not tell what switching a head off changed: "
    assert page.inner_text(".finding").startswith(both + models)
    opened.to(view="compare", layer=1, head=2, quantity="raw")
    assert page.input_value('[data-control="quantity2"]') == "effective"
    assert page.inner_text(".finding").startswith("Two quantities of one model. Pearson")
    opened.to(view="compare", layer=1, head=2, quantity="effective")
    assert page.input_value('[data-control="quantity2"]') == "raw", "never a map beside itself, unasked"


def test_other_heads_are_offered_by_name_and_a_file_is_never_live(html: str, open_html: Open) -> None:
    opened = open_html(html, "#view=model").drawn()
    assert "Switch a head off and see what changes: L0.H1" in opened.page.locator(".off").inner_text()
    opened.to(view="matrix", layer=1, head=1)
    assert opened.page.locator("[data-live]").count() == 0
    opened.to(quantity="norm-sum")
    assert not opened.page.locator(".off").is_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_a_narrow_window(theme: str, html: str, open_html: Open) -> None:
    opened = open_html(html, "#quantity=without-L0.H1", width=400, theme=theme).drawn()
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 400


def test_a_neighbour_that_stays_is_said_once(open_html: Open) -> None:
    page = page_with_a_switch()
    said = "Of 32 sentences, read with it, the nearest is “A cat.” (cos {})"
    one = replace(page.off[0], answers=said.format("0.79"))
    opened = open_html(html_of(replace(page, answer=said.format("0.83"), off=(one,))), "#layer=0&head=1").drawn()
    opened.page.click('[data-switch="L0.H1"]')
    opened.drawn()
    assert opened.page.inner_text("[data-after]") == "before and without it nearest to “A cat.”: cos 0.83 → 0.79"


def test_a_page_without_switches_has_no_such_line(open_html: Open) -> None:
    assert not open_html(html_of(full_page())).drawn().page.locator(".off").is_visible()
