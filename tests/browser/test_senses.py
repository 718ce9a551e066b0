"""The page of a picture and of a sound: what is clicked is asked, and what is said of it are the model's numbers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from headwise.viewer import senses

pytestmark = pytest.mark.browser


def heading(opened: Any) -> tuple[int, int, str]:
    """Layer, head and token of the heading."""
    found = re.search(r"what L(\d+)\.H(\d+) attends to from “(.*)”", opened.page.inner_text("h1"))
    assert found
    return int(found[1]), int(found[2]), found[3]


def named(opened: Any) -> list[str]:
    """The keys that the page names as those with most weight."""
    said = re.search(r"Most: (.*?)\. Colours", opened.page.inner_text("p.muted >> nth=0"))
    assert said
    return [part.rpartition(" (")[0] for part in said[1].split("), ")]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_patch_is_asked_by_a_click(open_html, load, theme: str) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (48, 48, 3), dtype=np.uint8)
    trace = load("tiny:vit").trace(image=picture)
    opened = open_html(senses.page(trace), theme=theme)
    opened.page.wait_for_selector("canvas")
    assert heading(opened)[2] == "[CLS]"
    box = opened.page.locator("canvas").first.bounding_box()
    opened.page.mouse.click(box["x"] + box["width"] * 5 / 6, box["y"] + box["height"] / 2)  # row 1, column 2 of three
    layer, head, token = heading(opened)
    assert token == "1,2"
    row = trace.attention("raw")[layer, head, trace.tokens.index("1,2")]
    assert named(opened)[0] == trace.tokens[int(row.argmax())]
    opened.page.get_by_role("button", name="[CLS]").click()
    assert heading(opened)[2] == "[CLS]"
    opened.page.get_by_role("button", name=f"L{layer}.H{(head + 1) % 4}").click()
    assert heading(opened)[:2] == (layer, (head + 1) % 4)


def test_a_row_of_a_sound_is_asked_by_a_click(open_html, load) -> None:
    sound = np.sin(np.arange(8000) * 0.2).astype(np.float32)
    trace = load("tiny:whisper").trace(audio=sound, pair="the old dog")
    opened = open_html(senses.page(trace), width=600)
    opened.page.wait_for_selector("canvas")
    assert opened.page.locator('select[aria-label="Attention"]').input_value() == "2"  # cross
    queries = senses.payload(trace)["stacks"][2]["queries"]["tokens"]  # words
    shown = opened.page.get_by_role("img", name=re.compile("^map of"))
    shown.click(position={"x": 10, "y": shown.bounding_box()["height"] * 1.5 / len(queries)})
    assert heading(opened)[2] == queries[1]
    opened.page.locator('select[aria-label="Layer"]').select_option("1")
    assert heading(opened)[0] == 1


def test_a_text_with_a_picture_opens_on_a_token_that_sees_it(open_html, load) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (48, 48, 3), dtype=np.uint8)
    trace = load("tiny:llava").trace("the old dog", image=picture)
    opened = open_html(senses.page(trace))
    opened.page.wait_for_selector("canvas")
    assert heading(opened)[2] == trace.tokens[-1]
