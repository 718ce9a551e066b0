"""The pages of experiments/: every link and picture is there, and what can be made again is not kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "experiments"
PAGES = sorted(ROOT.rglob("README.md"))
MOST_BYTES = 8_000_000
KEPT = {".csv", ".md", ".py", ".sh", ".parquet", ".json", ".svg", ".png", ".de", ".en", ".talp"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.parent.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    for link in links:
        assert link.startswith("https://") or (page.parent / link).exists(), link


def test_every_picture_is_shown_by_a_page() -> None:
    pages = [*PAGES, *(ROOT.parent / "docs").rglob("*.md")]
    linked = {
        (page.parent / link).resolve()
        for page in pages
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8"))
    }
    gallery = "".join(page.read_text("utf-8") for page in pages)
    for picture in (path for path in files() if path.suffix in (".png", ".svg")):
        assert picture.resolve() in linked or str(picture.relative_to(ROOT.parent)) in gallery, picture


def test_what_can_be_made_again_is_not_kept() -> None:
    assert {path.suffix for path in files()} <= KEPT
    assert sum(path.stat().st_size for path in files()) <= MOST_BYTES


def files() -> list[Path]:
    return [path for path in ROOT.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
