"""A result's table on the terminal: chosen rows, the telling ones first, rounded, with units."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from headwise.errors import InputError
from headwise.results.result import Result
from headwise.results.shown import UNITS, number, shown

ROWS = 24  # unless all are asked for


def chosen(table: pl.DataFrame, where: str | None, sort: str | None, first_by: Sequence[str] = ()) -> pl.DataFrame:
    """The rows of `where` (COLUMN=VALUE,…), by `sort` (-COLUMN: largest first) or as the study has them first."""
    for asked in [] if where is None else where.split(","):
        name, equals, value = asked.partition("=")
        if not equals:
            raise InputError(f"Rows are chosen by COLUMN=VALUE, but {asked!r} was given; as in --where layer=3,head=5.")
        table = table.filter(_is(table, name.strip(), value.strip()))
    by = [sort] if sort is not None else [each for each in first_by if _column(each) in table.columns]
    for each in by:
        _check(table, _column(each))
    return table.sort([_key(each) for each in by], descending=[each.startswith("-") for each in by],
                      nulls_last=True, maintain_order=True) if by else table  # fmt: skip


def _column(by: str) -> str:
    """
    >>> _column("-value"), _column("part=head")
    ('value', 'part')
    """
    return by.lstrip("-").partition("=")[0]


def _key(by: str) -> pl.Expr:
    """What to sort by: a column, or where it has a value, those rows first."""
    name, equals, value = by.lstrip("-").partition("=")
    return pl.col(name) != value if equals else pl.col(name)


def _is(table: pl.DataFrame, name: str, value: str) -> pl.Expr:
    _check(table, name)
    if table[name].dtype.is_numeric():
        try:
            return pl.col(name) == float(value)
        except ValueError:
            raise InputError(f"Column {name} has numbers, but {value!r} was asked for; give one.") from None
    return pl.col(name).cast(pl.String).str.to_lowercase() == value.lower()


def _check(table: pl.DataFrame, name: str) -> None:
    if name not in table.columns:
        raise InputError(f"The table has no column {name!r}; it has: {', '.join(table.columns)}.")


def print_table(result: Result, *, whole: bool, where: str | None = None, sort: str | None = None,
                first_by: Sequence[str] = ()) -> None:  # fmt: skip
    """The columns that tell rows apart, rounded; what is the same in all of them is said once."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = chosen(shown(result.table), where, sort, () if whole and sort is None else first_by)
    same = [] if whole or len(table) < 2 else [name for name in table.columns if table[name].n_unique() == 1]
    told = [f"{name} {table[name][0]}" for name in same
            if table[name][0] is not None and not _is_end(name, table.columns)]  # fmt: skip
    if told:
        print(f"  in every row: {', '.join(told)}")
    rest = table.drop(same)
    names = [name for name in rest.columns if not _is_end(name, rest.columns)]
    printed = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        printed.add_column(_heading(name), overflow="fold")
    for row in (rest if whole else rest.head(ROWS)).iter_rows(named=True):
        printed.add_row(*(Text(_cell(row, name)) for name in names))  # as text: a corpus may write what rich reads
    wide = Console(width=10_000).measure(printed).maximum  # in a file or a pipe nothing is cut
    Console(highlight=False, width=None if sys.stdout.isatty() else max(160, wide)).print(printed)
    if not whole and len(rest) > ROWS:
        print(f"  … {len(rest) - ROWS:,} more rows; --all prints them, {result.folder}/table.parquet has them")


def _is_end(name: str, names: Sequence[str]) -> bool:
    """Whether this is one end of an interval that stands in its number's own cell."""
    base = name.removesuffix("_low").removesuffix("_high")
    return base != name and {base, f"{base}_low", f"{base}_high"} <= set(names)


def _cell(row: Mapping[str, Any], name: str) -> str:
    """
    >>> _cell({"r": 0.51234, "r_low": 0.4, "r_high": 0.6}, "r"), _cell({"r": None}, "r"), _cell({"n": 3}, "n")
    ('0.512 [0.4, 0.6]', '–', '3')
    """
    told = ["–" if v is None else number(v, ".3g") if isinstance(v, float) else str(v)
            for v in (row[name], row.get(f"{name}_low"), row.get(f"{name}_high"))]  # fmt: skip
    return f"{told[0]} [{told[1]}, {told[2]}]" if _is_end(f"{name}_low", list(row)) else told[0]


def _heading(name: str) -> str:
    """A column's name in words, with its unit where it has one.

    >>> _heading("entropy_low"), _heading("null_share"), _heading("layer")
    ('entropy low (nats)', 'null share (of 1)', 'layer')
    """
    base = name.removesuffix("_low").removesuffix("_high")
    return name.replace("_", " ") + (f" ({UNITS[base]})" if base in UNITS else "")
