"""Tables with numbers that are not finite, and the answers that may be given of them: none with such a number."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from headwise.studies import STUDIES
from headwise.studies.study import Setting

NOT_FINITE = re.compile(r"(?<![a-z])(nan|inf)(?![a-z])", re.IGNORECASE)
COUNTS = ("count", "texts", "length")  # how many there were is always known


def undefined(table: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """The table with every number, one column, or the first of one column gone; and with no row at all."""
    numbers = [name for name, kind in table.schema.items() if kind.is_float() and name not in COUNTS]
    first = pl.int_range(pl.len()) == 0
    for gone in (math.nan, math.inf, -math.inf):
        yield f"all {gone}", table.with_columns(pl.lit(gone).alias(name) for name in numbers)
        for name in numbers:
            yield f"{name} {gone}", table.with_columns(pl.lit(gone).alias(name))
            yield f"first {name} {gone}", table.with_columns(pl.when(first).then(gone).otherwise(name).alias(name))
    yield "no row", table.head(0)


def nothing_undefined_is_said(study: str, table: pl.DataFrame, of: Setting, **settings: Any) -> None:
    """No sentence has a number that is not finite, and where none is finite nothing is voted."""
    for what, gone in undefined(table):
        for answer in STUDIES[study](**settings).answers(gone, of):
            said = " ".join([answer.says, answer.headline, answer.vote.because if answer.vote else ""])
            assert not NOT_FINITE.search(said), f"{study}, {what}: {said}"
            assert answer.vote is None or not what.startswith(("all", "no row")), f"{study}, {what}: {answer.vote}"
