"""The figures of a comparison, and one page that says what was found, in words first; no script, no network."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from headwise.lamps import Head, is_sink, lamps
from headwise.plots.differences import against, change_grids, matching
from headwise.plots.paper import titled
from headwise.plots.theme import themed
from headwise.plots.titles import TITLES
from headwise.results.shown import number
from headwise.traces.lamps import head_of
from headwise.viewer.build import ascii_text, digest

PARKED = ("to_first", "to_separator", "to_punctuation")
NEIGHBOURS = ("previous", "current", "next")
SHARES = ("to_first", "to_separator", "to_punctuation", "to_other", "previous", "current", "next")
LIT = (
    "null_share",
    "unique_rows",
    "loose",
    "carried",
    "parked",
    "sent",
    "neighbour",
)  # what lights the lamps of a head
WORST = ("no", "with care", "yes")
UNIT = "a share of the weight"
MOST_PANELS, TOP = 9, 25
NARROW = 360.0  # pixels of a figure on a telephone
DIGITS = 3  # of every number that is printed
COSTS = {"attention": "JS, nats a token", "profile": "distance of profiles"}

STYLE = """
:root { color-scheme: light dark; --bg: #f6f7f8; --panel: #fff; --ink: #1d2433; --muted: #5d6779; --line: #e2e4e8; }
@media (prefers-color-scheme: dark) {
  :root { --bg: #0f1217; --panel: #171b22; --ink: #e7eaef; --muted: #9aa5b5; --line: #2c333e; }
  @media screen { img { filter: invert(.91) hue-rotate(180deg); } }
}
body { margin: 0 auto; max-width: 1080px; padding: 28px 24px 60px; background: var(--bg); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
h1 { font-size: 24px; line-height: 1.25; overflow-wrap: anywhere; } h2 { font-size: 18px; margin-top: 36px; }
p, li { max-width: 84ch; } .muted { color: var(--muted); font-size: 14px; }
img { max-width: 100%; background: #fff; border: 1px solid var(--line); border-radius: 9px; }
figure { margin: 16px 0; } .sheet { overflow-x: auto; border: 1px solid var(--line); border-radius: 9px; background:
  linear-gradient(to left, var(--panel) 40%, transparent) right / 56px 100% no-repeat local,
  linear-gradient(to left, rgb(120 130 150 / 45%), transparent) right / 16px 100% no-repeat scroll, var(--panel); }
table { border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; } th, td { padding: 5px 10px; border-bottom: 1px solid var(--line); }
td.n { text-align: right; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px; color: var(--muted); }
@media (max-width: 640px) {
  body { padding: 20px 14px 40px; }
  table, tbody, tr { display: block; } thead { display: none; }
  tr { border-bottom: 1px solid var(--line); padding: 8px 10px; }
  td, td.n { display: inline-block; border: 0; padding: 0 14px 0 0; text-align: left; }
  td::before { content: attr(data-head) " "; color: var(--muted); font-size: 12px; }
}
@media print { body { max-width: none; background: #fff; color: #000; } figure, tr { break-inside: avoid; } }
"""


def titles_of(table: pl.DataFrame) -> dict[str, str]:
    """The numbers in the table with their titles, the first few where there are many."""
    names = table["what"].unique(maintain_order=True).to_list()[:MOST_PANELS]
    return {str(name): TITLES.get(str(name), str(name)) for name in names}


def figures_of(
    table: pl.DataFrame, a: str, b: str, chosen: Mapping[str, Any], stacks: Mapping[str, Sequence[int]]
) -> dict[str, Any]:
    """`changes`, `against`, and `matching` where heads were matched by what they do; of every stack.

    `stacks`: the layers and heads of a.
    """
    charts: dict[str, Any] = {}
    for at, (key, part) in enumerate(table.group_by("stack", maintain_order=True)):
        tail, where = (f"-{key[0]}", f", {key[0]}") if at else ("", "")
        titles = titles_of(part)
        dots = "A dot: clear of chance, all heads and numbers at once." if chosen["intervals"] else "No intervals here."
        layers, heads = stacks[str(key[0])][:2]
        left = layers * heads - part["name"].n_unique()
        grey = [f"Grey: not compared, {left} of {layers * heads} heads of {a} that have no partner."] if left else []
        charts[f"changes{tail}"] = themed(
            change_grids(part, titles, layers=layers, heads=heads),
            f"What changes from {a} to {b}{where}",
            f"Purple: more in {b}; orange: less. Each grid has its scale, white at zero. {dots}",
            f"Rows and columns are the heads of {a}.",
            *grey,
        )
        charts[f"against{tail}"] = themed(
            against(part, titles, a=a, b=b),
            f"{a} against {b}{where}, head by head",
            "One point a head; on the dashed line nothing changes."
            + (" Bars are 95 % intervals of the difference." if chosen["intervals"] else ""),
        )
        if chosen["match"] != "position":
            charts[f"matching{tail}"] = themed(
                matching(part.unique("name", maintain_order=True), a=a, b=b, unit=COSTS[chosen["match"]]),
                "Which layers correspond",
                f"How many heads of each layer of {a} were matched with heads of which layer of {b}, and how alike",
                "these are on average.",
            )
    return charts


def page_of(manifest: Mapping[str, Any], table: pl.DataFrame, charts: Mapping[str, Any], a: str, b: str) -> str:
    chosen = manifest["settings"]
    figures = "".join(_figure(name, chart.to_dict()) for name, chart in charts.items())
    policy = f"default-src 'none'; img-src data:; style-src '{digest(STYLE)}'; base-uri 'none'; form-action 'none'"
    sentences = "".join(f"<p>{ascii_text(line)}</p>" for line in findings(table, a, b, chosen))
    cautions = "".join(f"<li>{ascii_text(line)}</li>" for line in cautions_of(chosen))
    clear = f"{ascii_text(CLEAR_OF.format(len(table)))} " if chosen["intervals"] else ""
    sides = f'<p class="muted">{ascii_text(f"a is {a}, b is {b}; a difference is b − a.")}</p>'
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{ascii_text(f'{a} and {b} compared')}</title><style>{STYLE}</style></head><body>\n"
        f"<h1>{ascii_text(a)} and {ascii_text(b)}, head by head</h1>\n{sentences}\n"
        f"<h2>The numbers</h2>\n{sides}\n{_summary(table, chosen)}\n<h2>The largest differences, by size</h2>\n"
        f'<p class="muted">{clear}Size is the difference divided by the spread of that number over the heads of '
        f"both sides.</p>\n{_largest(table, chosen)}\n<h2>Figures</h2>\n{figures}\n"
        f"<h2>How to read this</h2>\n<ul>{cautions}</ul>\n"
        "<h2>Method</h2>\n<details><summary>Settings, models, texts and versions</summary>\n"
        f"<pre>{_method(manifest)}</pre></details>\n</body></html>\n"
    )


AT_ONCE = "none of these is an accident of which texts were read"
CLEAR_OF = (
    "Low and high are a 95 % interval of one difference; clear asks for 95 % confidence about all {0:,} at once "
    "(Holm's correction), so an interval may leave out 0 where clear says no."
)
NONE_CLEAR = "none is shown to be more than an accident of which texts were read"


def findings(table: pl.DataFrame, a: str, b: str, chosen: Mapping[str, Any]) -> list[str]:
    """What was found, in words with numbers."""
    heads = table.select("stack", "name").n_unique()
    if not chosen["intervals"]:
        return [
            f"{heads} heads of {a} beside the heads at the same place in {b}. This study keeps no single documents, so "
            "there are no intervals: small differences may be chance.",
            *otherwise_judged(table, a, b),
            *lengths(chosen),
        ]
    clear = int(table["clear"].sum())
    told = [
        f"Of {len(table)} differences ({heads} heads, {table['what'].n_unique()} numbers each) {clear} are clear of "
        f"chance: with 95 % confidence for all of them at once, {AT_ONCE if clear else NONE_CLEAR}. "
        f"{chosen['documents']} documents, {'the same on both sides' if chosen['paired'] else 'not the same ones'}."
    ]
    told += sinks(table, a, b)
    told += lengths(chosen)
    if not clear:
        return [*told, "So on these texts no head was seen to behave differently."]
    told += largest(table, a, b)
    if chosen["match"] != "position":
        moved = table.unique(["stack", "name"]).filter(pl.col("name") != pl.col("matched"))
        told.append(f"{len(moved)} of {heads} heads were matched with a head at another place.")
    if chosen["match"] == "attention":
        sure = table.unique(["stack", "name"]).filter(pl.col("kept") >= 0.95)
        told.append(
            f"{len(sure)} of the matches stay the same in 95 % of resamples of the texts; the others are unsure."
        )
    return told


def lengths(chosen: Mapping[str, Any]) -> list[str]:
    """Of two sets of texts: their mean lengths, and what these do where they differ by more than `ALIKE_LONG`."""
    if chosen["paired"]:
        return []
    shorter, longer = sorted(chosen["lengths"])
    return [(LENGTHS if longer > (1 + ALIKE_LONG) * shorter else OTHER_TEXTS).format(*chosen["lengths"])]


def largest(table: pl.DataFrame, a: str, b: str) -> list[str]:
    """The largest clear difference of each unit as it is, then beside the spread of its number over heads.

    Shares of weight have one unit and are compared with one another; every other number has its own.
    """
    clear = sized(table).filter("clear")
    units = [UNIT if what in SHARES else what for what in clear["what"].to_list()]
    by_unit = clear.with_columns(unit=pl.Series(units, dtype=pl.String)).sort(
        pl.col("change").abs(), descending=True, maintain_order=True
    )
    tops = by_unit.unique("unit", keep="first", maintain_order=True).sort(pl.col("unit") != UNIT, maintain_order=True)
    told = [f"The largest clear difference of {TITLES.get(top['unit'], top['unit'])}: {_pair(top, a, b)}."
            for top in tops.iter_rows(named=True)]  # fmt: skip
    top = clear.row(0, named=True)
    spreads = f"{abs(top['size']):.1f} times the spread of its number over the heads"
    return [*told, f"The largest clear difference beside what heads differ by anyway ({spreads}): {_pair(top, a, b)}."]


def _pair(row: Mapping[str, Any], a: str, b: str) -> str:
    return (
        f"{row['name']} of {a} and {row['matched']} of {b}, {TITLES.get(row['what'], row['what'])}: {row['a']:.3f} "
        f"against {row['b']:.3f} (difference {as_printed(row['a'], row['b']):+.3f}, 95 % {row['low']:+.3f} to "
        f"{row['high']:+.3f})"
    )


def as_printed(a: float, b: float) -> float:
    """b − a of the numbers as they are printed, so that a reader who subtracts finds the same.

    >>> round(as_printed(0.5434, 0.4686), 3), round(0.4686 - 0.5434, 3)
    (-0.074, -0.075)
    """
    return round(b, DIGITS) - round(a, DIGITS)


def sinks(table: pl.DataFrame, a: str, b: str) -> list[str]:
    """Heads that park half of their weight or more (headwise.lamps) on each side; which are new, and which are gone."""
    parts = table.filter(pl.col("what").is_in(PARKED))
    if parts["what"].n_unique() < len(PARKED):
        return []
    one = ("stack", "name")
    parked = parts.group_by(one, maintain_order=True).agg(pl.col("a", "b").sum())
    near = table.filter(pl.col("what").is_in(NEIGHBOURS)).group_by(one).agg(pl.col("a", "b").max().name.suffix("_near"))
    parked = parked.join(near, on=one, how="left", maintain_order="left")
    was, now = (
        [
            is_sink(Head(parked=weight, neighbour=most))
            for weight, most in parked.select(side, f"{side}_near").iter_rows()
        ]
        for side in ("a", "b")
    )
    names = parked["name"].to_list()
    new, gone = (
        [name for name, x, y in zip(names, *sides, strict=True) if y and not x] for sides in ((was, now), (now, was))
    )
    here = f"Sinks (half of the weight or more on no word): {sum(was)} of {len(names)} heads of {a}"
    changed = f"new: {_few(new)}; gone: {_few(gone)}."
    if table["name"].equals(table["matched"]):
        return [f"{here}, and {sum(now)} of {b}. From {a} to {b}, {changed}"]
    there = f"{sum(now)} of the heads of {b} that are compared with them"
    return [f"{here}, and {there}. By the names of the heads of {a}, {changed}"]


def otherwise_judged(table: pl.DataFrame, a: str, b: str) -> list[str]:
    """Heads whose maps may be shown on one side and not, or with more care, on the other; the lamps of both sides."""
    if not {*LIT} <= {*table["what"]}:
        return []
    changed: dict[bool, list[tuple[int, str]]] = {True: [], False: []}
    heads = table.partition_by("stack", "name", maintain_order=True)
    for head in heads:
        was, now = (
            lamps(head_of(dict(zip(head["what"].to_list(), head[side].to_list(), strict=True)))).showing
            for side in ("a", "b")
        )
        if steps := WORST.index(now) - WORST.index(was):
            changed[steps > 0].append((abs(steps), f"{head['name'][0]} ({was} → {now})"))
    worse, better = ([said for _, said in sorted(changed[up], key=lambda one: -one[0])] for up in (False, True))
    return [
        f"By the lamps of the means, {len(worse) + len(better)} of {len(heads)} maps may be shown otherwise in {b} "
        f"than in {a}: {len(worse)} with more care or not ({_few(worse)}), {len(better)} with less ({_few(better)})."
    ]


def _few(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3]) or 'none'}{more}"


CLEAR = "Clear does not mean large: with many texts even tiny differences are clear. Look at the numbers."
TEXTS = (
    "Texts count as independent. Paragraphs of one article are not quite, so the intervals are a little narrow.",
    "An interval is about which texts were read, for these very weights. Another training run of the same model would "
    "differ as well; only comparing several runs tells how much.",
)
ALIKE = (
    "Heads were matched so as to be alike, so they differ less than others would; the intervals do not account for "
    "that choice."
)
ALIKE_LONG = 0.05  # of the shorter mean length
OTHER_TEXTS = "The texts are not the same; they are about as long, {0:.1f} and {1:.1f} tokens in the mean."
LENGTHS = (
    "The texts are not the same, nor are their lengths: {0:.1f} and {1:.1f} tokens in the mean. Length alone changes "
    "entropy and shares; compare texts of one length before saying that a head behaves differently."
)
PLACE = (
    "Heads are compared at the same place. Between models trained on their own the same place means nothing; use "
    "--match attention, or profile where the tokenizers differ."
)
LOOKS = "Attention weights say where a head looks, not what it takes; see the effective and norm quantities."


def cautions_of(chosen: Mapping[str, Any]) -> list[str]:
    """What the numbers do not say."""
    about_texts = (CLEAR, *TEXTS) if chosen["intervals"] else ()
    return [*about_texts, PLACE if chosen["match"] == "position" else ALIKE, LOOKS]


def sized(table: pl.DataFrame) -> pl.DataFrame:
    """The table with `size`, largest first: the change in units of the number's spread over heads."""
    each = table.unpivot(["a", "b"], index="what").group_by("what").agg(pl.col("value").std().alias("spread"))
    with_size = table.join(each, on="what", how="left", maintain_order="left")
    return (
        with_size.with_columns(
            size=pl.when(pl.col("spread") > 0).then(pl.col("change") / pl.col("spread")).otherwise(0.0)
        )
        .drop("spread")
        .sort(pl.col("size").abs(), descending=True, maintain_order=True)
    )


def _summary(table: pl.DataFrame, chosen: Mapping[str, Any]) -> str:
    rows = []
    for key, part in table.group_by("stack", "what", maintain_order=True):
        size, clear = part["change"].abs(), f"{int(part['clear'].sum())} of {len(part)}"
        top = part.row(int(size.arg_max() or 0), named=True)
        most = number(as_printed(top["a"], top["b"]), f"+.{DIGITS}f")
        what = TITLES.get(str(key[1]), str(key[1]))
        rows.append([str(key[0]), what, part["a"].mean(), part["b"].mean(), size.mean(), most, clear])
    head = ["stack", "number", "mean, a", "mean, b", "mean |b − a|", "largest b − a", "clear heads"]
    columns = len(head) if chosen["intervals"] else len(head) - 1
    return _html_table(head[:columns], [row[:columns] for row in rows])


def _largest(table: pl.DataFrame, chosen: Mapping[str, Any]) -> str:
    heads = {"stack": "stack", "name": "head of a", "matched": "head of b", "what": "number", "a": "a", "b": "b",
             "change": "b − a", "low": "low", "high": "high", "size": "size", "clear": "clear"}  # fmt: skip
    columns = [name for name in heads if chosen["intervals"] or name not in ("low", "high", "clear")]
    named = pl.col("what").replace(TITLES)
    top = sized(table).with_columns(named).select(columns).head(TOP)
    rows = [[*(row | {"change": as_printed(row["a"], row["b"])}).values()] for row in top.iter_rows(named=True)]
    return _html_table([heads[name] for name in columns], rows)


def _html_table(head: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """A table; each cell names its column, for narrow screens, where rows stand below each other."""
    heads = "".join(f"<th>{ascii_text(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(map(_cell, row, head))}</tr>" for row in rows)
    return f'<div class="sheet"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(value: Any, head: str) -> str:
    column = f'data-head="{ascii_text(head)}"'
    if isinstance(value, bool):
        return f"<td {column}>{'yes' if value else 'no'}</td>"
    if isinstance(value, float) or value is None:
        return f'<td class="n" {column}>{ascii_text("–" if value is None else number(value, f".{DIGITS}f"))}</td>'
    return f"<td {column}>{ascii_text(str(value))}</td>"


def _figure(name: str, spec: Mapping[str, Any]) -> str:
    """Drawn twice: for a narrow screen its panels stand below each other."""
    return (
        f'<figure><picture><source media="screen and (max-width: 640px)" srcset="{_picture(below(spec))}">'
        f'<img alt="{ascii_text(name)}" src="{_picture(spec)}"></picture></figure>'
    )


def below(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A figure with its panels below each other, and its title broken to a telephone's width.

    >>> below({"concat": [{"mark": "bar"}], "columns": 3, "title": {"text": "What changes from one to the other"}})
    {'concat': [{'mark': 'bar'}], 'columns': 1, 'title': {'text': ['What changes from one to the other']}}
    """
    return titled({**spec, "columns": 1} if "concat" in spec else spec, NARROW)


def _picture(spec: Mapping[str, Any]) -> str:
    import vl_convert

    svg = vl_convert.vegalite_to_svg(dict(spec))
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode("ascii")


def _method(manifest: Mapping[str, Any]) -> str:
    shown = {key: manifest[key] for key in ("settings", "sides", "versions", "platform", "time", "seed")}
    return "\n".join(ascii_text(line) for line in json.dumps(shown, indent=1, default=str).split("\n"))
