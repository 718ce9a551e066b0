"""One row a fact: by length, by head, and by kind of token, from the sums of all texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jaxtyping import Float
from torch import Tensor

from headwise.stats import Moments, Sums, merge
from headwise.studies.freedom import freedom_facts
from headwise.studies.received import ROWS
from headwise.studies.study import State
from headwise.text.categories import CATEGORIES

QUANTITIES = ("raw", "effective")
SEPARATOR = CATEGORIES.index("separator")
Fact = tuple[str, str, int | None, int | None, str | None, str | None, float | None, str, float]


def facts_of(state: State, stack: str) -> Iterator[Fact]:
    yield from _by_length(state, stack)
    for layer, name, length, what, value in freedom_facts(state, stack):
        yield ("§3.3", stack, layer, None, name, None, length, what, value)
    for layer, numbers in enumerate(
        zip(*(state.by_layer(Moments, name, stack) for name in ("pearson", "share")), strict=True)
    ):
        for (paper, what), moments in zip((("fig1a", "pearson"), ("mass", "null_share")), numbers, strict=True):
            pooled = pooled_lengths(moments)
            yield from _per_head(paper, stack, layer, None, {what: pooled.mean, f"{what}_sd": pooled.sd})
    for layer, sums in enumerate(state.by_layer(Sums, "unique", stack)):
        share = Sums(sums.total.sum(-1), sums.weight.sum(-1)).mean
        yield from _per_head("rank", stack, layer, None, {"identifiable_rows": share})
    for layer, (keys, ranks) in enumerate(
        zip(*(state.by_layer(Moments, name, stack) for name in ("keys", "rank")), strict=True)
    ):
        free = pooled_lengths(keys).mean - pooled_lengths(ranks).mean
        yield from _per_head("rank", stack, layer, None, {"null_dim": free})
    maps = {quantity: state.by_layer(Sums, f"{quantity}/to", stack) for quantity in QUANTITIES}
    for layer, (raw, effective) in enumerate(zip(*maps.values(), strict=True)):
        means = {"raw": raw.mean, "effective": effective.mean}
        means["null"] = means["raw"] - means["effective"]
        for what, mean in means.items():
            paper = {"raw": "fig1b", "effective": "fig1c", "null": "mass"}[what]
            for number, category in enumerate(CATEGORIES):
                yield from _per_head(paper, stack, layer, category, {what: mean[0, :, number]})
            for number, rows in enumerate(ROWS[1:], start=1):
                yield from _per_head("fig5", stack, layer, rows, {f"{what}_to_separator": mean[number, :, SEPARATOR]})


def _per_head(
    paper: str, stack: str, layer: int, category: str | None, columns: Mapping[str, Float[Tensor, " head"]]
) -> Iterator[Fact]:
    for what, values in columns.items():
        for head, value in enumerate(values.tolist()):
            yield (paper, stack, layer, head, f"L{layer}.H{head}", category, None, what, value)


def _by_length(state: State, stack: str) -> Iterator[Fact]:
    """Per layer and bucket, over all heads: rank, null dimension, unique rows, Pearson's r and the null share."""
    names = ("keys", "rank", "length", "pearson", "share")
    layers = zip(*(state.by_layer(Moments, name, stack) for name in names), strict=True)
    uniques = state.by_layer(Sums, "unique", stack)
    for layer, ((keys, ranks, length, pearson, share), unique) in enumerate(zip(layers, uniques, strict=True)):
        seen, found = pooled_heads(keys), pooled_heads(ranks)
        numbers = {"rank": found.mean, "rank_min": found.low, "null_dim": seen.mean - found.mean,
                   "identifiable_rows": Sums(unique.total.sum(0), unique.weight.sum(0)).mean}  # fmt: skip
        yield from _per_bucket("rank", stack, layer, seen.mean, numbers)
        means, agreed, lost = pooled_heads(length).mean, pooled_heads(pearson), pooled_heads(share)
        yield from _per_bucket("fig1a", stack, layer, means, {"pearson": agreed.mean, "pearson_sd": agreed.sd})
        yield from _per_bucket("mass", stack, layer, means, {"null_share": lost.mean, "null_share_sd": lost.sd})


def _per_bucket(
    paper: str, stack: str, layer: int, lengths: Float[Tensor, " bucket"], columns: Mapping[str, Tensor]
) -> Iterator[Fact]:
    for what, values in columns.items():
        for length, value in zip(lengths.tolist(), values.tolist(), strict=True):
            if length == length:  # an empty bucket's is NaN
                yield (paper, stack, layer, None, f"L{layer}", None, length, what, value)


def pooled_heads(moments: Moments) -> Moments:
    """[head bucket] → [bucket]."""
    return merge([_part(moments, (head,)) for head in range(len(moments.count))])


def pooled_lengths(moments: Moments) -> Moments:
    """[head bucket] → [head]; a bucket that no head has anything in changes no bit, and there are many."""
    filled = (moments.count != 0).any(0).nonzero()[:, 0].tolist() or [0]
    return merge([_part(moments, (slice(None), bucket)) for bucket in filled])


def _part(moments: Moments, where: Any) -> Moments:
    return Moments.from_state({name: value[where] for name, value in moments.to_state().items()})
