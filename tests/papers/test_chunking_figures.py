"""The figures of the tagger experiment, from tables by hand: what is joined to a curve, and what stands beside it."""

from __future__ import annotations

from itertools import count

import polars as pl
import pytest

from headwise.papers.chunking.facts import NUMBERS
from headwise.papers.chunking.figures import figures
from references.specs import views

KINDS = [("base", None), ("adversary", 0.2), ("adversary", 3.0), ("other seed", None), ("uniform put in", None),
         ("random put in", None), ("permuted put in", None)]  # fmt: skip


def curve() -> pl.DataFrame:
    """Two seeds of each kind; no two numbers are the same."""
    number = count(1)
    rows = [{"kind": kind, "lambda": value, "seed": seed, **{name: next(number) / 100 for name in NUMBERS}}
            for kind, value in KINDS for seed in (0, 1)]  # fmt: skip
    return pl.DataFrame(rows)


KNEES = pl.DataFrame([(x, y, 0.3, 0.2, 0.4) for x, y in (("kl", "nll"), ("matched", "tvd"))],
                     schema=["divergence", "loss", "at", "low", "high"], orient="row")  # fmt: skip


@pytest.mark.parametrize(
    ("figure", "x", "y", "beside"),
    [("fig1", "kl", "nll", ["other seed"]),
     ("matched", "matched", "tvd", ["other seed", "uniform put in", "random put in"])],
)  # fmt: skip
def test_adversaries_are_the_curve_and_controls_stand_beside_it(figure: str, x: str, y: str, beside: list[str]) -> None:
    spec = figures({"curve": curve(), "knees": KNEES})[figure].to_dict()
    (line,) = (view for view in views(spec) if view.mark == "line")
    means = curve().filter(kind="adversary").group_by("lambda", maintain_order=True).agg(pl.col(x, y).mean())
    assert [row["label"] for row in line.rows] == ["λ=0.2", "λ=3"]
    for axis, name in (("x", x), ("y", y)):
        assert [row[axis] for row in line.rows] == pytest.approx(means[name].to_list())
    (points,) = (view for view in views(spec) if view.mark == "point")
    kinds = ["trained adversaries", *beside]
    assert list(dict.fromkeys(row["kind"] for row in points.rows)) == kinds
    colour = next(part for part in spec["layer"] if part["mark"]["type"] == "point")["encoding"]["color"]
    assert colour["scale"]["domain"] == kinds
