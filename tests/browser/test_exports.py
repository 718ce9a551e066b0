"""What the reader saves is a valid picture: vectors where the view is one, and every view as PNG."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from browser.conftest import Opened
from headwise.viewer.build import html_of
from headwise.viewer.payload import Page, Stack
from viewer.samples import TOKENS, full_page, quantity, side, softmax

pytestmark = pytest.mark.browser
Open = Callable[..., Opened]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def html() -> str:
    return html_of(full_page())


def saved(opened: Opened, kind: str) -> Path:
    with opened.page.expect_download() as download:
        opened.page.click(f'[data-tool="{kind}"]')
    assert download.value.suggested_filename.endswith(f".{kind}")
    return Path(download.value.path())


@pytest.mark.parametrize("view", ["head", "model", "matrix", "compare", "text", "layers"])
def test_each_view_is_saved_as_svg_and_png(view: str, html: str, open_html: Open) -> None:
    opened = open_html(html, f"#view={view}").drawn()
    root = ET.fromstring(saved(opened, "svg").read_text("utf-8"))
    assert root.tag == f"{SVG}svg"
    assert (root.find(f".//{SVG}image") is not None) == (view == "model")  # all others are vectors throughout
    picture = saved(opened, "png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    width = int.from_bytes(picture[16:20], "big")
    assert width == pytest.approx(2 * float(root.get("width", 0)), abs=2)


def test_a_saved_picture_says_what_it_shows(html: str, open_html: Open) -> None:
    opened = open_html(html, "#view=matrix&layer=1&head=2").drawn()
    root = ET.fromstring(saved(opened, "svg").read_text("utf-8"))
    said = [text.text or "" for text in root.iterfind(f"{SVG}g[@class='said']/{SVG}text")]
    assert said[:1] == ["Text: the unseen cats"]
    words = " ".join(said[1:])
    assert words.startswith("tiny · Raw attention, L1.H2 Colours from 0 to ")
    assert "weight, scale of what is shown; the largest value shown is 0." in words
    height = float(root.get("height", 0))
    assert max(float(text.get("y", 0)) for text in root.iterfind(f"{SVG}g[@class='said']/{SVG}text")) < height
    assert root.get("viewBox", "").endswith(f" {root.get('height')}")
    opened.to(view="head", heads="0,2")
    assert "heads 0,2" in saved(opened, "svg").read_text("utf-8")


def test_lines_and_cells_are_vectors(html: str, open_html: Open) -> None:
    opened = open_html(html, "#view=head&heads=all").drawn()
    lines = ET.fromstring(saved(opened, "svg").read_text("utf-8"))
    assert len(lines.findall(f".//{SVG}path")) > TOKENS
    assert {text.text for text in lines.iter(f"{SVG}text")} >= {"##seen", "cats"}
    opened.to(view="matrix")
    cells = ET.fromstring(saved(opened, "svg").read_text("utf-8"))
    assert len(cells.findall(f".//{SVG}path")) > 5


def test_a_map_drawn_on_canvas_is_still_saved_as_vectors(open_html: Open) -> None:
    tokens = side(tuple(f"t{n}" for n in range(113)))
    stack = Stack("self", tokens, tokens, (quantity("raw", "attention", softmax((1, 1, 113, 113))),))
    opened = open_html(html_of(Page("", "", (stack,))), "#view=matrix").drawn()
    assert opened.page.locator("#view canvas.cells-canvas").count() == 1
    root = ET.fromstring(saved(opened, "svg").read_text("utf-8"))
    assert root.find(f".//{SVG}image") is None
    assert sum(path.get("d", "").count("M") for path in root.iter(f"{SVG}path")) > 113
