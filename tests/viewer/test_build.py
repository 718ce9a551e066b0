"""The page as HTML: one file, nothing from outside, text that cannot become code."""

import html
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.viewer.build import ascii_text, bundle, digest, frame_of, html_of, script_json
from viewer.samples import WORDS, full_page

EVIL = (
    "</script><script>alert(1)</script>",
    "<!--",
    '"><img src=x onerror=alert(1)>',
    "\u2028",
    "\x00",
    "\ud800",
    "'&",
)


def evil_page() -> str:
    return html_of(full_page(EVIL))


def test_the_policy_names_exactly_what_the_page_runs() -> None:
    page = evil_page()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert policy.startswith("default-src 'none'; ")
    assert f"script-src '{digest(script)}'" in policy
    assert f"style-src '{digest(style)}'" in policy
    assert "unsafe" not in policy


def test_nothing_is_fetched_from_anywhere() -> None:
    page = evil_page()
    assert not re.search(r"\b(src|href)=[\"']?(https?:)?//", page)
    addresses = set(re.findall(r"https?://[\w./]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink", "http://www.w3.org/1999/xhtml"}


def test_tokens_cannot_leave_the_data() -> None:
    page = evil_page()
    assert page.isascii()
    assert "onerror=alert" not in page.replace("\\u003e", "")[: page.index("<style>")]
    (header,) = re.findall(r'<script type="application/json" id="header">(.*?)</script>', page, re.DOTALL)
    assert json.loads(header)["stacks"][0]["queries"]["tokens"] == list(EVIL)
    assert not set(header) & set("<>&'")


@given(st.text())
def test_any_text_survives_and_stays_inside_its_element(text: str) -> None:
    written = script_json({"text": text})
    assert json.loads(written) == {"text": text}
    assert written.isascii()
    assert not set(written) & set("<>&")


@pytest.mark.parametrize("title", ["", "<b>&amp;</b>", "a" * 500, "\x00\u202e"])
def test_titles_are_short_plain_text(title: str) -> None:
    page = full_page(WORDS)
    text = html_of(page.__class__(**{**vars(page), "title": title}))
    (shown,) = re.findall(r"<title>(.*?)</title>", text)
    assert "<" not in shown
    assert len(html.unescape(shown)) <= 75


def test_a_notebook_gets_the_page_in_a_sandboxed_frame() -> None:
    frame = frame_of(full_page(EVIL))
    (source,) = re.findall(r'srcdoc="([^"]*)"', frame)
    assert html.unescape(source) == evil_page()
    assert 'sandbox="allow-scripts allow-downloads"' in frame


def test_the_bundle_cannot_end_its_own_element() -> None:
    assert "</script" not in bundle("viewer.js").lower()
    assert "</style" not in bundle("viewer.css").lower()


def test_a_space_that_does_not_break_is_kept_and_control_characters_are_not() -> None:
    assert ascii_text("77\u00a0% <b>\x1b\u202e") == "77&#160;% &lt;b&gt;"
