"""The page of an explanation in the browser: its text and verdict, its choosers, both themes, what it saves."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from math import ceil
from pathlib import Path

import pytest

from browser.conftest import Opened
from headwise.explanations.explanation import Explanation

pytestmark = pytest.mark.browser
Open = Callable[..., Opened]
HOSTILE = 'The <img src=x onerror=alert(1)> dog & "the" </script> cat.'


@pytest.fixture(scope="module")
def found(load) -> Explanation:
    """Two targets besides the whole, and several methods."""
    return load("tiny:gpt2", "causal-lm").explain(HOSTILE, target=" the sea")


def test_the_text_is_text_and_the_verdict_stands_on_top(found: Explanation, open_html: Open) -> None:
    page = open_html(found.page()).page
    assert page.locator("img").count() == 0
    shown = [re.sub("^[\u0120\u2581]", "", unit.name) for unit in found.units]
    assert page.locator(".text .unit").all_text_contents() == shown
    assert found.verdict is not None
    assert found.verdict.sentence in page.locator('[role="status"]').inner_text()
    assert found.trial is not None
    gone, kept = (found.trial.orders_beaten(side) for side in ("deletion", "insertion"))
    told = (
        f"It beats {gone} of 19 random orders when words go, {kept} when they alone are kept; 19 are needed each way."
    )
    assert told in page.locator("ul.muted").inner_text()
    assert "rests on" in page.locator("h1").inner_text()


def test_what_the_model_itself_says_stands_under_the_target_that_was_chosen(
    found: Explanation, open_html: Open
) -> None:
    assert found.says.startswith("The model itself says: ")
    assert found.says in open_html(found.page()).page.inner_text("#app")
    own = open_html(replace(found, says="").page()).page
    assert own.locator(".says").count() == 0


def test_the_end_of_a_line_that_is_explained_is_seen(found: Explanation, open_html: Open) -> None:
    """“What “ ” rests on” stood above the newline that a language model answers."""
    first, *others = found.targets
    page = open_html(replace(found, targets=(replace(first, name="\n\t"), *others)).page()).page
    assert "\u21b5" in page.locator("h1").inner_text()
    assert "\u21e5" in page.locator("h1").inner_text()


def test_one_pass_is_not_many(found: Explanation, open_html: Open) -> None:
    assert found.trial is not None
    whole = replace(found, passes=1.0, trial=replace(found.trial, passes=1))
    assert " 1 pass." in open_html(whole.page()).page.inner_text("ul.muted")
    assert "explanation: 1 forward pass, a" in open_html(whole.page()).page.inner_text("#app")
    several = replace(found, passes=1200.0, trial=replace(found.trial, passes=2))
    assert " 2 passes." in open_html(several.page()).page.inner_text("ul.muted")
    assert "explanation: 1,200 forward passes, a" in open_html(several.page()).page.inner_text("#app")


def test_a_notebooks_frame_has_the_height_of_the_page(found: Explanation, open_html: Open) -> None:
    page = open_html(f"<!doctype html>{replace(found, trial=None)._repr_html_()}").page
    page.frame_locator("iframe").locator("h1").wait_for()
    body = page.frame_locator("iframe").locator("body").bounding_box()["height"]
    high = min(1200, ceil(body))
    assert high > 640, "which it has where no script runs"
    page.wait_for_function("high => document.querySelector('iframe').clientHeight === high", arg=high)


def test_another_target_and_another_method_have_other_colours(found: Explanation, open_html: Open) -> None:
    page = open_html(found.page()).page

    def colours() -> list[str]:
        return page.locator(".text .unit").evaluate_all("all => all.map(one => one.style.backgroundColor)")

    first = colours()
    page.select_option('[aria-label="explain"]', "1")
    assert found.targets[1].name in page.locator("h1").inner_text()
    second = colours()
    other = next(name for name in found.others if name != "random")
    page.select_option('[aria-label="by"]', label=other)
    assert f"By {other}." in page.locator("p.muted").first.inner_text()
    assert len({tuple(row) for row in (first, second, colours())}) == 3


def test_light_and_dark_and_narrow(found: Explanation, open_html: Open) -> None:
    for theme in ("light", "dark"):
        page = open_html(found.page(), width=400, theme=theme).page
        shade = "getComputedStyle(document.body).backgroundColor"
        before = page.evaluate(shade)
        page.click("text=light or dark")
        assert page.evaluate(shade) != before
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        sheet = "document.querySelector('.sheet')"
        assert page.evaluate(f"{sheet}.scrollWidth <= {sheet}.clientWidth"), "no column is out of sight"
        cell = "getComputedStyle(document.querySelector('.sheet td[data-head]'), '::before').content"
        assert found.method in page.evaluate(cell), "and each number says whose it is"


def test_both_curves_are_saved_as_svg(found: Explanation, open_html: Open) -> None:
    page = open_html(found.page()).page
    files = []
    page.on("download", lambda file: files.append(file))
    page.click("text=save as SVG")
    for _ in range(100):
        if len(files) == 2:
            break
        page.wait_for_timeout(50)
    assert {file.suggested_filename for file in files} == {"headwise-removed.svg", "headwise-kept.svg"}
    for file in files:
        root = ET.fromstring(Path(file.path()).read_text("utf-8"))
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert root.find(".//{http://www.w3.org/2000/svg}polyline") is not None
