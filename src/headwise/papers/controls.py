"""Networks of the same shape that learned nothing, on the same texts: what a claim is held against.

Of each kind (drawn anew; the weights shuffled) there are as many as asked for; a claim that they pass too is true of
any network of this shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from headwise.engine.run import run
from headwise.models.model import Model
from headwise.papers import PAPERS, Job
from headwise.papers.verdict import UNTRAINED
from headwise.results import Result
from headwise.studies import STUDIES
from headwise.studies.probe.untrained import shuffled, untrained
from headwise.text.corpus import CorpusSpec

KINDS = {"untrained": untrained, "shuffled": shuffled}
PARTS = 20  # of the texts, for intervals
SHARD = 16  # texts: small, so that there are parts
CONTROLS = 3  # networks of each kind
CONTROL_TEXTS = 64  # of the same texts, the first so many for each network


@dataclass(frozen=True)
class Beside:
    """What the networks gave: tables by study and kind; how many of each kind there were, and their texts at most."""

    tables: Mapping[str, Mapping[str, Sequence[pl.DataFrame]]]
    count: int
    texts: int


def networks(model: Model, count: int) -> Iterator[tuple[str, int, Model]]:
    """(kind, seed, network); each is made when it is asked for."""
    yield from ((kind, seed, KINDS[kind](model, seed)) for kind, seed in product(KINDS, range(count)))


def controlled(studies: Sequence[str]) -> list[str]:
    """Those of the studies that share one pass and that some claim with such a control looks at."""
    claimed = {
        item.job.study for paper in PAPERS.values() for item in paper.items
        if isinstance(item.job, Job) and any(claim.control == UNTRAINED for claim in item.claims)
    }  # fmt: skip
    return [name for name in studies if name in claimed and STUDIES[name].cost == "pass"]


def beside(
    settings: Mapping[str, Mapping[str, Any]], model: Model, corpus: CorpusSpec, out: Path, count: int,
    say: Callable[[str], None], **options: Any,
) -> Beside:  # fmt: skip
    """The same studies with the same settings on `count` networks of each kind; OUT/KIND-SEED/STUDY are the results."""
    names = controlled(list(settings))
    few = replace(corpus, first=min(corpus.first or CONTROL_TEXTS, CONTROL_TEXTS))
    tables: dict[str, dict[str, list[pl.DataFrame]]] = {name: {kind: [] for kind in KINDS} for name in names}
    for kind, seed, network in networks(model, count) if names else ():
        say(f"the control: {kind}, seed {seed}")
        chosen = {name: settings[name] for name in names}
        found: Mapping[str, Result] = run(
            names, network, corpus=few, out=out / f"{kind}-{seed}", settings=chosen, figures=False, **options
        )
        for name, result in found.items():
            tables[name][kind].append(result.table)
    return Beside(tables, count, CONTROL_TEXTS)
