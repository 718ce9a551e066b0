"""The figures and tables of this page from the results of run.sh:  python experiments/identity/draw.py OUT."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

import headwise as hw
from headwise.plots.theme import save_chart
from headwise.results import Result
from headwise.studies.identity.figures import two_models

HERE = Path(__file__).parent
KEPT = ("mrpc", "input", "fig2a")  # what the page shows; the other figures stay in OUT
SHOWN = {
    "input": ("fig2a", "fig2b", "fig7", "matrix-linear-cosine", "tag", "frequency"),
    "previous": ("fig11",),
    "neighbours": ("fig14", "fig17"),
    "attribution": ("attribution",),
    "llm": ("fig2a", "matrix-linear-cosine"),
}


def result_in(folder: Path) -> Result | None:
    if not (folder / "manifest.json").is_file():
        return None
    result = hw.open(folder)
    assert isinstance(result, Result)
    return result


def rates(table: pl.DataFrame) -> pl.DataFrame:
    """One row a map, distance, set and neighbour, one column a layer it was learned from and tested on, in %."""
    own = table.filter((pl.col("what") == "rate") & (pl.col("layer") == pl.col("tested")))
    return own.with_columns((pl.col("value") * 100).round(1)).pivot(
        on="layer", index=["map", "distance", "set", "offset"], values="value"
    )


def crossed(table: pl.DataFrame, map_: str, distance: str) -> pl.DataFrame:
    chosen = table.filter(
        (pl.col("what") == "rate") & (pl.col("map") == map_) & (pl.col("distance") == distance)
        & (pl.col("offset") == 0) & (pl.col("set") == "test")
    )  # fmt: skip
    return chosen.with_columns((pl.col("value") * 100).round(1)).pivot(on="tested", index="layer", values="value")


def draw(out: Path) -> None:
    for corpus in ("mrpc", "cola"):
        for name, figures in SHOWN.items():
            if (result := result_in(out / f"{corpus}-{name}")) is not None:
                for figure in set(figures) & set(result.figures):
                    kept = HERE if (corpus, name, figure) == KEPT else out
                    print(save_chart(result.figure(figure), kept / f"{corpus}-{name}-{figure}.svg"))
        before, after = (result_in(out / f"{corpus}-{name}") for name in ("previous", "finetuned"))
        if before is not None and after is not None:
            naive = before.table.filter(pl.col("map") == "none")
            chart = two_models({"demo": naive, f"fine-tuned on {corpus.upper()}": after.table})
            figure = "fig12" if corpus == "mrpc" else "fig13"
            print(save_chart(chart, out / f"{corpus}-finetuned-{figure}.svg"))


def tell(out: Path) -> None:
    with pl.Config(tbl_rows=60, tbl_cols=40, tbl_formatting="MARKDOWN", tbl_hide_column_data_types=True):
        for folder in sorted(path.parent for path in out.glob("*/manifest.json")):
            result = result_in(folder)
            assert result is not None
            table = result.table
            facts = table.filter(pl.col("what") == "rate")
            print(f"\n## {folder.name}: {result.manifest['documents']} texts, {result.manifest['tokens']} tokens")
            print(f"chance {facts['chance'][0]:.3f}, by word {facts['word_chance'][0]:.3f}")
            print(rates(table))
            for map_, distance in facts.select("map", "distance").unique(maintain_order=True).iter_rows():
                matrix = crossed(table, map_, distance)
                if matrix.width > 2 and sum(matrix.null_count().row(0)) == 0:
                    print(f"{map_} {distance}: learned from (rows), tested on (columns)\n{matrix}")
            extra = table.filter(pl.col("what").is_in(["tag", "frequency", "attribution"]) & (pl.col("map") != "none"))
            for what, distance in extra.select("what", "distance").unique(maintain_order=True).iter_rows():
                part = extra.filter((pl.col("what") == what) & (pl.col("distance") == distance))
                part = part.with_columns(pl.col("value").round(3))
                print(f"{what}, {distance}\n{part.pivot(on='layer', index='group', values='value')}")


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
    tell(Path(sys.argv[1]))
