r"""Copies of one value: the weights that reach the output are then their mean.

Where a key's value depends on its token alone (the first layer of a model with rotary positions), a text that repeats a
token repeats a value. Let V = S U, U the distinct values in the order of their first keys and S saying which key has
which. While the distinct values that a row sees are independent, the columns of V_i span those of S_i, and

    a⊥ = a S (SᵀS)⁻¹ Sᵀ:   every copy gets the mean weight of all copies in sight,   rank = number of distinct values

Certified as in whitening.py: σ_r(V_i) ≥ σ_min(U_i), as every value is there at least once, and what is left of V − S U
(values of one token may differ in the last bits) is far below the tolerance, so σ_{r+1} does not count.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from headwise.measures.whitening import EPS, inverse_factor

NOISE = 8  # values nearer than this many eps, relative to their length, are copies
KEYS = 2048  # of a text, among which copies are looked for: all pairs are compared


class Copies(NamedTuple):
    """The distinct values of one head's first keys, and the causal rows that have no more than these."""

    member: Float64[Tensor, "key distinct"]  # S
    rank: Int[Tensor, " key"]  # distinct values up to each key
    certain: Bool[Tensor, " key"]


def find_copies(values: Float64[Tensor, "key d_head"], eps: float = EPS) -> Copies:
    """Group the values that are the same, and certify the rows up to each key whose distinct values are independent."""
    values = values[:KEYS]
    length = values.norm(dim=-1)
    same = torch.cdist(values, values, compute_mode="donot_use_mm_for_euclid_dist") <= NOISE * eps * length
    first = same.int().argmax(-1)
    first = first[first]
    new = first == torch.arange(len(first), device=first.device)
    rank = new.cumsum(0)
    member = torch.nn.functional.one_hot(rank[first] - 1, int(rank[-1])).to(values)
    off = (values - values[first]).square().sum(-1).cumsum(0)
    return Copies(member, rank, _certain(values[new], rank, length.square().cumsum(0), off, eps))


def may_repeat(values: Float64[Tensor, "key d_head"], eps: float = EPS) -> bool:
    """Whether any two of these may be copies: such have all but one length. Never false where there are any."""
    length = values[:KEYS].norm(dim=-1).sort().values
    return bool((length.diff() <= NOISE * eps * length[1:]).any())


def _certain(
    distinct: Float64[Tensor, "distinct d_head"],
    rank: Int[Tensor, " key"],
    largest: Float64[Tensor, " key"],
    off: Float64[Tensor, " key"],
    eps: float,
) -> Bool[Tensor, " key"]:
    """Whether the values up to each key have exactly `rank` singular values that count."""
    size = distinct.shape[1]
    few = distinct[:size]
    tolerance = torch.arange(1, len(rank) + 1, device=rank.device).clamp(min=size) * EPS
    inverse, positive = inverse_factor(few @ few.mT)
    # The inverse of the leading part of a triangular matrix is the leading part of its inverse.
    bound = inverse.square().sum(-1).cumsum(0)[(rank - 1).clamp(max=len(few) - 1)]
    kept = positive & (rank <= size) & (bound * largest * tolerance**2 < 1)
    return kept & (off * size < (tolerance * eps / EPS) ** 2 * largest)


def average_copies(
    alpha: Float[Tensor, "group row key"], copies: Copies, visible: Bool[Tensor, "row key"]
) -> Float[Tensor, "group row key"]:
    """a⊥ of rows that see some of these keys and no other."""
    keys = len(copies.member)
    member, result = copies.member.to(alpha.dtype), torch.zeros_like(alpha)
    seen = visible[:, :keys].to(alpha.dtype)
    means = (alpha[..., :keys] @ member) / (seen @ member).clamp(min=1)
    result[..., :keys] = (means @ member.mT) * seen
    return result
