r"""How much of the attention can be believed: rank, null space, and the weights that reach the output.

Brunner et al. 2020 (https://arxiv.org/abs/1908.04211) §3, for every stack of any model:

    rank      rank(T) and dim LN(T) = n − rank(T) by the n keys a row sees, and the share of rows whose weights
              are unique: n = rank([T, 1])
    fig1a     Pearson's r of raw and effective attention over the seen pairs of a text, per head, against its length
    fig1b, c  raw and effective attention to special tokens and punctuation: sum over keys, mean over rows, then texts
    fig5      raw and effective attention to separators from separators and from other tokens
    mass      share of the squared weights in the null space, 1 − ‖A⊥‖² / ‖A‖², per text and head; and the attention to
              each category that lies in the null space, raw − effective
    §3.3      where asked for (`intervals`): rows for which other weights give the same output, in how many directions,
              and how wide the intervals of their weights are (freedom.py)

No map is formed where all rows of a text see the same keys: ⟨A, A⊥⟩ = ‖A⊥‖² = ‖A Q‖², as A⊥ is a projection of A.
Lengths are in tokens and go into buckets; the last bucket takes all that is longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import polars as pl
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.allowed import SEED, setting
from headwise.measures.nullspace import factors, keys_seen, rank, simplex_rank
from headwise.measures.reductions import squared_norms
from headwise.stats import Groups, Moments, Reservoir, Sums, ravel
from headwise.studies import STUDIES
from headwise.studies.answers import Answer
from headwise.studies.freedom import DRAWS, freedom
from headwise.studies.nullspace.answers import answers
from headwise.studies.nullspace.facts import QUANTITIES, facts_of
from headwise.studies.nullspace.figures import drawn
from headwise.studies.received import over_blocks, received, row_weights, to_categories
from headwise.studies.study import Reading, Setting, State, Stats, Study, at, each_stack, masked_pairs
from headwise.types import Layer

LAYERS, HEADS = 2**10, 2**10  # more than any model has: room for the ids of samples


@STUDIES.add(
    "nullspace", "rank, identifiability and the part of attention that changes nothing (Brunner et al. 2020)", order=30
)
@dataclass(frozen=True)
class NullSpace(Study):
    """`bucket`: tokens a bucket of lengths, of which there are `buckets`; `points`: texts × heads kept for fig1a.

    `intervals`: rows of each text and layer whose weights' intervals are found (ten linear programmes each); 0: none.
    """

    title: ClassVar[str] = "What changes nothing"
    first_by: ClassVar[tuple[str, ...]] = (
        "what=pearson,null_share,identifiable_rows,null_dim", "head=*", "pearson", "-null_share", "-value"
    )  # fmt: skip
    captions: ClassVar[Mapping[str, str]] = {
        "rank": "rank, free directions and the share of rows whose weights are unique, by length",
        "fig1a": "how alike raw and effective attention are, by length (Brunner et al. 2020)",
        "fig1b": "raw attention to special tokens and punctuation, head by head",
        "fig1c": "effective attention to the same: a peak that is gone here changes nothing",
        "fig5": "attention to separators, raw and effective, from separators and from all other tokens",
        "mass": "the share of each head's squared weights that changes nothing",
        "freedom": "how many rows could have other weights, in how many directions, and how other (section 3.3)",
    }
    bucket: int = setting(8, least=1)
    buckets: int = setting(128, least=1, most=10**5)
    points: int = setting(3000, least=1, most=10**7)
    intervals: int = setting(0, least=0, most=DRAWS)
    seed: int = setting(0, least=0, most=SEED)

    def observe(self, layer: Layer, reading: Reading) -> Stats:
        kinds, rows = reading.key_kinds(layer).double(), row_weights(layer, reading)
        state: Stats = {
            at(f"{quantity}/to", layer): to_categories(received(layer, reading, quantity), kinds, rows)
            for quantity in QUANTITIES
        }
        if self.intervals:
            state |= freedom(layer, reading, self._bucket, self.buckets, self.intervals, self.seed)
        return {**state, **self._ranks(layer), **self._agreement(layer, reading)}

    def _ranks(self, layer: Layer) -> Stats:
        """rank(T) and uniqueness of every real row, by the keys it sees."""
        ranks, seen = row_ranks(layer), keys_seen(layer)[:, None]
        unique, real = identifiable(layer), layer.query_mask[:, None].double()
        if layer.visible.shape[1] > 1 and bool((layer.visible == layer.visible[:, :1]).all()):
            # Rows that see the same keys have the same rank: one row stands for all.
            ranks, seen, unique = ranks[:, :, :1], seen[:, :, :1], unique[:, :, :1]
            real = real.sum(-1, keepdim=True)
        heads = torch.arange(ranks.shape[1], device=ranks.device)[:, None]
        over = Groups(ravel((heads, self._bucket(seen)), (len(heads), self.buckets)), (len(heads), self.buckets))
        return {
            at("rank", layer): Moments.of(ranks, real, over=over),
            at("keys", layer): Moments.of(seen.expand_as(ranks), real, over=over),
            at("unique", layer): Sums.of(unique, real, over=over),
        }

    def _agreement(self, layer: Layer, reading: Reading) -> Stats:
        """Pearson's r and the null share of every text and head, once all its rows have been seen."""
        whole, reached = squared_norms(layer)
        rows = reading.query_lengths(layer)[:, None]
        got = (received(layer, reading, quantity)[:, :, 0] for quantity in QUANTITIES)
        sums = [keys.sum(-1, dtype=torch.float64) * rows for keys in got]
        squares = [_real_sum(x, layer.query_mask) for x in (whole, reached)]
        pairs = masked_pairs(layer).sum((1, 2)).double()[:, None].expand_as(sums[0])
        totals = over_blocks(layer, reading, "nullspace.sums", torch.stack([*sums, *squares, pairs]))
        if totals is None:
            return {}
        pearson, share = agreement(*totals)
        lengths = reading.key_lengths(layer)[:, None].expand_as(pearson)
        heads = torch.arange(pearson.shape[1], device=pearson.device).expand_as(pearson)
        cells = (pearson.shape[1], self.buckets)
        over = Groups(ravel((heads, self._bucket(lengths)), cells), cells)
        ids = ravel((reading.documents.to(heads.device)[:, None], layer.index, heads), (0, LAYERS, HEADS))
        columns = (lengths, pearson, torch.full_like(heads, layer.index), heads)
        here = torch.ones((), device=pearson.device)
        sample = Reservoir.of(columns, ids, here.bool(), size=self.points, seed=self.seed)
        return {
            at("pearson", layer): Moments.of(pearson, here, over=over),
            at("share", layer): Moments.of(share, here, over=over),
            at("length", layer): Moments.of(lengths, here, over=over),
            f"points@{layer.stack}": sample,
        }

    def _bucket(self, lengths: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
        """1 … 8 tokens are bucket 0, 9 … 16 bucket 1."""
        return ((lengths - 1).clamp(min=0) // self.bucket).clamp(max=self.buckets - 1)

    def table(self, state: State, setting: Setting) -> pl.DataFrame:
        """One row a fact: the paper's id, where, of which category or length, which number (`what`), and its value.

        `length` is the mean number of tokens (for rank: of keys seen) in the bucket; null: over all lengths.
        """
        rows = [row for stack in setting.stacks for row in facts_of(state, stack)]
        schema = {"paper": pl.String, "stack": pl.String, "layer": pl.Int64, "head": pl.Int64, "name": pl.String,
                  "category": pl.String, "length": pl.Float64, "what": pl.String, "value": pl.Float64}  # fmt: skip
        return pl.DataFrame(rows, schema=schema, orient="row").filter(pl.col("value").is_finite())

    def answers(self, table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:
        return answers(table, setting)

    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        table = self.table(state, setting)

        def draw(stack: str, where: str) -> dict[str, Any]:
            return drawn(state, table.filter(stack=stack), stack, where, setting.stacks[stack][2])

        return each_stack(setting, draw)


# --- one layer of one batch ---


def row_ranks(layer: Layer) -> Int[Tensor, "batch head query"]:
    """rank(T) of every row, taken from the factors where they are there, so that no map is formed for it."""
    parts = factors(layer)
    if parts is None:
        return rank(layer)
    by_head = parts.rank.repeat_interleave(layer.alpha.shape[1] // parts.rank.shape[1], dim=1)
    return by_head[:, :, None].expand(-1, -1, layer.alpha.shape[2])


def identifiable(layer: Layer) -> Bool[Tensor, "batch head query"]:
    """Whether no other distribution over its keys gives a row's output: n = rank([T, 1]).

    rank(T) ≤ rank([T, 1]) ≤ min(rank(T) + 1, d_head + 1) settles all rows but those with rank(T) < n ≤ rank(T) + 1.
    """
    ranks, seen = row_ranks(layer), keys_seen(layer)[:, None]
    unique = ranks == seen
    doubtful = ((seen == ranks + 1) & layer.query_mask[:, None]).any(0).any(0).nonzero()[:, 0]
    if len(doubtful):
        part = replace(
            layer, alpha=layer.alpha[:, :, doubtful], visible=layer.visible[:, doubtful], memo={}, residual=None,
            query_mask=layer.query_mask[:, doubtful], out=layer.out[:, doubtful],
        )  # fmt: skip
        unique = unique.clone()
        unique[:, :, doubtful] = simplex_rank(part) == seen[:, :, doubtful]
    return unique


def agreement(
    raw: Tensor, effective: Tensor, squared: Tensor, reached: Tensor, pairs: Tensor
) -> tuple[Float[Tensor, "batch head"], Float[Tensor, "batch head"]]:
    """Pearson's r and 1 − ‖A⊥‖²/‖A‖² from Σ A, Σ A⊥, ‖A‖², ‖A⊥‖² and the number of pairs; ⟨A, A⊥⟩ = ‖A⊥‖²."""
    covariance = reached - raw * effective / pairs
    spreads = (squared - raw**2 / pairs).clamp(min=0) * (reached - effective**2 / pairs).clamp(min=0)
    flat = spreads <= (1e-7 * squared) ** 2  # subtle: an even map has no spread but what rounding leaves
    pearson = torch.where(flat, torch.nan, covariance / spreads.clamp(min=torch.finfo(spreads.dtype).tiny).sqrt())
    return pearson.clamp(-1, 1), (1 - reached / squared).clamp(0, 1)


def _real_sum(
    rows: Float[Tensor, "batch head query"], real: Bool[Tensor, "batch query"]
) -> Float[Tensor, "batch head"]:
    return torch.einsum("bhq,bq->bh", rows.double(), real.double())


__all__ = ["NullSpace", "agreement", "identifiable"]
