"""One Chromium for all browser tests, and pages that must stay silent: no error, no dialog, no request."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from references.patience import patience

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Debian's chromium, or the one that HEADWISE_CHROMIUM names."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install playwright)")
    path = os.environ.get("HEADWISE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("there is no chromium here (apt-get install chromium, or set HEADWISE_CHROMIUM)")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*ARGUMENTS, "--disable-sync"])
        yield browser
        browser.close()


def new_context(chromium: Any, **options: Any) -> Any:
    """A fresh profile of the browser in which every wait is patient."""
    context = chromium.new_context(**options)
    context.set_default_timeout(1000 * patience())
    return context


@dataclass
class Opened:
    """A page in the browser and all that it did besides being shown."""

    page: Any
    trouble: list[str] = field(default_factory=list)

    def drawn(self) -> Opened:
        """Wait until the view is finished."""
        self.page.wait_for_selector('#view[aria-busy="false"]')
        return self

    def to(self, **state: object) -> Opened:
        """Go to a state by its link."""
        link = "&".join(f"{key}={value}" for key, value in state.items())
        busy = "document.getElementById('view')?.setAttribute('aria-busy', 'true')"
        self.page.evaluate(f"link => {{ {busy}; location.hash = link }}", link)
        return self.drawn()

    def until(self, script: str) -> None:
        """Wait until an expression holds; from here, since the page's policy forbids evaluating text inside it."""
        deadline = time.monotonic() + patience()
        while not self.page.evaluate(f"() => Boolean({script})"):
            assert time.monotonic() < deadline, f"never true: {script}"
            self.page.wait_for_timeout(20)

    @property
    def shown(self) -> str:
        return self.page.get_attribute("#view", "data-shown")

    def hash(self) -> dict[str, str]:
        return dict(part.split("=") for part in self.page.url.partition("#")[2].split("&"))


@pytest.fixture
def open_html(chromium: Any, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """`open_html(text, hash="#view=matrix", width=1280, theme="light")`; trouble of any kind fails the test."""
    contexts, all_opened = [], []

    def open_(text: str, hash: str = "", *, width: int = 1280, theme: str = "light") -> Opened:  # noqa: A002
        path = tmp_path / f"page-{len(contexts)}.html"
        path.write_text(text, encoding="utf-8")
        context = new_context(chromium, viewport={"width": width, "height": 900}, color_scheme=theme)
        contexts.append(context)
        opened = Opened(context.new_page())
        all_opened.append(opened)
        watch(opened, path.as_uri())
        opened.page.goto(path.as_uri() + hash)
        return opened

    yield open_
    for context in contexts:
        context.close()
    assert [each.trouble for each in all_opened if each.trouble] == []


def watch(opened: Opened, address: str) -> None:
    page, trouble = opened.page, opened.trouble

    def dialog(event: Any) -> None:
        trouble.append(f"dialog: {event.message}")
        event.dismiss()

    def request(event: Any) -> None:
        if not event.url.startswith((address, "data:", "blob:", "about:srcdoc")):
            trouble.append(f"request: {event.url}")

    page.on("dialog", dialog)
    page.on("request", request)
    page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
    page.on("console", lambda message: message.type in ("error", "warning") and trouble.append(message.text))
