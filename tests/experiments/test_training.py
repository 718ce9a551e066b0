"""The page of experiments/training: intervals and ranks by hand, and only seeds with both kinds of runs."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from headwise.callbacks import NUMBERS
from references.scripts import script

FOLDER = Path(__file__).parents[2] / "experiments" / "training"


@pytest.fixture(scope="module")
def page():
    return script("experiments/training/page.py")


def heads(*drifts: float) -> pl.DataFrame:
    """Two looks at one layer: nothing at the first, the drifts at the last."""
    rows = [(step, 0, at, f"L0.H{at}", *[value * (step > 0)] * len(NUMBERS)) for step in (0, 40)
            for at, value in enumerate(drifts)]  # fmt: skip
    return pl.DataFrame(rows, schema=["step", "layer", "head", "name", *NUMBERS], orient="row")


def test_every_run_that_has_ended_is_read_in_order(page, tmp_path: Path) -> None:
    for name in ("true-1", "shuffled-0", "true-0"):
        heads(0.1, 0.2).write_parquet(tmp_path / f"{name}.parquet")
        (tmp_path / f"{name}.json").write_text(json.dumps({"seed": name}))
    heads(0.1).write_parquet(tmp_path / "shuffled-1.parquet")  # its note is written last
    found, known = page.kept(tmp_path)
    assert list(found) == list(known) == [("true", 0), ("shuffled", 0), ("true", 1)]


def test_intervals_by_hand(page) -> None:
    assert page.mean_and_interval([1.0, 2.0, 3.0]) == "2.000 [-0.484, 4.484]"  # t of 2 degrees: 4.3027, over √3
    assert page.mean_and_interval([1.5]) == "1.500"


def test_changes_are_paired_by_seed(page) -> None:
    runs = {("true", 0): heads(0.5, 0.7), ("shuffled", 0): heads(0.1, 0.1), ("true", 1): heads(1.0, 1.0),
            ("shuffled", 1): heads(0.5, 0.5), ("true", 2): heads(9.0, 9.0)}  # fmt: skip
    row = page.changes(runs)[2]
    assert row.startswith("| to sinks (share) | 0.000 | 0.800 [")
    assert "| 0.500 [0.500, 0.500] |" in row  # 0.6 − 0.1 and 1.0 − 0.5; seed 2 has no control
    assert row.endswith("| [0.450, 0.550] |")  # of the heads, over both seeds: (0.4 + 0.5) / 2 and (0.6 + 0.5) / 2
    assert ", 2 seeds |" in page.changes(runs)[0]


def test_ranks_and_which_runs_are_compared(page) -> None:
    same = page.rank_agreement([1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0])
    assert same[0] == pytest.approx(1.0)
    assert page.rank_agreement([1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0])[0] == pytest.approx(-1.0)
    kinds = page.pairs_of([("true", 0), ("shuffled", 0), ("true", 1), ("shuffled", 1)])
    assert {kind: len(pairs) for kind, pairs in kinds.items()} == {
        "same seed, true and shuffled": 2, "other seeds, true labels": 1, "other seeds, true and shuffled": 2,
        "other seeds, shuffled labels": 1,
    }  # fmt: skip


def test_the_page_is_of_the_tables(page) -> None:
    """What README.md shows is what tables/ give (written by `heads.py page`)."""
    found, known = page.kept(FOLDER / "tables")
    text = (FOLDER / "README.md").read_text("utf-8")
    assert len(found) >= 2
    for line in [*page.knowledge(known), *page.changes(found), *page.by_layer(found)]:
        assert line in text
