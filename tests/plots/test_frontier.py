"""The frontier chart: its data, its curve in order, the knee and the limit where they are asked for."""

from __future__ import annotations

import polars as pl

from headwise.plots.frontier import frontier

POINTS = pl.DataFrame(
    {
        "kind": ["trained", "trained", "seed"], "label": ["λ=1", "λ=0", ""], "x": [0.6, 0.2, 0.3],
        "x_low": [0.5, 0.1, 0.2], "x_high": [0.7, 0.3, 0.4], "y": [0.4, 0.0, 0.1], "y_low": [0.3, 0.0, 0.0],
        "y_high": [0.5, 0.1, 0.2],
    }
)  # fmt: skip


def test_points_curve_and_marks() -> None:
    options = {"titles": ("divergence (nats)", "TVD"), "curve": "trained", "kinds": ["trained", "seed"]}
    plain = frontier(POINTS, **options).to_dict()
    marked = frontier(POINTS, **options, marked=(0.4, 0.3, 0.5, "knee"), limit=(0.693, "ln 2")).to_dict()
    texts = [row["name"] for rows in marked["datasets"].values() for row in rows if "name" in row]
    assert {"knee", "ln 2"} <= set(texts)
    assert len(marked["layer"]) == len(plain["layer"]) + 5
    line = next(layer for layer in plain["layer"] if layer["mark"]["type"] == "line")
    assert [row["x"] for row in plain["datasets"][line["data"]["name"]]] == [0.6, 0.2]  # as in the table
    assert line["encoding"]["x"]["title"] == "divergence (nats)"
    ends = {layer["encoding"]["x2"]["field"] for layer in marked["layer"] if "x2" in layer["encoding"]}
    assert ends == {"x_high", "high"}
