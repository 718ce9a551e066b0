"""The documentation from the disk: it asks nothing of the network, and its search works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from browser.conftest import Opened, new_context, watch
from docs.pages import built

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("site"))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_open_from_the_disk_in_silence(theme: str, site: Path, chromium: Any) -> None:
    context = new_context(chromium, color_scheme=theme)
    opened = Opened(context.new_page())
    watch(opened, site.as_uri())
    for page in ("index.html", "tutorial.html", "quantities/effective.html", "gallery.html"):
        opened.page.goto((site / page).as_uri(), wait_until="load")
        assert opened.page.locator("h1").count() == 1
    scheme = opened.page.get_attribute("body", "data-md-color-scheme")
    context.close()
    assert scheme == {"light": "default", "dark": "slate"}[theme]
    assert opened.trouble == []


def test_search_finds_words_from_the_disk(site: Path, chromium: Any) -> None:
    context = new_context(chromium)
    opened = Opened(context.new_page())
    watch(opened, site.as_uri())
    opened.page.goto((site / "index.html").as_uri(), wait_until="load")
    opened.page.locator(".md-search__input").fill("trophy")
    opened.until("document.querySelector('.md-search-result__item a[href*=\"tutorial\"]')")
    context.close()
    assert opened.trouble == []
