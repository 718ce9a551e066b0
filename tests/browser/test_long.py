"""The page of a long text: a click on a block shows its tokens, a token says what it attends to."""

from __future__ import annotations

from typing import Any

import pytest

import headwise as hw
from headwise.viewer.long import page

pytestmark = pytest.mark.browser
TEXT = " ".join(["the old dog sat in the sun and it was said again , of the river"] * 4)


def said(opened: Any) -> list[int]:
    """The keys that the page names, strongest first."""
    return [int(line.split("· ")[1].split(":")[0]) for line in opened.page.locator("ol.keys li").all_inner_texts()]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_from_blocks_to_tokens(open_html, load, theme: str) -> None:
    trace = load("tiny:gpt2").trace(TEXT, keep=hw.Top(4, ("raw", "norm")))
    opened = open_html(page(trace, heads=["L1.H2"]), theme=theme)
    whole = opened.page.get_by_role("img", name="blocks of L1.H2")
    rows = -(-len(trace.tokens) // 64)
    size = whole.bounding_box()
    opened.page.mouse.click(size["x"] + size["width"] / rows / 2, size["y"] + size["height"] * 1.5 / rows)  # cell 1, 0
    assert "From tokens 64–" in opened.page.locator(".tokens p.muted").first.inner_text()
    opened.page.get_by_role("spinbutton").fill("70")
    opened.page.get_by_role("spinbutton").press("Enter")
    top = trace.top()
    strong = [key for key, value in zip(top.key[1, 2, 70].tolist(), top.value[1, 2, 70].tolist(), strict=True)
              if round(255 * value / float(top.value[1, 2].max())) > 0]  # fmt: skip
    assert said(opened) == strong
    assert "4 strongest entries are kept" in opened.page.inner_text("p.muted >> nth=0")
    opened.page.get_by_label("Shown", exact=True).select_option("1")
    assert said(opened)[0] == int(trace.top("norm").key[1, 2, 70, 0])
    opened.page.get_by_label("Head", exact=True).select_option("0")
    assert 'heads=["L1.H0"]' in opened.page.inner_text("p.none")
