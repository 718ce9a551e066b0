"""Every view is drawn in both themes, shows the right numbers, and does what a reader asks of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import pytest

from browser.conftest import Opened
from browser.test_bad_input import page_of
from headwise.lamps import Head, lamps
from headwise.viewer.build import frame_of, framed, html_of
from headwise.viewer.of_trace import page_of_trace
from headwise.viewer.payload import Page, Stack, Telling
from viewer.samples import HEADS, LAYERS, TOKENS, WORDS, facts, full_page, quantity, side, softmax

pytestmark = pytest.mark.browser
Open = Callable[..., Opened]

DRAWN = {  # what a drawn view has, and how often, for the sample page
    "head": ("#view .token", 2 * TOKENS),
    "model": ("#view .thumb", LAYERS * HEADS),
    "matrix": ("#view .heat", 1),
    "compare": ("#view .heat", 2),
    "text": ("#view .prose .word", TOKENS),
    "layers": ("#view .row-label", LAYERS),
}


@pytest.fixture(scope="module")
def page() -> Page:
    return full_page()


@pytest.fixture(scope="module")
def html(page: Page) -> str:
    return html_of(page)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", list(DRAWN))
def test_each_view_is_drawn_in_each_theme(view: str, theme: str, html: str, open_html: Open) -> None:
    opened = open_html(html, f"#view={view}", theme=theme).drawn()
    selector, count = DRAWN[view]
    assert opened.page.locator(selector).count() == count
    assert opened.page.evaluate("document.documentElement.dataset.theme") == theme
    background = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", background))) < 60) == (theme == "dark")


@pytest.mark.parametrize("width", [800, 1280])
def test_the_page_fits_its_window(width: int, html: str, open_html: Open) -> None:
    opened = open_html(html, width=width)
    for view in DRAWN:
        opened.to(view=view)
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


def cell(opened: Opened, row: int, col: int) -> str:
    """The value that hovering over a cell shows."""
    opened.page.mouse.move(1, 1)
    size = opened.page.evaluate(
        """([row, col]) => {
          const at = (name, n) => document.querySelector(`#view [data-${name}="${n}"]`).getBoundingClientRect();
          const middle = (box) => [box.left + box.width / 2, box.top + box.height / 2];
          return [middle(at("col", col))[0], middle(at("row", row))[1]];
        }""",
        [row, col],
    )
    opened.page.mouse.move(*size)
    return opened.page.inner_text(".tip strong")


def number(text: str) -> float:
    """A value as the page writes it, back to a number."""
    raised = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
    digits = re.search(r"-?\d.*", text.replace("−", "-"))
    assert digits, text
    return float(digits[0].replace(" × 10", "e").translate(raised))


def test_hovering_shows_three_exact_digits(page: Page, html: str, open_html: Open) -> None:
    opened = open_html(html, "#view=matrix")
    for at, name in [(0, "raw"), (1, "effective"), (2, "norm")]:
        opened.drawn().to(view="matrix", layer=1, head=2, quantity=name)
        for row, col in [(0, 0), (3, 5), (6, 1)]:
            true = page.stacks[0].quantities[at].values[1, 2, row, col]
            assert number(cell(opened, row, col)) == float(f"{true:.2e}")


def test_words_add_up_keys_and_average_queries(page: Page, html: str, open_html: Open) -> None:
    opened = open_html(html, "#view=matrix&layer=0&head=1&words=1").drawn()
    labels = opened.page.locator("#view .row-label").all_text_contents()
    assert labels == ["[CLS]", "the", "unseen", "[SEP]", "cats", "[SEP]"]
    raw = page.stacks[0].quantities[0].values[0, 1]
    assert number(cell(opened, 2, 1)) == pytest.approx(raw[2:4, 1].mean(), rel=0.01)
    assert number(cell(opened, 1, 2)) == pytest.approx(raw[1, 2:4].sum(), rel=0.01)
    assert "averaged" in opened.page.inner_text(".treatment")


def test_filters_leave_rows_and_columns_out(html: str, open_html: Open) -> None:
    opened = open_html(html, "#view=matrix&special=0&pair=all").drawn()
    assert opened.page.locator("#view .row-label").count() == 4
    opened.to(view="matrix", pair="ab")
    rows, columns = opened.page.locator("#view .row-label"), opened.page.locator("#view .col-label")
    assert (rows.count(), columns.count()) == (6, 1)
    assert "sentence A to sentence B" in opened.page.inner_text(".treatment")


def test_a_threshold_hides_what_is_below_it(html: str, open_html: Open) -> None:
    opened = open_html(html, "#view=head&heads=all").drawn()
    all_lines = opened.page.locator("#view .links path").count()
    opened.page.locator('[data-control="threshold"]').fill("0.5")
    opened.until(f"document.querySelectorAll('#view .links path').length < {all_lines}")
    assert opened.page.locator("#view .links path").count() > 0


def test_heads_are_toggled_and_isolated(html: str, open_html: Open) -> None:
    opened = open_html(html, "#view=head&heads=all").drawn()
    opened.page.click('[data-chip="1"]')
    opened.page.wait_for_selector('[data-chip="1"][aria-pressed="false"]')
    assert opened.hash()["heads"] == "0,2"
    opened.page.dblclick('[data-chip="2"]')
    opened.until("location.hash.includes('heads=2')")
    assert opened.page.locator(".chip.on").count() == 1
    colours = opened.page.eval_on_selector_all("#view .links path", "paths => paths.map(p => p.getAttribute('stroke'))")
    assert len(set(colours)) == 1


def test_pointing_at_a_token_follows_it(html: str, open_html: Open) -> None:
    opened = open_html(html, "#view=head&heads=0").drawn()
    before = opened.page.locator("#view .links path").count()
    opened.page.hover('#view .token.from[data-at="3"]')
    assert 0 < opened.page.locator("#view .links path").count() <= TOKENS < before
    opened.page.click('#view .token.from[data-at="3"]')
    opened.until("location.hash.includes('token=3')")


def test_a_thumbnail_opens_its_head(html: str, open_html: Open) -> None:
    opened = open_html(html, "#view=model").drawn()
    opened.page.click('[data-head="L1.H2"]')
    opened.page.wait_for_selector("#view .heat")
    opened.drawn()
    assert opened.shown == "self raw 1 2"
    assert {"view": "matrix", "layer": "1", "head": "2"}.items() <= opened.hash().items()


def test_the_comparison_has_one_scale_and_says_how_alike_the_maps_are(page: Page, html: str, open_html: Open) -> None:
    opened = open_html(html, "#view=compare&layer=0&head=0&quantity=raw&quantity2=norm").drawn()
    assert "correlation of the two maps: 1.00" in opened.page.inner_text(".finding")  # norm is three times raw here
    assert opened.page.inner_text(".finding").endswith("Their units differ, so no difference is told.")
    top = float(opened.page.locator(".ends span").last.inner_text())
    assert top >= page.stacks[0].quantities[2].values[0, 0].max()


def test_signed_quantities_get_a_scale_with_zero_in_the_middle(html: str, open_html: Open) -> None:
    opened = open_html(html, "#view=matrix&quantity=effective").drawn()
    ends = opened.page.locator(".ends span").all_inner_texts()
    assert ends[0] == "−" + ends[2]
    assert ends[1] == "0"
    assert opened.to(view="matrix", quantity="raw").page.locator(".ends span").count() == 2


def test_the_coloured_text_follows_a_token_both_ways(html: str, open_html: Open) -> None:
    opened = open_html(html, "#view=text").drawn()
    opened.page.click('#view .word[data-at="5"]')
    opened.until("document.querySelector('.headline mark').textContent === 'cats'")
    assert "What does" in opened.page.inner_text(".headline")
    opened.page.click("[data-turn]")
    opened.until("document.querySelector('.headline').textContent.startsWith('Who takes')")


def test_layers_of_origins_and_of_attention_say_what_they_are(html: str, open_html: Open) -> None:
    opened = open_html(html, "#view=layers&quantity=hidden-token").drawn()
    assert "share of every input token" in opened.page.inner_text(".treatment")
    opened.to(view="layers", quantity="raw")
    assert "not where the content came from" in opened.page.inner_text(".treatment")


def test_three_lamps_are_lit_by_their_numbers_and_none_is_green_over_a_sink(html: str, open_html: Open) -> None:
    opened = open_html(html, "#view=matrix&layer=0&head=0").drawn()

    def colours() -> list[str]:
        return opened.page.eval_on_selector_all(".lamp", "lamps => lamps.map((lamp) => lamp.dataset.colour)")

    assert colours() == ["amber", "green", "dark"]
    assert (
        "Unique? 25 % of the squared weights change nothing if weights may be negative or not sum to 1;"
        in opened.page.inner_text(".badge")
    )
    opened.to(view="matrix", layer=1, head=0)
    assert colours() == ["amber", "red", "dark"]
    assert 'A sink: 90 % of the weight is parked, the most on "."' in opened.page.inner_text(".badge")
    opened.to(view="model")
    said = "So far, of 6 maps 2 may be shown as what the head did, 3 with care and 1 not; 1 is of a sink."
    assert f"{said} Whether the heads matter was not asked (--matters asks)." in opened.page.inner_text(".badge")
    shown = opened.page.eval_on_selector_all("#view .dot", "dots => dots.map((dot) => dot.dataset.show)")
    assert shown == ["with care", "yes", "with care", "no", "with care", "yes"]


def test_a_lamp_that_is_held_back_has_a_mark_of_its_own(open_html: Open) -> None:
    """As in `inspect`: it was only a longer sentence beside the same mark."""
    page = full_page()
    (stack,), facts = page.stacks, page.stacks[0].facts
    assert facts is not None
    lit = np.empty(facts.lamps.shape, object)
    for place in np.ndindex(lit.shape):
        lit[place] = lamps(Head(null_share=0.0, unique_rows=1.0, carried=0.5, parked=0.9))
    shown = replace(page, stacks=(replace(stack, facts=replace(facts, lamps=lit)),))
    opened = open_html(html_of(shown), "#view=matrix&layer=0&head=0").drawn()
    marks = "all => all.map((lamp) => [lamp.dataset.held, lamp.firstChild.textContent, lamp.firstChild.title])"
    found = opened.page.eval_on_selector_all(".lamp", marks)
    assert found == [["true", "○", "yes, but held back"], ["false", "~", ""], ["false", "·", ""]]


def test_the_strip_shows_telling_heads_and_opens_them(open_html: Open) -> None:
    page = full_page()
    told = (Telling("previous token", 1, 2, 0.5), Telling("a sink", 0, 1, 0.9))
    shown = replace(
        page, answer="The model says: <b>positive</b> (97 %)", stacks=(replace(page.stacks[0], telling=told),)
    )
    opened = open_html(html_of(shown), "#view=matrix&layer=0&head=0").drawn()
    assert "The model says: <b>positive</b> (97 %)" in opened.page.inner_text("header")
    opened.page.wait_for_selector(".telling canvas")
    assert "previous token" in opened.page.inner_text(".strip")
    opened.page.click("[data-telling='L1.H2']")
    opened.until("document.getElementById('view').dataset.shown === 'self raw 1 2'")
    assert "here" in (opened.page.get_attribute("[data-telling='L1.H2']", "class") or "")


def with_a_reason() -> Page:
    """Some cell of it says why, so that a click on a cell is of use."""
    page = full_page()
    return replace(page, stacks=tuple(replace(stack, why=({"at": [1, 1, 1, 1]},)) for stack in page.stacks))


def test_the_lamps_explain_and_swap(open_html: Open) -> None:
    opened = open_html(html_of(with_a_reason()), "#view=matrix&layer=0&head=0").drawn()
    assert opened.page.is_visible("[data-swap]")  # without opening anything
    opened.page.click(".badge-line")
    assert "span only 5 directions" in opened.page.inner_text(".badge-body")
    opened.page.click("[data-swap]")
    opened.until("document.getElementById('view').dataset.shown === 'self alternative 0 0'")
    assert "go back to the model's own and click a cell" in opened.page.inner_text(".badge")  # others have no slider
    opened.page.click("[data-swap]")
    opened.until("document.getElementById('view').dataset.shown === 'self raw 0 0'")
    opened.page.click("[data-beside]")
    opened.page.wait_for_selector(".finding")
    opened.to(view="matrix", layer=0, head=1)
    assert "No other weights give this output" in opened.page.inner_text(".badge")


def test_a_page_without_reasons_sends_nobody_to_its_cells(open_html: Open) -> None:
    """A page of 288 tokens said "click a cell of the matrix", where no cell has a slider."""
    for page, said in (
        (with_a_reason(), "click a cell of the matrix."), (full_page(), "ask headwise serve, or trace.rival_weights("),
    ):  # fmt: skip
        opened = open_html(html_of(page), "#view=matrix&layer=0&head=0").drawn()
        assert f"To move one weight by hand, {said}" in opened.page.inner_text(".badge")


def test_the_keyboard_moves_through_the_page(html: str, open_html: Open) -> None:
    opened = open_html(html, "#view=matrix&layer=0&head=0").drawn()
    for keys, expected in [("ArrowRight", "self raw 0 1"), ("ArrowDown", "self raw 1 1"), ("q", "self effective 1 1")]:
        opened.page.keyboard.press(keys)
        opened.until(f"document.getElementById('view').dataset.shown === '{expected}'")
    opened.page.keyboard.press("2")
    opened.page.wait_for_selector("#view .board")
    opened.page.keyboard.press("?")
    assert opened.page.is_visible("dialog.help")


def test_a_link_restores_the_state_and_nonsense_in_it_does_no_harm(html: str, open_html: Open) -> None:
    opened = open_html(html, "#layer=1&head=2&quantity=effective&view=matrix").drawn()
    assert opened.shown == "self effective 1 2"
    opened.to(view="nowhere", layer=99, head="NaN", quantity="%3Cscript%3E", token=1e9, stack="x", threshold="")
    assert opened.shown.startswith("self raw 1 ")


def test_the_theme_can_be_turned(html: str, open_html: Open) -> None:
    opened = open_html(html, theme="light").drawn()
    opened.page.click('[data-tool="theme"]')
    assert opened.page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_what_is_missing_is_named_with_its_reason(html: str, open_html: Open) -> None:
    opened = open_html(html).drawn()
    opened.page.click(".notes summary")
    assert "norm-residual. This model has no residual." in opened.page.inner_text(".notes")


def test_encoder_and_decoder_stacks_are_chosen_and_cross_maps_need_not_be_square(open_html: Open) -> None:
    source, target = side(WORDS), side(("le", "chat"))
    stacks = (
        Stack("encoder", source, source, (quantity("raw", "attention", softmax((2, 3, 7, 7))),)),
        Stack("cross", target, source, (quantity("raw", "attention", softmax((2, 3, 2, 7), 1)),)),
    )
    opened = open_html(html_of(Page("", "", stacks)), "#view=matrix&stack=cross").drawn()
    assert opened.page.locator("#view .row-label").count() == 2
    for view in DRAWN:
        opened.to(view=view, stack="cross")
        assert opened.shown.startswith("cross raw")
    opened.page.select_option('[data-control="stack"]', "encoder")
    opened.until("document.getElementById('view').dataset.shown.startsWith('encoder')")


def test_a_notebooks_frame_shows_the_page(page: Page, open_html: Open) -> None:
    """Sandboxed, from srcdoc, without an address: as Jupyter, JupyterLab, VS Code and Colab embed it."""
    opened = open_html(f"<!doctype html><title>notebook</title>{frame_of(page)}")
    inside = opened.page.frame_locator("iframe")
    inside.locator('#view[aria-busy="false"]').wait_for()
    inside.locator("#tab-matrix").click()
    inside.locator("#view .heat").wait_for()
    with opened.page.expect_download() as download:
        inside.locator('[data-tool="png"]').click()
    assert download.value.suggested_filename.endswith(".png")


def height(opened: Opened, at: int = 0) -> float:
    return opened.page.locator("iframe").nth(at).bounding_box()["height"]


def test_a_notebooks_frame_is_as_high_as_its_page(page: Page, open_html: Open) -> None:
    """Of two frames each has its own; one that says nonsense, or nothing, keeps the height that it has."""
    few = html_of(page_of(softmax((1, 1, 3, 3)), side(("one", "two", "three"))))
    opened = open_html(f"<!doctype html>{frame_of(page)}{framed(few)}{framed('<p>')}")
    for at in (0, 1):
        opened.page.locator("iframe").nth(at).scroll_into_view_if_needed()
        inside = opened.page.frame_locator("iframe").nth(at)
        inside.locator('#view[aria-busy="false"]').wait_for()
        body = inside.locator("body")
        opened.page.wait_for_function("([at, high]) => document.querySelectorAll('iframe')[at].clientHeight === high",
                                      arg=[at, ceil(body.bounding_box()["height"])])  # fmt: skip
        assert body.evaluate("document.documentElement.scrollHeight <= innerHeight"), "nothing is left to scroll"
    assert 240 < height(opened, 1) < height(opened, 0) < 1200
    assert height(opened, 2) == 760
    for wrong in ("{ headwise: 'height' }", "{ headwise: 'height', height: 'x' }", "null", "{ height: 500 }"):
        opened.page.frames[1].evaluate(f"parent.postMessage({wrong}, '*')")
    opened.page.evaluate("postMessage({ headwise: 'height', height: 500 }, '*')")
    opened.page.wait_for_timeout(100)
    before = [height(opened, at) for at in range(3)]
    assert 500 not in before
    inside = opened.page.frame_locator("iframe").first
    inside.locator(".notes summary").click()
    opened.page.wait_for_function("high => document.querySelector('iframe').clientHeight > high", arg=before[0])
    assert [height(opened, at) for at in (1, 2)] == before[1:]


def test_a_long_page_scrolls_in_its_frame(open_html: Open) -> None:
    """Else the reasons below a map could not be brought into view: no page may move the one around it."""
    many = page_of(softmax((1, 1, 60, 60)), side(tuple(f"w{at}" for at in range(60))))
    opened = open_html(f"<!doctype html>{frame_of(many)}")
    opened.page.wait_for_function("document.querySelector('iframe').clientHeight === 1200")
    inside = opened.page.frame_locator("iframe")
    assert inside.locator("body").evaluate("document.documentElement.scrollHeight > innerHeight")


def test_a_frame_without_scripts_has_a_height(page: Page, chromium: Any) -> None:
    context = chromium.new_context(java_script_enabled=False)
    opened = context.new_page()
    opened.set_content(frame_of(page))
    assert opened.locator("iframe").bounding_box()["height"] == 760
    context.close()


def test_the_way_to_a_token_goes_once_there_is_room(open_html: Open) -> None:
    tokens = side(tuple(f"w{at}" for at in range(30)))
    opened = open_html(html_of(page_of(softmax((1, 1, 30, 30)), tokens)), "#view=head&token=29").drawn()
    way = opened.page.locator('[data-tool="chosen"]')
    assert way.count() == 1
    opened.page.set_viewport_size({"width": 1280, "height": 1400})
    opened.until("!document.querySelector('[data-tool=\"chosen\"]')")
    opened.page.set_viewport_size({"width": 1280, "height": 600})
    opened.until("document.querySelector('[data-tool=\"chosen\"]')")


def test_one_is_not_many(open_html: Open) -> None:
    page = page_of(np.ones((1, 1, 1, 1), np.float32), side(("one",)))
    one = np.ones((1, 1), int)
    known = replace(facts(1, 1, 1), rank=one, null_dim=one, simplex_dim=one)
    page = Page("one", "model", tuple(replace(stack, facts=known) for stack in page.stacks))
    opened = open_html(html_of(page), "#view=model").drawn()
    assert opened.page.inner_text(".title p") == "model · 1 token · 1 layer × 1 head"
    said = opened.page.inner_text("#app")
    opened.to(view="matrix").page.click(".badge-line")
    said += opened.page.inner_text("#app")
    assert "Of 1 map " in said or "of 1 map " in said
    assert "value vectors of 1 token, but these vectors span only 1 direction." in said
    assert re.findall(r"(?<![\d.,])1 (?:tokens|layers|heads|maps|directions|values)\b", said) == []


def test_the_chosen_cell_is_framed(load, open_html: Open) -> None:
    page = page_of_trace(load("tiny:bert").trace("the old dog and the cat ran along the river"), besides=())
    for theme, width in (("light", 1280), ("dark", 400)):
        opened = open_html(html_of(page), "#view=matrix&token=3&key=6", theme=theme, width=width).drawn()
        names = (".mark-cell", ".mark", '.row-label[data-row="3"]', '.col-label[data-col="6"]')
        boxes = opened.page.evaluate(  # at once, as the page glides to the reasons
            "names => names.map(one => document.querySelector(`#view ${one}`).getBoundingClientRect().toJSON())", names
        )
        box, whole, down, across = boxes
        assert box["x"] < across["x"] + across["width"] / 2 < box["x"] + box["width"]
        assert box["y"] < down["y"] + down["height"] / 2 < box["y"] + box["height"]
        assert whole["width"] > 5 * box["width"]
        assert all(opened.page.get_attribute(f"#view {label}", "font-weight") == "700" for label in names[2:])
        opened.to(view="matrix", token=3)
        assert opened.page.locator("#view .mark-cell, #view .mark").count() == 0
    opened.to(view="matrix", token=3, key=0, special=0)
    assert opened.page.locator("#view .mark-cell").count() == 0, "its column is hidden"
    assert opened.page.locator("#view .mark").count() == 1


def test_undefined_values_are_named(open_html: Open) -> None:
    values = softmax((1, 1, 5, 5))
    values[0, 0, 2] = np.nan
    tokens = side(tuple("abcde"))
    stack = Stack("self", tokens, tokens, (quantity("raw", "attention", values),))
    opened = open_html(html_of(Page("", "", (stack,))), "#view=matrix").drawn()
    assert cell(opened, 2, 2) == "weight undefined"
    assert "5 values are not numbers" in opened.page.inner_text(".treatment")
    for view in DRAWN:
        opened.to(view=view, token=2)


def test_rows_that_are_not_whole_are_not_said_to_add_up(html: str, open_html: Open) -> None:
    opened = open_html(html, "#view=head").drawn()
    assert "Each row adds up to 1." in opened.page.inner_text(".treatment")
    opened.to(view="head", pair="ab")
    said = opened.page.inner_text(".treatment")
    assert "Only from sentence A to sentence B; rows lack what goes elsewhere." in said
    assert "adds up to 1" not in said
    opened.to(view="head", pair="all", special=0)
    assert "adds up to 1" not in opened.page.inner_text(".treatment")


def test_what_cannot_be_turned_says_why(html: str, open_html: Open) -> None:
    whole = open_html(html_of(full_page(("cats", "see", "dogs")))).drawn().page.locator(".control.check")
    assert whole.all_inner_texts() == ["Whole words\neach token is a word here", "Special tokens\nthere are none here"]
    assert open_html(html).drawn().page.locator(".control.check small:visible").count() == 0


def test_what_is_missing_for_one_reason_is_told_once(open_html: Open) -> None:
    left = "Left out; ask for it: `headwise view --with {0}`, hw.view(trace, besides=['{0}'])."
    missing = [(name, left.format(name)) for name in ("globenc", "alti")]
    page = replace(full_page(), missing=(*missing, ("null", "It is raw minus effective.")))
    opened = open_html(html_of(page)).drawn()
    opened.page.click(".notes summary")
    assert [line for line in opened.page.locator(".notes li").all_inner_texts() if line.startswith("Not here")] == [
        "Not here: globenc, alti. Left out; ask for it: `headwise view --with globenc,alti`, "
        "hw.view(trace, besides=['globenc', 'alti']).",
        "Not here: null. It is raw minus effective.",
    ]
