"""The tables of README.md from what is stored beside it: python experiments/matter/tables.py [--check].

A folder is MODEL/STUDY with table.parquet and manifest.json, as `headwise run` wrote them (run.sh). A claim holds where
its 95 % interval lies above the line, does not hold where it lies below, and is undecided otherwise.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from headwise.papers.evidence import between
from headwise.studies.roles.labelled import LABELLED
from headwise.studies.roles.trials import threshold

HERE = Path(__file__).parent
PAGE, MARK = HERE / "README.md", "tables"
TELLS = 0.6  # ρ from which a number is said to tell which heads matter
STATISTICS = {"estimate": "one backward pass", "norm": "the length of what it sends",
              "entropy": "the entropy of its attention", "null": "its null share"}  # fmt: skip
ORDERS = ("effect, least first", "estimate, least first", "norm, least first", "null share, most first",
          "entropy, most first", "random", "effect, most first")  # fmt: skip
Row = dict[str, Any]


def interval(row: Row, value: str = "value", low: str = "low", high: str = "high", digits: int = 2) -> str:
    """0.52 [0.31, 0.70]; a dash where it is not defined."""
    if row[value] is None or row[value] != row[value]:
        return "–"
    ends = "" if row[low] is None else f" [{row[low]:.{digits}f}, {row[high]:.{digits}f}]"
    return f"{row[value]:.{digits}f}{ends}"


def sign(low: float | None, high: float | None, line: float = 0.0) -> str:
    """✅ above the line for sure, ❌ below it for sure, ❔ otherwise."""
    if low is None or high is None or low != low:
        return "❔"
    return "✅" if low > line else "❌" if high < line else "❔"


def stored(study: str) -> Iterator[tuple[str, pl.DataFrame, Row]]:
    for manifest in sorted(HERE.glob(f"*/{study}/manifest.json")):
        folder = manifest.parent
        yield folder.parent.name, pl.read_parquet(folder / "table.parquet"), json.loads(manifest.read_bytes())


def lines(head: str, rows: list[list[str]]) -> str:
    columns = head.count("|") - 1
    return "\n".join([head, "|" + "---|" * columns, *("| " + " | ".join(row) + " |" for row in rows)])


def which_heads() -> str:
    rows = []
    for model, table, _ in stored("ablation"):
        heads = table.filter(part="head")
        heads = heads.filter((pl.col("way") == heads["way"][0]) & (pl.col("number") == heads["number"][0]))
        known = heads["low"].null_count() < heads.height
        sure = [str(heads.filter(test).height) if known else "–" for test in (pl.col("low") > 0, pl.col("high") < 0)]
        best = heads.sort("value", descending=True).head(3).to_dicts()
        several = heads["stack"].n_unique() > 1
        top = "; ".join(
            f"{row['stack'] + ' ' if several else ''}{row['name']} {interval(row, digits=3)}" for row in best
        )
        rows.append([model, str(heads["texts"][0]), str(heads.height), *sure, top])
    return lines("| model | texts | heads | worse without, for sure | better | those that matter most |", rows)


def found_by_estimate(table: pl.DataFrame, count: int = 10) -> str:
    """How many of the heads that matter most are among as many by the first order."""
    heads = table.filter(part="head").drop_nulls("estimate")
    places = [set(heads.sort(by, descending=True).head(count).select("stack", "name").rows())
              for by in ("value", "estimate")]  # fmt: skip
    return f"{len(places[0] & places[1])} of {count}"


def what_tells() -> str:
    rows = []
    for model, table, _ in stored("ablation"):
        found = {row["name"]: row for row in table.filter(part="correlation").to_dicts()}
        cells = []
        for name in STATISTICS:
            row = found[name]
            ends = (row["low"], row["high"]) if row["value"] >= 0 or row["low"] is None else (-row["high"], -row["low"])
            cells.append(f"{sign(*ends, line=TELLS)} {interval(row)}")
        rows.append([model, *cells, found_by_estimate(table)])
    return lines(f"| model | {' | '.join(STATISTICS.values())} | of the ten that matter most, by one pass |", rows)


def taken_away() -> str:
    """What is lost with about half of the heads gone, by order."""
    rows = []
    for model, table, _ in stored("ablation"):
        curve = table.filter(part="curve")
        if curve.is_empty():
            continue
        heads = table.filter(part="head").select("stack", "layer", "head").n_unique()
        half = min(curve["removed"].unique().to_list(), key=lambda count: abs(count - heads / 2))
        found = {row["name"]: row for row in curve.filter(removed=half).to_dicts()}
        cells = [interval(found[order]) if order in found else "–" for order in ORDERS]
        rows.append([model, f"{half} of {heads}", *cells])
    return lines(f"| model | removed | {' | '.join(ORDERS)} |", rows)


def who_does_it() -> str:
    rows = []
    for model, table, manifest in [*stored("roles"), *stored("roles-labelled"), *stored("roles-coref")]:
        corpus = Path(manifest["plan"]["corpus"]["name"]).name
        trials = table.filter((pl.col("part") == "trial") & pl.col("gain").is_not_null())
        for row in trials.sort("gain", descending=True).to_dicts():
            count = len(row["heads"].split(", "))
            mark = "✅" if row["verdict"] == "role" else "❌"
            rows.append([model, corpus, row["role"], row["task"], str(count), interval(row, "gain", digits=3),
                         f"{row['beaten']:.1f}", mark])  # fmt: skip
    columns = ("model", "texts", "looks like", "task", "heads", "lost beyond random heads", "draws beaten", "does it")
    return lines(f"| {' | '.join(columns)} |", rows)


def by_labels() -> str:
    """Of every role that labels tell, the head that looks most like it."""
    rows = []
    for model, table, manifest in [*stored("roles-labelled"), *stored("roles-coref")]:
        corpus = Path(manifest["plan"]["corpus"]["name"]).name
        heads = table.filter((pl.col("part") == "head") & pl.col("role").is_in(LABELLED)).sort("value", descending=True)
        for row in heads.group_by("role", maintain_order=True).first().to_dicts():
            named = f"{row['stack']} {row['name']}" if row["stack"] != "self" else row["name"]
            rows.append([model, corpus, str(manifest["documents"]), row["role"], named, f"{row['value']:.2f}",
                         f"{threshold(row['role'])}", "yes" if row["looks"] else "no"])  # fmt: skip
    columns = ("model", "texts", "n", "role", "best head", "hits", "looks like it from", "looks like it")
    return lines(f"| {' | '.join(columns)} |", rows)


def which_edges() -> str:
    rows = []
    for model, table, _ in stored("edges"):
        for row in table.filter(over="all").to_dicts():
            of = f"of {row['part']}s" + ("" if row.get("stack", "self") == "self" else f", {row['stack']}")
            gain = "" if row["quantity"] == "raw" else interval(row, "gain", "gain_low", "gain_high")
            mark = "" if row["quantity"] == "raw" or gain == "–" else sign(row["gain_low"], row["gain_high"])
            rows.append([model, of, row["quantity"], interval(row), gain, mark, str(row["texts"]),
                         str(row["edges"])])  # fmt: skip
    return lines("| model | edges | quantity | ρ with what moves | more than raw | better | texts | cut |", rows)


def content() -> str:
    parts = [
        ("Which heads matter", which_heads()),
        (f"Does a number tell which heads matter? (✅: |ρ| above {TELLS} for sure)", what_tells()),
        ("Half of the heads gone: what is lost, by the order in which they went", taken_away()),
        ("Do heads do what they look like?", who_does_it()),
        ("Heads against labels: how often the most attended word is the one that the label names", by_labels()),
        ("Does anything tell which edges matter better than raw weights?", which_edges()),
    ]
    return "\n\n".join(f"### {title}\n\n{table}" for title, table in parts)


def main() -> int:
    old = PAGE.read_text("utf-8")
    new = between(old, MARK, content())
    if new == old:
        return 0
    if "--check" in sys.argv:
        print("run `python experiments/matter/tables.py`; README.md is out of date")
        return 1
    PAGE.write_text(new, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
