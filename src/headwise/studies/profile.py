r"""What each head does in every single text: a few numbers a head and document, kept apart to be resampled.

    to_c   Σ_{k of kind c} A_qk, mean over the rows q of the text       c: first, separator, punctuation, other
    previous, current, next   A_{q, q−1}, A_{q, q}, A_{q, q+1}, mean over the rows that have such a key
    entropy   −Σ_k α_qk ln α_qk of the weights, mean over the rows      nats

These are `surface`'s numbers before the mean over texts is taken. `headwise compare` draws its intervals from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
import torch
from jaxtyping import Float, Float64
from numpy import ndarray
from torch import Tensor

from headwise.allowed import setting
from headwise.measures import ATTENTION
from headwise.measures.reductions import key_sums, row_entropy
from headwise.models.model import Model
from headwise.plots.grid import head_grid
from headwise.plots.theme import themed
from headwise.stats import Pieces
from headwise.studies import STUDIES
from headwise.studies.neighbours import OFFSETS, neighbour_rows, to_neighbour
from headwise.studies.state import Key
from headwise.studies.study import Reading, Setting, State, Stats, Study, at, each_stack, head_rows, only_quantity
from headwise.text.categories import CATEGORIES
from headwise.types import Layer

NUMBERS = (*(f"to_{kind}" for kind in CATEGORIES), *OFFSETS, "entropy")
SHOWN = {
    "to_first": "to the first token", "to_separator": "to separators", "previous": "to the previous token",
    "entropy": "entropy (nats)",
}  # fmt: skip


@STUDIES.add(
    "profile", "what each head does in every text, kept apart for intervals; what `headwise compare` reads", order=140
)
@dataclass(frozen=True)
class Profile(Study):
    """`quantities`: the map to look at, one at a time; the entropy is always that of the weights."""

    title: ClassVar[str] = "What each head does, text by text"
    by_name: ClassVar[bool] = True  # `surface` says the same in a report
    captions: ClassVar[Mapping[str, str]] = {"profile": "what each head does in the mean over texts, head by head"}
    quantities: tuple[str, ...] = setting(("raw",), of=ATTENTION)

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.quantity

    @property
    def quantity(self) -> str:
        return only_quantity(self, self.quantities)

    def observe(self, layer: Layer, reading: Reading) -> Stats:
        """The part that these rows have in each document's means; blocks of rows are kept apart until the end."""
        parts = text_means(layer, reading, self.quantity)
        pieces = {int(number): part[None] for number, part in zip(reading.documents, parts, strict=True)}
        return {at(f"rows {layer.first_row}", layer): Pieces.of(pieces)}

    def conclude(self, state: State, model: Model, report: Callable[[str], None]) -> Stats:  # noqa: ARG002
        """The blocks of a document added up."""
        total: dict[str, dict[int, Tensor]] = {}
        for key in state:
            documents = total.setdefault(str(Key.read(key)._replace(name="profile")), {})
            for number, part in state.documents(key).items():
                documents[number] = documents[number] + part if number in documents else part.clone()
        return {key: Pieces.of(documents) for key, documents in total.items()}

    def table(self, state: State, setting: Setting) -> pl.DataFrame:
        """One row a head: the mean over texts of every number."""
        tables = []
        for stack in setting.stacks:
            values = [torch.from_numpy(_mean(layer)) for layer in values_of(state, stack)[1]]
            columns = {name: [layer[:, at] for layer in values] for at, name in enumerate(NUMBERS)}
            tables.append(head_rows(columns, stack=stack, quantity=self.quantity))
        return pl.concat(tables)

    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        """`profile`: layers × heads, one grid a number."""
        whole = self.table(state, setting)

        def drawn(stack: str, where: str) -> dict[str, Any]:
            names = [name for name in SHOWN if whole.filter(stack=stack)[name].is_not_nan().any()]
            heads = whole.filter(stack=stack).unpivot(
                names, index=["layer", "head", "name"], variable_name="what", value_name="value"
            )
            grid = head_grid(heads, {name: SHOWN[name] for name in names})
            caption = (
                f"Mean over the rows of a text, then over texts; {self.quantity} attention. Each grid has its scale."
            )
            return {"profile": themed(grid, f"{where}: what each head does", caption)}

        return each_stack(setting, drawn)


def text_means(layer: Layer, reading: Reading, quantity: str) -> Float64[Tensor, "batch head number"]:
    """Σ over these rows of (number · the row's weight in its document); NaN where a document has no such row."""
    kinds = reading.key_kinds(layer).to(layer.alpha.dtype)
    all_rows = reading.row_weights(layer)
    sums = torch.einsum("bhqc,bq->bhc", key_sums(layer, quantity, kinds).double(), all_rows)
    near = [_near(layer, quantity, offset) for offset in OFFSETS.values()]
    entropy = torch.einsum("bhq,bq->bh", row_entropy(layer).double(), all_rows)
    return torch.cat([sums, torch.stack([*near, entropy], -1)], dim=-1).cpu()


def _near(layer: Layer, quantity: str, offset: int) -> Float64[Tensor, "batch head"]:
    if layer.stack == "cross":
        return torch.full(layer.alpha.shape[:2], torch.nan, dtype=torch.float64, device=layer.alpha.device)
    rows = to_neighbour(layer, quantity, offset).double()
    found = torch.einsum("bhq,bq->bh", rows, neighbour_rows(layer, offset))
    return found.where(layer.key_mask.sum(-1, keepdim=True) > abs(offset), torch.nan)


def values_of(state: State, stack: str) -> tuple[tuple[int, ...], list[Float[ndarray, "document head number"]]]:
    """The documents' numbers, and layer by layer what each head does in each of them."""
    layers = state.by_layer(Pieces, "profile", stack)
    return layers[0].numbers, [torch.cat(pieces.tensors).numpy() for pieces in layers]


def _mean(values: Float[ndarray, "document head number"]) -> Float[ndarray, "head number"]:
    """Over the documents that have the number; NaN where none has."""
    count = (~np.isnan(values)).sum(0)
    return np.where(count > 0, np.nansum(values, 0) / np.maximum(count, 1), np.nan)
