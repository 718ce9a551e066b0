"""Heads in a plane: where the words of those that have a name stand."""

from __future__ import annotations

from itertools import pairwise

import polars as pl

from headwise.plots.plane import LINE, named, spread
from references.specs import views


def test_words_of_heads_far_to_the_right_stand_to_their_left() -> None:
    heads = pl.DataFrame(
        [("L0.H0", -1.0, 0.0, "det"), ("L0.H1", 0.2, 0.5, "obj"), ("L1.H0", 0.9, 0.1, "nsubj"), ("L1.H1", 1, 0, None)],
        schema=["name", "x", "y", "does"], orient="row",
    ).with_columns(kind=pl.when(pl.col("does").is_not_null()).then(pl.lit("a relation")))  # fmt: skip
    spec = named(heads, "nats").to_dict()
    words = [layer for layer in spec["layer"] if layer["mark"]["type"] == "text"]
    found = {layer["mark"]["align"]: view for layer, view in zip(words, views({**spec, "layer": words}), strict=True)}
    assert [row["told"] for row in found["left"].rows] == ["L0.H0 det", "L0.H1 obj"]
    assert [row["told"] for row in found["right"].rows] == ["L1.H0 nsubj"]
    assert {layer["mark"]["align"]: layer["mark"]["dx"] > 0 for layer in words} == {"left": True, "right": False}


def test_words_of_near_points_stand_below_each_other() -> None:
    near, far = spread([(0.2, 0.1), (0.25, 0.11), (0.3, 0.09)], 1.0), spread([(0.2, 0.1), (0.7, 0.11), (0.2, 0.3)], 1.0)
    ordered = sorted(near, reverse=True)
    assert near[1] == 0.11  # the highest stays
    assert all(above - below >= LINE - 1e-9 for above, below in pairwise(ordered))
    assert far == [0.1, 0.11, 0.3]
