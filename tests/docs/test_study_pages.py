"""Every study has a page of its own, which shows how to run it and says where its formula comes from."""

from __future__ import annotations

import pytest

from docs.pages import ROOT, blocks, commands
from headwise.studies import STUDIES

FOLDER = ROOT / "docs" / "studies"
every_study = pytest.mark.parametrize("name", list(STUDIES))


@every_study
def test_a_study_has_a_page_that_runs_it(name: str) -> None:
    page = FOLDER / f"{name}.md"
    assert page.is_file(), f"write docs/studies/{name}.md"
    assert page.read_text("utf-8").startswith(f"# `{name}`")
    shown = [words for block in blocks(page) if block.language == "sh" for words in commands(block.text)]
    assert any(words[:2] == ["headwise", "run"] and name in words[2].split(",") for words in shown)


@every_study
def test_the_index_leads_to_it(name: str) -> None:
    assert f"({name}.md)" in (FOLDER / "index.md").read_text("utf-8")


def test_no_page_is_of_a_study_that_is_not_there() -> None:
    assert {page.stem for page in FOLDER.glob("*.md")} - {"index"} == set(STUDIES)
