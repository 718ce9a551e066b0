"""Lines between words: which are drawn, how dark, which are coloured."""

from __future__ import annotations

import re

import numpy as np

from headwise.plots.bipartite import lines_between


def test_lines_of_a_small_map() -> None:
    weights = np.array([[0.9, 0.4, 0.2], [0.0, 0.5, 0.5], [-0.3, 0.001, 0.1]])
    np.fill_diagonal(weights, 0.0)
    spec = lines_between(weights, ["a", "b", "c"], title="t", marked=[(1, 2)], names="gold").to_dict()
    lines = [row for rows in spec["datasets"].values() for row in rows if "share" in row]
    found = {(row["from"], row["to"]): (row["share"], row["kind"]) for row in lines}
    # of the first row 0.4 is the most, of the last one 0.001; what is negative has no line
    assert found == {(0, 1): (1.0, "other"), (0, 2): (0.5, "other"), (1, 2): (1.0, "gold"), (2, 1): (1.0, "other")}
    colours = {c for part in spec["layer"] for c in part["encoding"].get("color", {}).get("scale", {}).get("range", ())}
    assert len(colours) == 2
    assert all(re.fullmatch("#[0-9A-Fa-f]{6}", colour) for colour in colours)
    spelled = [row["word"] for rows in spec["datasets"].values() for row in rows if "word" in row]
    assert spelled == ["a", "b", "c"]


def test_a_head_that_gives_nothing_has_no_lines() -> None:
    spec = lines_between(np.zeros((2, 2)), ["a", "b"], title="t").to_dict()
    assert not [row for rows in spec["datasets"].values() for row in rows if "share" in row]
