r"""How far apart the heads of a model are: Jensen-Shannon divergences of all pairs, a plane that keeps them, clusters.

Clark et al. 2019 (https://arxiv.org/abs/1906.04341) §6 add up JS over all tokens. With p and q the rows of two heads,
smoothed as in the released code, p ← 0.999 p + 0.001/n, and s = p + q,

    Σ JS(p, q) = ½ [ Σ p log 2p + Σ q log 2q − Σ s log s ],

each Σ over all rows and keys at once. So only the last term is a matter of pairs: one logarithm a pair and key, in the
precision of the maps (the released code takes two), in blocks that stay in the cache and are added up in float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
import torch
from jaxtyping import Bool, Float, Float64, Int
from numpy import ndarray
from torch import Tensor

SMOOTHING = 1e-3
FEWEST, MOST = 4, 12  # clusters, where their number is to be found
BLOCK = 1 << 18  # numbers of a block: 1 MiB of float32

Rows = Float[Tensor, "head pair"]  # the smoothed rows of every head, one after another
Distances = Float[ndarray, "head head"]
Points = Float[ndarray, "head 2"]


class Buffers(NamedTuple):
    """Memory for a block of s, of log s, and of their product in float64."""

    s: Float[Tensor, " block"]
    log_s: Float[Tensor, " block"]
    s_log_s: Float64[Tensor, " block"]

    @classmethod
    def like(cls, rows: Rows) -> Buffers:
        return cls(rows.new_empty(BLOCK), rows.new_empty(BLOCK), rows.new_empty(BLOCK, dtype=torch.float64))


@dataclass(frozen=True)
class Smoothed:
    """The rows of some heads without a zero, and of each head Σ p log 2p: half of Σ s log s with itself."""

    rows: Rows
    alone: Float64[Tensor, " head"]

    @classmethod
    def of(cls, rows: Rows) -> Smoothed:
        buffers = Buffers.like(rows)
        with _one_thread():
            return cls(rows, torch.cat([_s_log_s(row, row[None], buffers) for row in rows]) / 2)

    def __len__(self) -> int:
        return len(self.rows)


def smoothed(map_: Float[Tensor, "batch head query key"], pairs: Bool[Tensor, "batch query key"]) -> Smoothed:
    """Each row over its `pairs` as a distribution, a thousandth of it spread evenly.

    Rows are divided by their sum: a matter of rounding for attention weights (but where a learned sink takes a part),
    and what makes norms a distribution.
    """
    map_ = map_.where(pairs[:, None], 0.0)
    share = map_ / map_.sum(-1, keepdim=True)
    even = (SMOOTHING / pairs.sum(-1, keepdim=True).to(map_.dtype))[:, None]
    return Smoothed.of(((1 - SMOOTHING) * share + even).transpose(0, 1)[:, pairs])


def summed_js(heads: Smoothed, others: Sequence[Smoothed]) -> Float64[Tensor, "head other"]:
    """Σ JS in nats, of each head with those of `others` and then with the `heads` themselves (0 on itself)."""
    buffers = Buffers.like(heads.rows)
    with _one_thread():
        earlier = [_between(heads, other, buffers) for other in others]
        own = heads.alone.new_zeros(len(heads), len(heads))
        for head in range(1, len(heads)):
            own[head, :head] = _s_log_s(heads.rows[head], heads.rows[:head], buffers)
    own = ((heads.alone[:, None] + heads.alone - own) / 2).tril(-1)
    return torch.cat([*earlier, own + own.mT], dim=1).clamp(min=0)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep torch from splitting operations among its threads.

    subtle: it waits for the slowest of them after each operation on a block, and on a busy machine that was measured to
    take ten times as long as the work. Many workers of one thread each are the way to use many cores.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _between(heads: Smoothed, other: Smoothed, buffers: Buffers) -> Float64[Tensor, "head other"]:
    s_log_s = torch.stack([_s_log_s(row, other.rows, buffers) for row in heads.rows])
    return (heads.alone[:, None] + other.alone - s_log_s) / 2


def _s_log_s(p: Float[Tensor, " pair"], q: Rows, buffers: Buffers) -> Float64[Tensor, " head"]:
    """Σ s log s of one head with others, where all the time goes.

    subtle: always into the same memory, as fresh pages cost more than logarithms; and summed in float64, as what is
    left after the subtraction can be a hundredth of it.
    """
    total = torch.zeros(len(q), dtype=torch.float64, device=q.device)
    width = BLOCK // max(1, len(q))
    for a, b in zip(p.split(width), q.split(width, dim=1), strict=True):
        s, log_s, s_log_s = (buffer[: b.numel()].view(b.shape) for buffer in buffers)
        torch.log(torch.add(a, b, out=s), out=log_s)
        total += s_log_s.copy_(log_s.mul_(s)).sum(-1)
    return total


def plane(distances: Distances, *, seed: int, starts: int = 4, steps: int = 300) -> tuple[Points, float]:
    """Points whose Euclidean distances are as near to `distances` as can be, and Kruskal's stress of the best.

    Metric scaling by SMACOF (de Leeuw 1977): majorise the stress Σ (‖x_i − x_j‖ − d_ij)² step by step, from classical
    scaling and from `starts` random configurations. Turned to its main axes, so that it comes out the same every time.
    """
    draw = np.random.default_rng(seed)
    random = [draw.normal(size=(len(distances), 2)) * distances.mean() for _ in range(starts)]
    found = [_smacof(distances, start, steps) for start in (_classical(distances), *random)]
    points = min(found, key=lambda points: stress(distances, points))
    return _main_axes(points), stress(distances, points)


def stress(distances: Distances, points: Points) -> float:
    """Kruskal's stress-1: √(Σ (‖x_i − x_j‖ − d_ij)² / Σ ‖x_i − x_j‖²); 0 is perfect, 0.2 is poor."""
    reached = _euclidean(points)
    size = (reached**2).sum()
    return float(np.sqrt(((reached - distances) ** 2).sum() / size)) if size else 0.0


def _smacof(distances: Distances, points: Points, steps: int) -> Points:
    before = None
    for _ in range(steps):
        reached = _euclidean(points)
        now = ((reached - distances) ** 2).sum()
        if before is not None and before - now <= 1e-7 * before:
            break
        ratio = np.divide(distances, reached, out=np.zeros_like(distances), where=reached > 0)
        points, before = (ratio.sum(1)[:, None] * points - ratio @ points) / len(points), now
    return points


def _classical(distances: Distances) -> Points:
    """The two main axes of the doubly centred squares (Torgerson 1952)."""
    squares = distances**2
    centred = squares - squares.mean(0) - squares.mean(1)[:, None] + squares.mean()
    values, vectors = np.linalg.eigh(-centred / 2)
    axes = np.zeros((len(distances), 2))
    axes[:, : len(values[-2:])] = (vectors[:, -2:] * np.sqrt(values[-2:].clip(0)))[:, ::-1]
    return axes


def _main_axes(points: Points) -> Points:
    """Centred, the widest axis first, and the farthest point of each axis on its positive side."""
    points = points - points.mean(0)
    points = points @ np.linalg.eigh(points.T @ points)[1][:, ::-1]
    farthest = np.take_along_axis(points, np.abs(points).argmax(0)[None], axis=0)
    return points * np.where(farthest < 0, -1.0, 1.0)


def _euclidean(points: Points) -> Distances:
    return np.linalg.norm(points[:, None] - points[None], axis=-1)


def clusters(distances: Distances, *, count: int | None = None) -> Int[ndarray, " head"]:
    """Average linkage cut into `count` clusters, numbered from 0 in the order of their first head.

    Where no count is given, that of 4 … 12 with the best mean silhouette (Rousseeuw 1987): the best cut into two or
    three mostly sets one odd head apart from all others.
    """
    if len(distances) < 3:
        return np.zeros(len(distances), dtype=int)
    tree = scipy.cluster.hierarchy.linkage(scipy.spatial.distance.squareform(distances, checks=False), "average")
    counts = [count] if count is not None else range(min(FEWEST, len(distances)), min(MOST, len(distances)) + 1)
    cuts = [scipy.cluster.hierarchy.fcluster(tree, number, "maxclust") for number in counts]
    best = max(cuts, key=lambda labels: silhouette(distances, labels)) if len(cuts) > 1 else cuts[0]
    _, first, labels = np.unique(best, return_index=True, return_inverse=True)
    return first.argsort().argsort()[labels]


def silhouette(distances: Distances, labels: Int[ndarray, " head"]) -> float:
    """Mean of (b − a) / max(a, b): a to the others of the own cluster, b to the nearest other one; 0 if alone."""
    member = labels[:, None] == np.unique(labels)
    sizes = member.sum(0)
    if len(sizes) < 2:
        return -1.0
    sums = distances @ member
    own = sums[member] / np.maximum(member @ sizes - 1, 1)
    other = np.where(member, np.inf, sums / sizes).min(1)
    scale = np.maximum(np.maximum(own, other), np.finfo(float).tiny)
    return float(np.where(member @ sizes > 1, (other - own) / scale, 0.0).mean())
