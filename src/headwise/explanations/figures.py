"""An explanation as tables for the plots: the band of random orders, the strongest units."""

from __future__ import annotations

from typing import Any

import polars as pl

from headwise.explanations.explanation import Explanation
from headwise.explanations.trial import Trial
from headwise.models.packaged import called
from headwise.traces import WAYS


@WAYS.add("explained.figure", "The strongest units and the curves of the trial.")
def figure(explanation: Explanation, target: int = 0) -> Any:
    """The strongest units, and the curves of the trial where there was one (of the first target)."""
    from headwise.plots.explained import explained  # altair takes its time, and a page needs none

    scores = explanation.table_of(target).select("unit", "score")
    curves = curves_of(explanation.trial) if explanation.trial is not None and target == 0 else None
    caption = [explanation.verdict.sentence] if explanation.verdict is not None else []
    title = f"{called(explanation.model_name)}: {explanation.targets[target]}, by {explanation.method}"
    return explained(scores, curves, title=title, caption=caption, unit=explanation.unit)


def curves_of(trial: Trial) -> pl.DataFrame:
    """One row a step of each curve: its value, and the lowest and highest of the random orders."""
    rows = []
    for what, own, others in (
        ("removed", trial.deletion, trial.random_deletion),
        ("kept alone", trial.insertion, trial.random_insertion),
    ):
        for at, k in enumerate(trial.steps):
            there = [curve[at] for curve in others if curve[at] == curve[at]]
            if own[at] == own[at] and there:
                rows.append({"what": what, "k": k, "value": own[at], "low": min(there), "high": max(there)})
    return pl.DataFrame(rows)
