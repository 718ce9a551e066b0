"""Figures for a paper: the width is the one asked for in every format, and caption and data are beside."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
import pytest
import vl_convert

from headwise.errors import InputError
from headwise.plots.grid import head_grid
from headwise.plots.intervals import dots
from headwise.plots.paper import (
    READABLE,
    Paper,
    caption,
    fitted,
    inches,
    letters,
    save_paper,
    styled,
    too_small,
)
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


def test_a_sentence_may_go_on_in_the_next_line_of_the_caption() -> None:
    under = ["Raw weights are probabilities, norms are", "lengths. A peak", "is one. Two things", "Look twice!"]
    assert caption({"title": {"text": "Heads", "subtitle": under}}, "bert on wiki.txt") == (
        "Heads. Raw weights are probabilities, norms are lengths. A peak is one. Two things. Look twice! bert on "
        "wiki.txt.\n"
    )


def grids(panels: int, heads: int = 12) -> dict[str, Any]:
    rows = [{"layer": 0, "head": head, "name": f"L0.H{head}", "what": f"w{at}", "value": (at + head) / 20}
            for at in range(panels) for head in range(heads)]  # fmt: skip
    drawn = head_grid(pl.DataFrame(rows), {f"w{at}": f"panel {at}" for at in range(panels)})
    return themed(drawn, "Grids", "").to_dict()


@pytest.mark.parametrize(("width", "columns"), [(3.3, 1), (7.0, 2), (11.0, 3)])
def test_panels_stand_below_each_other_where_they_could_not_be_read(width: float, columns: int) -> None:
    spec, paper = grids(3), Paper(width=width, font="serif", title=False)
    drawn = fitted(styled(spec, paper), paper)
    assert drawn["columns"] == columns
    assert letters(drawn, width) >= READABLE
    assert columns == 3 or letters({**drawn, "columns": columns + 1}, width) < READABLE, "no more would do"
    assert too_small(spec, paper) == ""
    assert fitted(spec, Paper()) is spec, "as drawn"


@pytest.mark.parametrize(("width", "columns"), [(3.3, 1), (5.3, 2), (9.0, 3)])
def test_the_first_panel_of_every_row_names_what_is_compared(width: float, columns: int) -> None:
    rows = [{"what": what, "name": name, "value": 0.1, "low": 0.0, "high": 0.2}
            for what in "abc" for name in ("alti-rollout", "random")]  # fmt: skip
    panels = {what: f"panel {what}" for what in "abc"}
    drawn = dots(pl.DataFrame(rows), panels, order=["alti-rollout", "random"], control="random")
    spec = themed(drawn, "Compared").to_dict()
    svg = vl_convert.vegalite_to_svg(spec)
    assert svg.count(">alti-rollout</text>") == 1, "beside each other they share their names"
    paper = Paper(width=width, title=False)
    stood = fitted(styled(spec, paper), paper)
    assert stood["columns"] == columns
    svg = vl_convert.vegalite_to_svg(stood)
    for name in ("alti-rollout", "random"):
        assert svg.count(f">{name}</text>") == -(-3 // columns)


@pytest.mark.parametrize("panels", [1, 3])
def test_a_long_title_does_not_make_the_figure_smaller(panels: int) -> None:
    """A title of 73 letters over one column of panels took twice their width, and left 3-point letters."""
    spec, paper = grids(panels), Paper(width=3.3)
    spec["title"] = {
        "text": "SmolLM2-135M-Instruct: which explanations hold when tokens are removed",
        "subtitle": "A " * 90,
    }
    bare = letters(fitted(styled(spec, Paper(width=3.3, title=False)), paper), 3.3)
    assert letters(fitted(styled(spec, paper), paper), 3.3) == pytest.approx(bare, rel=0.1)
    assert bare >= READABLE


def test_a_row_that_two_layers_draw_is_once_in_the_data(tmp_path: Path) -> None:
    rows = [{"what": "a", "name": name, "value": 0.1, "low": 0.0, "high": 0.2} for name in ("rollout", "random")]
    drawn = dots(pl.DataFrame(rows), {"a": "panel"}, order=["rollout", "random"], control="random")
    save_paper(themed(drawn, "Compared").to_dict(), tmp_path / "d.svg", Paper())
    assert pl.read_csv(tmp_path / "d.csv")["name"].sort().to_list() == ["random", "rollout"]


def test_letters_that_are_too_small_however_the_panels_stand_are_told() -> None:
    said = too_small(grids(1, heads=40), Paper(width=3.3))
    size, width = re.findall(r"letters are ([\d.]+) points.*--width ([\d.]+)in is enough", said)[0]
    assert float(size) < READABLE
    assert too_small(grids(1, heads=40), Paper(width=float(width))) == ""


def test_tables_of_panels_are_one_that_names_the_panel(tmp_path: Path) -> None:
    written = save_paper(grids(3), tmp_path / "g.svg", Paper())
    assert [path.name for path in written] == ["g.svg", "g.caption.txt", "g.csv"]
    table = pl.read_csv(tmp_path / "g.csv")
    assert table.columns[0] == "panel"
    assert dict(table["panel"].value_counts().iter_rows()) == {f"panel {at}": 12 for at in range(3)}
    assert table.filter(panel="panel 2", head=3)["value"].item() == pytest.approx(0.25)


@pytest.mark.parametrize("width", ["", "3.3", "0in", "wide", "-3in", "900in", "3 feet"])
def test_widths_that_are_none(width: str) -> None:
    with pytest.raises(InputError, match=r"3\.3in"):
        inches(width)


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.svg, \.png, \.pdf"):
        save_paper(SPEC, tmp_path / "f.jpg", Paper())
