"""Figures for a paper: the width is the one asked for in every format, and caption and data are beside."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import altair as alt
import polars as pl
import pytest

from headwise.errors import InputError
from headwise.plots.paper import Paper, caption, inches, save_paper, styled
from headwise.plots.theme import themed

TABLE = pl.DataFrame({"layer": [0, 1, 2], "share": [0.1, 0.4, 0.2]})
SPEC = themed(
    alt.Chart(TABLE).mark_line().encode(x="layer:O", y="share:Q"), "Where it goes", "Mean over texts"
).to_dict()


def test_the_width_is_the_one_asked_for(tmp_path: Path) -> None:
    for ending in ("svg", "pdf", "png"):
        save_paper(SPEC, tmp_path / f"f.{ending}", Paper(width=3.3, font="serif", title=False))
    svg = (tmp_path / "f.svg").read_text()
    assert float(re.search(r'<svg[^>]*?\bwidth="([\d.]+)"', svg)[1]) == pytest.approx(3.3 * 96, rel=0.01)  # type: ignore[index]
    assert "Times" in svg
    assert "Where it goes" not in svg
    box = re.search(rb"/MediaBox\s*\[\s*0 0 ([\d.]+)", (tmp_path / "f.pdf").read_bytes())
    assert box is not None
    assert float(box[1]) == pytest.approx(3.3 * 72, rel=0.01)
    assert struct.unpack(">I", (tmp_path / "f.png").read_bytes()[16:20])[0] == pytest.approx(3.3 * 300, rel=0.01)


def test_caption_and_data_are_beside_it(tmp_path: Path) -> None:
    written = save_paper(SPEC, tmp_path / "f.svg", Paper(), of="bert on wiki.txt, 12 texts")
    assert [path.name for path in written] == ["f.svg", "f.caption.txt", "f.csv"]
    assert (tmp_path / "f.caption.txt").read_text() == "Where it goes. Mean over texts. bert on wiki.txt, 12 texts.\n"
    assert pl.read_csv(tmp_path / "f.csv").sort("layer").equals(TABLE)
    assert "Where it goes" in (tmp_path / "f.svg").read_text()


def test_every_table_of_a_figure_is_a_file_that_can_be_read(tmp_path: Path) -> None:
    """A dashed line is a table of one row, and comes after what it is drawn through."""
    spec = {**SPEC, "datasets": {"line": [{"x": 32}], **SPEC["datasets"]}}
    written = save_paper(spec, tmp_path / "f.svg", Paper())
    assert [path.name for path in written] == ["f.svg", "f.caption.txt", "f.csv", "f-2.csv"]
    assert pl.read_csv(tmp_path / "f.csv").sort("layer").equals(TABLE)
    assert pl.read_csv(tmp_path / "f-2.csv").to_dicts() == [{"x": 32}]


def test_the_figure_is_light_and_the_result_is_left_as_it_is() -> None:
    drawn = styled({"title": "x", "config": {"background": "#000"}}, Paper(font="Palatino", title=False))
    assert drawn == {"config": {"background": "white", "font": "Palatino"}}
    assert SPEC["title"]["text"] == "Where it goes"
    assert caption({"title": "Only this"}, "") == "Only this.\n"


@pytest.mark.parametrize("width", ["", "3.3", "0in", "wide", "-3in", "900in", "3 feet"])
def test_widths_that_are_none(width: str) -> None:
    with pytest.raises(InputError, match=r"3\.3in"):
        inches(width)


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.svg, \.png, \.pdf"):
        save_paper(SPEC, tmp_path / "f.jpg", Paper())
