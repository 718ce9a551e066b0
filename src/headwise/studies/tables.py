"""Reading the tables of studies, and their numbers as people write them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import polars as pl

from headwise.results.shown import UNDEFINED, number

Table = pl.DataFrame
NBSP = "\u00a0%"


def first_stack(table: Table) -> Table:
    """Sentences are about self-attention: of an encoder–decoder, the encoder's."""
    return table.filter(pl.col("stack") == table["stack"][0]) if "stack" in table.columns and len(table) else table


def percent(share: float) -> str:
    """A share as people write it, with a space that does not break.

    >>> percent(0.381), percent(0.004)
    ('38\\xa0%', '0.4\\xa0%')
    """
    if not math.isfinite(share):
        return UNDEFINED
    return f"{100 * share:.0f}\u00a0%" if abs(share) >= 0.0995 else f"{100 * share:.1f}\u00a0%"


def ends(low: float, high: float) -> str:
    """An interval of shares, with more digits where both ends would read the same and are not.

    >>> ends(0.31, 0.42), ends(0.768, 0.771), ends(0.5, 0.5)
    ('31\\xa0% to 42\\xa0%', '76.8\\xa0% to 77.1\\xa0%', '50\\xa0% to 50\\xa0%')
    """
    return " to ".join(within(low, low, high)[1:])


def within(value: float, low: float, high: float, lines: Sequence[float] = ()) -> list[str]:
    """A share and the ends of its interval, with digits enough to tell the ends apart, and each from a line near it.

    >>> within(0.000279, 0.0000887, 0.000468), within(0.74, 0.72, 0.7475, lines=[0.75])
    (['0.03\\xa0%', '0.01\\xa0%', '0.05\\xa0%'], ['74.0\\xa0%', '72.0\\xa0%', '74.8\\xa0%'])
    """
    shares = value, low, high
    said = [percent(share) for share in shares]
    for digits in (1, 2, 3):
        alike = said[1] == said[2] and low != high
        met = any(_like(line, one) == one and line != share
                  for line in lines for one, share in zip(said, shares, strict=True))  # fmt: skip
        if not (alike or met) or not math.isfinite(sum(shares)):
            break
        said = [f"{100 * share:.{digits}f}\u00a0%" for share in shares]
    return said


def between(low: float, high: float, form: str = ".2f") -> str:
    """An interval that is no share, where there is one.

    >>> between(0.04, 0.153), between(float("nan"), float("nan"))
    ('0.04 to 0.15', 'no interval')
    """
    return f"{number(low, form)} to {number(high, form)}" if math.isfinite(low + high) else "no interval"


def _like(share: float, said: str) -> str:
    """With as many digits as another has.

    >>> _like(0.75, "74.8\\xa0%"), _like(0.75, "75\\xa0%")
    ('75.0\\xa0%', '75\\xa0%')
    """
    return f"{100 * share:.{len(said.removesuffix(NBSP).partition('.')[2])}f}{NBSP}"


def percents(shares: Iterable[float]) -> str:
    """Shares of the layers in a row: 90, 80, 75 %."""
    return ", ".join(number(100 * share, ".0f") for share in shares) + "\u00a0%"


def heads(table: Table, most: int = 4) -> str:
    """The names of some heads, and how many more there are."""
    return some(table["name"].to_list(), most)


def some(names: Sequence[str], most: int = 4) -> str:
    """
    >>> some(["a", "b", "c"], most=2), some([])
    ('a, b and 1 more', 'none')
    """
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest if names else "none"


def counted(number: int, thing: str) -> str:
    """
    >>> counted(1, "text"), counted(1200, "text")
    ('1 text', '1,200 texts')
    """
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
