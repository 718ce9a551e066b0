"""The page of a long text: a click on a block shows its tokens, a token says what it attends to."""

from __future__ import annotations

from typing import Any

import pytest

import headwise as hw
from headwise.viewer.long import page, payload

pytestmark = pytest.mark.browser
TEXT = " ".join(["the old dog sat in the sun and it was said again , of the river"] * 4)


def said(opened: Any) -> list[int]:
    """The keys that the page names, strongest first."""
    return [int(line.split("· ")[1].split(":")[0]) for line in opened.page.locator("ol.keys li").all_inner_texts()]


def weights(opened: Any) -> list[float]:
    """What the page says of each, to three digits."""
    return [float(line.split(" ·")[0]) for line in opened.page.locator("ol.keys li").all_inner_texts()]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_from_blocks_to_tokens(open_html, load, theme: str) -> None:
    trace = load("tiny:gpt2").trace(TEXT, keep=hw.Top(4, ("raw", "null")))
    null = trace.top("null")
    query = next(row for row in range(64, 128) if null.value[1, 2, row].min() < 0 < null.value[1, 2, row].max())
    opened = open_html(page(trace, heads=["L1.H2"]), theme=theme)
    whole = opened.page.get_by_role("img", name="blocks of L1.H2")
    rows = -(-len(trace.tokens) // 64)
    size = whole.bounding_box()
    opened.page.mouse.click(size["x"] + size["width"] / rows / 2, size["y"] + size["height"] * 1.5 / rows)  # cell 1, 0
    assert "From tokens 64–" in opened.page.locator(".tokens p.muted").first.inner_text()
    opened.page.get_by_role("spinbutton").fill(str(query))
    opened.page.get_by_role("spinbutton").press("Enter")
    top = trace.top()
    assert said(opened) == top.key[1, 2, query].tolist()
    assert weights(opened) == [float(f"{value:.2e}") for value in top.value[1, 2, query].tolist()]
    assert "4 strongest entries are kept" in opened.page.inner_text("p.muted >> nth=0")
    opened.page.get_by_label("Shown", exact=True).select_option("1")
    assert said(opened)[0] == int(null.key[1, 2, query, 0])
    assert weights(opened) == [float(f"{value:.2e}") for value in null.value[1, 2, query].tolist()]
    assert "blue is below zero" in opened.page.locator(".panels").inner_text()
    opened.page.get_by_label("Head", exact=True).select_option("0")
    assert 'heads=["L1.H0"]' in opened.page.inner_text("p.none")
    assert "the tokens of 1 head (L1.H2);" in opened.page.inner_text("p.none")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_opens_at_a_telling_head_and_says_what_a_cell_holds(open_html, load, theme: str) -> None:
    trace = load("tiny:bert").trace(TEXT, keep=hw.Top(4, ("raw",)))
    count = len(trace.tokens)
    last = count % 64
    (stack,) = payload(trace)["stacks"]
    start = stack["start"]
    name = f"L{start['head'][0]}.H{start['head'][1]}"
    opened = open_html(page(trace), theme=theme)
    assert name in opened.page.inner_text("h1")
    assert opened.page.inner_text("p.opening").startswith(f"The page opens at {name}: of all heads that are no sinks")
    assert opened.page.get_by_role("spinbutton").input_value() == str(start["query"])
    assert start["key"] in said(opened)
    whole = opened.page.locator(".panel").first
    assert "A cell adds up 64 × 64 tokens, those at the end fewer" in whole.inner_text()
    rows = -(-count // 64)
    box = opened.page.get_by_role("img", name=f"blocks of {name}").bounding_box()
    at = {"x": box["width"] - 5, "y": box["height"] / rows / 2}
    opened.page.get_by_role("img", name=f"blocks of {name}").click(position=at)
    mass = f"{float(trace.blocks()[start['head'][0], start['head'][1], 0, -1]):.1f}"[:-2]
    assert f"The marked cell, 64 × {last}, adds up to a weight of {mass}" in whole.inner_text()
    assert "; its 64 rows give 64 in all, 1 each" in whole.inner_text()
    for line, key in zip(opened.page.locator("ol.keys li").all_inner_texts(), said(opened), strict=True):
        assert line.endswith("(outside the cell)") == (key < count - last)
    if start["others"]:
        opened.page.click(f"p.opening button >> text={start['others'][0]}")
        assert start["others"][0] in opened.page.inner_text("h1")
    ground = opened.page.evaluate("""() => {
      const map = document.querySelector('.tokens canvas');
      const pixels = map.getContext('2d').getImageData(0, 0, map.width, map.height).data;
      let white = 0;
      for (let at = 0; at < pixels.length; at += 4) white += pixels[at] + pixels[at + 1] + pixels[at + 2] > 750;
      return white / (map.width * map.height);
    }""")
    assert (ground > 0.3) == (theme == "light"), "the map stands on the page's own ground"
