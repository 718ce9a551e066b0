"""A result's table on the terminal: chosen rows, the telling ones first, rounded, with units.

Where it is wider than the terminal the columns that say most are shown, each cell whole, and the others named below. In
a file or a pipe nothing is cut, unless COLUMNS says how wide it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import polars as pl

from headwise.cli.printed import say, terminal
from headwise.errors import InputError
from headwise.results.result import Result
from headwise.results.shown import FIRST_BY, TELLING, UNITS, number, shown
from headwise.text.terminal import visible

ROWS = 24  # unless all are asked for
TEXT = 24  # columns of the terminal that a longer text has at least
GAP = 2  # between columns
PLACES = {  # which a name tells too
    "layer": "name", "head": "name", "layer_a": "a", "head_a": "a", "layer_b": "b", "head_b": "b",
    "matched_layer": "matched",
}  # fmt: skip


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
    keys = [_key(each) if sort is not None else _key(each, table) for each in by]
    return table.sort(keys, descending=[each.startswith("-") for each in by],
                      nulls_last=True, maintain_order=True) if by else table  # fmt: skip


def _column(by: str) -> str:
    """
    >>> _column("-value"), _column("part=head")
    ('value', 'part')
    """
    return re.split("[=<]", by.lstrip("-"))[0]


def _key(by: str, table: pl.DataFrame | None = None) -> pl.Expr:
    """What to sort by: a column; or rows first where it has a value (`*`: any), or is before another column.

    Words of a `table` are in its own order.
    """
    name, before, other = by.lstrip("-").partition("<")
    if before:
        return pl.col(name) >= pl.col(other)
    name, equals, value = by.lstrip("-").partition("=")
    if value == "*":
        return pl.col(name).is_null()
    if table is not None and not equals and table[name].dtype == pl.String:
        return pl.col(name).cast(pl.Enum(table[name].drop_nulls().unique(maintain_order=True)))
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
    by = [sort] if sort is not None else [] if whole else list(first_by or FIRST_BY)
    table, width = shown(result.table), terminal()
    table = chosen(table if whole or sort is not None else by_size(table), where, sort, by)
    same = [] if whole else _same(table)
    say(_once("in every row", table, same), width)
    rest = _without(table, same)
    left = [] if whole or width is None else _named(rest, by)
    rest, bare, cut = rest.drop(left), list[str](), False
    rows = rest if whole else rest.head(ROWS)
    if width is None:
        _print(rows, _widths(rows, None), None, whole=True)
    elif _wide(_widths(rows, None)) <= width or whole:
        widths, keys = _widths(rows, TEXT), _keys(rows)
        for part in _parts(keys, [name for name in widths if name not in keys], widths, width):
            _print(rows, {name: widths[name] for name in widths if name in part}, width, whole=True)
    else:
        same = [name for name in _same(rows) if rows[name][0] is not None]
        say(_once("in these rows", rows, same), width)
        rows = _without(rows, same)
        widths, order = _widths(rows, TEXT), _order(rows, by)
        fitting = _fitting(order, widths, width)
        if any(name in TELLING and name not in fitting for name in order):
            bare = [name for name in _ends(rows.columns) if name in TELLING]
            rows = rows.drop([end for name in bare for end in _ends(rows.columns)[name]])
            widths = _widths(rows, TEXT)
            fitting = _fitting(order, widths, width)
        cut = _print(rows, {name: widths[name] for name in widths if name in fitting}, width, whole=False)
        left += [name for name in widths if name not in fitting]
        bare = [name for name in bare if name in fitting]
    say(_left_out(left, len(rest) - len(rows), f"{result.folder}/table.parquet", bare=bare, cut=cut), width)


def by_size(table: pl.DataFrame) -> pl.DataFrame:
    """A comparison's rows with the largest changes first, in units of the number's spread, as on its page."""
    if not {"what", "a", "b", "change"} <= {*table.columns}:
        return table
    spread = table.unpivot(["a", "b"], index="what").group_by("what").agg(spread=pl.col("value").std())
    table = table.join(spread, on="what", how="left", maintain_order="left")
    size = (table["change"] / table["spread"]).abs().fill_nan(0.0)
    return table.drop("spread")[size.arg_sort(descending=True, nulls_last=True)]


def _named(table: pl.DataFrame, by: Sequence[str]) -> list[str]:
    """The places that the name of every row tells too, but those that rows are sorted by."""
    asked = [each.lstrip("-") for each in by]
    return [place for place, name in PLACES.items()
            if {place, name} <= {*table.columns} and place not in asked
            and table.n_unique([name, place]) == table[name].n_unique()]  # fmt: skip


def _left_out(columns: Sequence[str], rows: int, file: str, *, bare: Sequence[str] = (), cut: bool = False) -> str:
    """
    >>> _left_out(["low", "high"], 1200, "out/table.parquet"), _left_out([], 0, "out/table.parquet")
    ('left out: columns low, high; 1,200 more rows; --all shows them, out/table.parquet has them', '')
    """
    left = [f"column{'s' if len(columns) > 1 else ''} {', '.join(columns)}"] if columns else []
    left += [f"the interval{'s' if len(bare) > 1 else ''} of {', '.join(bare)}"] if bare else []
    left += [f"{rows:,} more row{'s' if rows > 1 else ''}"] if rows else []
    left += ["the ends of long texts"] if cut else []
    return f"left out: {'; '.join(left)}; --all shows them, {file} has them" if left else ""


def _ends(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The ends of an interval by their number, in whose cells they stand: a_low and a_high, or low and high behind it.

    >>> _ends(["name", "r", "r_low", "r_high", "value", "low", "high"])
    {'r': ('r_low', 'r_high'), 'value': ('low', 'high')}
    """
    own = {name: (f"{name}_low", f"{name}_high") for name in names if {f"{name}_low", f"{name}_high"} <= {*names}}
    behind = {name: ("low", "high") for name, *after in zip(names, names[1:], names[2:], strict=False)
              if after == ["low", "high"]}  # fmt: skip
    return own | behind


def _printed(table: pl.DataFrame) -> list[str]:
    """The columns with cells of their own, which ends of intervals have not."""
    inside = {end for ends in _ends(table.columns).values() for end in ends}
    return [name for name in table.columns if name not in inside]


def _same(table: pl.DataFrame) -> list[str]:
    """The columns that say the same in every row, their intervals too."""
    ends = _ends(table.columns)
    return [name for name in _printed(table)
            if len(table) > 1 and all(table[each].n_unique() == 1 for each in (name, *ends.get(name, ())))]  # fmt: skip


def _without(table: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    ends = _ends(table.columns)
    return table.drop([each for name in names for each in (name, *ends.get(name, ()))])


def _once(where: str, table: pl.DataFrame, same: Sequence[str]) -> str:
    told = [f"{name} {_cells(table.head(1), name)[0]}" for name in same if table[name][0] is not None]
    return f"{where}: {', '.join(told)}" if told else ""


def _widths(rows: pl.DataFrame, most: int | None) -> dict[str, int]:
    """How wide each column must be so that no word of its heading and no cell is broken; of texts at `most` so wide."""
    from rich.cells import cell_len

    widths: dict[str, int] = {}
    for name in _printed(rows):
        longest = max((cell_len(visible(cell)) for cell in _cells(rows, name)), default=0)
        cell = longest if most is None or rows[name].dtype != pl.String else min(longest, most)
        widths[name] = max(cell, *(len(word) for word in _heading(name).split(" ")))
    return widths


def _wide(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)


def _keys(rows: pl.DataFrame) -> list[str]:
    """What tells rows apart: the columns before the first of numbers; no places where a name tells them too."""
    names = _printed(rows)
    first = next((at for at, name in enumerate(names) if rows[name].dtype.is_float()), len(names))
    told = {*PLACES} if {"name", "a"} & {*names} else set[str]()
    return [name for name in names[:first] if name not in told and rows[name].null_count() < len(rows)] or names[:1]


def _order(rows: pl.DataFrame, by: Sequence[str]) -> list[str]:
    """The columns, the first first shown: what tells rows apart, what they are sorted by, what says most, the rest.

    Those that are empty in these rows are not among them, nor places that a name tells too.
    """
    names, keys = _printed(rows), _keys(rows)
    rest = [name for name in names if name not in PLACES and rows[name].null_count() < len(rows)]
    order = [*keys, *map(_column, by), *TELLING, *rest]
    return [name for name in dict.fromkeys(order) if name in names]


def _fitting(order: Sequence[str], widths: Mapping[str, int], width: int) -> list[str]:
    """As many of the columns as fit, the first of them in any case.

    >>> _fitting(["a", "b", "c"], {"a": 4, "b": 9, "c": 4}, 12)
    ['a', 'c']
    """
    fitting = {name: widths[name] for name in order[:1]}
    for name in order[1:]:
        if _wide(fitting | {name: widths[name]}) <= width:
            fitting[name] = widths[name]
    return list(fitting)


def _parts(keys: Sequence[str], rest: Sequence[str], widths: Mapping[str, int], width: int) -> list[list[str]]:
    """All the columns, in tables that fit, each with those that tell rows apart.

    >>> _parts(["a"], ["b", "c"], {"a": 4, "b": 4, "c": 4}, 10)
    [['a', 'b'], ['a', 'c']]
    """
    parts: list[list[str]] = []
    room = width - sum(GAP + widths[name] for name in keys)
    while rest:
        part = _fitting(rest, widths, room)
        parts.append([*keys, *part])
        rest = [name for name in rest if name not in part]
    return parts or [list(keys)]


def _print(rows: pl.DataFrame, widths: Mapping[str, int], width: int | None, *, whole: bool) -> bool:
    """A table of these columns, and whether a text was cut: long ones share the room left, or `whole` go on below."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    headed = {name: max(least, len(_heading(name))) for name, least in widths.items()}
    widths = headed if width is None or _wide(headed) <= width else widths
    room = max(0, (width or 0) - _wide(widths))
    long = [name for name in widths if width is not None and rows[name].dtype == pl.String and widths[name] >= TEXT]
    printed = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    columns: list[list[str]] = []
    cut = False
    for name, least in widths.items():
        size = least + (room // len(long) if name in long else 0)
        heading = "\n".join(wrap(_heading(name), size, break_long_words=False, break_on_hyphens=False))
        printed.add_column(heading, no_wrap=name not in long, max_width=size if name in long else None, overflow="fold")
        cells = _cells(rows, name)
        columns.append(cells if whole else [shortened(cell, size) for cell in cells])
        cut = cut or columns[-1] != cells
    for row in zip(*columns, strict=True):
        printed.add_row(*map(Text, row))  # as text: a corpus may write what rich reads
    wide = Console(width=10_000).measure(printed).maximum  # in a file or a pipe nothing is cut
    Console(highlight=False, width=max(width or 160, wide)).print(printed)
    return cut


def shortened(text: str, width: int) -> str:
    """The words of a text that fit into so many columns of the terminal.

    >>> shortened("the quick brown fox", 12), shortened("the fox", 12), shortened("unbreakable", 6)
    ('the quick…', 'the fox', 'unbre…')
    """
    from rich.cells import cell_len, set_cell_size

    text = visible(" ".join(text.split()))
    if cell_len(text) <= width:
        return text
    cut = set_cell_size(text, width - 1).rstrip()
    whole = cut if text[len(cut)] == " " else cut.rpartition(" ")[0]
    return f"{(whole or cut).rstrip(',')}…"


def _cells(rows: pl.DataFrame, name: str) -> list[str]:
    """
    >>> table = pl.DataFrame({"r": [0.51234, None], "r_low": [0.4, None], "r_high": [0.6, None], "n": [3, 4]})
    >>> _cells(table, "r"), _cells(table, "n")
    (['0.512 [0.4, 0.6]', '–'], ['3', '4'])
    """
    if name not in (ends := _ends(rows.columns)):
        return [_told(value) for value in rows[name]]
    return [_told(value) if low is None and high is None else f"{_told(value)} [{_told(low)}, {_told(high)}]"
            for value, low, high in rows.select(name, *ends[name]).iter_rows()]  # fmt: skip


def _told(value: Any) -> str:
    return "–" if value is None else number(value, ".3g") if isinstance(value, float) else str(value)


def _heading(name: str) -> str:
    """A column's name in words, with its unit where it has one.

    >>> _heading("entropy_low"), _heading("null_share"), _heading("layer")
    ('entropy low (nats)', 'null share (of 1)', 'layer')
    """
    base = name.removesuffix("_low").removesuffix("_high")
    return name.replace("_", " ") + (f" ({UNITS[base]})" if base in UNITS else "")
