"""The documentation as a site: it builds without a warning, names everything there is, and needs no network to read."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from docs.pages import ROOT, blocks
from headwise.attributions import ORIGINS, PASSES
from headwise.measures import ATTENTION, MIXING
from headwise.studies import STUDIES

QUANTITY_SECTIONS = ("Formula", "Reading", "Traps", "Cost", "Reference")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    return folder


@pytest.mark.parametrize("name", [*ATTENTION, *MIXING, *PASSES, *ORIGINS])
def test_every_quantity_has_a_page_with_the_same_sections(name):
    page = ROOT / "docs" / "quantities" / f"{name}.md"
    text = page.read_text("utf-8")
    assert text.startswith(f"# `{name}`: ")
    assert tuple(re.findall(r"^## (.+)$", text, re.MULTILINE)) == QUANTITY_SECTIONS
    assert any(block.language == "python" for block in blocks(page)), "an example that is run"


def test_no_page_is_of_a_quantity_that_is_not_there():
    pages = {page.stem for page in (ROOT / "docs" / "quantities").glob("*.md")}
    assert pages == {*ATTENTION, *MIXING, *PASSES, *ORIGINS, "index", "origins", "alternatives"}
