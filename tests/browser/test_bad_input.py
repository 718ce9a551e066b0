"""Hostile tokens stay text; empty, single and very long inputs give a page that says what it shows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from browser.conftest import Opened
from headwise.viewer.build import frame_of, html_of
from headwise.viewer.payload import Page, Side, Stack
from viewer.samples import full_page, quantity, side, softmax

pytestmark = pytest.mark.browser
Open = Callable[..., Opened]

EVIL = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    '"><img src=x onerror=alert(3)>',
    "javascript:alert(4)",
    "<svg onload=alert(5)>",
    "a\u2028b\u2029",
    "nul\x00byte",
    "\u202egnorw",
    "\ud800",
    "&lt;b&gt;",
    "",
)


def page_of(values: np.ndarray, tokens: Side) -> Page:
    return Page("", "", (Stack("self", tokens, tokens, (quantity("raw", "attention", values),)),))


@pytest.mark.parametrize("view", ["head", "model", "matrix", "compare", "text", "layers"])
def test_hostile_tokens_are_shown_and_never_run(view: str, open_html: Open) -> None:
    """The fixture fails on any dialog, request or error; here the tokens must also be readable."""
    page = full_page(EVIL)
    page = Page(EVIL[2], EVIL[1], page.stacks, ((EVIL[0], EVIL[1]),), (EVIL[2],), {"quantity": EVIL[0]})
    opened = open_html(html_of(page), f"#view={view}&quantity={EVIL[0]}").drawn()
    opened.page.click(".badge-line")
    opened.page.wait_for_timeout(100)
    assert opened.page.locator("img").count() == 0
    assert opened.page.evaluate("[...document.scripts].filter(s => !s.type).length") == 1
    body = opened.page.evaluate("document.getElementById('app').textContent")
    assert EVIL[2] in body
    if view == "text":
        words = opened.page.locator("#view .prose .word").all_inner_texts()
        assert words[0] == EVIL[0]
        assert words[5:9] == ["a⟨U+2028⟩b⟨U+2029⟩", "nul␀byte", "⟨U+202E⟩gnorw", "\ufffd"]


def test_hostile_tokens_in_a_notebook(open_html: Open) -> None:
    opened = open_html(f"<!doctype html>{frame_of(full_page(EVIL))}")
    opened.page.frame_locator("iframe").locator('#view[aria-busy="false"]').wait_for()


def test_the_policy_stops_requests_and_inline_code(open_html: Open) -> None:
    opened = open_html(html_of(full_page())).drawn()
    result = opened.page.evaluate(
        """async () => {
          const fetched = await fetch("data:text/plain,x").then(() => true, () => false);
          const script = document.createElement("script");
          script.textContent = "window.ran = true";
          document.body.append(script);
          return [fetched, window.ran === true];
        }"""
    )
    assert result == [False, False]
    blocked = [line for line in opened.trouble if "Content Security Policy" in line or "Refused" in line]
    assert len(blocked) >= 2
    opened.trouble.clear()


def test_no_tokens(open_html: Open) -> None:
    empty = Side((), (), (), (), ())
    opened = open_html(html_of(page_of(np.zeros((1, 1, 0, 0), np.float32), empty)))
    assert "nothing to show" in opened.page.inner_text("#app")


@pytest.mark.parametrize("value", [1.0, 0.0, np.nan])
def test_one_token(value: float, open_html: Open) -> None:
    opened = open_html(html_of(page_of(np.full((1, 1, 1, 1), value, np.float32), side(("one",)))))
    for view in ("head", "model", "matrix", "compare", "text", "layers"):
        opened.to(view=view)


@pytest.mark.slow
def test_two_thousand_tokens(open_html: Open) -> None:
    tokens = side(tuple(f"t{n}" for n in range(2000)))
    page = page_of(softmax((2, 1, 2000, 2000), sharpness=3.0), tokens)
    opened = open_html(html_of(page, budget=1_000_000)).drawn()
    assert "2000 tokens" in opened.page.inner_text("header")
    assert "strongest of" in opened.page.inner_text(".treatment")
    opened.page.click(".notes summary")
    assert "only some layers are here" in opened.page.inner_text(".notes")
    for view in ("matrix", "model", "text", "layers"):
        opened.to(view=view)
