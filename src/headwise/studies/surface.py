"""Where attention goes on the surface: neighbours, special tokens, punctuation, and how broad it is.

Clark et al. 2019 (https://arxiv.org/abs/1906.04341) §3, fig2 and fig4, for any quantity. Sums over a category's keys,
mean over the rows of a text, then mean over texts; neighbours over the rows that have one. Entropy is that of the
weights, whatever the quantity. `first` is [CLS], or for a causal model the sink.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl
import torch
from jaxtyping import Float
from torch import Tensor

from headwise.measures.reductions import diagonal, key_sums, row_entropy
from headwise.plots import scatter
from headwise.plots.theme import themed
from headwise.stats import Sums
from headwise.studies import STUDIES
from headwise.studies.study import Reading, Setting, State, Study, at, by_layer, head_rows
from headwise.text.categories import CATEGORIES
from headwise.types import Layer

OFFSETS = {"previous": -1, "current": 0, "next": 1}
FIRST, SEPARATOR, OTHER = (CATEGORIES.index(name) for name in ("first", "separator", "other"))


@STUDIES.add("surface", "neighbours, special tokens, punctuation and entropy of every head (Clark et al. fig2, fig4)")
@dataclass(frozen=True)
class Surface(Study):
    """`quantities`: the maps to look at."""

    name: ClassVar[str] = "surface"
    quantities: tuple[str, ...] = ("raw", "effective", "norm")

    def observe(self, layer: Layer, reading: Reading) -> State:
        state: State = {}
        rows = reading.row_weights(layer)
        keys = _one_hot(reading.key_categories(layer), layer.alpha.dtype)
        for quantity in self.quantities:
            masses = key_sums(layer, quantity, keys)
            state[at(f"{quantity}/to", layer)] = _mean(masses, rows)
            for name, kind in (("separator", SEPARATOR), ("other", OTHER)):
                weights = reading.row_weights_of(layer, kind)
                state[at(f"{quantity}/{name}-to-separator", layer)] = _mean(masses[..., [SEPARATOR]], weights)
            if layer.stack != "cross":
                for name, offset in OFFSETS.items():
                    state[at(f"{quantity}/{name}", layer)] = _neighbours(layer, quantity, offset)
        entropy = row_entropy(layer)[..., None]
        state[at("entropy", layer)] = _mean(entropy, rows)
        state[at("entropy-from-first", layer)] = _mean(entropy, reading.row_weights_of(layer, FIRST))
        state[at("uniform", layer)] = _mean(layer.visible.sum(-1).double().log()[:, None, :, None], rows)
        return state

    def table(self, state: State, setting: Setting) -> pl.DataFrame:
        """One row a quantity and head."""
        tables = [
            head_rows(_columns(state, quantity, stack), stack=stack, quantity=quantity)
            for stack in setting.stacks
            for quantity in self.quantities
        ]
        return pl.concat(tables, how="diagonal")

    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        table = self.table(state, setting)
        uniform = torch.stack([u.mean[0, 0] for u in by_layer(state, "uniform", next(iter(setting.stacks)))])
        return {
            "fig2": _fig2(table, setting),
            "fig2-bottom": _fig2_bottom(table, setting),
            "rel-pos": _neighbour_figure(table, setting),
            "fig4": _fig4(table, setting, float(uniform.mean())),
        }


def _one_hot(categories: Tensor, dtype: torch.dtype) -> Float[Tensor, "batch key category"]:
    return (categories[..., None] == torch.arange(len(CATEGORIES))).to(dtype)


def _mean(values: Float[Tensor, "batch head query column"], weights: Float[Tensor, "batch query"]) -> Sums:
    """Σ w x and Σ w over texts and rows, [head column]."""
    weights = weights.double()
    total = torch.einsum("bhqc,bq->hc", values.double(), weights)
    return Sums(total, weights.sum().expand_as(total).clone())


def _neighbours(layer: Layer, quantity: str, offset: int) -> Sums:
    values = diagonal(layer, quantity, offset)
    key = torch.arange(values.shape[2]) + layer.first_row + offset
    lengths = layer.key_mask.sum(-1)
    there = layer.query_mask & (key >= 0) & (key < lengths[:, None])
    weights = there.double() / (lengths - abs(offset)).clamp(min=1)[:, None]
    return _mean(values.where(there[:, None], 0.0)[..., None], weights)


def _columns(state: State, quantity: str, stack: str) -> dict[str, list[Tensor]]:
    to = by_layer(state, f"{quantity}/to", stack)
    columns = {f"to_{name}": [sums.mean[:, number] for sums in to] for number, name in enumerate(CATEGORIES)}
    for name in ("separator-to-separator", "other-to-separator", *OFFSETS):
        found = by_layer(state, f"{quantity}/{name}", stack)
        columns |= {name.replace("-", "_"): [sums.mean[:, 0] for sums in found]} if found else {}
    if quantity == "raw":
        for name in ("entropy", "entropy-from-first"):
            columns[name.replace("-", "_")] = [sums.mean[:, 0] for sums in by_layer(state, name, stack)]
    return columns


def _fig2(table: pl.DataFrame, setting: Setting) -> Any:
    names = {"to_first": "[CLS] / first", "to_separator": "[SEP]", "to_punctuation": ". and ,"}
    chart = scatter.by_layer(table, names, "attention, mean over rows", facet="quantity")
    return themed(
        chart,
        f"{setting.model}: what each head gives to special tokens and punctuation",
        "One point a head; lines are layer means. Raw weights are probabilities, effective weights are signed, norms are",
        "lengths of vectors on their own scale. A peak that is there in raw and gone in effective changes nothing.",
    )


def _fig2_bottom(table: pl.DataFrame, setting: Setting) -> Any:
    names = {"separator_to_separator": "[SEP] → [SEP]", "other_to_separator": "other → [SEP]"}
    chart = scatter.by_layer(table, names, "attention to separators", facet="quantity")
    return themed(chart, f"{setting.model}: who attends to separators", "One point a head; lines are layer means.")


def _neighbour_figure(table: pl.DataFrame, setting: Setting) -> Any:
    chart = scatter.by_layer(table, {name: name for name in OFFSETS}, "attention, mean over rows", facet="quantity")
    return themed(
        chart,
        f"{setting.model}: attention to neighbours",
        "One point a head; heads above one half have a fixed offset.",
    )


def _fig4(table: pl.DataFrame, setting: Setting, uniform: float) -> Any:
    names = {"entropy": "all rows", "entropy_from_first": "from the first token"}
    chart = scatter.by_layer(table.filter(pl.col("quantity") == "raw"), names, "entropy (nats)", rule=uniform)
    return themed(
        chart,
        f"{setting.model}: how broad each head is",
        "Entropy of the attention weights, one point a head; the dashed line is uniform attention.",
    )
