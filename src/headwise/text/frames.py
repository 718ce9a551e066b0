"""Tables in memory (polars, pandas, Hugging Face datasets) as JSON lines, so that they are read as any corpus is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headwise.errors import InputError
from headwise.text.datasets import Named
from headwise.text.readers import pick_columns
from headwise.text.streams import Stream


def dump_frame(table: Any, columns: Sequence[str | int] | None, label: str | int | None, file: Stream) -> None:
    """Write the text columns of a table (and its label's) as JSON lines."""
    asked = Named(f"the {type(table).__name__}", tuple(columns) if columns else None, label)
    names, label_name = pick_columns(asked, _columns(table))
    keys = names if columns else ["text", "pair"]
    wanted = [*names, *([label_name] if label_name else [])]
    for row in _rows(table, wanted):
        line = {key: row[name] for key, name in zip(keys, names, strict=False)}
        line |= {label_name: row[label_name]} if label_name else {}
        file.write(json.dumps(line, default=str).encode() + b"\n")


def _columns(table: Any) -> list[str]:
    for attribute in ("column_names", "columns"):
        names = getattr(table, attribute, None)
        if names is not None and not callable(names):
            return [str(name) for name in names]
    raise InputError(
        f"A corpus must be a name, a path, or a table of polars, pandas or datasets; got a {type(table).__name__}."
    )


def _rows(table: Any, names: Sequence[str]) -> Iterable[Mapping[str, Any]]:
    if hasattr(table, "iter_rows"):  # polars
        return table.select(names).iter_rows(named=True)
    if hasattr(table, "itertuples"):  # pandas
        return (dict(zip(names, row, strict=True)) for row in table[list(names)].itertuples(index=False, name=None))
    return table.select_columns(list(names))  # datasets
