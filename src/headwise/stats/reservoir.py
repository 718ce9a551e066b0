"""A sample of rows that merges in any order: the k rows of the lowest hash.

Each row has an id of its own over the whole corpus (e.g. `ravel((document, head, query, key), …)`). The id,
mixed with the seed, is hashed by the finaliser of splitmix64 (Steele, Lea & Flood 2014,
https://doi.org/10.1145/2660193.2660195), a bijection of the 64-bit integers, so different ids never tie. A
row is kept if its hash is among the lowest `size`, and below `fraction` of the range. So the sample depends
on the ids and the seed alone, not on shards, order or workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64, Int64, Shaped
from torch import Tensor

from headwise.stats.statistic import Statistic


@dataclass(frozen=True, eq=False)
class Reservoir(Statistic):
    """At most `size` rows of `rows`, ordered by their hash: a random order."""

    size: int
    hashes: Int64[Tensor, " row"]
    rows: Float64[Tensor, "row column"]

    @classmethod
    def empty(cls, size: int, columns: int) -> Reservoir:
        return cls(size, torch.zeros(0, dtype=torch.int64), torch.zeros(0, columns, dtype=torch.float64))

    @classmethod
    def of(
        cls,
        columns: tuple[Shaped[Tensor, "..."], ...],
        ids: Int64[Tensor, "..."],
        mask: Bool[Tensor, "..."],
        *,
        size: int,
        seed: int,
        fraction: float = 1.0,
    ) -> Reservoir:
        """Sample the rows where `mask` holds and no column is NaN; columns, ids and mask broadcast."""
        hashes = hashed(ids, seed)
        chosen = mask & (hashes <= threshold(fraction))
        for column in columns:
            chosen = chosen & ~column.isnan()
        hashes = hashes.expand(chosen.shape)[chosen]
        rows = torch.stack([column.expand(chosen.shape)[chosen].double() for column in columns], dim=-1)
        return lowest(size, hashes.cpu(), rows.cpu())

    def __add__(self, other: Reservoir, /) -> Reservoir:
        if self.size != other.size:
            raise ValueError(f"Reservoirs add up only at one size; got {self.size} and {other.size}.")
        return lowest(self.size, torch.cat([self.hashes, other.hashes]), torch.cat([self.rows, other.rows]))

    def to_state(self) -> dict[str, Tensor]:
        return {"size": torch.tensor(self.size), "hashes": self.hashes, "rows": self.rows}

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> Reservoir:
        return cls(int(state["size"]), state["hashes"], state["rows"])


def lowest(size: int, hashes: Int64[Tensor, " row"], rows: Float64[Tensor, "row column"]) -> Reservoir:
    """The `size` rows of the lowest hash, in the order of their hash."""
    if len(hashes) > 2 * size > 0:  # a selection in linear time before the sort
        kept = hashes <= hashes.kthvalue(size).values
        hashes, rows = hashes[kept], rows[kept]
    order = hashes.argsort(stable=True)[:size]
    return Reservoir(size, hashes[order], rows[order])


def hashed(ids: Int64[Tensor, "*any"], seed: int) -> Int64[Tensor, "*any"]:
    """splitmix64 of id xor seed · γ. subtle: int64 products wrap; >> copies the sign, hence the masks."""
    z = ids ^ signed(seed * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15)
    z = (z ^ ((z >> 30) & ((1 << 34) - 1))) * signed(0xBF58476D1CE4E5B9)
    z = (z ^ ((z >> 27) & ((1 << 37) - 1))) * signed(0x94D049BB133111EB)
    return z ^ ((z >> 31) & ((1 << 33) - 1))


def threshold(fraction: float) -> int:
    """The hash up to which `fraction` of all 64-bit integers lie."""
    return max(int(fraction * 2**64) - 1, 0) - 2**63


def signed(number: int) -> int:
    """The low 64 bits of a number as a signed integer."""
    return (number + 2**63) % 2**64 - 2**63
