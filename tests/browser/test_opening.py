"""Pages open on a telling head and token, never on a sink: decoder, encoder, translation, and the pages of `align`.

Tiny models stand for demo-llm (a decoder) and demo-base (a masked encoder), too slow here; demo-nmt is itself.
Of a tiny random model hardly a head is a sink, so one is made: the sharpest head of all parks on the first token.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from browser.conftest import Opened
from headwise.cli import main
from headwise.lamps import Head, lamps
from headwise.viewer import view
from headwise.viewer.build import html_of
from headwise.viewer.of_trace import page_of_trace
from headwise.viewer.payload import Page
from headwise.viewer.telling import opening, opening_head, opening_stack
from viewer.samples import softmax

pytestmark = pytest.mark.browser
Open = Callable[..., Opened]
TEXT = "the old man saw the dog and the cat ."


def shown(opened: Opened) -> dict[str, Any]:
    """Stack, layer and head on the screen, whether it is called a sink, and the token that is picked out."""
    stack, _, layer, head = opened.shown.split()
    picked = (
        "all => all.filter((one) => Number(one.getAttribute('fill-opacity'))).map((one) => one.parentNode.textContent)"
    )
    token, *_ = opened.page.eval_on_selector_all("#view .token-back", picked) or [""]
    sink = "A sink" in opened.page.inner_text(".badge")
    return {"stack": stack, "layer": int(layer), "head": int(head), "sink": sink, "token": token.strip()}


def with_the_sharpest_a_sink(page: Page) -> tuple[Page, tuple[int, int]]:
    """The head that the page would open with becomes a sink, by its lamp."""
    stack = opening_stack(page.stacks)
    place = opening_head(stack)
    assert place is not None
    assert stack.facts is not None
    lit = stack.facts.lamps.copy()
    lit[place] = lamps(Head(null_share=0.0, unique_rows=1.0, carried=0.9, parked=0.9))
    changed = replace(stack, facts=replace(stack.facts, lamps=lit))
    stacks = tuple(changed if one is stack else one for one in page.stacks)
    return replace(page, stacks=stacks, start=opening(changed)), place


@pytest.mark.parametrize(
    ("name", "task", "stack"),
    [("tiny:gpt2", "causal-lm", "self"), ("tiny:bert", "masked-lm", "self"), ("demo-nmt", "translation", "cross")],
)
def test_a_page_opens_on_a_telling_head_and_no_sink(name: str, task: str, stack: str, load, open_html: Open) -> None:
    trace = load(name, task).trace("der alte Hund sah ihn ." if stack == "cross" else TEXT,
                                   "the old dog saw him ." if stack == "cross" else None)  # fmt: skip
    page, sink = with_the_sharpest_a_sink(page_of_trace(trace, besides=()))
    opened = open_html(html_of(page)).drawn()
    found = shown(opened)
    assert found["stack"] == stack
    assert (found["layer"], found["head"]) != sink
    assert not found["sink"]
    side = next(one for one in page.stacks if one.name == stack).queries
    assert page.start is not None
    at = int(page.start["token"])
    assert found["token"] == side.tokens[at]
    assert not side.special[at + (stack == "cross")], "a row of cross-attention is about the token after it"
    opened.to(layer=sink[0], head=sink[1], heads=sink[1])
    assert shown(opened)["sink"], "the test would see a sink"


def test_pages_of_align_open_on_cross_attention(tmp_path: Path, monkeypatch, open_html: Open) -> None:
    for file, text in (("s.txt", "der Hund sah ihn .\n"), ("t.txt", "the dog saw him .\n")):
        (tmp_path / file).write_text(text, "utf-8")
    words = ["headwise", "align", "--model", "demo-nmt", "--source", str(tmp_path / "s.txt"), "--target",
             str(tmp_path / "t.txt"), "--out", str(tmp_path / "out"), "--pages", "1"]  # fmt: skip
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    (page,) = (tmp_path / "out" / "pages").glob("*.html")
    opened = open_html(page.read_text("ascii")).drawn()
    assert "“the dog saw him .”" in opened.page.inner_text(".title .answer"), "what the model makes of the target"
    found = shown(opened)
    assert found["stack"] == "cross"
    assert not found["sink"]
    assert opened.page.inner_text(".telling.here").startswith("alignment"), "it opens on the head that pairs words up"
    assert "cross-attention" in opened.page.inner_text(".about h2")
    tokens = opened.page.eval_on_selector_all("#view .token.from", "all => all.map((one) => one.textContent)")
    at = tokens.index(found["token"])
    said = opened.page.inner_text(".foretells")
    assert said == (
        "A row is named after the token that was read last; it is about the next one: the row of "
        f"“{tokens[at]}” shows where the decoder looks to write “{tokens[at + 1]}”."
    )


def test_a_page_of_tensors_opens_at_the_head_that_was_asked_for(open_html: Open) -> None:
    opened = open_html(view(softmax((3, 4, 5, 5)), list("abcde"), layer=2, heads=[3]).html()).drawn()
    assert opened.page.inner_text(".about h2") == "Raw attention, L2.H3"
    assert opened.page.input_value("[data-control=head]") == "3"
    assert opened.page.locator(".chip.on").all_inner_texts() == ["H3"]


def test_tensors_of_a_translation_open_on_cross_attention_and_each_heading_says_which_it_is(open_html: Open) -> None:
    shapes = {"encoder": (5, 5), "decoder": (4, 4), "cross": (4, 5)}
    given = {f"{name}_attention": softmax((2, 3, *shape), at) for at, (name, shape) in enumerate(shapes.items())}
    page = view(**given, encoder_tokens=list("abcde"), decoder_tokens=list("wxyz"))
    opened = open_html(page.html(), width=400).drawn()
    heading = opened.page.locator(".about h2")
    assert opened.shown.split()[0] == "cross"
    assert heading.inner_text().startswith("Raw attention, cross-attention, L")
    for name in ("encoder", "decoder"):
        opened.to(stack=name, layer=1, head=2)
        assert heading.inner_text() == f"Raw attention, {name} self-attention, L1.H2"


@pytest.mark.parametrize(("chosen", "below"), [(140, True), (2, False)])
def test_of_a_long_text_the_chosen_token_is_a_click_away(chosen: int, below: bool, open_html: Open) -> None:
    """Its lines were drawn 3000 pixels down, and the window showed tokens without a line."""
    maps = softmax((1, 2, 150, 150), sharpness=0.1)
    maps[0, 1, chosen, 60] = 5.0
    opened = open_html(view(maps / maps.sum(-1, keepdims=True), [f"w{at}" for at in range(150)]).html()).drawn()
    page, way = opened.page, opened.page.locator("[data-tool=chosen]")
    assert opened.page.evaluate("scrollY") == 0, "heading and controls are seen first"
    assert way.count() == below
    if below:
        assert way.inner_text() == "Go down to the chosen token, “w140”"
        assert page.locator(".token.from[data-at='140']").bounding_box()["y"] > 900
        way.click()
        assert 0 < page.locator(".token.from[data-at='140']").bounding_box()["y"] < 900
