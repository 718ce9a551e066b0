"""The kept tables as markdown: AER by layer, and the best of every method."""

from __future__ import annotations

from pathlib import Path

import polars as pl

HERE = Path(__file__).parent


def by_layer(table: pl.DataFrame) -> list[str]:
    """A row a quantity and position, all pairs, as in the paper's fig. 7."""
    rows = table.filter(pl.col("head").is_null() & pl.col("layer").is_not_null() & (pl.col("extraction") == "argmax"))
    layers = sorted(set(rows["layer"]))
    lines = ["| quantity | position | " + " | ".join(f"L{layer}" for layer in layers) + " |",
             "|---|---|" + "---|" * len(layers)]  # fmt: skip
    for (quantity, position), part in rows.group_by("quantity", "position", maintain_order=True):
        rates = dict(part.select("layer", "all_aer").iter_rows())
        lines.append(f"| {quantity} | {position} | " + " | ".join(f"{100 * rates[at]:.1f}" for at in layers) + " |")
    return lines


def methods(table: pl.DataFrame) -> list[str]:
    """The layer or head chosen on the choosing pairs, scored on the others."""
    rows = table.filter(pl.col("aer").is_not_null() & (pl.col("best") | pl.col("layer").is_null())).sort("aer")
    lines = [
        "| method | where | AER | 95 % interval | precision | recall | AER, all pairs |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows.iter_rows(named=True):
        head = "" if row["head"] is None else f".H{row['head']}"
        place = [] if row["layer"] is None else [f"L{row['layer']}{head}"]
        where = ", ".join([*place, *(row[name] for name in ("position", "extraction") if row[name])])
        numbers = [
            f"{100 * row[name]:.1f}" if row[name] is not None else "" for name in ("precision", "recall", "all_aer")
        ]
        interval = f"{100 * row['low']:.1f}–{100 * row['high']:.1f}"
        lines.append(
            f"| {row['quantity']} | {where} | {100 * row['aer']:.1f} | {interval} | " + " | ".join(numbers) + " |"
        )
    return lines


def main() -> None:
    table = pl.read_parquet(HERE / "table.parquet")
    print("\n".join(["## By layer, AER in %, all pairs, argmax", "", *by_layer(table), ""]))
    print("\n".join(["## Methods, AER in %", "", *methods(table), ""]))
    if (HERE / "table-union.parquet").exists():
        print("\n".join(["## Rule `union`", "", *by_layer(pl.read_parquet(HERE / "table-union.parquet"))]))


if __name__ == "__main__":
    main()
