"""The table of the study `mixing`: one row a fact, from the merged statistics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl
import torch
from jaxtyping import Float
from torch import Tensor

from headwise.stats import Histogram, Sums
from headwise.studies.mixing.facts import GROUPS, POSITIONS, RANKS, REACH, SHARES
from headwise.studies.state import State

QUANTILES = {"q05": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95}
SCHEMA = {
    "kind": pl.String, "layer": pl.Int64, "paper_layer": pl.Int64, "group": pl.String, "statistic": pl.String,
    "value": pl.Float64, "count": pl.Float64,
}  # fmt: skip
Row = tuple[str, int | None, str, str, float, float]  # kind, layer, group, statistic, value, count


def mixing_table(state: State) -> pl.DataFrame:
    """Columns kind, layer (zero-based; null: mean over layers), paper_layer, group, statistic, value, count."""
    rows = [
        *_own(state),
        *_spread("rank", "", state.of(Histogram, "rank")),
        *_not_own("", state.of(Histogram, "rank")),
        *(_unsure(state.sums("unsure")) if "unsure" in state else ()),
        *_neighbours(state),
        *_profile("offset", state.sums("offset"), _signed(), own=True),
        *(_profile("to-first", state.sums("first"), _positions()) if "first" in state else ()),
        *(_profile("to-first-by-separator", state.sums("separator"), _signed()) if "separator" in state else ()),
        *_tags(state),
        *_example(state),
    ]
    numbered = [(kind, layer, None if layer is None else layer + 1, *rest) for kind, layer, *rest in rows]
    return pl.DataFrame(numbered, schema=SCHEMA, orient="row")


def tags_of(state: State) -> list[str]:
    return sorted(key.removeprefix("tag-own ") for key in state if key.startswith("tag-own "))


def example_tokens(state: State) -> tuple[int, list[int], list[str]] | None:
    """Document, tokens and the names of all tokens of the example, where its document was read."""
    if "example" not in state:
        return None
    named, token = state.pieces("example tokens"), state.pieces("example token")
    return named.numbers[0], token.tensors[0].tolist(), bytes(named.tensors[0].tolist()).decode().split("\n")


def _own(state: State) -> Iterator[Row]:
    yield from _spread("own", "", state.of(Histogram, "own"))
    moments, chance = state.moments("own-mean"), state.sums("chance").mean
    for layer, (mean, sd, even, count) in enumerate(zip(moments.mean, moments.sd, chance, moments.count, strict=True)):
        for name, value in (("mean", mean), ("sd", sd), ("chance", even)):
            yield "own", layer, "", name, float(value), float(count)


def _spread(kind: str, group: str, histogram: Histogram) -> Iterator[Row]:
    """Quantiles; shares are at most 1 and ranks are whole numbers, whatever the bin interpolates."""
    count = histogram.total
    for name, q in QUANTILES.items():
        value = histogram.quantile(q)[0]
        value = value.clamp(max=1.0) if histogram.bins == SHARES else value.round()
        yield from _layers(kind, group, name, value, count)


def _not_own(group: str, rank: Histogram) -> Iterator[Row]:
    """The share of tokens whose own input is not the largest one."""
    first = rank.share[:, int(RANKS.index(torch.tensor(1.0)))]
    yield from _layers("not-own", group, "share", 1 - first, rank.total)


def _unsure(sums: Sums) -> Iterator[Row]:
    """The share of tokens of which the error of the estimate leaves this open."""
    yield from _layers("not-own", "", "unsure", sums.mean, sums.weight)


def _neighbours(state: State) -> Iterator[Row]:
    each, together = state.sums("neighbour"), state.sums("neighbours")
    relative = each.mean / each.mean.nansum(0)
    for number, group in enumerate(GROUPS):
        for name, sums, value in (("each", each, each.mean), ("total", together, together.mean)):
            yield from _layers("neighbours", group, name, value[:, number], sums.weight[:, number])
        yield from _layers("neighbours", group, "relative", relative[:, number], each.weight[:, number])


def _profile(kind: str, sums: Sums, groups: Iterable[tuple[int, str]], *, own: bool = False) -> Iterator[Row]:
    """Shares of the whole by place; the token's own share (offset 0) is left out of the whole where it was counted."""
    total = sums.total.clone()
    if own:
        total[:, REACH + 1] = 0.0
    share = total / total.sum(-1, keepdim=True)
    for column, group in groups:
        if not (own and column == REACH + 1):
            yield from _layers(kind, group, "share", share[:, column], sums.weight[:, column])
            yield kind, None, group, "share", float(share[:, column].nanmean()), float(sums.weight[:, column].sum())


def _tags(state: State) -> Iterator[Row]:
    for tag in tags_of(state):
        yield from _spread("tag-own", tag, state.of(Histogram, f"tag-own {tag}"))
        yield from _spread("tag-rank", tag, state.of(Histogram, f"tag-rank {tag}"))
        yield from _not_own(tag, state.of(Histogram, f"tag-rank {tag}"))


def _example(state: State) -> Iterator[Row]:
    told = example_tokens(state)
    if told is None:
        return
    document, tokens, names = told
    kept = state.pieces("example").tensors[0]
    for token, maps in zip(tokens, kept.view(len(tokens), len(names), -1), strict=True):
        for at, name in enumerate(names):
            yield from _layers(
                "example", f"{at} {name}", f"{document}:{token}", maps[at].double(), torch.ones(maps.shape[1])
            )


def _layers(kind: str, group: str, name: str, values: Float[Tensor, " layer"], counts: Any) -> Iterator[Row]:
    for layer, (value, count) in enumerate(zip(values.tolist(), counts.tolist(), strict=True)):
        yield kind, layer, group, name, value, count


def _signed() -> list[tuple[int, str]]:
    ends = {-REACH - 1: f"<-{REACH}", REACH + 1: f">{REACH}"}
    return [(at + REACH + 1, ends.get(at, str(at))) for at in range(-REACH - 1, REACH + 2)]


def _positions() -> list[tuple[int, str]]:
    return [(at, str(at) if at <= POSITIONS else f">{POSITIONS}") for at in range(1, POSITIONS + 2)]
