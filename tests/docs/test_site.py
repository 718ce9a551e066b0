"""The documentation as a site: it builds without a warning, with every formula and picture, and names what there is."""

from __future__ import annotations

import re

import pytest

from docs.pages import ROOT, blocks, built
from headwise.quantities import AXES, Quantity, every
from headwise.traces import LongTrace, Trace

QUANTITIES = tuple(quantity.name for quantity in every())
QUANTITY_SECTIONS = ("Formula", "Reading", "Traps", "Cost", "Reference")


def test_every_page_is_built_with_its_formulas_and_pictures(tmp_path):
    site = built(tmp_path)
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        assert "unpkg.com" not in text, f"{page.name}: a script would be fetched; see docs/.mkdocs/hooks.py"
        assert "arithmatex" not in text, f"{page.name}: a formula was not turned into MathML"
        for source in re.findall(r'<img[^>]* src="([^"]+)"', text):
            assert (page.parent / source).exists(), f"{page.name}: there is no picture {source}"
    cells = re.findall(r'<td><a href="([^"]+)">[✅❌❔➖]</a>', (site / "evidence.html").read_text("utf-8"))
    assert len(cells) > 60, "a verdict leads to the page of its numbers"
    for link in cells:
        assert "verdict" in (site / link).read_text("utf-8"), f"evidence: {link} has no numbers"


@pytest.mark.parametrize("name", QUANTITIES)
def test_every_quantity_has_a_page_with_the_same_sections(name):
    page = ROOT / "docs" / "quantities" / f"{name}.md"
    text = page.read_text("utf-8")
    assert text.startswith(f"# `{name}`: ")
    assert tuple(re.findall(r"^## (.+)$", text, re.MULTILINE)) == QUANTITY_SECTIONS
    assert any(block.language == "python" for block in blocks(page)), "an example that is run"


def test_no_page_is_of_a_quantity_that_is_not_there():
    pages = {page.stem for page in (ROOT / "docs" / "quantities").glob("*.md")}
    assert pages == {*QUANTITIES, "index", "origins", "alternatives"}


def row_of(quantity: Quantity) -> str:
    return f"| [`{quantity.name}`]({quantity.name}.md) | {quantity.about} | {quantity.rows} | {quantity.cost} |"


def test_the_index_is_the_table_of_the_records():
    """To mend: write the lines that this test expects into the page."""
    page = (ROOT / "docs" / "quantities" / "index.md").read_text("utf-8")
    for kind in AXES:
        expected = [row_of(quantity) for quantity in every() if quantity.kind == kind]
        missing = [row for row in expected if row not in page]
        assert not missing, "\n".join(missing)
    assert tuple(re.findall(r"^\| \[`([^`]+)`\]", page, re.MULTILINE)) == QUANTITIES


def test_the_index_says_what_is_signed():
    page = " ".join((ROOT / "docs" / "quantities" / "index.md").read_text("utf-8").split())
    signed = [f"`{quantity.name}`" for quantity in every() if quantity.signed]
    assert f"Only {' and '.join(signed)} are signed." in page


def test_every_method_of_a_trace_that_the_documentation_names_is_in_the_public_surface():
    """`attention_interval` was in the README and not in the API page, which says that other names may change."""
    text = "".join(page.read_text("utf-8") for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")))
    named = set(re.findall(r"\btrace\.([a-z]\w*)", text))
    methods = {name for kind in (Trace, LongTrace) for name in named if callable(getattr(kind, name, None))}
    assert {"attention_interval", "top"} <= methods
    api = (ROOT / "docs" / "api.md").read_text("utf-8")
    listed = re.findall(r"traces\.(?:trace\.Trace|long\.LongTrace)\n +options: \{members: \[(.*)\]", api)
    assert methods - set(", ".join(listed).split(", ")) == set()
