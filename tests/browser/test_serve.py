"""The served page in a real browser, end to end: a text, a pair, an error, a cancel, stored results, both themes."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

pytest.importorskip("uvicorn")
import uvicorn

from browser.conftest import Opened, new_context, watch
from headwise.plots.grid import head_grid
from headwise.results import write_result
from headwise.server import answer
from headwise.server.app import application
from headwise.server.run import listening
from headwise.viewer.build import html_of
from references.patience import patience
from viewer.samples import full_page

pytestmark = pytest.mark.browser
TOKEN = "a-secret-of-this-server"
CHART = {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", "mark": "point",
         "data": {"values": [{"a": 1, "b": 2}, {"a": 2, "b": 1}]},
         "encoding": {axis: {"field": name, "type": "quantitative"} for axis, name in ("xa", "yb")}}  # fmt: skip
FOUND = pl.DataFrame(
    [
        {"stack": "self", "layer": layer, "head": head, "name": f"L{layer}.H{head}", "pattern": pattern, "place": place,
         "value": {"next": (0.9, 0.6), "sharp": (0.1, 0.4)}[pattern][place - 1] - 0.01 * head,
         "document": place, "text": f"{pattern} {place} of L{layer}.H{head}; a <b>text</b> of enough letters"}
        for layer in (0, 1) for head in (0, 1, 2) for pattern in ("next", "sharp") for place in (1, 2)
    ]
)  # fmt: skip

WIDE = pl.DataFrame(
    {"stack": ["self"] * 2, "layer": [0, 1], "head": [0, 0], "name": ["L0.H0", "L1.H0"], "null_share": [0.25, 0.125],
     "null_share_low": [0.125, 0.0625], "null_share_high": [0.5, 0.75], "show": ["no", "yes"]}
    | {f"a number with a long name, {at}": [0.5, 0.25] for at in range(9)}
)  # fmt: skip


@pytest.fixture(scope="module")
def address(load: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server in a thread, on a free port, with a result and a report in its folder."""
    folder = tmp_path_factory.mktemp("out")
    manifest = {"study": "<i>surface</i>", "model": {"name": "demo"}, "plan": {"corpus": {"name": "sample"}},
                "documents": 2, "tokens": 30, "skipped": {}, "time": "2026-01-01T00:00:00+00:00"}  # fmt: skip
    table = pl.DataFrame({"name": ["L0.H0", "L0.H1", "L0.H2"], "entropy": [1.5, 0.5, 2.5]})
    write_result(folder / "surface", manifest, table, {"x": torch.zeros(1)}, {"fig2": CHART})
    firsts = FOUND.filter(place=1).with_columns(what="pattern")
    grid = head_grid(firsts, {"next": "next", "sharp": "sharp"}, told=("text",)).to_dict()
    write_result(folder / "wide", manifest | {"study": "wide"}, WIDE, {"x": torch.zeros(1)}, {})
    manifest |= {"study": "strongest"}
    write_result(folder / "runs/found", manifest, FOUND, {"x": torch.zeros(1)}, {"strongest": grid})
    manifest |= {"study": "norms"}
    write_result(folder / "runs/norms", manifest, table, {"x": torch.zeros(1)}, {"grid": grid, "fig2": CHART})
    (folder / "page.html").write_text(html_of(full_page()), "ascii")
    (folder / "small.html").write_text("<p>small</p>", "ascii")
    models = {name: load(name) for name in ("tiny:bert", "tiny:gpt2")}
    models["writer"] = load("tiny:gpt2", "causal-lm")
    models["demo-nmt"] = load("demo-nmt", "translation")
    with listening(0) as listener:
        port = listener.getsockname()[1]
        app = application(models, port=port, results=folder, max_tokens=64, max_jobs=4, token=TOKEN)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none", lifespan="on"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{port}"
        server.should_exit = True
        thread.join(patience())
        assert not thread.is_alive()


@pytest.fixture
def visit(chromium: Any, address: str) -> Iterator[Callable[..., Opened]]:
    """`visit(theme="dark")`: the page, open; any console error or request to elsewhere fails the test."""
    opened: list[Opened] = []

    def go(path: str = "/", *, theme: str = "light", width: int = 1280) -> Opened:
        context = new_context(chromium, viewport={"width": width, "height": 900}, color_scheme=theme)
        here = Opened(context.new_page())
        opened.append(here)
        watch(here, address)
        here.page.goto(f"{address}/?token={TOKEN}")
        here.page.wait_for_selector(".serve")
        assert here.page.url == f"{address}/", "the token is gone from the address"
        here.page.goto(address + path)
        here.page.wait_for_selector(".serve")
        return here

    yield go
    for each in opened:
        each.page.context.close()
    assert [each.trouble for each in opened if each.trouble] == []


def asked(opened: Opened, text: str, **choices: str) -> Any:
    """Fill in the form and send it; the frame of the answer, drawn."""
    opened.page.fill("textarea[name=text]", text)
    for name in ("model", "quantity"):
        if name in choices:
            opened.page.select_option(f"select[name={name}]", choices[name])
    opened.page.fill("textarea[name=pair]", choices.get("pair", ""))
    before = opened.page.get_attribute("iframe.shown", "src") if opened.page.locator("iframe.shown").count() else ""
    opened.page.click("button[type=submit]")
    opened.until(f"document.querySelector('iframe.shown')?.getAttribute('src') !== {before!r} "
                 "&& document.querySelector('iframe.shown')")  # fmt: skip
    inside = opened.page.frame_locator("iframe.shown")
    inside.locator('#view[aria-busy="false"]').wait_for()
    return inside


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_text_is_shown_in_the_viewer(visit: Callable[..., Opened], theme: str) -> None:
    opened = visit(theme=theme)
    inside = asked(opened, "the river of the city")
    assert "the river of the city" in inside.locator("h1").inner_text()
    inside.locator("#tab-matrix").click()
    inside.locator("#view .heat").wait_for()
    for frame in opened.page.frames:
        colour = frame.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (max(map(int, re.findall(r"\d+", colour))) < 60) == (theme == "dark")


def test_the_theme_can_be_turned_for_page_and_viewer(visit: Callable[..., Opened]) -> None:
    opened = visit()
    asked(opened, "the city")
    opened.page.click('.bar [data-tool="theme"]')
    inside = opened.page.frame_locator("iframe.shown")
    inside.locator('html[data-theme="dark"] #view[aria-busy="false"]').wait_for()
    assert opened.page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_pair_model_and_quantity_are_what_was_chosen(visit: Callable[..., Opened]) -> None:
    opened = visit()
    inside = asked(opened, "the city", pair="the river", quantity="alti")
    assert "the city / the river" in inside.locator("h1").inner_text()
    options = inside.locator('[data-control="quantity"] option').all_text_contents()
    assert options[0] == "Raw attention"
    assert "ALTI" in options
    inside = asked(opened, "the north", model="tiny:gpt2")
    assert "gpt2" in inside.locator(".title p").inner_text()


def test_any_head_is_switched_off_by_the_server(visit: Callable[..., Opened]) -> None:
    opened = visit()
    inside = asked(opened, "the river of the city", model="tiny:gpt2")
    inside.locator("#tab-matrix").click()
    inside.locator("#view .heat").wait_for()
    opened.page.fill("textarea[name=text]", "something else that was typed since")
    inside.locator("[data-live]").click()
    inside.locator('.off[data-off]:not([data-off=""])').wait_for()
    said = inside.locator(".off").inner_text()
    assert re.match(r"L\d\.H\d is switched off\.", said)
    assert "of the city" in inside.locator("h1").inner_text(), "it is about the text that was shown"
    assert inside.locator("#view").get_attribute("data-view") == "matrix"
    inside.locator("[data-on]").click()
    inside.locator('.off[data-off=""]').wait_for()


def test_only_the_frame_is_listened_to_and_only_for_heads(visit: Callable[..., Opened]) -> None:
    opened = visit()
    asked(opened, "the river")
    sent: list[str] = []
    opened.page.on("request", lambda request: sent.append(request.url))
    opened.page.evaluate("postMessage({headwise: 'off', head: 'L0.H0', hash: ''}, '*')")
    frame = opened.page.frames[1]
    frame.evaluate("parent.postMessage({headwise: 'off', head: 'L0.H0&x', hash: ''}, '*')")
    frame.evaluate("parent.postMessage({head: 'L0.H0'}, '*')")
    opened.page.wait_for_timeout(200)
    assert sent == []


def click_cell(inside: Any, down: float, across: float) -> None:
    """The first (0) or the last (1) row and column of the map."""
    picture = inside.locator("#view .heat svg")
    whole, frame = picture.bounding_box(), picture.locator("> rect").first.bounding_box()
    x, y = (frame[a] - whole[a] + 3 + share * (frame[size] - 6)
            for a, size, share in (("x", "width", across), ("y", "height", down)))  # fmt: skip
    picture.click(position={"x": x, "y": y})


def test_a_click_on_a_cell_asks_the_server_why(visit: Callable[..., Opened]) -> None:
    opened = visit()
    inside = asked(opened, "the river of the city")
    inside.locator("#tab-matrix").click()
    inside.locator("#view .heat").wait_for()
    click_cell(inside, 0.0, 0.0)
    inside.locator(".why li").first.wait_for()
    assert "“[CLS]” to “[CLS]”" in inside.locator(".why h3").inner_text()
    assert inside.locator(".why-sides h4").all_inner_texts() == ["THE QUERY", "THE KEY"]
    assert inside.locator(".why-picture g").count() == 6, "a bar for each dimension"
    inside = asked(opened, "the river", model="tiny:gpt2")
    inside.locator("#tab-matrix").click()
    inside.locator("#view .heat").wait_for()
    click_cell(inside, 0.0, 1.0)  # a key that a causal query does not see
    inside.locator(".why .bad").wait_for()
    assert "does not see" in inside.locator(".why .bad").inner_text()


def test_a_served_weight_without_room_leads_to_one_that_can_be_dragged(visit: Callable[..., Opened]) -> None:
    opened = visit()
    inside = asked(opened, "the old dog and")
    frame = next(frame for frame in opened.page.frames if "/page" in frame.url)
    frame.evaluate("() => { location.hash = '#view=matrix&layer=1&head=3&token=2&key=6' }")
    inside.locator(".why-room").wait_for()
    said = inside.locator(".why-room").inner_text()
    assert said.startswith("This weight has no room")
    assert "trace.rival_weights" not in said, "here any cell can be clicked"
    inside.locator(".why-room button").first.click()
    inside.locator('[data-control="rival"]').wait_for()
    assert inside.locator(".why-room").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_an_answer_rests_on_is_a_question_too(visit: Callable[..., Opened], theme: str) -> None:
    opened = visit(theme=theme)
    opened.page.select_option("select[name=show]", "answer")
    opened.page.select_option("select[name=model]", "writer")
    opened.page.fill("textarea[name=text]", "the river <b>of</b> the city")
    opened.page.click("button[type=submit]")
    inside = opened.page.frame_locator("iframe.shown")
    inside.locator(".text .unit").first.wait_for()
    assert "rests on" in inside.locator("h1").inner_text()
    assert "<b>" in "".join(inside.locator(".text .unit").all_inner_texts())
    shade = opened.page.frames[1].evaluate("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", shade))) < 60) == (theme == "dark")
    opened.page.select_option("select[name=model]", "tiny:bert")
    opened.page.click("button[type=submit]")
    opened.page.wait_for_selector(".state.bad")
    assert "head" in opened.page.inner_text(".state"), "a model without a task says so in one line"


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 400)])
def test_a_word_is_masked_and_both_answers_stand_side_by_side(
    visit: Callable[..., Opened], theme: str, width: int
) -> None:
    opened = visit(theme=theme, width=width)
    page = opened.page
    if width < 800:
        assert not page.locator("select[name=model]").is_visible(), "the choices fold away"
        page.click(".more summary")
    inside = asked(opened, "the river <b>of</b> the city")
    page.click('[data-tool="beside"]')
    page.locator(".words button", has_text="river").click()
    assert page.input_value("textarea[name=changed]") == "the [MASK] <b>of</b> the city"
    page.click('[data-tool="show-beside"]')
    other = page.frame_locator(".pane:nth-child(2) iframe.shown")
    other.locator('#view[aria-busy="false"]').wait_for()
    assert other.locator("h1").inner_text().startswith("the [MASK] "), "a mask that was written is part of the text"
    chips = [place.locator(".chip.on").all_inner_texts() for place in (inside, other)]
    assert chips[0] == chips[1], "both draw the same head"
    assert "river" in page.frame_locator(".pane:nth-child(1) iframe.shown").locator("h1").inner_text()
    inside = page.frame_locator(".pane:nth-child(1) iframe.shown")
    places = [place.locator("#view").get_attribute("data-shown") for place in (inside, other)]
    assert places[0] == places[1], "the second opens where the first is"
    inside.locator("#tab-matrix").click()
    for place in (inside, other):
        assert not place.locator('[data-control="layer"]').is_visible(), "controls fold away in a narrow frame"
        place.locator(".fold > summary").click()
    inside.locator('[data-control="layer"]').select_option("2")
    other.locator('#view[data-view="matrix"][data-shown*=" 2 "]').wait_for()  # both look at one layer
    other.locator('[data-control="head"]').select_option("3")
    inside.locator('#view[data-shown$=" 3"]').wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.click('[data-tool="close-beside"]')
    assert page.locator("iframe.shown").count() == 1


# words at odd places, and what stands between them
FILM = ["", "It\u2019s", " ", "a", " ", "well-known", ", ", "awful", " ", "film", " (", "3.5", " ", "of", " ",
        "10", "): ", "awful", ". ", "😡", ""]  # fmt: skip


def offered(opened: Opened, text: str, model: str) -> Any:
    asked(opened, text, model=model)
    opened.page.click('[data-tool="beside"]')
    return opened.page.locator(".words button")


@pytest.mark.parametrize(("model", "mask"), [("tiny:bert", "[MASK]"), ("tiny:gpt2", "<mask>")])
def test_punctuation_stays_where_a_word_is_masked(
    visit: Callable[..., Opened], load: Callable[..., Any], model: str, mask: str
) -> None:
    opened = visit()
    words = offered(opened, "".join(FILM), model)
    assert words.all_inner_texts() == FILM[1::2]
    for at in range(len(FILM) // 2):
        words.nth(at).click()
        wanted = [mask if place == 2 * at + 1 else part for place, part in enumerate(FILM)]
        assert opened.page.input_value("textarea[name=changed]") == "".join(wanted)
        words.nth(at).click()
        assert opened.page.input_value("textarea[name=changed]") == "".join(FILM)
    words.nth(8).click()
    tokens = load(model).trace(opened.page.input_value("textarea[name=changed]").removesuffix(" 😡")).tokens
    assert tokens[-3:-1] == (mask, "."), "one mask, and its full stop"
    opened.page.click('[data-tool="show-beside"]')
    other = opened.page.frame_locator(".pane:nth-child(2) iframe.shown")
    other.locator('#view[aria-busy="false"]').wait_for()
    assert f"awful film (3.5 of 10): {mask}." in other.locator("h1").inner_text()


def test_a_mask_that_was_typed_is_no_word(visit: Callable[..., Opened]) -> None:
    opened = visit()
    words = offered(opened, "It was [MASK], really.", "tiny:bert")
    assert words.all_inner_texts() == ["It", "was", "really"]
    words.last.click()
    assert opened.page.input_value("textarea[name=changed]") == "It was [MASK], [MASK]."


def test_punctuation_stays_where_a_word_is_taken_out(visit: Callable[..., Opened]) -> None:
    opened = visit()
    about = opened.page.evaluate("fetch('/api/about').then((answer) => answer.json())")
    about["masks"] = dict.fromkeys(about["masks"])
    opened.page.route("**/api/about", lambda route: route.fulfill(json=about))
    opened.page.reload()
    opened.page.wait_for_selector(".serve")
    words = offered(opened, "It was not awful, just  dull.", "tiny:gpt2")
    for at, left in ((3, "It was not, just  dull."), (5, "It was not, just."), (2, "It was, just."), (0, "was, just.")):
        words.nth(at).click()
        assert opened.page.input_value("textarea[name=changed]") == left


def boxes(page: Any) -> list[dict[str, float]]:
    return [page.locator(f".pane:nth-child({at}) iframe.shown").bounding_box() for at in (1, 2)]


@pytest.mark.parametrize(("width", "beside"), [(1280, True), (1100, True), (1000, True), (999, False), (400, False)])
def test_two_answers_stand_beside_each_other_or_in_one_line(
    visit: Callable[..., Opened], width: int, beside: bool
) -> None:
    page = visit(width=width).page
    page.fill("textarea[name=text]", "the river of the city")
    if width < 800:
        page.click(".more summary")
    page.select_option("select[name=model]", "writer")
    page.click("button[type=submit]")
    page.click('[data-tool="beside"]')
    page.locator(".words button", has_text="river").click()
    page.click('[data-tool="show-beside"]')
    other = page.frame_locator(".pane:nth-child(2) iframe.shown")
    other.locator('#view[aria-busy="false"]').wait_for()
    first, second = boxes(page)
    assert (first["y"] == second["y"]) == beside
    assert (second["x"] > first["x"] + first["width"]) == beside
    assert second["x"] + second["width"] <= width
    line = page.locator(".both")
    line.wait_for(state="hidden" if beside else "visible")
    if beside:
        return
    answers = [page.frame_locator(f".pane:nth-child({at}) iframe").locator(".answer").inner_text() for at in (1, 2)]
    assert answers[0] != answers[1]
    assert line.inner_text() == "before {} → after {}".format(*answers)
    opened, deadline = page.viewport_size["height"], time.monotonic() + patience()
    while not 0 <= line.bounding_box()["y"] < opened / 4:  # it glides there
        assert time.monotonic() < deadline, f"the line is at {line.bounding_box()['y']}"
        page.wait_for_timeout(20)
    page.evaluate("scrollTo(0, 0)")
    page.click('[data-tool="close-beside"]')
    assert not line.is_visible()


@pytest.mark.parametrize("width", [1280, 900])
def test_of_two_sentences_it_is_said_how_near_their_vectors_are_and_which_neighbours_are_near(
    visit: Callable[..., Opened], load: Callable[..., Any], monkeypatch, width: int
) -> None:
    """Two far neighbours, the same or not, said nothing about a sentence with a word masked."""
    near_enough = 0.97  # a model of random numbers puts all sentences near each other
    monkeypatch.setattr("headwise.interventions.answered.NEAR", near_enough)
    opened, bert = visit(width=width), load("tiny:bert")
    page, first, neighbours = opened.page, "the river of the city", []
    asked(opened, first)
    page.click('[data-tool="beside"]')
    for changed in ("the river of the cities", "was it old in the north", "x y z"):
        page.fill("textarea[name=changed]", changed)
        page.click('[data-tool="show-beside"]')
        page.locator(".both").wait_for()
        before, after = (bert.says(text) for text in (first, changed))
        cosine = sum(one * other for one, other in zip(before.vector, after.vector, strict=True))
        said = f"before and after the two sentence vectors have cos {cosine:.3f}"
        for when, found in (("before", before), ("after", after)):
            ((neighbour, near),) = found.choices
            neighbours.append(near >= near_enough)
            said += f"; {when} it is near to {neighbour} (cos {near:.2f})" if neighbours[-1] else ""
        assert page.inner_text(".both") == said
    assert set(neighbours) == {True, False}, "both cases were seen"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_stored_table_is_read_on_a_phone(visit: Callable[..., Opened], theme: str) -> None:
    """A row is a card whose values have the names of their columns; nothing is left of or right of the screen."""
    opened = visit("/#stored/runs%2Ffound", width=400, theme=theme)
    page = opened.page
    page.wait_for_selector(".sheet td")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("(sheet => sheet.scrollWidth <= sheet.clientWidth)(document.querySelector('.sheet'))")
    card = page.locator(".sheet tbody tr").first
    names = card.locator("td").evaluate_all("cells => cells.map(one => getComputedStyle(one, '::before').content)")
    assert names == [f'"{name}"' for name in page.locator(".sheet th").all_inner_texts()]
    text, name = card.locator("td.text").bounding_box(), card.locator("td").first.bounding_box()
    assert text["width"] == name["width"] > 280
    assert text["y"] > name["y"], "one below the other"
    page.click('[data-column="document"]')
    page.click('[data-column="document"]')
    assert card.locator('td[data-name="document"]').text_content() == "2"


def test_examples_are_of_the_chosen_model(visit: Callable[..., Opened]) -> None:
    page = visit().page
    said = page.locator(".examples button").all_inner_texts()
    assert said[:2] == ["The trophy does not fit in the …", "She went to the bank to open an …"], "cut at a word"
    page.locator(".examples button").nth(1).click()
    assert page.input_value("textarea[name=text]").startswith("She went to the bank")
    page.select_option("select[name=model]", "writer")
    page.locator(".examples button").last.click()
    assert page.input_value("textarea[name=text]").endswith("Anna met")


def test_an_example_of_a_translation_brings_its_target(visit: Callable[..., Opened]) -> None:
    page = visit().page
    page.select_option("select[name=model]", "demo-nmt")
    page.locator(".examples button").first.click()
    fields = [page.input_value(f"textarea[name={name}]") for name in ("text", "pair")]
    assert fields == ["Ich habe das Buch gestern gelesen.", "I read the book yesterday."]
    page.select_option("select[name=model]", "tiny:bert")
    page.locator(".examples button").first.click()
    assert page.input_value("textarea[name=pair]") == "", "this one has no second text"


def test_a_stored_table_shows_what_says_most_and_the_other_columns_by_a_button(visit: Callable[..., Opened]) -> None:
    page = visit("/#stored/wide").page
    page.wait_for_selector(".sheet td")
    long = WIDE.columns[-9:]
    few = ["name", "show", "null_share", *long]
    assert page.locator(".sheet th").all_inner_texts() == few
    assert page.locator("tbody tr").first.locator("td").all_text_contents()[:4] == [
        "L0.H0",
        "no",
        "0.25 (0.125 to 0.5)",
        "0.5",
    ]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the table scrolls in its own place"
    assert page.evaluate("(sheet => sheet.scrollWidth > sheet.clientWidth)(document.querySelector('.sheet'))")
    page.click('[data-column="null_share"]')
    assert page.locator("td:nth-child(1)").all_text_contents() == ["L1.H0", "L0.H0"]
    page.click("[data-tool=columns]")
    assert page.locator(".sheet th").all_inner_texts() == [*few, *(name for name in WIDE.columns if name not in few)]
    row = page.locator("tbody tr").first.locator("td").all_text_contents()
    assert (row[:3], row[-5:]) == (["L1.H0", "yes", "0.125"], ["self", "1", "0", "0.0625", "0.75"]), "in the same order"
    page.click("[data-tool=columns]")
    assert page.locator(".sheet th").all_inner_texts() == few
    page.click('[data-at="surface"]')
    page.wait_for_selector("text=surface")
    page.wait_for_selector('[data-column="entropy"]')
    assert page.locator("[data-tool=columns]").count() == 0, "a small table has no others"


def test_an_empty_text_is_asked_for_in_the_page(visit: Callable[..., Opened]) -> None:
    opened = visit()
    for text in ("", "  "):
        opened.page.fill("textarea[name=text]", text)
        opened.page.click("button[type=submit]")
        assert opened.page.inner_text(".state.bad") == "Type a text first."
    assert opened.page.locator("iframe.shown").count() == 0


def test_a_refusal_has_the_width_of_a_phone(visit: Callable[..., Opened]) -> None:
    page = visit(width=400).page
    page.click(".more summary")
    page.select_option("select[name=show]", "answer")
    page.click("button[type=submit]")
    page.wait_for_selector(".state.bad")
    assert page.inner_text(".state.bad").startswith("An explanation needs a model that predicts")
    said, button = (page.locator(one).bounding_box() for one in (".state.bad", "button[title=Ctrl-Enter]"))
    assert said["width"] > 350
    assert said["y"] >= button["y"] + button["height"], "below the button, and not in a column beside it"


def test_why_comes_up_where_it_would_be_below_the_edge(visit: Callable[..., Opened]) -> None:
    opened = visit()
    inside = asked(opened, "the river of the city was in the north and it was old")
    inside.locator("#tab-matrix").click()
    inside.locator("#view .heat").wait_for()
    opened.page.evaluate("scrollTo(0, 0)")
    click_cell(inside, 0.0, 0.0)
    inside.locator(".why li").first.wait_for()
    frame = next(frame for frame in opened.page.frames if "/page" in frame.url)
    deadline = time.monotonic() + patience()
    while True:  # it glides there
        top = frame.evaluate("document.querySelector('.why h3').getBoundingClientRect().top - innerHeight")
        if top < -40:
            break
        assert time.monotonic() < deadline, f"{top} pixels below the edge"
        opened.page.wait_for_timeout(20)


def test_markup_is_shown_as_it_was_typed(visit: Callable[..., Opened]) -> None:
    opened = visit()
    asked(opened, "<img src=x onerror=alert(1)> </script>")
    assert opened.page.locator("img").count() == 0


def test_an_error_is_one_sentence_and_the_page_goes_on(visit: Callable[..., Opened]) -> None:
    opened = visit()
    opened.page.fill("textarea[name=text]", "city " * 100)
    opened.page.click("button[type=submit]")
    opened.page.wait_for_selector(".state.bad")
    assert "64" in opened.page.inner_text(".state")
    asked(opened, "the city")
    assert opened.page.inner_text(".state") == ""


def test_a_running_job_is_cancelled_while_another_waits(
    visit: Callable[..., Opened], monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, stopping = threading.Event(), answer.stopping

    def held(check: Callable[[], None]) -> Any:
        def slow() -> None:
            while not hold.is_set():
                check()
                time.sleep(0.005)

        return stopping(slow)

    monkeypatch.setattr(answer, "stopping", held)
    first, second = visit(), visit()
    for opened in (first, second):
        opened.page.fill("textarea[name=text]", "the river")
        opened.page.click("button[type=submit]")
        opened.page.wait_for_selector("progress")
    second.until("document.querySelector('.state').textContent.includes('Waiting behind 1')")
    first.page.click('[data-tool="cancel"]')
    first.until("document.querySelector('.state').textContent === 'Cancelled.'")
    hold.set()
    second.page.frame_locator("iframe.shown").locator('#view[aria-busy="false"]').wait_for()
    assert first.page.locator("iframe.shown").count() == 0


def test_what_was_chosen_is_on_the_screen_of_a_phone(visit: Callable[..., Opened]) -> None:
    page = visit("/#stored/", width=420).page
    page.wait_for_selector(".shelf nav button")
    assert page.inner_text('[data-at="small.html"] small').startswith("1 kB, "), "and not 0.0 MB"
    page.click('[data-at="surface"]')
    page.wait_for_selector(".shelf .sheet")
    assert not page.locator(".shelf nav").is_visible(), "the list folds away"
    page.click("text=Choose another")
    assert page.locator(".shelf nav").is_visible()
    page.click('[data-at="small.html"]')
    page.wait_for_selector("iframe.shown")
    fold, frame = page.locator(".shelf .fold").bounding_box(), page.locator("iframe.shown").bounding_box()
    assert frame["y"] - fold["y"] - fold["height"] <= 20, "nothing is empty between the list and what was chosen"
    wide = visit("/#stored/surface").page
    wide.wait_for_selector(".shelf .sheet")
    assert "gradient" in wide.evaluate("getComputedStyle(document.querySelector('.sheet')).backgroundImage")
    assert wide.locator(".shelf nav").is_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_stored_results_can_be_browsed(visit: Callable[..., Opened], theme: str) -> None:
    opened = visit(theme=theme)
    opened.page.click('[data-tab="stored"]')
    opened.page.click('[data-at="surface"]')
    opened.page.wait_for_selector("figure img")
    assert "<i>surface</i>" in opened.page.inner_text("h2.name")
    opened.until("document.querySelector('figure img').naturalWidth > 100")
    opened.until("document.querySelector('figure').getAttribute('aria-busy') === 'false'")
    assert opened.page.locator("figure.coming").count() == 0, "the spinner ends with the picture"
    look = opened.page.evaluate("getComputedStyle(document.querySelector('figure img')).filter")
    assert ("invert" in look) == (theme == "dark"), "figures follow the theme"
    opened.page.click('[data-column="entropy"]')
    assert opened.page.locator("td:nth-child(1)").all_text_contents() == ["L0.H1", "L0.H0", "L0.H2"]
    opened.page.click('[data-column="entropy"]')
    assert opened.page.locator("td:nth-child(1)").first.text_content() == "L0.H2"
    with opened.page.expect_download() as download:
        opened.page.click("a[download]")
    assert pl.read_csv(Path(download.value.path())).columns == ["name", "entropy"]
    opened.page.click('[data-at="page.html"]')
    opened.page.frame_locator("iframe.shown").locator('#view[aria-busy="false"]').wait_for()


def rows_of(page: Any) -> list[tuple[str, str]]:
    names = [page.locator(f"td:nth-child({at})").all_text_contents() for at in (1, 3)]
    return [(name, text.partition(";")[0]) for name, text in zip(*names, strict=True)]


@pytest.mark.parametrize("width", [420, 1280])
def test_a_click_on_a_cell_of_a_stored_grid_shows_the_texts_of_its_head(
    visit: Callable[..., Opened], width: int
) -> None:
    """The picture said that its cells could be pointed at, and nothing happened."""
    opened = visit("/#stored/runs%2Ffound", width=width)
    page = opened.page
    page.wait_for_selector("figure figcaption")
    cells = page.locator("figure .cells button[data-head='L1.H2']")
    assert cells.count() == 2, "one in the grid of each pattern"
    said = [cell.get_attribute("title") for cell in cells.all()]
    assert said[0] == "L1.H2: 0.88 “next 1 of L1.H2; a <b>text</b> of enough letters”"
    says = "Click a cell to read the texts in which its head does most of each pattern."
    assert page.inner_text("figcaption") == says
    assert page.inner_text(".texts h3") == "Texts in which heads do most of each pattern, the strongest first"
    assert rows_of(page)[:2] == [("L0.H0", "next 1 of L0.H0"), ("L1.H0", "next 1 of L1.H0")], "0.9 both"
    drawn, corner = page.locator("figure img").bounding_box(), cells.first.bounding_box()
    assert corner["x"] > drawn["x"]
    assert corner["x"] + corner["width"] < drawn["x"] + drawn["width"]
    page.mouse.click(corner["x"] + corner["width"] / 2, corner["y"] + corner["height"] / 2)
    page.wait_for_selector(".texts h3:has-text('L1.H2')")
    assert page.inner_text(".texts h3") == "Texts in which L1.H2 does most of each pattern, the strongest first"
    assert rows_of(page) == [("L1.H2", f"{what} {place} of L1.H2") for what in ("next", "sharp") for place in (1, 2)]
    assert page.url.endswith("#stored/runs%2Ffound&head=L1.H2")
    cells.nth(1).click()
    opened.until("document.querySelector('.texts td:nth-child(3)').textContent.startsWith('sharp 1 of L1.H2')")
    assert [text.split()[0] for _, text in rows_of(page)] == ["sharp", "sharp", "next", "next"], "its pattern first"
    page.select_option("[data-control=texts-of]", "L0.H1")
    page.wait_for_selector(".texts h3:has-text('L0.H1')")
    assert {name for name, _ in rows_of(page)} == {"L0.H1"}
    page.select_option("[data-control=texts-of]", "")
    page.wait_for_selector(".texts h3:has-text('heads do')")
    assert len(rows_of(page)) == 24


def test_a_grid_of_another_study_leads_to_the_texts_in_the_same_folder(visit: Callable[..., Opened]) -> None:
    page = visit("/#stored/runs%2Fnorms").page
    page.wait_for_selector("figcaption")
    assert page.locator("figcaption").count() == 1, "a chart without heads has no cells"
    assert page.locator(".texts h3").count() == 0
    page.click("figure .cells button[data-head='L0.H2'] >> nth=0")
    page.wait_for_selector(".texts h3:has-text('L0.H2')")
    assert "strongest (runs/found)" in page.inner_text("h2.name")
    assert {name for name, _ in rows_of(page)} == {"L0.H2"}
    alone = visit("/#stored/surface").page
    alone.wait_for_selector("figure[aria-busy=false]")
    assert alone.locator(".cells button").count() == 0


def test_a_cell_is_where_the_picture_has_it(visit: Callable[..., Opened]) -> None:
    page = visit("/#stored/runs%2Ffound").page
    page.wait_for_selector("figcaption")
    boxes = {(layer, head): page.locator(f"[data-head='L{layer}.H{head}']").first.bounding_box()
             for layer in (0, 1) for head in (0, 1, 2)}  # fmt: skip
    side = boxes[0, 0]["width"]
    for (layer, head), box in boxes.items():
        assert box["x"] - boxes[0, 0]["x"] == pytest.approx(head * side, abs=1)
        assert box["y"] - boxes[0, 0]["y"] == pytest.approx(layer * boxes[0, 0]["height"], abs=1)


@pytest.mark.parametrize("width", [400, 700, 1280])
def test_the_page_fits_its_window(visit: Callable[..., Opened], width: int) -> None:
    opened = visit(width=width)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


def test_what_is_framed_cannot_reach_the_server(visit: Callable[..., Opened]) -> None:
    opened = visit()
    asked(opened, "the city")
    frame = next(frame for frame in opened.page.frames if "/page" in frame.url)
    assert frame.evaluate("window.origin") == "null"
    reached = frame.evaluate("fetch('/api/stored').then(() => true, () => false)")
    assert reached is False
    opened.trouble.clear()  # the browser says on its console that the policy forbade it
