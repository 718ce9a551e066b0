"""Heads whose syntax is known, for the strip: the best ones of a stored run of `syntax` on the same model.

A single text has no parse, so a page cannot find syntax by itself. A head is told for a relation where its accuracy, on
sentences that it was not chosen on, lies with its whole interval above that of the best fixed offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headwise.errors import InputError
from headwise.viewer.payload import Stack, Telling
from headwise.viewer.telling import looks, named

if TYPE_CHECKING:
    import polars as pl

    from headwise.models.model import Model

RELATIONS = 3  # told on a page
ENOUGH = 50  # examples of a relation for it to be spoken of


def with_syntax(stack: Stack, folder: str | Path, model: Model | None) -> Stack:
    """`stack` with the heads that the run in `folder` found, after those of the text itself; each head once."""
    table = _table(Path(folder), model)
    seen = {(one.layer, one.head) for one in stack.telling}
    more = [one for one in told(table.filter(stack=stack.name)) if (one.layer, one.head) not in seen]
    sinks = _sinks(stack)
    more = [replace(one, what=named(one.what, sink=(one.layer, one.head) in sinks)) for one in more]
    return replace(stack, telling=(*stack.telling, *more))


def _sinks(stack: Stack) -> set[tuple[int, int]]:
    """Layer and head of what the lamps call sinks, on this text."""
    found = looks(stack)
    if found is None:
        return set()
    maps = stack.quantities[0]
    return {(maps.layers[layer], maps.heads[head]) for layer, head in np.argwhere(found.sinks).tolist()}


def told(table: pl.DataFrame) -> Iterator[Telling]:
    """The relations whose best head clearly beats the best fixed offset, by how much; each head once."""
    import polars as pl

    best = table.filter(pl.col("best") & ~pl.col("relation").str.starts_with("all"))
    offsets = best.filter(quantity="offset").select("relation", offset="accuracy")
    heads = best.filter(
        (pl.col("quantity") == "raw") & pl.col("head").is_not_null() & (pl.col("count") >= ENOUGH)
    ).join(offsets, on="relation")
    clear = heads.filter(pl.col("low") > pl.col("offset"))
    ordered = clear.sort(pl.col("accuracy") - pl.col("offset"), descending=True)
    for row in ordered.unique(["layer", "head"], keep="first", maintain_order=True).head(RELATIONS).to_dicts():
        yield Telling(f"syntax: {row['relation']}", row["layer"], row["head"], row["accuracy"])


def _table(folder: Path, model: Model | None) -> pl.DataFrame:
    from headwise.engine.plan import model_facts
    from headwise.results import STUDY, open_result

    result = open_result(folder, STUDY)
    if result.manifest["study"] != "syntax":
        raise InputError(f"Syntax is told by a run of `syntax`, but {folder} is of {result.manifest['study']}.")
    if model is None or result.manifest["model"].get("weights") != model_facts(model)["weights"]:
        raise InputError(f"Syntax is told of the very model that was run, but {folder} is of another; run it.")
    return result.table
