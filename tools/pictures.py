"""The pictures of the README and the documentation's front pages, made from the packaged model: `make pictures`.

Run it after a change of what people see, look at the five files, commit them.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, sync_playwright

import headwise as hw

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SHORT = "The trophy does not fit in the suitcase because it is too big."
LONG = (
    "The trophy does not fit in the suitcase because it is too big, although the man who bought it had measured both "
    "of them twice."
)
TUTORIAL = (
    "The trophy does not fit in the brown suitcase because it is too big, so we left the trophy at home, put the "
    "suitcase in the car, and drove to the old city by the river in the north."
)
SECOND = "He was angry, and went back to the shop."
SIZE = {"width": 1280, "height": 900}
TEXTS = 64  # of the report
PIXELS = 72  # an inch, of charts


def main() -> None:
    path = os.environ.get("HEADWISE_CHROMIUM") or shutil.which("chromium")
    if path is None:
        raise SystemExit("pictures: there is no chromium here (apt-get install chromium, or set HEADWISE_CHROMIUM)")
    with TemporaryDirectory() as name, sync_playwright() as playwright:
        folder, model = Path(name), hw.load("demo")
        model.trace(LONG, SECOND).figure(3, 4, query=2).save(IMAGES / "inspect.png", ppi=PIXELS)
        model.trace(TUTORIAL).figure(3, 4, query=2).save(IMAGES / "tutorial-head.png", ppi=PIXELS)
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        page = model.trace(SHORT).save_html(folder / "view.html")
        for theme in ("light", "dark"):
            taken(browser, page, theme, '#view[aria-busy="false"]', f"viewer-{theme}.png")
        hw.report(model, first=TEXTS, out=folder / "report")
        taken(browser, folder / "report" / "report.html", "light", "main", "report.png")
        browser.close()


def taken(browser: Browser, page: Path, theme: str, until: str, name: str) -> None:
    """The first screen of a page once `until` is there."""
    window = browser.new_page(viewport=SIZE, color_scheme=theme)  # pyright: ignore[reportArgumentType]
    window.goto(page.as_uri())
    window.wait_for_selector(until)
    window.wait_for_timeout(1500)  # charts are drawn as they come into sight
    window.screenshot(path=IMAGES / name)
    window.close()


if __name__ == "__main__":
    main()
