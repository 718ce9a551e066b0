"""Numbers as they are shown: what is not finite is no number, and is never printed as one.

Files for programs (parquet, safetensors) keep NaN, which says "undefined" there; what people read (a terminal, a page,
CSV, JSON) has an empty place or the word.
"""

from __future__ import annotations

import math

import polars as pl
import polars.selectors as cs

UNDEFINED = "undefined"


def shown(table: pl.DataFrame) -> pl.DataFrame:
    """The table with null where a number is not finite."""
    return table.with_columns(pl.when(cs.float().is_finite()).then(cs.float()).otherwise(None).name.keep())


def number(value: float, form: str = ".2f") -> str:
    """A number in words: `number(0.25, ".0%")`; undefined where it is not finite.

    >>> number(float("nan")), number(0.5)
    ('undefined', '0.50')
    """
    return format(value, form) if math.isfinite(value) else UNDEFINED
