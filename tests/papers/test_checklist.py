"""docs/papers.md has every item of the registry, and the registry every figure and table of the papers."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwise.papers import PAPERS
from headwise.papers.checklist import files, page
from headwise.papers.items import chosen_items
from headwise.studies import STUDIES

DOCS = Path(__file__).parents[2] / "docs"
# The figures and tables as the papers number them, by hand; a range stands for each of its figures.
IN_THE_PAPERS = {
    "clark2019": "fig1 rel-pos fig2-top fig2-bottom fig3 fig4 table1 fig5 table2 table3 fig6",
    "brunner2019": "fig2a fig2b fig3 fig4 fig5–15",
    "brunner2020": "§3.1–3.2 §3.3 fig1a fig1b fig1c fig5 fig6 fig2a fig2b fig8–10 fig7 B.2 fig11–13 fig14–17 fig3a "
    "fig3b fig4a fig4b fig18 fig19–25 fig26–37 fig38–43",
    "kobayashi2020": "table1 table4 fig3 table2 fig4 fig10–12 fig5 fig6 fig9 fig7 table3 fig8 fig13–17",
    "yang": "model table1 fig1 table2 parents open",
}


def test_the_page_is_what_the_registry_says() -> None:
    assert (DOCS / "papers.md").read_text("utf-8") == page(), "python -m headwise.papers.checklist > docs/papers.md"


@pytest.mark.parametrize(("paper", "names"), IN_THE_PAPERS.items())
def test_every_figure_and_table_of_a_paper_has_an_item(paper: str, names: str) -> None:
    for name in names.split():
        found = chosen_items(paper, [name])
        assert found, name
        assert all(files(item) for item in found)


def test_what_an_item_draws_is_drawn_somewhere() -> None:
    """A study has a page, and a figure that is the study's own has a caption there; the rest is drawn by the item."""
    for paper in PAPERS.values():
        for item in paper.items:
            study = getattr(item.job, "study", None)
            if study is None:
                continue
            assert (DOCS / "studies" / f"{study}.md").is_file()
            own = {name for name in item.figures if name in STUDIES[study].captions}
            assert own or item.pictures or item.against or item.rows, (paper.name, item.id)
