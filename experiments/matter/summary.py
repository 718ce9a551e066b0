"""The tables of README.md from finished runs: python experiments/matter/summary.py RESULTS."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

import headwise as hw


def interval(row: dict, *, value: str = "value", low: str = "low", high: str = "high", digits: int = 2) -> str:
    ends = "" if row[low] is None else f" [{row[low]:.{digits}f}, {row[high]:.{digits}f}]"
    return f"{row[value]:.{digits}f}{ends}"


def ablation(folder: Path) -> None:
    table = hw.open(folder).table
    heads = table.filter(part="head")
    first = heads.filter((pl.col("way") == heads["way"][0]) & (pl.col("number") == heads["number"][0]))
    print(f"\n### {folder}: {len(first)} heads, {first['texts'][0]} texts")
    above, below = (first.filter(sign).height for sign in (pl.col("low") > 0, pl.col("high") < 0))
    print(f"interval above 0: {above}; below 0: {below}")
    for row in first.sort("value", descending=True).head(5).to_dicts():
        print(f"| {row['stack']} {row['name']} | {interval(row, digits=4)} | {row['estimate']:.4f} |")
    for row in table.filter(part="correlation").to_dicts():
        print(f"| {row['name']} | {interval(row)} |")
    for row in table.filter(part="curve").to_dicts():
        print(f"| {row['name']} | {row['removed']} | {interval(row, digits=3)} |")


def roles(folder: Path) -> None:
    table = hw.open(folder).table
    print(f"\n### {folder}")
    for row in table.filter(part="trial").to_dicts():
        if row["gain"] is not None:
            gain = interval(row, value="gain", digits=4)
            print(
                f"| {row['role']} | {row['task']} | {row['heads']} | {row['value']:.4f} | {row['control']:.4f} ", end=""
            )
            print(f"| {gain} | {row['beaten']:.1f} | {row['verdict']} |")


def edges(folder: Path) -> None:
    print(f"\n### {folder}")
    for row in hw.open(folder).table.to_dicts():
        gain = interval(row, value="gain", low="gain_low", high="gain_high")
        print(f"| {row['part']} | {row['over']} | {row['quantity']} | {interval(row)} | {gain} | {row['texts']} |")


def main() -> None:
    for manifest in sorted(Path(sys.argv[1]).glob("**/manifest.json")):
        study = hw.open(manifest.parent).manifest["study"]
        {"ablation": ablation, "roles": roles, "edges": edges}[study](manifest.parent)


if __name__ == "__main__":
    main()
