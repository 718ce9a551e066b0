r"""What every key receives: the mean of a map over a text's rows, from which means by category, norm and token follow.

    r_k = Σ_q w_q map[q, k]          w_q = 1 / (rows of the text), or the same over the rows of one category

One product reads the weights once; after it everything is n numbers a head instead of n². For the effective part the
rows are averaged before the projection is multiplied out: Σ_q w_q (a_q Q) Qᵀ.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from headwise.measures import ATTENTION
from headwise.measures.nullspace import factors
from headwise.stats import Sums
from headwise.studies.study import Reading
from headwise.text.categories import CATEGORIES
from headwise.types import Layer

SEPARATOR = CATEGORIES.index("separator")
ROWS = ("all", "separator", "other")  # whose rows are averaged; other: all that are no separators
Received = Float[Tensor, "batch head rows key"]


def received(layer: Layer, reading: Reading, quantity: str) -> Received:
    """What each key gets on average from the rows of every kind in ROWS, for raw and effective attention."""
    name = f"studies.received.{quantity}"
    if name not in layer.memo:
        layer.memo[name] = {"raw": _raw, "effective": _effective}[quantity](layer, reading)
    return layer.memo[name]


def row_weights(layer: Layer, reading: Reading) -> Float[Tensor, "batch rows query"]:
    kinds = [reading.row_weights_of(layer, SEPARATOR), reading.row_weights_but(layer, SEPARATOR)]
    return torch.stack([reading.row_weights(layer), *kinds], dim=1)


def to_categories(got: Received, kinds: Float[Tensor, "batch key category"], rows: Tensor) -> Sums:
    """Σ over texts of what goes to the keys of each category, [rows head category]; a text weighs as its rows do."""
    total = torch.einsum("bhrk,bkc->rhc", got.double(), kinds)
    return Sums(total, rows.sum((0, 2))[:, None, None].expand_as(total).clone())


def over_blocks(layer: Layer, reading: Reading, name: str, part: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."] | None:
    """The sum of `part` over the blocks of query rows of a layer, given at the last block; None before."""
    total = layer.text_memo[name] + part if name in layer.text_memo else part
    layer.text_memo[name] = total
    rows = max(len(text) for text in reading.queries(layer))
    return total if layer.first_row + layer.alpha.shape[2] >= rows else None


def _raw(layer: Layer, reading: Reading) -> Received:
    return row_weights(layer, reading)[:, None].to(layer.alpha) @ layer.alpha


def _effective(layer: Layer, reading: Reading) -> Received:
    parts = factors(layer)
    rows = row_weights(layer, reading).to(layer.alpha)
    if parts is not None:
        means = rows[:, None, None] @ parts.coefficients
        return (means @ parts.basis[:, :, None].mT).flatten(1, 2)
    reached = ATTENTION["effective"](layer)
    return received(layer, reading, "raw") if reached is layer.alpha else rows[:, None] @ reached
