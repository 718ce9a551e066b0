"""The numbers of README.md out of result folders of `headwise run mixing`, as Markdown.

python experiments/mixing/compare.py OUT/mrpc OUT/cola OUT/mrpc-output
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

CONTENT = ("NN", "NNS", "NNP", "VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "JJ", "JJR", "JJS", "RB", "RBR")
FUNCTION = ("DT", "IN", "CC", "TO", "PRP", "PRP$", "WP", "WDT", "POS", "MD")


def chosen(table: pl.DataFrame, kind: str, statistic: str, group: str | None = "") -> pl.DataFrame:
    rows = table.filter((pl.col("kind") == kind) & (pl.col("statistic") == statistic) & pl.col("layer").is_not_null())
    return rows if group is None else rows.filter(pl.col("group") == group).sort("layer")


def percent(values: pl.Series) -> str:
    return " | ".join("–" if value is None or value != value else f"{100 * value:.1f}" for value in values)


def by_layer(table: pl.DataFrame) -> None:
    layers = sorted(table["layer"].drop_nulls().unique())
    print(f"| % by layer | {' | '.join(str(layer + 1) for layer in layers)} |\n|---|{'---|' * len(layers)}")
    for name, kind, statistic in (
        ("own, median", "own", "median"), ("own, mean", "own", "mean"), ("chance", "own", "chance"),
        ("not own", "not-own", "share"),
    ):  # fmt: skip
        print(f"| {name} | {percent(chosen(table, kind, statistic)['value'])} |")
    print(f"| rank, 95 % | {' | '.join(f'{value:.0f}' for value in chosen(table, 'rank', 'q95')['value'])} |")
    for statistic in ("relative", "each", "total"):
        for group in ("1", "2", "3", "4–5", "6–10", "11+"):
            values = chosen(table, "neighbours", statistic, group)["value"]
            print(f"| neighbours {group}, {statistic} | {percent(values)} |")
    print(f"| tokens | {' | '.join(f'{value:.0f}' for value in chosen(table, 'own', 'mean')['count'])} |")


def places(table: pl.DataFrame) -> None:
    """Where the context lies, by layer: the offsets with the largest shares, and what is within 5 tokens."""
    for kind in ("offset", "to-first-by-separator"):
        shares = chosen(table, kind, "share", None).filter(~pl.col("group").str.contains("[<>]"))
        for (layer,), rows in shares.sort("layer").group_by("layer", maintain_order=True):
            near = rows.filter(pl.col("group").cast(pl.Int64).abs() <= 5)["value"].sum()
            right = rows.filter(pl.col("group").cast(pl.Int64) > 0)["value"].sum()
            top = rows.sort("value", descending=True).head(5)
            told = ", ".join(f"{g} ({100 * v:.1f})" for g, v in zip(top["group"], top["value"], strict=True))
            print(f"{kind} layer {layer + 1}: largest {told}; within 5: {100 * near:.1f} %; right: {100 * right:.1f} %")


def tags(table: pl.DataFrame) -> None:
    for kind in ("tag-own", "tag-rank"):
        medians = chosen(table, kind, "median", None).filter(pl.col("count") >= 10)
        for layer in sorted(medians["layer"].unique()):
            rows = medians.filter(pl.col("layer") == layer).sort("value", descending=True)
            told = [
                f"{g} {100 * v:.1f}" if kind == "tag-own" else f"{g} {v:.0f}"
                for g, v in rows.select("group", "value").rows()
            ]
            print(f"{kind} layer {layer + 1}: {', '.join(told)}")
            for name, group in (("content", CONTENT), ("function", FUNCTION)):
                part = rows.filter(pl.col("group").is_in(group))
                mean = (part["value"] * part["count"]).sum() / max(part["count"].sum(), 1)
                print(f"  {name} words: mean of the tags' medians by tokens {mean:.4f}")


def main() -> None:
    for folder in map(Path, sys.argv[1:]):
        print(f"\n## {folder.name}\n")
        table = pl.read_parquet(folder / "table.parquet")
        by_layer(table)
        places(table)
        tags(table)


if __name__ == "__main__":
    main()
