"""Figures 7, 8 and 13–17 of the paper, and table 3 drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from headwise.plots.alignment import rates_by_layer, rates_of_methods, soft_alignment
from headwise.plots.theme import CATEGORIES, themed
from headwise.quantities import every
from headwise.studies.alignment.scores import from_bits
from headwise.studies.hits import from_bytes
from headwise.studies.study import Setting, State

LABELS = {"raw": "weights (raw)", "effective": "effective weights", "norm": "one head's norms",
          "norm-sum": "norms (norm-sum)", "alti": "alti, one layer"}  # fmt: skip
PANELS = {"input": "input position: the word that a row reads", "output": "output position: the word it predicts"}
MAPS = ("raw", "norm-sum")  # what the paper draws
DIAGONAL = "the diagonal"


def figures(table: pl.DataFrame, state: State, setting: Setting, together: Sequence[str]) -> Mapping[str, Any]:
    """All that the state allows; `together` is the order of the quantities in the maps."""
    charts: dict[str, Any] = {}
    if table["aer"].is_not_null().any():
        charts |= {"fig7": _fig7(table, setting), "table3": _table3(table, setting)}
    shown = [quantity for quantity in MAPS if quantity in together] or list(together[:1])
    if "words@cross.0" in state and shown:
        layers = list(range(setting.stacks["cross"][0]))
        best, position = best_place(table, shown[-1])
        charts["fig8"] = _fig8(state, setting, position, together, shown, best)
        charts["fig13-17"] = _every_layer(state, setting, position, together, shown, layers)
    return charts


def best_place(table: pl.DataFrame, quantity: str) -> tuple[int, str]:
    """Layer and position, by AER on the choosing part, or by agreement where there are no gold links."""
    rows = table.filter((pl.col("quantity") == quantity) & pl.col("head").is_null())
    scored = rows["chosen_aer"].is_not_null().any()
    best = rows.sort("chosen_aer" if scored else "agreement", descending=not scored).row(0, named=True)
    return best["layer"], best["position"]


def _first_way(table: pl.DataFrame) -> pl.DataFrame:
    """Rows of the first extraction, and those of other aligners."""
    first = table["extraction"].drop_nulls()[0]
    return table.filter(pl.col("extraction").is_null() | (pl.col("extraction") == first))


def _fig7(table: pl.DataFrame, setting: Setting) -> Any:
    rows = _first_way(table).filter(pl.col("head").is_null() & pl.col("layer").is_not_null())
    there = [each.name for each in every() if each.name in set(rows["quantity"])]
    colours = dict(zip([LABELS.get(name, name) for name in there], CATEGORIES, strict=False))
    panels = {position: title for position, title in PANELS.items() if position in set(rows["position"])}
    named = rows.with_columns(quantity=pl.col("quantity").replace(LABELS))
    return themed(
        rates_by_layer(named, colours, panels=panels),
        f"{setting.model}: alignment error by decoder layer",
        f"Links by {rows['extraction'][0]}, all heads together; bars are 95 % bootstrap intervals over pairs. Lower is "
        "better.",
        "Where norms lie below weights, what a word weighs is not what it gives.",
    )


def _table3(table: pl.DataFrame, setting: Setting) -> Any:
    rows = table.filter(pl.col("best") | pl.col("layer").is_null()).with_columns(
        name=pl.struct(pl.all()).map_elements(_method, return_dtype=pl.String)
    )
    return themed(
        rates_of_methods(rows, controls=[DIAGONAL]),
        f"{setting.model}: alignment error of every method",
        "Layers and heads were chosen on other pairs than those scored here; bars are 95 % bootstrap intervals.",
        "Grey: each target word linked with the source word at the same share of the sentence.",
    )


def _method(row: Mapping[str, Any]) -> str:
    if row["extraction"] is None:
        return row["quantity"]
    where = "" if row["layer"] is None else f" L{row['layer']}" + ("" if row["head"] is None else f".H{row['head']}")
    way = "" if row["extraction"] == "argmax" else f", {row['extraction']}"
    name = row["quantity"] if row["head"] is not None else LABELS.get(row["quantity"], row["quantity"])
    return f"{name}{where}, {row['position']}{way}"


def _fig8(
    state: State, setting: Setting, position: str, together: Sequence[str], shown: Sequence[str], layer: int
) -> Any:
    rows = [
        _side_by_side([_panel(state, number, position, together, quantity, layer) for quantity in shown])
        for number in example_numbers(state)
    ]
    return themed(
        alt.vconcat(*rows, spacing=30).resolve_scale(color="independent"),
        f"{setting.model}: soft alignments of layer {layer}, {position} position",
        *_legend(),
    )


def _every_layer(
    state: State, setting: Setting, position: str, together: Sequence[str], shown: Sequence[str], layers: Sequence[int]
) -> Any:
    number = example_numbers(state)[0]
    rows = [
        _side_by_side([_panel(state, number, position, together, quantity, layer) for quantity in shown])
        for layer in layers
    ]
    return themed(
        alt.vconcat(*rows, spacing=24).resolve_scale(color="independent"),
        f"{setting.model}: one pair in every layer, {position} position",
        *_legend(),
    )


def _side_by_side(panels: Sequence[Any]) -> Any:
    return alt.hconcat(*panels, spacing=30).resolve_scale(color="independent")


def _legend() -> tuple[str, str]:
    return (
        "Rows are target words, columns source words; the darkest cell of a map is its largest number.",
        "Framed: the reference, dashed where it is only possible. Dot: the highest source word of a row.",
    )


def _panel(state: State, number: int, position: str, together: Sequence[str], quantity: str, layer: int) -> Any:
    source, target = example_words(state, number)
    column = list(together).index(quantity)
    flat = state.documents(f"soft {position}@cross.{layer}")[number]
    matrix = flat[:, column].reshape(len(target), len(source)).double().numpy()
    return soft_alignment(
        matrix,
        source,
        target,
        _gold(state, number, (len(source), len(target))),
        title=f"L{layer}, {LABELS.get(quantity, quantity)}",
    )


def example_numbers(state: State) -> tuple[int, ...]:
    return state.pieces("words@cross.0").numbers


def example_words(state: State, number: int) -> tuple[list[str], list[str]]:
    """Source and target words of an example."""
    words = from_bytes(state.documents("words@cross.0")[number])
    count = int(state.documents("lengths@cross.0")[number][0, 0])
    return words[:count], words[count:]


def _gold(state: State, number: int, lengths: tuple[int, int]) -> dict[str, np.ndarray]:
    told = state.documents("gold@cross.0") if "gold@cross.0" in state else {}
    if number not in told:
        return {}
    sure, possible = np.moveaxis(from_bits(told[number], lengths), -1, 0)
    found = {"sure": sure, "possible": possible & ~sure}
    return {kind: links for kind, links in found.items() if links.any()}
