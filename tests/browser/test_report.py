"""The report in a real browser: figures drawn, tables sorted and saved, examples opened, no request sent."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

import headwise as hw
from browser.conftest import Opened

pytestmark = pytest.mark.browser
Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def html(load, tmp_path_factory: pytest.TempPathFactory) -> str:
    studies = ["surface", "norms", "nullspace", "distances", "lamps", "strongest", "mixing", "identity"]
    settings = {"mixing": {"texts": 2}, "identity": {"folds": 2}}
    out = tmp_path_factory.mktemp("report")
    path = hw.report(
        load("tiny:bert"), out=out, studies=studies, settings=settings, first=12, truncate=True, max_tokens=48,
        progress=False, command=f"headwise report --corpus /{'folder' * 12}/dev.tsv",
    )  # fmt: skip
    return path.read_text("utf-8")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_figure_is_drawn(theme: str, html: str, open_html: Open) -> None:
    opened = open_html(html, theme=theme)
    figures = opened.page.locator("figure.chart")
    assert figures.count() > 20
    for number in range(figures.count()):
        figures.nth(number).scroll_into_view_if_needed()
        opened.until(f"document.querySelectorAll('figure.chart')[{number}].dataset.drawn")
    assert opened.page.locator('figure.chart[data-drawn="yes"] svg.marks').count() == figures.count()


def test_a_link_leads_to_its_heading_though_figures_are_drawn_on_the_way(html: str, open_html: Open) -> None:
    opened = open_html(html)
    opened.page.click("nav a[href='#identity']")
    opened.until("document.documentElement.dataset.at === 'identity'")
    top = opened.page.evaluate("() => document.getElementById('identity').getBoundingClientRect().top")
    opened.page.wait_for_timeout(300)
    later = opened.page.evaluate("() => document.getElementById('identity').getBoundingClientRect().top")
    assert abs(top) < 5
    assert abs(later) < 5


def test_the_first_page_is_the_verdict(html: str, open_html: Open) -> None:
    opened = open_html(html)
    first = opened.page.inner_text("#verdict")
    assert first.startswith("May a heatmap of this model's attention be shown as an explanation?")
    assert "You may not write" in first
    assert "weights" in first.splitlines()[-1]


def test_a_table_sorts_and_is_saved_as_csv(html: str, open_html: Open) -> None:
    opened = open_html(html)
    opened.page.click("#surface details.data summary")
    opened.page.click("#surface th button:text('entropy')")
    column = "[...document.querySelectorAll('#surface tbody tr')].map(r => parseFloat(r.cells[14].textContent))"
    rising = opened.page.evaluate(f"() => {column}")
    assert rising == sorted(rising)
    with opened.page.expect_download() as download:
        opened.page.click("#surface .csv")
    rows = list(csv.reader(Path(download.value.path()).read_text("utf-8").splitlines()))
    assert rows[0][:3] == ["stack", "quantity", "layer"]
    assert len(rows) > 4


def test_a_head_in_a_grid_leads_to_its_texts(html: str, open_html: Open) -> None:
    opened = open_html(html)
    opened.page.locator("#lamps-lamps").scroll_into_view_if_needed()
    opened.until("document.getElementById('lamps-lamps').dataset.drawn")
    cell = opened.page.locator("#lamps-lamps .mark-rect path").nth(5)
    name = cell.get_attribute("aria-label")
    cell.click()
    opened.until("(document.documentElement.dataset.at || '').startsWith('strongest L')")
    found = opened.page.evaluate("() => document.documentElement.dataset.at").split()[1]
    layer, head = found[1:].split(".H")
    assert f"layer: {layer}" in name
    assert f"head: {head};" in f"{name};"
    rows = opened.page.locator("#strongest tbody tr").all_inner_texts()
    assert rows
    assert all(found in row.split("\t") for row in rows)
    assert opened.page.locator("#strongest details.data").bounding_box()["y"] < 300
    opened.page.fill("#strongest input[type=search]", "no such thing")
    assert opened.page.locator("#strongest tbody tr").count() == 0


def test_a_figure_is_saved_by_its_menu(html: str, open_html: Open) -> None:
    opened = open_html(html)
    opened.page.locator("#surface-fig4").scroll_into_view_if_needed()
    opened.until("document.getElementById('surface-fig4').dataset.drawn")
    opened.page.click("#surface-fig4 summary")
    with opened.page.expect_download() as download:
        opened.page.click("#surface-fig4 a:text('SVG')")
    assert download.value.suggested_filename == "surface-fig4.svg"
    assert "<svg" in Path(download.value.path()).read_text("utf-8")


def test_an_example_opens_in_the_viewer(html: str, open_html: Open) -> None:
    opened = open_html(html)
    opened.page.click("details.example summary >> nth=0")
    frame = opened.page.frame_locator("details.example iframe")
    frame.locator('#view[aria-busy="false"]').wait_for()


def test_it_is_readable_on_a_narrow_screen(html: str, open_html: Open) -> None:
    opened = open_html(html, width=400)
    assert opened.page.evaluate("() => document.documentElement.scrollWidth") <= 400
    for cell in opened.page.locator("#verdict td").all():
        box = cell.bounding_box()
        assert box["x"] + box["width"] <= 400, "no column of the verdict is out of sight"
    heads = "() => [...document.querySelectorAll('#verdict tr:has(td[data-head]) td')].slice(0, 3)"
    heads += ".map((cell) => getComputedStyle(cell, '::before').content)"
    none, interval, n = opened.page.evaluate(heads)
    assert none == "none"
    assert interval.startswith('"95 % interval')
    assert n.startswith('"n'), "the table's head is gone, but each number says what it is"
    for cell in opened.page.locator("#claims td").all():
        box = cell.bounding_box()
        assert box is None or box["x"] + box["width"] <= 400, "nor of the claims"
    opened.page.locator("#lamps-lamps").scroll_into_view_if_needed()
    opened.until("document.getElementById('lamps-lamps').dataset.drawn")
    cells = "[...document.querySelectorAll('#lamps-lamps g.mark-rect path')]"
    ends = opened.page.evaluate(f"() => {cells}.map(cell => cell.getBoundingClientRect().right)")
    assert max(ends) <= 400, "panels stand below each other"


def test_panels_too_small_to_read_stand_below_each_other_and_what_is_wide_still_fades(
    html: str, open_html: Open
) -> None:
    opened = open_html(html, width=570)
    card = opened.page.locator("#strongest-strongest")
    card.scroll_into_view_if_needed()
    opened.until("document.getElementById('strongest-strongest').dataset.drawn")
    assert card.evaluate("e => e.scrollWidth <= e.clientWidth")
    assert "more" not in card.get_attribute("class")
    box, menu = card.bounding_box(), card.locator("details").bounding_box()
    assert menu["x"] + menu["width"] <= box["x"] + box["width"], "its menu is in sight"
    card.evaluate("e => (e.style.maxWidth = '150px', dispatchEvent(new Event('resize')))")
    opened.until("document.getElementById('strongest-strongest').classList.contains('more')")
    assert "gradient" in card.evaluate("e => getComputedStyle(e).maskImage")
    card.evaluate("e => e.scrollLeft = 1e6")
    opened.until("!document.getElementById('strongest-strongest').classList.contains('more')")


@pytest.mark.parametrize(("width", "columns"), [(1280, 4), (800, 2), (640, 2)])
def test_where_panels_would_be_small_fewer_stand_in_a_row(html: str, open_html: Open, width: int, columns: int) -> None:
    """Four grids in a row had letters of seven pixels."""
    opened = open_html(html, width=width)
    opened.page.locator("#lamps-lamps").scroll_into_view_if_needed()
    opened.until("document.getElementById('lamps-lamps').dataset.drawn")
    svg = "document.querySelector('#lamps-lamps svg.marks')"
    shown = f"{svg}.getBoundingClientRect().width / {svg}.width.baseVal.value"
    assert opened.page.evaluate(f"() => {shown}") >= 0.85
    titles = opened.page.locator("#lamps-lamps .role-axis-title text", has_text="head").all()
    boxes = [title.bounding_box() for title in titles]
    assert len(boxes) == 4
    assert len({round(box["x"]) for box in boxes}) == columns
    layers = opened.page.locator("#lamps-lamps .role-axis-title text", has_text="layer")
    assert layers.count() == 4, "each says what it has"


def test_on_a_phone_a_panel_becomes_narrower_and_not_its_letters_smaller(html: str, open_html: Open) -> None:
    opened = open_html(html, width=400)
    for name in ("norms-table2", "norms-fig9", "surface-fig2"):
        opened.page.locator(f"#{name}").scroll_into_view_if_needed()
        opened.until(f"document.getElementById('{name}').dataset.drawn")
        svg = f"document.querySelector('#{name} svg.marks')"
        shown = opened.page.evaluate(f"() => {svg}.getBoundingClientRect().width / {svg}.width.baseVal.value")
        assert shown >= 0.99, name


def test_titles_are_broken_where_they_are_wider_than_the_page(html: str, open_html: Open) -> None:
    opened = open_html(html, width=420)
    for name in ("surface-fig2", "norms-fig3"):
        card = opened.page.locator(f"#{name}")
        card.scroll_into_view_if_needed()
        opened.until(f"document.getElementById('{name}').dataset.drawn")
        assert "more" not in card.get_attribute("class"), "nothing ends in a fade"
        box = card.bounding_box()
        for words in card.locator("g.role-title-text text, g.role-title-subtitle text").all():
            told = words.bounding_box()
            assert told is None or told["x"] + told["width"] <= box["x"] + box["width"]


def test_charts_follow_the_theme_and_fill_their_card(html: str, open_html: Open) -> None:
    opened = open_html(html, theme="dark")
    opened.page.locator("#surface-fig4").scroll_into_view_if_needed()
    opened.until("document.getElementById('surface-fig4').dataset.drawn")
    look = "getComputedStyle(document.querySelector('#surface-fig4{}')).{}"
    assert opened.page.evaluate(f"() => {look.format('', 'backgroundColor')}") == "rgb(23, 27, 34)"
    assert "invert" in opened.page.evaluate(f"() => {look.format(' svg.marks', 'filter')}")
    assert opened.page.evaluate(f"() => {look.format(' svg.marks', 'backgroundColor')}") == "rgba(0, 0, 0, 0)"
    card, chart = (opened.page.locator(f"#surface-fig4{part}").bounding_box() for part in ("", " svg.marks"))
    assert chart["width"] > card["width"] - 80, "but for its menu"
    opened.page.emulate_media(media="print")
    assert opened.page.evaluate(f"() => {look.format(' svg.marks', 'filter')}") == "none", "paper is white"
