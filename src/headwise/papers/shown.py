"""The files of an item: its figures as SVG, its table as Markdown where the paper has one or nothing is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from headwise.papers.claim import Item
from headwise.plots.theme import save_chart
from headwise.results.files import write_files
from headwise.results.shown import number

MOST_ROWS = 400  # of a table in Markdown; the whole is in the folder of its result


def written(item: Item, table: pl.DataFrame, figures: Mapping[str, Callable[[], Any]], folder: Path) -> list[Path]:
    """Write what there is; figures that a model does not have (no separators, say) are left out."""
    folder.mkdir(parents=True, exist_ok=True)
    there = [name for name in item.figures if name in figures]
    files = [folder / f"{item.id}-{name}.svg" for name in there]
    for name, path in zip(there, files, strict=True):
        save_chart(figures[name](), path)
    if item.rows is not None or not files:
        rows = (item.rows or (lambda whole: whole))(table)
        write_files(folder, {f"{item.id}.md": markdown(rows.head(MOST_ROWS)).encode("utf-8")})
        files.append(folder / f"{item.id}.md")
    return files


def markdown(table: pl.DataFrame) -> str:
    """A table in Markdown; numbers keep three digits.

    >>> print(markdown(pl.DataFrame({"name": ["L0.H0"], "cv": [0.2234]})))
    | name | cv |
    |---|---|
    | L0.H0 | 0.223 |
    <BLANKLINE>
    """
    lines = [table.columns, *([_cell(value) for value in row] for row in table.iter_rows())]
    head, *rest = (f"| {' | '.join(cells)} |\n" for cells in lines)
    return "".join([head, "|" + "---|" * table.width + "\n", *rest])


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return number(value, ".3g") if isinstance(value, float) else str(value).replace("|", "\\|")
