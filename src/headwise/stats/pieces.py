"""Tensors of single documents, kept as they are: what a study learns from once the whole corpus was read.

Adding puts them side by side in the order of the documents and copies nothing, so that pieces read from
memory-mapped files stay on disk until they are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Shaped
from torch import Tensor

from headwise.stats.statistic import Statistic


@dataclass(frozen=True, eq=False)
class Pieces(Statistic):
    """`tensors[k]` [row …] belongs to document `numbers[k]`; only the number of rows differs among them."""

    numbers: tuple[int, ...]
    tensors: tuple[Shaped[Tensor, "_ ..."], ...]

    @classmethod
    def of(cls, tensors: Mapping[int, Shaped[Tensor, "_ ..."]]) -> Pieces:
        order = sorted(tensors)
        return cls(tuple(order), tuple(tensors[number] for number in order))

    def __add__(self, other: Pieces, /) -> Pieces:
        both = dict(zip(self.numbers + other.numbers, self.tensors + other.tensors, strict=True))
        if len(both) < len(self.numbers) + len(other.numbers):
            raise ValueError("Pieces add up only for different documents; got one document twice.")
        return Pieces.of(both)

    def to_state(self) -> dict[str, Tensor]:
        return {
            "numbers": torch.tensor(self.numbers, dtype=torch.int64),
            "rows": torch.tensor([len(tensor) for tensor in self.tensors], dtype=torch.int64),
            "data": torch.cat(self.tensors) if self.tensors else torch.zeros(0),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> Pieces:
        return cls(tuple(state["numbers"].tolist()), tuple(state["data"].split(state["rows"].tolist())))
