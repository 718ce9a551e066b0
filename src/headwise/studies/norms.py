r"""Weights against the vectors they weigh: ‖f(x)‖, where it cancels the weight, and what frequency has to do with it.

Kobayashi et al. 2020 (https://arxiv.org/abs/2004.10102) §4 and appendices A–C, for every stack of any model:

    table1        ‖f_h(x)‖ over tokens, per head: mean, sd, cv, max, min
    table4        ‖x‖ over tokens, per layer, the same. x is the residual stream at the block: what the value projection
                  reads in post-norm models; in pre-norm ones a norm stands in between. Left out where there is none.
    fig3          α and ‖α f(x)‖ to each category: sum over its keys, mean over a text's rows, then over texts
    table2        Spearman's ρ of α and ‖f(x)‖ over all pairs of a category, from a 2-D histogram, with its error bound
    fig4, 10–12   per head: α as in fig3, ‖f(x)‖ as mean over the category's tokens
    fig5          a sample of pairs (α, ‖f(x)‖) from all layers and heads
    fig6          rank of a token's frequency against α received and ‖f(x)‖, one point an occurrence, both mean over
                  all heads of the stack; α is the mean over the rows that see the token
    fig9          singular values of f as a linear map of (x, 1), x being what the value projection reads

Weights and ρ have no unit; norms are in units of the residual stream.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, ClassVar

import altair as alt
import numpy as np
import polars as pl
import torch
from jaxtyping import Float, Int
from scipy.stats import rankdata, spearmanr
from torch import Tensor

from headwise.errors import InputError
from headwise.measures.norms import sent_norm
from headwise.models.model import Model
from headwise.models.values import singular_values, value_maps
from headwise.plots import scatter
from headwise.plots.cloud import cloud
from headwise.plots.grid import head_grid
from headwise.plots.lines import line_by
from headwise.plots.theme import themed
from headwise.stats import Histogram, LinearBins, Moments, OctaveBins, RankHistogram, Reservoir, Sums, ravel
from headwise.stats.bins import MANTISSA
from headwise.stats.reservoir import hashed
from headwise.studies import STUDIES
from headwise.studies.received import key_kinds, over_blocks, received, to_categories
from headwise.studies.study import Reading, Setting, State, Study, at, by_layer, masked_pairs
from headwise.text.categories import CATEGORIES
from headwise.types import Layer

LABELS = {"first": "[CLS] / first", "separator": "[SEP]", "punctuation": ". and ,", "other": "other"}
GRIDS = {"fig4": "separator", "fig10": "first", "fig11": "punctuation", "fig12": "other"}
VOCABULARY = LinearBins(0, 2**18, 2**18)  # ids of tokens; those from 262,144 on share the last bin
LAYERS, HEADS, LENGTH = 2**10, 2**10, 2**20  # more than any model has: room for the ids of samples
SPREAD = ("mean", "sd", "cv", "high", "low")


@STUDIES.add("norms", "lengths of the vectors that attention weighs, and where they cancel it (Kobayashi et al. §4)")
@dataclass(frozen=True)
class Norms(Study):
    """`weight_parts`, `norm_parts`: bins an octave for table2; twice as many halve its error bound.

    `points`: pairs of each category kept for fig5, drawn from `fraction` of all; `occurrences`: tokens kept for fig6.
    `frequencies`: a tsv or parquet of tokens (or ids) and counts for fig6; None: the corpus counts its own tokens.
    """

    name: ClassVar[str] = "norms"
    weight_parts: int = 8
    norm_parts: int = 32
    points: int = 1000
    fraction: float = 1e-3
    occurrences: int = 8192
    frequencies: str | None = None
    seed: int = 0

    def observe(self, layer: Layer, reading: Reading) -> State:
        kinds = key_kinds(layer, reading)
        state = self._of_pairs(layer, reading)
        state |= {**_received_norms(layer, reading, kinds), **_stream(layer), **self._tokens(layer, reading)}
        if layer.first_row == 0:
            state |= _sent(layer, kinds)
        return state

    def of_model(self, model: Model) -> State:
        """Singular values of every head's f, and the frequencies that were given."""
        state: State = {}
        maps = value_maps(model)
        for site in model.proof.sites:
            if (site.stack, site.index) in maps:
                values = singular_values(site, maps[site.stack, site.index])
                state[f"singular@{site.stack}.{site.index}"] = Sums(values, torch.ones_like(values))
        if self.frequencies is not None:
            state["given"] = _given(Path(self.frequencies), model)
        return state

    def check(self, model: Model) -> None:  # noqa: ARG002 - the file alone is looked at
        if self.frequencies is not None:
            _read_counts(Path(self.frequencies))

    def _of_pairs(self, layer: Layer, reading: Reading) -> State:
        weights, norms = OctaveBins(-40, 0, self.weight_parts), OctaveBins(-8, 8, self.norm_parts)
        return {
            f"rank@{layer.stack}": rank_counts(layer, reading.key_categories(layer), norms, weights),
            **_sampled_pairs(layer, reading, self.points, self.fraction, self.seed),
        }

    def _tokens(self, layer: Layer, reading: Reading) -> State:
        """What each occurrence of a token got and sent, mean over the layer's heads; sampled alike in all layers."""
        state: State = {}
        texts, real = reading.keys(layer), layer.key_mask
        ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(text.ids) for text in texts], batch_first=True)
        if layer.index == 0 and layer.first_row == 0:
            state[f"tokens@{layer.stack}"] = Histogram.of(ids[real], torch.ones(()), VOCABULARY, over=_one_cell())
        got = received(layer, reading, "raw")[:, :, 0].mean(1, dtype=torch.float64)
        seen = masked_pairs(layer).sum(1).double()
        both = over_blocks(layer, reading, "norms.tokens", torch.stack([got, seen]))
        if both is not None:
            rows = torch.tensor([len(text) for text in reading.queries(layer)])[:, None]
            alpha = both[0] * rows / both[1]
            columns = (ids.double(), alpha, sent_norm(layer).mean(1, dtype=torch.float64))
            where = ravel((reading.documents[:, None], torch.arange(ids.shape[1])), (0, LENGTH))
            state[at("occurrences", layer)] = Reservoir.of(columns, where, real, size=self.occurrences, seed=self.seed)
        return state

    def table(self, state: State, setting: Setting) -> pl.DataFrame:
        """One row a fact: the paper's id, where, of which category, which number (`what`), and its value."""
        rows = [row for stack in setting.stacks for row in _facts(state, stack)]
        schema = {"paper": pl.String, "stack": pl.String, "layer": pl.Int64, "head": pl.Int64, "name": pl.String,
                  "category": pl.String, "what": pl.String, "value": pl.Float64}  # fmt: skip
        return pl.DataFrame(rows, schema=schema, orient="row").filter(pl.col("value").is_finite())

    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        table = self.table(state, setting)
        charts: dict[str, Any] = {}
        for stack in setting.stacks:
            drawn = _figures(state, table.filter(pl.col("stack") == stack), stack, setting.model)
            tail = "" if len(charts) == 0 else f"-{stack}"
            charts |= {f"{name}{tail}": chart for name, chart in drawn.items()}
        return charts


# --- one layer of one batch ---


def rank_counts(layer: Layer, kinds: Int[Tensor, "batch key"], norms: OctaveBins, weights: OctaveBins) -> RankHistogram:
    """Pairs (‖f(x)‖, α) by category and bin: a row of the table for every head and key, one pass over the weights.

    subtle: a weight of exactly 0 that is visible counts with those below 2^low, which the error bound allows for.
    """
    n_norm, n_weight = len(norms.edges) - 1, len(weights.edges) - 1
    shape = (len(CATEGORIES), n_norm, n_weight)
    shift, first = MANTISSA - int(math.log2(weights.parts)), (weights.low + 127) * weights.parts
    row = (kinds[:, None].int() * n_norm + norms.index(sent_norm(layer))) * n_weight + (3 - first)
    number = layer.alpha.float().view(torch.int32) >> shift  # the bits of a positive float32 grow with it
    number.clamp_(first - 1, first + (weights.high - weights.low) * weights.parts).add_(row[:, :, None])
    pairs = masked_pairs(layer)
    if not bool(pairs.all()):
        number.masked_fill_(~pairs[:, None], math.prod(shape))
    counts = torch.bincount(number.view(-1), minlength=math.prod(shape) + 1)[: math.prod(shape)]
    return RankHistogram(norms, weights, counts.view(shape))


def _received_norms(layer: Layer, reading: Reading, kinds: Float[Tensor, "batch key category"]) -> State:
    got = received(layer, reading, "raw")[:, :, :1]
    rows = reading.row_weights(layer)[:, None]
    return {
        at("raw/to", layer): to_categories(got, kinds, rows),
        at("norm/to", layer): to_categories(got * sent_norm(layer)[:, :, None], kinds, rows),
    }


def _sent(layer: Layer, kinds: Float[Tensor, "batch key category"]) -> State:
    lengths = sent_norm(layer).double()
    total = torch.einsum("bhk,bkc->hc", lengths, kinds)
    real = layer.key_mask.flatten().double()
    return {
        at("f", layer): Moments.of(lengths.transpose(0, 1).flatten(1), real),
        at("f/of", layer): Sums(total, kinds.sum((0, 1)).expand_as(total).clone()),
    }


def _stream(layer: Layer) -> State:
    if layer.residual is None or layer.stack == "cross":  # a cross layer's residual is not what its keys are made of
        return {}
    lengths = torch.linalg.vector_norm(layer.residual, dim=-1)[layer.query_mask]
    return {at("x", layer): Moments.of(lengths, torch.ones_like(lengths))}


def _sampled_pairs(layer: Layer, reading: Reading, points: int, fraction: float, seed: int) -> State:
    """(α, ‖f(x)‖) of randomly drawn pairs of each category.

    The i-th draw of a document and layer is a hash of (document, layer, i), so batches and shards do not matter; draws
    that fall on a pair that is not seen, or in another block of rows, are dropped.
    """
    heads = layer.alpha.shape[1]
    sizes = [(len(q), len(k)) for q, k in zip(reading.queries(layer), reading.keys(layer), strict=True)]
    draws = torch.tensor([math.ceil(fraction * heads * q * k) for q, k in sizes])
    text = torch.arange(len(sizes)).repeat_interleave(draws)
    each = torch.arange(int(draws.sum())) - (draws.cumsum(0) - draws)[text]
    ids = ravel((reading.documents[text], layer.index, each), (0, LAYERS, LENGTH))
    queries, keys = torch.tensor(sizes)[text].unbind(-1)
    cell = hashed(ids, seed + 1).remainder(heads * queries * keys)
    key, rest = cell % keys, cell // keys
    head, row = rest // queries, rest % queries - layer.first_row
    inside = (row >= 0) & (row < layer.alpha.shape[2])
    row = row.clamp(0, layer.alpha.shape[2] - 1)
    shown = inside & layer.visible[text, row, key]
    columns = (layer.alpha[text, head, row, key], sent_norm(layer)[text, head, key])
    kinds = reading.key_categories(layer)[text, key]
    return {
        f"pairs/{name}@{layer.stack}": Reservoir.of(columns, ids, shown & (kinds == number), size=points, seed=seed)
        for number, name in enumerate(CATEGORIES)
    }


def _one_cell() -> Any:
    from headwise.stats import Groups

    return Groups(torch.zeros((), dtype=torch.int64), (1,))


# --- frequencies that the user gives ---


def _read_counts(path: Path) -> tuple[list[str], list[float]]:
    try:
        table = (
            pl.read_parquet(path)
            if path.suffix in (".parquet", ".pq")
            else pl.read_csv(path, separator="\t", has_header=False, quote_char=None)
        )
        tokens, counts = table.columns[:2]
        kept = table.select(pl.col(tokens).cast(pl.String), pl.col(counts).cast(pl.Float64, strict=False)).drop_nulls()
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise InputError(
            f"Frequencies must be a tsv or parquet of two columns, token and count, but {path} is not: {error}"
        ) from None
    if kept.is_empty():
        raise InputError(f"Frequencies must hold at least one token and its count, but {path} holds none.")
    return kept[tokens].to_list(), kept[counts].to_list()


def _given(path: Path, model: Model) -> Histogram:
    """Counts by token id; a token that the vocabulary does not have is read as an id, or left out."""
    tokens, counts = _read_counts(path)
    vocabulary = model.tokenizer.get_vocab()
    ids = [vocabulary.get(token, int(token) if token.isdecimal() else -1) for token in tokens]
    known = torch.tensor([number >= 0 for number in ids])
    return Histogram.of(
        torch.tensor(ids)[known], torch.tensor(counts, dtype=torch.float64)[known], VOCABULARY, over=_one_cell()
    )


# --- facts ---

Fact = tuple[str, str, int | None, int | None, str | None, str | None, str, float]


def _facts(state: State, stack: str) -> Iterator[Fact]:
    for layer, moments in enumerate(by_layer(state, "f", stack)):
        yield from _per_head("table1", stack, layer, {name: getattr(moments, name) for name in SPREAD})
    for layer, moments in enumerate(by_layer(state, "x", stack)):
        for name in SPREAD:
            yield ("table4", stack, layer, None, f"L{layer}", None, _said(name), float(getattr(moments, name)))
    yield from _by_category(state, stack)
    yield from _correlations(state, stack)
    for what, count, rho in frequency_correlations(state, stack):
        yield ("fig6", stack, None, None, None, None, f"rho_{what}", rho)
        yield ("fig6", stack, None, None, None, None, f"n_{what}", float(count))
    for layer, sums in enumerate(by_layer(state, "singular", stack)):
        top, bottom = sums.mean[:, 0], sums.mean[:, -1]
        yield from _per_head("fig9", stack, layer, {"largest": top, "smallest": bottom, "ratio": top / bottom})


def _said(name: str) -> str:
    return {"high": "max", "low": "min"}.get(name, name)


def _per_head(
    paper: str, stack: str, layer: int, columns: Mapping[str, Float[Tensor, " head"]], category: str | None = None
) -> Iterator[Fact]:
    for name, values in columns.items():
        for head, value in enumerate(values.tolist()):
            yield (paper, stack, layer, head, f"L{layer}.H{head}", category, _said(name), value)


def _by_category(state: State, stack: str) -> Iterator[Fact]:
    """fig3 (layer means) and the heat maps (heads)."""
    names = {"alpha": "raw/to", "norm": "norm/to", "f": "f/of"}
    means = {what: [sums.mean for sums in by_layer(state, name, stack)] for what, name in names.items()}
    for figure, category in GRIDS.items():
        number = CATEGORIES.index(category)
        for what, layers in means.items():
            for layer, mean in enumerate(layers):
                column = mean.reshape(-1, len(CATEGORIES))[:, number]
                if what != "f":
                    yield ("fig3", stack, layer, None, f"L{layer}", category, what, float(column.mean()))
                yield from _per_head(figure, stack, layer, {what: column}, category)


def _correlations(state: State, stack: str) -> Iterator[Fact]:
    counts: RankHistogram = state[f"rank@{stack}"]  # type: ignore[assignment]
    whole = RankHistogram(counts.x_bins, counts.y_bins, counts.counts.sum(0, keepdim=True))
    for names, part in ((CATEGORIES, counts), (("all",), whole)):
        numbers = {"rho": part.correlation(), "error_bound": part.error_bound(), "pairs": part.count.double()}
        for what, values in numbers.items():
            for category, value in zip(names, values.tolist(), strict=True):
                if what != "pairs" or value > 0:
                    yield ("table2", stack, None, None, None, category, what, value)


def occurrences(state: State, stack: str) -> pl.DataFrame:
    """The sampled tokens with the rank of their frequency: id, rank, alpha, f (both mean over layers and heads)."""
    layers: list[Reservoir] = by_layer(state, "occurrences", stack)
    # A small reservoir keeps the same tokens in every layer, as their hashes are those of document and place alone.
    rows = torch.stack([layer.rows for layer in layers]).mean(0)
    counts: Histogram = state.get("given", state[f"tokens@{stack}"])  # type: ignore[assignment]
    number = rows[:, 0].long()
    count = counts.counts[0, VOCABULARY.index(number).long()]
    order = rankdata(-counts.counts[0].numpy(), method="min")
    rank = torch.from_numpy(np.asarray(order))[VOCABULARY.index(number).long()]
    table = pl.DataFrame(
        {"id": number.tolist(), "count": count.tolist(), "rank": rank.tolist(), "alpha": rows[:, 1].tolist(),
         "f": rows[:, 2].tolist()}
    )  # fmt: skip
    return table.filter(pl.col("count") > 0)


def frequency_correlations(state: State, stack: str) -> Iterator[tuple[str, int, float]]:
    """Spearman's ρ of rank and value, over occurrences as in the paper and over types (means of their occurrences)."""
    table = occurrences(state, stack)
    types = table.group_by("id", maintain_order=True).mean()
    for what, rows in (("occurrences", table), ("types", types)):
        for column in ("alpha", "f"):
            varies = rows["rank"].n_unique() > 1 and rows[column].n_unique() > 1
            rho = float(spearmanr(rows["rank"], rows[column]).statistic) if varies else math.nan  # type: ignore[union-attr]
            yield f"{column}_{what}", rows.height, rho


# --- figures ---


def _figures(state: State, table: pl.DataFrame, stack: str, model: str) -> dict[str, Any]:
    where = model if stack == "self" else f"{model}, {stack}"
    drawn = {"fig3": _fig3(table, where), "table2": _table2(table, where)}
    for name, category in GRIDS.items():
        cells = table.filter((pl.col("paper") == name) & pl.col("what").is_in(["alpha", "f"]))
        if not cells.is_empty():
            drawn[name] = _grid(cells, table, category, where)
    drawn["fig5"] = _fig5(state, stack, where)
    drawn["fig6"] = _fig6(state, table, stack, where)
    if by_layer(state, "singular", stack):
        drawn["fig9"] = _fig9(state, stack, where)
    return drawn


def _fig3(table: pl.DataFrame, where: str) -> Any:
    heads = table.filter(pl.col("paper").is_in(list(GRIDS)) & pl.col("what").is_in(["alpha", "norm"]))
    named = heads.with_columns(quantity=pl.col("what").replace({"alpha": "weight α", "norm": "norm ‖αf(x)‖"}))
    wide = named.pivot("category", index=["layer", "name", "quantity"], values="value")
    chart = scatter.by_layer(wide, LABELS, "sum over keys, mean over rows", facet="quantity")
    return themed(
        chart,
        f"{where}: what attention weighs and what it moves",
        "One point a head; lines are layer means. A row's weights sum to 1; norms are in units of the residual stream.",
        "A category that is high on the left and low on the right is weighed much and moves little.",
    )


def _table2(table: pl.DataFrame, where: str) -> Any:
    wide = table.filter(pl.col("paper") == "table2").pivot("what", index="category", values="value")
    if "rho" not in wide.columns:
        wide = wide.with_columns(rho=pl.lit(None, pl.Float64), error_bound=pl.lit(None, pl.Float64))
    rows = wide.drop_nulls("rho").with_columns(
        low=(pl.col("rho") - pl.col("error_bound")).clip(-1, 1),
        high=(pl.col("rho") + pl.col("error_bound")).clip(-1, 1),
    )
    order = alt.Y("category:N", sort=[*CATEGORIES, "all"], title=None)
    base = alt.Chart(rows).encode(y=order)
    axis = alt.X("rho:Q", title="Spearman's ρ of α and ‖f(x)‖", scale=alt.Scale(domain=[-1, 1]))
    tips = ["category:N", alt.Tooltip("rho:Q", format=".3f"), alt.Tooltip("error_bound:Q", format=".3f"), "pairs:Q"]
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(x=axis, tooltip=tips)
    whiskers = base.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q")
    zero = alt.Chart(pl.DataFrame({"x": [0.0]})).mark_rule(strokeDash=[6, 4], color="#666").encode(x="x:Q")
    return themed(
        alt.layer(zero, whiskers, dots).properties(width=420, height=150),
        f"{where}: do weight and norm cancel?",
        "All pairs of all heads, by the kind of token attended to. Below 0: what is weighed much has little to give.",
        "Bars are the error bound of the binned ranks, within which the exact ρ lies.",
    )


def _grid(cells: pl.DataFrame, table: pl.DataFrame, category: str, where: str) -> Any:
    every = table.filter(pl.col("paper").is_in(list(GRIDS)) & (pl.col("what") == "f"))
    tops = {"f": float(every["value"].max())}  # type: ignore[arg-type] - one scale for all four figures
    panels = {"alpha": "weight α, sum over keys, mean over rows", "f": "‖f(x)‖, mean over tokens"}
    return themed(
        head_grid(cells, panels, tops=tops),
        f"{where}: every head on {LABELS[category]}",
        "Dark on the left where light on the right: the weight and the length of the vector cancel.",
        "The right scale ends at the largest mean of any category.",
    )


def sampled(state: State, stack: str) -> pl.DataFrame:
    """The pairs of fig5: kind, alpha, f."""
    rows = [
        (LABELS[name], alpha, f)
        for name in reversed(CATEGORIES)
        for alpha, f in state[f"pairs/{name}@{stack}"].rows.tolist()  # type: ignore[attr-defined]
    ]
    return pl.DataFrame(rows, schema={"kind": pl.String, "alpha": pl.Float64, "f": pl.Float64}, orient="row")


def _fig5(state: State, stack: str, where: str) -> Any:
    table = sampled(state, stack).with_columns(alpha=pl.col("alpha").clip(1e-8, 1))
    chart = cloud(
        table, "alpha", "f", titles=("weight α (those below 1e-8 drawn there)", "‖f(x)‖"), kinds=list(LABELS.values()),
        logarithmic=(True, True),
    )  # fmt: skip
    return themed(
        chart.properties(width=460, height=320),
        f"{where}: weight against length of the vector",
        "Pairs drawn at random from all layers and heads, at most as many of one kind as of another.",
        "Points that fall to the right: large weights on short vectors.",
    )


def _fig6(state: State, table: pl.DataFrame, stack: str, where: str) -> Any:
    points = occurrences(state, stack).head(3000)
    rho = {row["what"]: row["value"] for row in table.filter(pl.col("paper") == "fig6").iter_rows(named=True)}
    panels = [
        cloud(
            points, "rank", column, titles=("rank of frequency", title), logarithmic=(True, column == "alpha"),
            title=_rho_title(rho.get(f"rho_{column}_occurrences")), tooltip=["id:Q", "count:Q"],
        )
        for column, title in (("alpha", "mean α received"), ("f", "mean ‖f(x)‖"))
    ]  # fmt: skip
    source = "the given table" if "given" in state else "the corpus itself"
    return themed(
        alt.hconcat(*panels),
        f"{where}: frequency, weight and length of the vector",
        f"One point an occurrence of a token, mean over all heads; frequency from {source}.",
        "A ρ above 0 on the right: rare tokens send longer vectors than frequent ones.",
    )


def _rho_title(rho: float | None) -> str:
    return "" if rho is None else f"Spearman's ρ = {rho:.2f}"


def _fig9(state: State, stack: str, where: str) -> Any:
    layers: Sequence[Sums] = by_layer(state, "singular", stack)
    rows = [
        {"layer": layer, "name": f"L{layer}.H{head}", "number": number + 1, "value": value}
        for layer, sums in enumerate(layers)
        for head, values in enumerate(sums.mean.tolist())
        for number, value in enumerate(values)
        if value > 0
    ]
    chart = line_by(
        pl.DataFrame(rows), "number", titles=("number, largest first", "singular value"), colour="layer", detail="name",
        logarithmic=True,
    )  # fmt: skip
    ratio = reduce(min, (float((s.mean[:, 0] / s.mean[:, -1]).min()) for s in layers))
    return themed(
        chart.properties(width=460, height=320),
        f"{where}: how far each head stretches what it reads",
        "Singular values of f as a linear map of (x, 1), one line a head; the zeros beyond the head size are left out.",
        f"The largest is at least {ratio:.1f} times the smallest: the direction of x decides the length of f(x).",
    )


__all__ = ["Norms", "occurrences", "rank_counts", "sampled"]
