"""Could a tagger attend elsewhere and say the same? Yang's experiment on chunking, run by `headwise reproduce yang`.

After Jain & Wallace 2019 and Wiegreffe & Pinter 2019: base taggers (experiment.py) and adversaries trained to tag as
they do and to attend elsewhere, probes under frozen attention, tables (facts.py) and figures (figures.py).

OUT/plan.json                             what everything here depends on
OUT/base, OUT/adversaries, OUT/probe-…    members, resumable
OUT/tables/NAME.parquet                   with NAME.json: versions, seconds
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path

import polars as pl

from headwise.errors import InputError
from headwise.papers.chunking.experiment import Experiment, Plan, Say, adversaries, base, probes
from headwise.papers.chunking.facts import NEEDS, TABLES, stored
from headwise.papers.chunking.figures import DRAWN_FROM, figures
from headwise.results.files import write_files
from headwise.results.lock import claim
from headwise.results.records import DamagedError, read_record
from headwise.results.result import json_bytes

__all__ = ["DRAWN_FROM", "FILES", "Plan", "figures", "tables"]
FILES = ("train.txt", "test.txt")
STAGES = {"base": base, "adversaries": adversaries, "probes": probes}


def tables(
    data: str | Path,
    out: str | Path,
    *,
    plan: Plan | None = None,
    names: Collection[str] = tuple(TABLES),
    say: Say = print,
) -> dict[str, pl.DataFrame]:
    """The tables `names`; what they need is trained where it is not yet. `data` is the folder of FILES."""
    run = Experiment(plan or Plan(), Path(data), Path(out), say)
    with claim(run.out):
        _same_plan(run)
        for stage, train in STAGES.items():
            if any(stage in NEEDS[name] for name in names):
                train(run)
        return {name: stored(run, name) for name in TABLES if name in names}


def _same_plan(run: Experiment) -> None:
    """Members and tables of another plan or other data are not taken for this one's."""
    digests = {name: hashlib.sha256((run.data / name).read_bytes()).hexdigest() for name in FILES}
    mine = json.loads(json.dumps({"plan": asdict(run.plan), "data": digests}))
    path = run.out / "plan.json"
    try:
        before = read_record(path, {})
    except FileNotFoundError:
        write_files(run.out, {path.name: json_bytes(mine)})
        return
    except DamagedError:  # not what this plan would have written
        before = None
    if before != mine:
        raise InputError(
            f"{run.out} holds models of another plan or of other data; choose another --out, or remove it."
        )
