"""A result's table on the terminal: chosen rows, the telling ones first, rounded, with units.

Where it is wider than the terminal the columns that say most are shown, each cell whole, and the others named below. In
a file or a pipe every column is there, unless COLUMNS says how wide it is, and of long texts the beginning.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import polars as pl

from headwise.cli.printed import say, terminal
from headwise.errors import InputError
from headwise.lamps import ASKED, QUESTIONS
from headwise.plots.titles import TITLES
from headwise.results.result import Result
from headwise.results.shown import FIRST_BY, TELLING, UNITS, number, shown
from headwise.text.terminal import visible

ROWS = 24  # unless all are asked for
TEXT = 24  # columns of the terminal that a longer text has at least
PIPED = 80  # and at most in a file or a pipe
GAP = 2  # between columns
SMALL, LARGE = 1e-4, 1e6  # of numbers that are written out
WHOLE = 1e15  # below it also a float is a whole number for certain
PLACES = {  # which a name tells too
    "layer": "name", "head": "name", "layer_a": "a", "head_a": "a", "layer_b": "b", "head_b": "b",
    "matched_layer": "matched",
}  # fmt: skip
COMPARED = ("what", "change", "clear", "a", "b")  # of a comparison, what is shown first
WHOSE = ("stack", "layer", "head", "name")  # one head
LAMPS = {f"lamp_{question}": ASKED[question].lower() for question in QUESTIONS}
HEADINGS = {**LAMPS, "pearson": "r, raw and effective", "identifiable_rows": "unique rows",
            "null_dim": "free directions"}  # fmt: skip
ANSWERS = {"green": "yes", "amber": "with care", "red": "no", "dark": "not known yet"}  # of lamps
HELD = "held back"
SAID = {  # of columns, what their names do not say
    "pearson": "Pearson's r of raw and effective weights, mean over texts (the verdict is about its mean over heads)",
    "null_share": "of the squared weights, what changes nothing",
    "identifiable_rows": "rows whose weights no others can replace",
    "null_dim": "directions in which a row can be moved and the output stays, mean over rows",
    "loose": "how far a weight may go within its row, to tokens that send nearly the same",
    "carried": "of what is sent, what follows the weights",
    "parked": "of the weight, what is on no word",
    "sent": "of what is sent, what comes from there",
}
FACTS = {  # the same of what a long table has under `what`
    **SAID,
    "rho": "Spearman's ρ of weight α and length ‖f(x)‖ of the vector that it weighs (no unit)",
    "alpha": "the weight, a sum over such tokens (of 1)",
    "norm": "‖α f(x)‖, the length of what is sent, a sum over such tokens (units of the residual stream)",
    "f": "‖f(x)‖, the length of the vector that is weighed (units of the residual stream)",
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
    return ~pl.col(name).is_in(value.split(",")) if equals else pl.col(name)


def _is(table: pl.DataFrame, name: str, value: str) -> pl.Expr:
    _check(table, name)
    if table[name].dtype.is_numeric():
        try:
            return pl.col(name) == float(value)
        except ValueError:
            raise InputError(f"Column {name} has numbers, but {value!r} was asked for; give one.") from None
    stored = ANSWERS if name in LAMPS else TITLES if name == "what" and compared(table) else {}
    said = {word: as_stored for as_stored, word in stored.items()}
    return pl.col(name).cast(pl.String).str.to_lowercase() == said.get(value.lower(), value.lower())


def _check(table: pl.DataFrame, name: str) -> None:
    if name not in table.columns:
        raise InputError(f"The table has no column {name!r}; it has: {', '.join(table.columns)}.")


def print_table(result: Result, *, whole: bool, where: str | None = None, sort: str | None = None,
                first_by: Sequence[str] = ()) -> None:  # fmt: skip
    """The columns that tell rows apart, rounded; what is the same in all of them is said once."""
    by = [sort] if sort is not None else [] if whole else list(first_by or FIRST_BY)
    stored, width = shown(result.table), terminal()
    plain = whole or sort is not None
    beside = [] if plain else _beside(stored, where, by)
    table = side_by_side(stored, beside) if beside else stored if plain else by_size(stored)
    table = answered(chosen(table, where, sort, by))
    if compared(table):
        table = table.with_columns(pl.col("what").replace(TITLES))
    facts = len(chosen(stored, where, None)) - sum(table[name].count() for name in beside) if beside else 0
    same = [] if whole else [name for name in _same(table) if name not in beside]
    say(_once("in every row", table, same), width)
    rest = _without(table, same)
    left = [] if whole or width is None else _named(rest, by)
    rest, bare, cut = rest.drop(left), list[str](), False
    rows = rest if whole else rest.head(ROWS)
    if width is None:
        cut = _print(rows, _widths(rows, None if whole else PIPED), None, whole=whole)
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
    said = [] if whole else [name for name in _printed(table) if name not in left]
    say(_in_words(table.head(len(rows)), said), width)
    more = {"row": len(rest) - len(rows), "other number": facts}
    say(_left_out(left, more, f"{result.folder}/table.parquet", bare=bare, cut=cut), width)


def compared(table: pl.DataFrame) -> bool:
    """Whether it is that of a comparison."""
    return {"what", "a", "b", "change"} <= {*table.columns}


def by_size(table: pl.DataFrame) -> pl.DataFrame:
    """A comparison's rows with the largest changes first, in units of the number's spread, as on its page."""
    if not compared(table):
        return table
    spread = table.unpivot(["a", "b"], index="what").group_by("what").agg(spread=pl.col("value").std())
    table = table.join(spread, on="what", how="left", maintain_order="left")
    size = (table["change"] / table["spread"]).abs().fill_nan(0.0)
    return table.drop("spread")[size.arg_sort(descending=True, nulls_last=True)]


def _beside(table: pl.DataFrame, where: str | None, by: Sequence[str]) -> list[str]:
    """The numbers of a head that the study has first (what=a,b), unless rows are chosen by what is no place of one."""
    asked = [each.partition("=")[0].strip() for each in (where or "").split(",") if each]
    first = next((each.removeprefix("what=").split(",") for each in by if each.startswith("what=")), [])
    if len(first) < 2 or not {"what", "value", *WHOSE} <= {*table.columns} or not {*asked} <= {*WHOSE}:
        return []
    return [name for name in first if name in set(table["what"])]


def side_by_side(table: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """A head's numbers of these names, a column each; those of all its texts and tokens alone."""
    parts = [name for name in table.columns if name not in (*WHOSE, "what", "value", "paper")]
    rows = table.filter(
        pl.col("what").is_in(names), pl.col("head").is_not_null(), *map(pl.Expr.is_null, map(pl.col, parts))
    )
    return rows.pivot("what", index=WHOSE, values="value").select(*WHOSE, *names)


def answered(table: pl.DataFrame) -> pl.DataFrame:
    """The lamps as answers to their questions; a yes that is held back for another lamp's sake says so."""
    held = pl.col("held").fill_null("").str.split(", ") if "held" in table.columns else pl.lit([""])
    answers = {
        name: pl.when(held.list.contains(name.removeprefix("lamp_"))).then(pl.lit(HELD))
        .otherwise(pl.col(name).replace(ANSWERS))
        for name in LAMPS if name in table.columns
    }  # fmt: skip
    return table.with_columns(**answers)


def _in_words(rows: pl.DataFrame, names: Sequence[str]) -> str:
    """What the columns are, and the numbers that a long table tells apart by `what`.

    >>> _in_words(pl.DataFrame({"paper": "fig3", "what": ["f", "f"]}), ["what"])
    'f: ‖f(x)‖, the length of the vector that is weighed (units of the residual stream)'
    """
    facts = rows["what"].unique(maintain_order=True).to_list() if {"paper", "what"} <= {*rows.columns} else []
    told = {_worded(name): SAID[name] for name in names if name in SAID}
    if any(HELD in rows[name] for name in names if name in LAMPS):
        told[HELD] = "yes by itself, but the map is of a sink, or another answer is no"
    told |= {name: FACTS[name] for name in facts if name in FACTS}
    return "; ".join(f"{name}: {said}" for name, said in told.items())


def _named(table: pl.DataFrame, by: Sequence[str]) -> list[str]:
    """The places that the name of every row tells too, but those that rows are sorted by; partners of the same name."""
    asked = [each.lstrip("-") for each in by]
    same = ["matched"] if {"name", "matched"} <= {*table.columns} and table["name"].equals(table["matched"]) else []
    return same + [place for place, name in PLACES.items()
            if {place, name} <= {*table.columns} and place not in asked
            and table.n_unique([name, place]) == table[name].n_unique()]  # fmt: skip


def _left_out(
    columns: Sequence[str], more: Mapping[str, int], file: str, *, bare: Sequence[str] = (), cut: bool = False
) -> str:
    """
    >>> _left_out(["low", "high"], {"row": 1200}, "out/table.parquet"), _left_out([], {"row": 0}, "out/table.parquet")
    ('left out: columns low, high; 1,200 more rows; --all shows them, out/table.parquet has them', '')
    """
    left = [f"column{'s' if len(columns) > 1 else ''} {', '.join(columns)}"] if columns else []
    left += [f"the interval{'s' if len(bare) > 1 else ''} of {', '.join(bare)}"] if bare else []
    left += [
        f"{count:,} {'more ' if what == 'row' else ''}{what}{'s' if count > 1 else ''}"
        for what, count in more.items()
        if count
    ]
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
    told = [f"{_heading(name)} {_cells(table.head(1), name)[0]}" for name in same if table[name][0] is not None]
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
    order = [*keys, *(COMPARED if {"a", "b", "change"} <= {*names} else ()), *map(_column, by), *TELLING, *rest]
    return [name for name in dict.fromkeys(order) if name in names]


def _fitting(order: Sequence[str], widths: Mapping[str, int], width: int) -> list[str]:
    """As many of the columns as fit, the first of them in any case; of two sides both or none.

    >>> _fitting(["a", "b", "c"], {"a": 4, "b": 9, "c": 4}, 12)
    ['a', 'c']
    >>> _fitting(["name", "a", "b", "cost"], {"name": 4, "a": 4, "b": 4, "cost": 4}, 12)
    ['name', 'cost']
    """
    fitting = {name: widths[name] for name in order[:1]}
    sides = ("a", "b") if {"a", "b"} <= {*order} else ()
    for name in order[1:]:
        more = {each: widths[each] for each in (sides if name in sides else (name,))}
        if _wide(fitting | more) <= width:
            fitting |= more
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
        cut = cut or any(one.endswith("…") and one != cell for one, cell in zip(columns[-1], cells, strict=True))
    for row in zip(*columns, strict=True):
        printed.add_row(*map(Text, row))  # as text: a corpus may write what rich reads
    wide = Console(width=10_000).measure(printed).maximum  # in a file or a pipe no cell is broken
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
    (['0.51 [0.40, 0.60]', '–'], ['3', '4'])
    """
    if name not in (ends := _ends(rows.columns)):
        share = UNITS.get(_base(name)) == "of 1"
        return [_share(value) if share and isinstance(value, float) else _told(value) for value in rows[name]]
    return [_told(value) if low is None and high is None else _interval(value, low, high)
            for value, low, high in rows.select(name, *ends[name]).iter_rows()]  # fmt: skip


def _told(value: Any) -> str:
    """
    >>> _told(1010.0), _told(1010.5), _told(None)
    ('1010', '1.01e+03', '–')
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < WHOLE:
        return str(int(value))
    return "–" if value is None else number(value, ".3g") if isinstance(value, float) else str(value)


def _share(value: float) -> str:
    """
    >>> _share(0.00677), _share(1e-9), _share(0.0)
    ('0.007', '0.000', '0')
    """
    return _told(value) if value in (0, 1) else number(value, ".3f")


def _interval(value: float | None, low: float | None, high: float | None) -> str:
    """A number and its interval, all rounded at one place: the second digit of what lies between the ends.

    One more where an end would else read as 0 and is not: whether an interval holds 0 is often what is asked of it.

    >>> _interval(0.0161, 5.93e-10, 0.0323), _interval(0.768, 0.7612, 0.7714), _interval(1.0, 1.0, 1.0)
    ('0.016 [0.000, 0.032]', '0.768 [0.761, 0.771]', '1 [1, 1]')
    >>> _interval(5.0, -1.234, 1234.5), _interval(None, 0.1, 0.25), _interval(3e-7, 2e-7, 4e-7)
    ('5 [-1, 1234]', '– [0.10, 0.25]', '3e-07 [2e-07, 4e-07]')
    >>> _interval(0.13, 0.004, 0.26), _interval(0.13, -0.004, 0.26), _interval(0.13, -1e-9, 0.26)
    ('0.130 [0.004, 0.260]', '0.130 [-0.004, 0.260]', '0.13 [-0.00, 0.26]')
    """
    there = [each for each in (value, low, high) if each is not None]
    size, apart = max(map(abs, there)), max(there) - min(there)
    if apart and SMALL <= size < LARGE:
        places = max(0, min(2 - _magnitude(size), 1 - _magnitude(apart)))
        places += any(each and not round(each, places) and round(each, places + 1) for each in (low, high))
        said = ["–" if each is None else f"{each + 0.0:.{places}f}" for each in (value, low, high)]
    else:
        said = [_told(each) for each in (value, low, high)]
    return f"{said[0]} [{said[1]}, {said[2]}]"


def _magnitude(size: float) -> int:
    return math.floor(math.log10(size))


def _heading(name: str) -> str:
    """A column's name in words, with its unit where it has one.

    >>> _heading("entropy_low"), _heading("null_share"), _heading("lamp_matters")
    ('entropy low (nats)', 'null share (of\\xa01)', 'matters?')
    """
    unit = UNITS.get(_base(name), "").replace(" ", "\u00a0")
    return f"{_worded(name)} ({unit})" if unit else _worded(name)


def _worded(name: str) -> str:
    return HEADINGS.get(name) or name.replace("_", " ")


def _base(name: str) -> str:
    return name.removesuffix("_low").removesuffix("_high")
