"""Numbers as they are shown: what is not finite is no number, and is never printed as one.

Files for programs (parquet, safetensors) keep NaN, which says "undefined" there; what people read (a terminal, a page,
CSV, JSON) has an empty place or the word.
"""

from __future__ import annotations

import math
import re

import polars as pl
import polars.selectors as cs

UNDEFINED = "undefined"
UNITS = {  # of columns that mean the same in every table
    **dict.fromkeys(("entropy", "js"), "nats"),
    **dict.fromkeys(("null_share", "unique_rows", "identifiable_rows", "loose", "carried", "parked", "sent"), "of 1"),
    **dict.fromkeys(("accuracy", "chosen_accuracy", "visible"), "of 1"),
}
TELLING = (  # columns that are shown before others where there is little room
    "show", "lamp_unique", "lamp_carries", "lamp_matters", "loose", "carried", "parked", "sent", "null_share", "sink",
    "verdict",
    "gain", "best", "unit",
)  # fmt: skip
FIRST_BY = (
    "-best",
    "-accuracy",
    "aer",
    "-deletion",
    "-gain",
    "-clear",
)  # what is best, in tables whose study does not say
SHARE = re.compile(r"(?<=\d)%")
NOT_FINITE = re.compile(r"(?<![\w.-])[+-]?(?:nan|inf)(?=[%\s,;:.)/]|$)")  # as a format writes it


def shown(table: pl.DataFrame) -> pl.DataFrame:
    """The table with null where a number is not finite."""
    return table.with_columns(pl.when(cs.float().is_finite()).then(cs.float()).otherwise(None).name.keep())


def finite(table: pl.DataFrame, column: str) -> pl.DataFrame:
    """The rows that have a number there.

    subtle: to polars NaN is above every threshold, and the last in every order.
    """
    return table.filter(pl.col(column).is_finite())


def number(value: float | None, form: str = ".2f") -> str:
    """A number in words: `number(0.25, ".0%")`; undefined where it is not finite, or there is none.

    >>> number(float("nan")), number(0.5)
    ('undefined', '0.50')
    """
    return spaced(format(value, form)) if value is not None and math.isfinite(value) else UNDEFINED


def spaced(sentence: str) -> str:
    """Shares as everywhere here, with a space that does not break before their sign.

    >>> spaced("77% of 12")
    '77\\xa0% of 12'
    """
    return SHARE.sub("\u00a0%", sentence)


def worded(sentence: str) -> str:
    """A sentence of ours with the word where a format wrote something that is not finite; not for people's texts.

    >>> worded("ρ = nan (-inf to 0.50)")
    'ρ = undefined (undefined to 0.50)'
    """
    return NOT_FINITE.sub(UNDEFINED, sentence)
