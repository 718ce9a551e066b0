"""The documents with the largest values, cell by cell: what is kept of a corpus to look at.

At most `size` documents a cell, the largest value first; among equal values the earlier document. So what is kept
depends on values and numbers alone, not on shards or their order. NaN is never kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from headwise.stats.statistic import Statistic

NOBODY = -1  # in place of a document, where fewer than `size` were seen


@dataclass(frozen=True, eq=False)
class Top(Statistic):
    """`values` [*cell place], −inf where `documents` has nobody."""

    values: Float64[Tensor, "*cell place"]
    documents: Int64[Tensor, "*cell place"]

    @classmethod
    def of(cls, values: Float64[Tensor, "document *cell"], documents: Int64[Tensor, " document"], *, size: int) -> Top:
        by_cell = values.movedim(0, -1).cpu()
        numbers = documents.cpu().expand_as(by_cell)
        known = ~by_cell.isnan()
        empty = Top(by_cell.new_full((*by_cell.shape[:-1], size), -torch.inf),
                    torch.full((*by_cell.shape[:-1], size), NOBODY))  # fmt: skip
        return empty + Top(by_cell.where(known, -torch.inf), numbers.where(known, torch.tensor(NOBODY)))

    @property
    def size(self) -> int:
        return self.values.shape[-1]

    def __add__(self, other: Top, /) -> Top:
        """The first of both; as many places as the left has."""
        values, documents = (
            torch.cat(both, dim=-1) for both in ((self.values, other.values), (self.documents, other.documents))
        )
        by_number = documents.argsort(dim=-1, stable=True)
        order = values.gather(-1, by_number).argsort(dim=-1, descending=True, stable=True)[..., : self.size]
        places = by_number.gather(-1, order)
        return Top(values.gather(-1, places), documents.gather(-1, places))

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> Top:
        return cls(state["values"], state["documents"])
