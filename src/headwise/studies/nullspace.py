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

import altair as alt
import polars as pl
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.allowed import SEED, setting
from headwise.lamps import Head, lamps
from headwise.measures.nullspace import factors, keys_seen, rank, simplex_rank
from headwise.measures.reductions import squared_norms
from headwise.plots import scatter
from headwise.plots.cloud import cloud
from headwise.plots.grid import head_grid
from headwise.plots.lines import band, line_by
from headwise.plots.theme import themed
from headwise.results.shown import finite
from headwise.stats import Groups, Moments, Reservoir, Sums, merge, ravel
from headwise.studies import STUDIES
from headwise.studies.answers import BELIEVE, NOISE, Answer, Number, Vote, graded
from headwise.studies.freedom import DRAWS, drawn_freedom, freedom, freedom_facts
from headwise.studies.received import ROWS, over_blocks, received, row_weights, to_categories
from headwise.studies.study import Reading, Setting, State, Stats, Study, at, each_stack, masked_pairs
from headwise.studies.tables import counted, first_stack, percent
from headwise.text.categories import CATEGORIES
from headwise.types import Layer

QUANTITIES = ("raw", "effective")
LABELS = {"first": "[CLS] / first", "separator": "[SEP]", "punctuation": ". and ,"}
FROM_TO = {"separator": "[SEP] → [SEP]", "other": "all others → [SEP]"}
SEPARATOR = CATEGORIES.index("separator")
ALIKE, PARTLY = 0.9, 0.5  # Pearson's r of raw and effective from which they say the same, or some of it
HALF, SOME = 0.5, 0.001  # of the squared weights: a good part, and any that is worth a name
FEW = 10  # numbers below it are told with one decimal
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
        rows = [row for stack in setting.stacks for row in _facts(state, stack)]
        schema = {"paper": pl.String, "stack": pl.String, "layer": pl.Int64, "head": pl.Int64, "name": pl.String,
                  "category": pl.String, "length": pl.Float64, "what": pl.String, "value": pl.Float64}  # fmt: skip
        return pl.DataFrame(rows, schema=schema, orient="row").filter(pl.col("value").is_finite())

    def answers(self, table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:
        table, size = first_stack(table), next(iter(setting.stacks.values()))[2]
        yield from _believed(table, size, setting)
        share = (
            finite(table, "value").filter((pl.col("what") == "null_share") & pl.col("head").is_not_null()).sort("value")
        )
        if len(share):
            half = share.filter(pl.col("value") > HALF)
            most = share.row(-1, named=True)
            headline = (
                f"In {len(half)} of {len(share)} heads over half of the squared weights change nothing "
                f"({counted(setting.tokens['documents'], 'text')})."
            )
            where = f"{percent(most['value'])}, in {most['name']}"
            top = f"The most of a head's squared weights that changes nothing is {where}."
            none = f"In no head {percent(SOME)} of the squared weights or more change nothing."
            yield Answer(NOISE, top if most["value"] >= SOME else none, headline)

    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        table = self.table(state, setting)

        def draw(stack: str, where: str) -> dict[str, Any]:
            return _figures(state, table.filter(stack=stack), stack, where, setting.stacks[stack][2])

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


# --- facts ---

Fact = tuple[str, str, int | None, int | None, str | None, str | None, float | None, str, float]


def _facts(state: State, stack: str) -> Iterator[Fact]:
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


# --- answers ---

MEANING = {
    "yes": "the raw weights are nearly what reaches a head's output",
    "with care": "a good part of the raw weights changes nothing in a head's output",
    "no": "most of what the raw weights show changes nothing in a head's output",
}


def _believed(table: pl.DataFrame, size: int, setting: Setting) -> Iterator[Answer]:
    """How free the weights are at these lengths, and what that does to them; every row and every head counts once."""
    texts, length = setting.tokens["documents"], setting.tokens["tokens"] / setting.tokens["documents"]
    each = table.filter(pl.col("head").is_not_null())
    free, unique, agreed = (
        finite(each, "value").filter(pl.col("what") == what)["value"]
        for what in ("null_dim", "identifiable_rows", "pearson")
    )
    if len(free):
        yield Answer(
            BELIEVE,
            f"A head passes on {size} numbers a token, and the {counted(texts, 'text')} have {length:.0f} tokens on "
            f"average: a row of weights can be moved in {_few(free.mean())} directions, in the mean over rows, and the "
            f"head's output stays the same; {percent(float(unique.mean()))} of all rows, those of all texts together, "  # type: ignore[arg-type]
            "have weights that no others can replace.",
        )
    if not len(agreed):
        yield Answer(BELIEVE, "These texts are too short to tell raw and effective attention apart.")
        return
    r, sd, good = float(agreed.mean()), agreed.std(), _alike(each)  # type: ignore[arg-type]
    heads = f"{len(good)} of {counted(len(agreed), 'head')} with {ALIKE} or more, and unique? not red"
    verdict = graded(r, care=PARTLY, yes=ALIKE)
    alike = Number("pearson", "is r of raw and effective weights, mean over heads", r, None, None, texts, share=False)
    spread = f" ± {sd:.2f}" if len(agreed) > 1 else ""
    yield Answer(
        BELIEVE,
        f"Raw weights and effective weights, the part of them that the output depends on, correlate with r = {r:.2f}"
        f"{spread} over {counted(len(agreed), 'head')} (mean ± standard deviation).",
        vote=Vote("alike", verdict, f"{MEANING[verdict]} (mean r = {r:.2f}; {heads})", (alike,), good, len(agreed)),
    )


def _alike(each: pl.DataFrame) -> tuple[str, ...]:
    """Heads of which the raw map shows about what reaches their output: by r, and no red lamp *unique?* over it."""
    value = {what: dict(finite(each, "value").filter(what=what).select("name", "value").iter_rows())
             for what in ("pearson", "null_share", "identifiable_rows")}  # fmt: skip
    known = {name: Head(null_share=share, unique_rows=value["identifiable_rows"].get(name))
             for name, share in value["null_share"].items()}  # fmt: skip
    red = {name for name, head in known.items() if lamps(head).unique.colour == "red"}
    return tuple(name for name, r in value["pearson"].items() if r >= ALIKE and name not in red)


def _few(number: Any) -> str:
    return f"{number:.1f}" if number < FEW else f"{number:.0f}"


# --- figures ---


def _figures(state: State, table: pl.DataFrame, stack: str, where: str, size: int) -> dict[str, Any]:
    return {
        "rank": _rank(table, where, size),
        "fig1a": _fig1a(state, stack, where, size),
        "fig1b": _to_kinds(table, "fig1b", where),
        "fig1c": _to_kinds(table, "fig1c", where),
        "fig5": _fig5(table, where),
        "mass": _mass(table, where),
        **drawn_freedom(table, where, size),
    }


def _rank(table: pl.DataFrame, where: str, size: int) -> Any:
    rows = table.filter((pl.col("paper") == "rank") & pl.col("length").is_not_null()).sort("layer", "length")
    longest = max(float(rows["length"].max() or 1), 1.0)  # type: ignore[arg-type]
    ends = sorted({1.0, min(float(size), longest), longest})
    panels = [
        ("rank", "rank of T", {n: min(n, float(size)) for n in ends}),
        ("null_dim", "dim LN(T), free directions", {n: max(n - size, 0.0) for n in ends}),
        ("identifiable_rows", "share of rows whose weights are unique", None),
    ]
    charts = [
        line_by(rows.filter(pl.col("what") == what).select("layer", "length", "value"), "length",
                titles=("keys seen (tokens)", title), colour="layer", dashed=dashed,
                ends=None if dashed else (0.0, 1.0))
        for what, title, dashed in panels
    ]  # fmt: skip
    return themed(
        alt.hconcat(*charts),
        f"{where}: rank and null space by length (head size {size})",
        "Mean over heads, one line a layer; dashed is what full rank gives. Past the head size every further token is",
        "a direction in which the weights may change and the output does not.",
    )


def _fig1a(state: State, stack: str, where: str, size: int) -> Any:
    kept = state.of(Reservoir, f"points@{stack}")
    points = pl.DataFrame(kept.rows.numpy(), schema=["length", "pearson", "layer", "head"])
    merged: Moments = merge([pooled_heads(moments) for moments in state.by_layer(Moments, "pearson", stack)])
    lengths: Moments = merge([pooled_heads(moments) for moments in state.by_layer(Moments, "length", stack)])
    spread = pl.DataFrame(
        {"length": lengths.mean.tolist(), "value": merged.mean.tolist(), "low": (merged.mean - merged.sd).tolist(),
         "high": (merged.mean + merged.sd).clamp(max=1).tolist()}
    ).filter(pl.all_horizontal(pl.all().is_finite()))  # fmt: skip
    titles = ("length (tokens)", "Pearson's r of raw and effective")
    dots = cloud(points, "length", "pearson", titles=titles, tooltip=["layer:Q", "head:Q"])
    rule = alt.Chart(pl.DataFrame({"x": [size]})).mark_rule(strokeDash=[6, 4], color="#666").encode(x="x:Q")
    return themed(
        alt.layer(rule, dots, band(spread, "length", unit=titles[1])).properties(width=480, height=300),
        f"{where}: how alike raw and effective attention are",
        "One point a text and head; the line is the mean of a bucket of lengths, the band ± one standard deviation.",
        "Up to the head size (dashed) the two are one; after it, the lower, the more of the map changes nothing.",
    )


def _to_kinds(table: pl.DataFrame, paper: str, where: str) -> Any:
    quantity = {"fig1b": "raw", "fig1c": "effective"}[paper]
    wide = table.filter(pl.col("paper") == paper).pivot("category", index=["layer", "name"], values="value")
    chart = scatter.by_layer(wide, LABELS, f"{quantity} attention, mean over rows")
    return themed(
        chart,
        f"{where}: {quantity} attention to special tokens and punctuation",
        "One point a head; lines are layer means. See fig1b (raw) beside fig1c (effective):",
        "a peak that only the raw weights have lies in the null space and changes nothing.",
    )


def _fig5(table: pl.DataFrame, where: str) -> Any:
    rows = table.filter((pl.col("paper") == "fig5") & (pl.col("what") != "null_to_separator"))
    named = rows.with_columns(quantity=pl.col("what").str.replace("_to_separator", ""))
    wide = named.pivot("category", index=["layer", "name", "quantity"], values="value")
    chart = scatter.by_layer(wide, FROM_TO, "attention to separators", facet="quantity")
    return themed(
        chart,
        f"{where}: who attends to separators, and what of it arrives",
        "One point a head; lines are layer means. Note the two scales.",
    )


def _mass(table: pl.DataFrame, where: str) -> Any:
    heads = table.filter((pl.col("paper") == "mass") & pl.col("head").is_not_null())
    shares = heads.filter(pl.col("what") == "null_share")
    grid = head_grid(shares, {"null_share": "share of the squared weights in the null space"}, tops={"null_share": 1.0})
    wide = heads.filter(pl.col("what") == "null").pivot("category", index=["layer", "name"], values="value")
    kinds = scatter.by_layer(wide, {**LABELS, "other": "other"}, "null-space attention (raw − effective)")
    return themed(
        alt.hconcat(grid, kinds, spacing=40).resolve_scale(color="independent"),
        f"{where}: attention that changes nothing",
        "Left: mean over texts, per head. Right: to which tokens it goes; one point a head, lines are layer means.",
        "Above 0: those tokens look more attended to than they are.",
    )


__all__ = ["NullSpace", "agreement", "identifiable"]
