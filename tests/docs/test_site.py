"""The documentation as a site: it builds without a warning, and every formula and picture is in it."""

from __future__ import annotations

import re

from docs.pages import built

QUANTITY_SECTIONS = ("Formula", "Reading", "Traps", "Cost", "Reference")


def test_every_page_is_built_with_its_formulas_and_pictures(tmp_path):
    site = built(tmp_path)
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        assert "arithmatex" not in text, f"{page.name}: a formula was not turned into MathML"
        for source in re.findall(r'<img[^>]* src="([^"]+)"', text):
            assert (page.parent / source).exists(), f"{page.name}: there is no picture {source}"
