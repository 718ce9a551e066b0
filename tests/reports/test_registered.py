"""A study that is registered, and nothing else: it is in the list, in the report's agenda, answers and sections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl
import pytest
import torch
from typer.testing import CliRunner

import headwise as hw
from headwise.cli import app
from headwise.plots.grid import head_grid
from headwise.plots.theme import themed
from headwise.stats import Sums
from headwise.studies import STUDIES
from headwise.studies.answers import BELIEVE, Answer, Vote
from headwise.studies.study import Study, at, head_rows


@pytest.fixture
def registered() -> Iterator[type[Study]]:
    @STUDIES.add("sharpness", "the largest weight of a row, in the mean")
    @dataclass(frozen=True)
    class Sharpness(Study):
        title: ClassVar[str] = "How sharp heads are"
        captions: ClassVar[dict[str, str]] = {"sharp": "the largest weight of each head"}
        power: int = 1

        @classmethod
        def for_report(cls, means):  # noqa: ARG003
            return {"power": 2}

        def observe(self, layer, reading):
            rows = reading.row_weights(layer)
            total = torch.einsum("bhq,bq->h", layer.alpha.amax(-1).double() ** self.power, rows)
            return {at("sharp", layer): Sums(total, rows.sum().expand_as(total).clone())}

        def table(self, state, setting):  # noqa: ARG002
            sums = {"sharp": [found.mean for found in state.by_layer(Sums, "sharp", "self")]}
            return head_rows(sums, stack="self")

        def figures(self, state, setting):
            heads = self.table(state, setting).with_columns(what=pl.lit("sharp"), value="sharp")
            return {"sharp": themed(head_grid(heads, {"sharp": "largest weight"}), "sharp heads")}

        def answers(self, table, setting):  # noqa: ARG002
            yield Answer("How sharp is it?", f"{len(table)} heads were looked at.", headline="Sharp enough.")
            yield Answer(BELIEVE, "It is sharp.", vote=Vote("unique", "no", "a registered study says so"))

    yield Sharpness
    STUDIES.remove("sharpness")


@pytest.mark.usefixtures("registered")
def test_a_registered_study_is_in_the_list_and_in_the_report_without_another_edit(load, tmp_path) -> None:
    listed = CliRunner().invoke(app, ["list", "studies"]).output
    assert "sharpness" in listed
    assert "power=1" in listed
    few = [
        "The city was in the north of it.",
        "The old sea, and so it was.",
        "The sea was old.",
        "So it was in the city.",
    ]
    (tmp_path / "few.txt").write_text("\n\n".join(few), "utf-8")  # as many as a vote takes
    page = hw.report(
        load("tiny:bert"), corpus=tmp_path / "few.txt", out=tmp_path / "out", settings={"mixing": {"texts": 1}},
        progress=False,
    )  # fmt: skip
    html = page.read_text("utf-8")
    assert "sharpness" in re.findall(r'<section id="([^"]+)"', html)
    assert "<h2>How sharp heads are</h2>" in html
    assert "<code>sharp</code> the largest weight of each head" in html
    assert "<h3>How sharp is it?</h3><p class='short'>Sharp enough.</p>" in html
    assert re.search(r"Not the raw weights: .*a registered study says so\. Decided by (lamps, )*sharpness, of ", html)
    assert "<dt>sharpness</dt><dd>power = 2</dd>" in html
    assert hw.open(page.parent / "results" / "sharpness").manifest["settings"] == {"power": 2}
