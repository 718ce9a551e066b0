"""Tables of all texts but a part of them: what an interval over texts is made of.

The finished shards are dealt to parts in turn, as cards are; a study's table is then made of everything but the first
part, everything but the second, and so on (the jackknife by groups; Efron & Tibshirani 1993, chapter 11). Studies that
learn or resample after the sum (`conclude`) have intervals of their own and no such tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import polars as pl

from headwise.engine.fold import Folded
from headwise.results import read_shard
from headwise.studies.answers import FEWEST
from headwise.studies.study import Setting, State, Stats, Study, plus


def dealt(work: Path, shards: int, parts: int, *, plan: str) -> list[Folded]:
    """The sum of each part: shard n is in part n modulo their number."""
    sums = [Folded({}, {}) for _ in range(min(parts, shards))]
    for number in range(shards):
        read = read_shard(work, number, plan=plan)
        assert read is not None, "read a moment ago"
        sums[number % len(sums)] += Folded.from_tensors(read[0], read[1]["counts"], plan)
    return sums


def all_but_one(states: Sequence[Stats]) -> Iterator[State]:
    """Every sum that leaves one state out.

    >>> import torch
    >>> from headwise.stats import Sums
    >>> one = [{"n": Sums.of(torch.tensor([float(value)]), torch.ones(1))} for value in (1, 2, 4)]
    >>> [float(state["n"].total) for state in all_but_one(one)]
    [6.0, 5.0, 3.0]
    """
    before: list[State] = list(accumulate(states, plus, initial=State()))
    after: list[State] = list(accumulate(reversed(states), plus, initial=State()))[::-1]
    return (plus(left, right) for left, right in zip(before, after[1:], strict=False))


def tables_without(study: Study, sums: Iterable[Folded], of_model: Stats, setting: Setting) -> pl.DataFrame | None:
    """The table of all but each part, told apart by the column `part`; None where there is nothing to compare."""
    states = [dict(state) for one in sums if (state := one.states.get(study.name))]  # it may not ask every text
    if study.has("conclude") or len(states) < FEWEST:
        return None
    tables = [
        study.table(plus(state, of_model), setting).with_columns(part=pl.lit(part, dtype=pl.Int64))
        for part, state in enumerate(all_but_one(states))
    ]
    return pl.concat(tables, how="diagonal")
