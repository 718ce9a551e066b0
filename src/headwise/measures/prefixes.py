r"""Causal effective attention as masked linear attention: no factorisation a row.

Row i of a causal map sees the keys up to its own, so a⊥_i = x_i V_iᵀ with G_i x_i = o_i, G_i = Σ_{k≤i} v_k v_kᵀ. For
the rows of a block that starts after the first s keys, let G_s⁻¹ = RᵀR, and in the basis of R

    Q = V_s Rᵀ      the keys before the block, orthonormal columns
    W = V_block Rᵀ  the keys of the block
    L Lᵀ = I + W Wᵀ,   M = L⁻¹ W

The Cholesky factor of every leading part of I + W Wᵀ is the leading part of L, so by Woodbury's identity, with
u_i = a_i [Q; W], all rows of the block are two masked products:

    z_i = u_i − Σ_{k≤i} (u_i · m_k) m_k,     a⊥_i = z_i [Q; W]ᵀ   (over the keys k ≤ i)

The first block (keys d_v to d_v + BLOCK) has no good G_s to start from: d_v vectors of d_v numbers are often all but
dependent. It starts from its end e instead and takes keys away, L Lᵀ = I − W Wᵀ from the last key on:

    z_i = u_i + Σ_{k>i} (u_i · m_k) m_k

Heads that share their values share R, W and M. Where blocks start depends neither on the text's length nor on its
batch. Products with the keys before a block, which are orthonormal, are taken in the precision of the weights; those
within a block, and all of the first, in float64.

Rank: tr G_i⁻¹ bounds the smallest eigenvalue of G_i from below and tr G_i the largest from above (see whitening.py).
In the first block tr G_i⁻¹ = ‖R‖² + Σ_{k>i} ‖m_k R‖²; after it tr G_s⁻¹ is enough, as G_i ≥ G_s.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from headwise.measures.whitening import EPS, inverse_factor

BLOCK = 64  # keys
RIDGE = 1e-13  # on I − W Wᵀ, which is singular where the rank of a row is below d_head
GROWTH = 1e5  # rows of the first block whose inverse is larger than this, relative to that of its end, are not certain

Values = Float64[Tensor, "batch kv_head key d_head"]
Roots = Float64[Tensor, "batch kv_head block d_head d_head"]
Keys = Float64[Tensor, "batch kv_head block step d_head"]


class Prefixes(NamedTuple):
    """What all causal rows of a text share; one entry a block of keys, the first starting after d_head keys."""

    values: Values
    root: Roots  # R
    near: Keys  # W
    update: Keys  # M
    certain: Bool[Tensor, "batch kv_head key"]  # the values up to here are certified to have rank d_head


def factor_prefixes(values: Values, key_mask: Bool[Tensor, "batch key"]) -> Prefixes:
    """R, W and M of every block, and which rows they are good for."""
    size, length = values.shape[3], values.shape[2]
    count = max(0, -(-(length - size) // BLOCK))
    padded = torch.nn.functional.pad(values, (0, 0, 0, max(0, size + count * BLOCK - length)))
    head, blocks = padded[:, :, :size], padded[:, :, size : size + count * BLOCK].unflatten(2, (count, BLOCK))
    grams = torch.cat([(head.mT @ head)[:, :, None], blocks.mT @ blocks], dim=2).cumsum(2)
    if count == 0:
        return Prefixes(values, grams[:, :, :0], blocks, blocks, torch.zeros_like(values[..., 0], dtype=torch.bool))
    roots, positive = inverse_factor(grams[:, :, 1 : max(2, count)])
    root = torch.cat([roots[:, :, :1], roots], dim=2)[:, :, :count]  # the first block ends where the second starts
    near = blocks @ root.mT
    update = torch.cat([_taken_away(near[:, :, :1]), _added(near[:, :, 1:])], dim=2)
    bound = _inverse_traces(root, update).where(
        torch.cat([positive[:, :, :1], positive], 2)[:, :, :count, None], torch.inf
    )
    bounds = torch.nn.functional.pad(bound.flatten(2), (size, 0), value=torch.inf)[:, :, :length]
    tolerance = key_mask.cumsum(-1).clamp(min=size)[:, None] * EPS
    certain = bounds * values.square().sum(-1).cumsum(-1) * tolerance**2 < 1
    return Prefixes(values, root, near, update, certain)


def _added(near: Keys) -> Keys:
    """M of blocks whose keys come in one after the other."""
    unit = torch.eye(BLOCK, dtype=near.dtype, device=near.device)
    return torch.linalg.solve_triangular(torch.linalg.cholesky(unit + near @ near.mT), near, upper=False)


def _taken_away(near: Keys) -> Keys:
    """M of a block whose keys go one after the other, the last first."""
    unit = (1 + RIDGE) * torch.eye(BLOCK, dtype=near.dtype, device=near.device)
    last_first = near.flip(3)
    inverse, positive = inverse_factor(unit - last_first @ last_first.mT)
    return (inverse @ last_first).where(positive[..., None, None], torch.inf).flip(3)


def _inverse_traces(root: Roots, update: Keys) -> Float64[Tensor, "batch kv_head block step"]:
    """An upper bound of tr G_i⁻¹ for every row of every block; none (infinity) where rounding would be felt."""
    bound = root.square().sum((-2, -1))[..., None].repeat(1, 1, 1, BLOCK)
    first = update[:, :, 0]
    taken = lambda keys: keys.square().sum(-1).flip(2).cumsum(2).flip(2) - keys.square().sum(-1)  # noqa: E731 - k > i
    bound[:, :, 0] += taken(first @ root[:, :, 0])
    bound[:, :, 0] = bound[:, :, 0].where(taken(first) < GROWTH, torch.inf)
    return bound


def sweep(
    alpha: Float[Tensor, "batch kv_head group query key"],
    shared: Prefixes,
    first_row: int,
    *,
    rows: slice,
    into: Float[Tensor, "batch kv_head group query key"],
) -> None:
    """Write a⊥ of these rows (positions first_row + rows, all at d_head or after it), right where they are certain."""
    size, stop = shared.values.shape[3], first_row + rows.stop
    heads, target = alpha.flatten(0, 2), into.flatten(0, 2)  # three axes, so that products read and write in place
    for number, start in enumerate(range(size, stop, BLOCK)):
        low, high = max(start, first_row + rows.start), min(start + BLOCK, stop)
        if low < high:
            some = slice(low - first_row, high - first_row)
            one = _Block(shared, number, start, low, high, alpha.shape[2])
            (_first if number == 0 else _later)(one, heads[:, some], target[:, some])


class _Block(NamedTuple):
    shared: Prefixes
    number: int
    start: int  # its first key
    low: int  # its first row that is asked for, and the one after the last
    high: int
    groups: int

    def per_head(self, keys: Float[Tensor, "batch kv_head key d_head"]) -> Float[Tensor, "head key d_head"]:
        return keys.repeat_interleave(self.groups, dim=1).flatten(0, 1)

    def basis(self, stop: int) -> Float[Tensor, "batch kv_head key d_head"]:
        """The keys before `stop`, in the basis of R."""
        return self.shared.values[:, :, :stop] @ self.shared.root[:, :, self.number].mT


def _first(block: _Block, alpha: Float[Tensor, "head row key"], into: Float[Tensor, "head row key"]) -> None:
    basis = block.per_head(block.basis(block.high))
    update = block.per_head(block.shared.update[:, :, block.number])
    behind = block.low - block.start
    u = torch.bmm(alpha[..., : block.high].double(), basis)
    z = u + torch.bmm(torch.bmm(u, update.mT).triu_(behind + 1), update)
    into[..., : block.high] = torch.bmm(z, basis.mT).tril_(block.low).to(into.dtype)


def _later(block: _Block, alpha: Float[Tensor, "head row key"], into: Float[Tensor, "head row key"]) -> None:
    old, new, behind = slice(block.start), slice(block.start, block.high), block.low - block.start
    far = block.per_head(block.basis(block.start).to(alpha.dtype))
    near, update = (
        block.per_head(keys[:, :, block.number, : block.high - block.start])
        for keys in (block.shared.near, block.shared.update)
    )
    u = torch.bmm(alpha[..., old], far).double() + torch.bmm(alpha[..., new].double(), near)
    z = u - torch.bmm(torch.bmm(u, update.mT).tril_(behind), update)
    torch.bmm(z.to(alpha.dtype), far.mT, out=into[..., old])
    into[..., new] = torch.bmm(z, near.mT).tril_(behind).to(into.dtype)
