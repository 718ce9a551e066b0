"""Every study has a page of its own, which shows how to run it and says where its formula comes from."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from docs.pages import ROOT, blocks, commands
from headwise.studies import STUDIES
from references.scripts import script

FOLDER = ROOT / "docs" / "studies"
PAGES = sorted(page.stem for page in FOLDER.glob("*.md") if page.stem != "index")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_a_study_runs_it(name: str) -> None:
    page = FOLDER / f"{name}.md"
    assert page.read_text("utf-8").startswith(f"# `{name}`")
    shown = [words for block in blocks(page) if block.language == "sh" for words in commands(block.text)]
    assert any(words[:2] == ["headwise", "run"] and name in words[2].split(",") for words in shown)


def hooks() -> ModuleType:
    """What the site does to the pages, from docs/.mkdocs."""
    return script("docs/.mkdocs/hooks.py", name="docs_hooks")


def test_the_index_shows_every_study_in_its_own_words() -> None:
    shown = hooks().on_page_markdown((FOLDER / "index.md").read_text("utf-8"))
    rows = [line for line in shown.splitlines() if line.startswith("| [`")]
    assert [row.split("`")[1] for row in rows] == list(STUDIES)
    syntax = next(row for row in rows if row.startswith("| [`syntax`](syntax.md) |"))
    assert "| an encoder or a decoder; parse | `table1`, `heads` | `quantities`," in syntax


def test_a_study_without_a_page_gets_one_of_its_own_words(tmp_path: Path) -> None:
    assert hooks().without_page(ROOT / "docs") == []
    assert hooks().without_page(tmp_path) == list(STUDIES)
    page = hooks().page_of_study("coref")
    assert page.startswith("# `coref`: Heads as finders of antecedents\n\nEvery head as a finder of antecedents")
    assert "headwise run coref --out out" in page
    assert "- `table2`: the best head at finding antecedents, against rules (Clark et al. 2019)" in page


def test_no_page_is_of_a_study_that_is_not_there() -> None:
    assert set(PAGES) <= set(STUDIES)
