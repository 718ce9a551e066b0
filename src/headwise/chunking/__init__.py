"""Could a tagger attend elsewhere and say the same? Yang's experiment on chunking, run by `headwise reproduce yang`.

After Jain & Wallace 2019 and Wiegreffe & Pinter 2019: base taggers (experiment.py) and adversaries trained to tag as
they do and to attend elsewhere, probes under frozen attention, tables (facts.py) and figures (figures.py).

OUT/base, OUT/adversaries, OUT/probe-…    members, resumable
OUT/tables/NAME.parquet                   with NAME.json: plan, versions, seconds
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from headwise.chunking.experiment import Experiment, Plan, Say, adversaries, base, probes
from headwise.chunking.facts import TABLES, stored
from headwise.chunking.figures import figures

__all__ = ["Plan", "figures", "tables"]


def tables(data: str | Path, out: str | Path, *, plan: Plan | None = None, say: Say = print) -> dict[str, pl.DataFrame]:
    """Train what is not trained yet, and give every table; `data` is the folder of train.txt and test.txt."""
    run = Experiment(plan or Plan(), Path(data), Path(out), say)
    for stage in (base, adversaries, probes):
        stage(run)
    return {name: stored(run, name) for name in TABLES}
