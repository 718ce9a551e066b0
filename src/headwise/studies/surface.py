"""Where attention goes on the surface: neighbours, special tokens, punctuation, and how broad it is.

Clark et al. 2019 (https://arxiv.org/abs/1906.04341) §3, fig2 and fig4, for any quantity. Sums over a category's keys,
mean over the rows of a text, then mean over texts; neighbours over the rows that have one. Entropy is that of the
weights, whatever the quantity. `first` is [CLS], or for a causal model the sink.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl
import torch
from jaxtyping import Float
from torch import Tensor

from headwise.allowed import setting
from headwise.measures import ATTENTION
from headwise.measures.reductions import key_sums, row_entropy
from headwise.plots import scatter
from headwise.plots.theme import themed
from headwise.results.shown import finite, shown
from headwise.stats import Sums
from headwise.studies import STUDIES
from headwise.studies.answers import DOING, NOISE, Answer
from headwise.studies.neighbours import OFFSETS, neighbour_rows, to_neighbour
from headwise.studies.study import Reading, Setting, State, Stats, Study, at, each_stack, head_rows
from headwise.studies.tables import counted, first_stack, heads, percent
from headwise.text.categories import CATEGORIES
from headwise.types import Layer

FIRST, SEPARATOR = (CATEGORIES.index(name) for name in ("first", "separator"))
COLUMNS = (*CATEGORIES, *OFFSETS, "entropy", "uniform")  # numbers of a row
PARKED = 0.5  # the share of a head's weight on one special kind from which it is called parked
ROWS = ("all", "first", "separator", "other", *OFFSETS)  # which rows they are averaged over; other: no separators


@STUDIES.add(
    "surface", "neighbours, special tokens, punctuation and entropy of every head (Clark et al. fig2, fig4)", order=10
)
@dataclass(frozen=True)
class Surface(Study):
    """`quantities`: the maps to look at."""

    title: ClassVar[str] = "Where heads look"
    first_by: ClassVar[tuple[str, ...]] = ("quantity", "entropy")
    captions: ClassVar[Mapping[str, str]] = {
        "fig2": "attention to special tokens and punctuation, head by head (Clark et al. 2019)",
        "fig2-bottom": "attention to separators, from separators and from all other tokens",
        "rel-pos": "attention to the previous, the same and the next token",
        "fig4": "entropy of the weights, against uniform attention",
    }
    quantities: tuple[str, ...] = setting(("raw", "effective", "norm"), of=ATTENTION)

    def observe(self, layer: Layer, reading: Reading) -> Stats:
        """Per quantity one grid of means: every number of a row over every set of rows, in one product."""
        rows = _row_sets(layer, reading)
        keys = reading.key_kinds(layer).to(layer.alpha.dtype)
        entropy = row_entropy(layer)
        uniform = layer.visible.sum(-1).clamp(min=1).to(entropy).log()[:, None].expand_as(entropy)
        state: Stats = {}
        for quantity in self.quantities:
            near = [to_neighbour(layer, quantity, offset) for offset in OFFSETS.values()]
            values = torch.cat([key_sums(layer, quantity, keys), torch.stack([*near, entropy, uniform], -1)], -1)
            total = torch.einsum("bhqc,bqr->hcr", values.double(), rows)
            state[at(quantity, layer)] = Sums(total, rows.sum((0, 1)).expand_as(total).clone())
        return state

    def table(self, state: State, setting: Setting) -> pl.DataFrame:
        """One row a quantity and head."""
        tables = [
            head_rows(_columns(state, quantity, stack), stack=stack, quantity=quantity)
            for stack in setting.stacks
            for quantity in self.quantities
        ]
        return pl.concat(tables, how="diagonal")

    def answers(self, table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:
        if "raw" not in self.quantities:
            return
        rows = first_stack(table).filter(quantity="raw")
        known, texts = finite(rows, "entropy").sort("entropy"), counted(setting.tokens["documents"], "text")
        if len(known):
            sharp, broad = (known.row(at, named=True) for at in (0, -1))
            yield Answer(
                DOING,
                f"The sharpest head is {sharp['name']} (entropy {sharp['entropy']:.2f} nats), the broadest "
                f"{broad['name']} ({broad['entropy']:.2f}), in the mean over {texts}.",
            )
        parked = shown(rows).filter(pl.max_horizontal("to_first", "to_separator") > PARKED)
        yield Answer(
            NOISE,
            f"Heads with over {percent(PARKED)} of their weight on the first token, or over {percent(PARKED)} on "
            f"separators: {len(parked)} of {len(rows)}{_named(parked)}.",
        )

    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        """fig2, fig2-bottom, rel-pos and fig4; those of stacks after the first end in the stack's name."""
        whole = self.table(state, setting)
        return each_stack(setting, lambda stack, where: self._drawn(state, whole.filter(stack=stack), stack, where))

    def _drawn(self, state: State, table: pl.DataFrame, stack: str, where: str) -> dict[str, Any]:
        charts = {"fig2": _fig2(table, where), "fig2-bottom": _fig2_bottom(table, where)}
        if stack != "cross":
            charts["rel-pos"] = _neighbour_figure(table, where)
        if "raw" in self.quantities:
            uniform = [_of(sums, "uniform", "all").mean() for sums in state.by_layer(Sums, self.quantities[0], stack)]
            charts["fig4"] = _fig4(table, where, float(torch.stack(uniform).mean()))
        return charts


def _named(parked: pl.DataFrame) -> str:
    return f": {heads(parked)}" if len(parked) else ""


def _row_sets(layer: Layer, reading: Reading) -> Float[Tensor, "batch query set"]:
    """The weight of every row in every set of rows; in each set a text weighs 1."""
    kinds = (reading.row_weights_of(layer, kind) for kind in (FIRST, SEPARATOR))
    near = (neighbour_rows(layer, offset) for offset in OFFSETS.values())
    return torch.stack([reading.row_weights(layer), *kinds, reading.row_weights_but(layer, SEPARATOR), *near], dim=-1)


def _of(sums: Sums, column: str, rows: str) -> Float[Tensor, " head"]:
    return sums.mean[:, COLUMNS.index(column), ROWS.index(rows)]


def _columns(state: State, quantity: str, stack: str) -> dict[str, list[Tensor]]:
    wanted = {f"to_{name}": (name, "all") for name in CATEGORIES}
    wanted |= {f"{name}_to_separator": ("separator", name) for name in ("separator", "other")}
    wanted |= {name: (name, name) for name in OFFSETS} if stack != "cross" else {}
    if quantity == "raw":
        wanted |= {"entropy": ("entropy", "all"), "entropy_from_first": ("entropy", "first")}
    layers = state.by_layer(Sums, quantity, stack)
    return {name: [_of(sums, *place) for sums in layers] for name, place in wanted.items()}


def _fig2(table: pl.DataFrame, where: str) -> Any:
    names = {"to_first": "[CLS] / first", "to_separator": "[SEP]", "to_punctuation": ". and ,"}
    chart = scatter.by_layer(table, names, "mean over rows", facet="quantity")
    return themed(
        chart,
        f"{where}: what each head gives to special tokens and punctuation",
        "One point a head; lines are layer means. Raw weights are probabilities, effective ones are signed, norms are",
        "lengths of vectors on their own scale. A peak that is there in raw and gone in effective changes nothing.",
    )


def _fig2_bottom(table: pl.DataFrame, where: str) -> Any:
    names = {"separator_to_separator": "[SEP] → [SEP]", "other_to_separator": "all others → [SEP]"}
    chart = scatter.by_layer(table, names, "to separators, mean over rows", facet="quantity")
    return themed(chart, f"{where}: who attends to separators", "One point a head; lines are layer means.")


def _neighbour_figure(table: pl.DataFrame, where: str) -> Any:
    chart = scatter.by_layer(table, {name: name for name in OFFSETS}, "mean over rows", facet="quantity")
    return themed(
        chart,
        f"{where}: attention to neighbours",
        "One point a head; heads above one half have a fixed offset.",
    )


def _fig4(table: pl.DataFrame, where: str, uniform: float) -> Any:
    names = {"entropy": "all rows", "entropy_from_first": "from the first token"}
    chart = scatter.by_layer(table.filter(pl.col("quantity") == "raw"), names, "entropy (nats)", rule=uniform)
    return themed(
        chart,
        f"{where}: how broad each head is",
        "Entropy of the attention weights, one point a head; the dashed line is uniform attention.",
    )
