r"""Weights against the vectors they weigh: ‖f(x)‖, where it cancels the weight, and what frequency has to do with it.

Kobayashi et al. 2020 (https://arxiv.org/abs/2004.10102) §4 and appendices A–C, for every stack of any model:

    table1        ‖f_h(x)‖ over tokens, per head: mean, sd, cv, max, min
    table4        ‖x‖ over tokens, per layer, the same. x is the residual stream at the block: what the value projection
                  reads in post-norm models; in pre-norm ones a norm stands in between. Left out where there is none.
    fig3          α and ‖α f(x)‖ to each category: sum over its keys, mean over a text's rows, then over texts
    table2        Spearman's ρ of α and ‖f(x)‖ over all pairs of a category, from a 2-D histogram, with its error bound
    fig4, 10–12   per head: α as in fig3, ‖f(x)‖ as mean over the category's tokens
    fig5          a sample of pairs (α, ‖f(x)‖) from all layers and heads
    fig6          rank of a token's frequency (by counts, and by its place in the vocabulary) against α received and
                  ‖f(x)‖, one point an occurrence, both mean over all heads of the stack; α is the mean over the rows
                  that see the token
    fig9          singular values of f as a linear map of (x, 1), x being what the value projection reads

Weights and ρ have no unit; norms are in units of the residual stream.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.allowed import SEED, setting
from headwise.errors import ModelError
from headwise.measures.norms import sent_norm
from headwise.models.model import Model
from headwise.models.values import singular_values, value_maps
from headwise.stats import Histogram, Moments, OctaveBins, RankHistogram, Reservoir, Sums, ravel
from headwise.stats.bins import MANTISSA
from headwise.stats.reservoir import hashed
from headwise.studies import STUDIES
from headwise.studies.answers import Answer
from headwise.studies.norms.answers import answers
from headwise.studies.norms.facts import facts
from headwise.studies.norms.figures import drawn
from headwise.studies.norms.frequencies import (
    VOCABULARY,
    VOCABULARY_PLACES,
    given,
    one_cell,
    places_of,
    read_counts,
)
from headwise.studies.received import over_blocks, received, to_categories
from headwise.studies.study import Reading, Setting, State, Stats, Study, at, each_stack, masked_pairs
from headwise.text.categories import CATEGORIES
from headwise.types import Layer

PARTS = (1, 2, 4, 8, 16, 32, 64, 128)  # bins an octave: they halve the bits of a number
LAYERS, LENGTH = 2**10, 2**20  # more than any model has: room for the ids of samples


@STUDIES.add(
    "norms", "lengths of the vectors that attention weighs, and where they cancel it (Kobayashi et al. §4)", order=20
)
@dataclass(frozen=True)
class Norms(Study):
    """`weight_parts`, `norm_parts`: bins an octave for table2; twice as many halve its error bound.

    `points`: pairs of each category kept for fig5, drawn from `fraction` of all; `occurrences`: tokens kept for fig6.
    `frequencies`: a tsv or parquet of tokens (or ids) and counts for fig6; None: the corpus counts its own tokens.
    `lengths`: ‖f(x)‖ of a category over all tokens, or the mean of each text over texts, as the paper's code has it.
    """

    title: ClassVar[str] = "What the weights carry"
    first_by: ClassVar[tuple[str, ...]] = ("what=rho", "paper=fig3")
    captions: ClassVar[Mapping[str, str]] = {
        "fig3": "weights and lengths of the vectors that they carry, to each kind of token (Kobayashi et al. 2020)",
        "fig4": "to separators, head by head: the weight, and the length of what it weighs",
        "fig5": "weight against length, pair by pair: where they cancel",
        "fig6": "frequent and rare tokens: what they get and what they carry",
        "fig9": "singular values of every head's map: how unevenly it can stretch vectors",
        "fig10": "to the first token, head by head",
        "fig11": "to punctuation, head by head",
        "fig12": "to all other tokens, head by head",
        "table2": "rank correlation of weight and length, by kind of token",
    }
    weight_parts: int = setting(8, one_of=PARTS)
    norm_parts: int = setting(32, one_of=PARTS)
    points: int = setting(1000, least=1, most=10**7)
    fraction: float = setting(1e-3, above=0, most=1)
    occurrences: int = setting(8192, least=1, most=10**7)
    frequencies: str | None = None
    lengths: str = setting("tokens", one_of=("tokens", "texts"))
    seed: int = setting(0, least=0, most=SEED)

    def observe(self, layer: Layer, reading: Reading) -> Stats:
        kinds = reading.key_kinds(layer).double()
        state = self._of_pairs(layer, reading)
        state |= {**_received_norms(layer, reading, kinds), **_stream(layer), **self._tokens(layer, reading)}
        if layer.first_row == 0:
            state |= _sent(layer, kinds, by_text=self.lengths == "texts")
        return state

    def of_model(self, model: Model) -> Stats:
        """Singular values of every head's f, places in the vocabulary, and the frequencies that were given."""
        state: Stats = {}
        maps = value_maps(model)
        for site in model.proof.sites:
            if (site.stack, site.index) in maps:
                values = singular_values(site, maps[site.stack, site.index])
                state[f"singular@{site.stack}.{site.index}"] = Sums(values, torch.ones_like(values))
        if model.sense == "text":
            state[VOCABULARY_PLACES] = places_of(model)
        if self.frequencies is not None:
            state["given"] = given(Path(self.frequencies), model)
        return state

    def check(self, model: Model) -> None:
        if any(site.gated for site in model.proof.sites):
            raise ModelError(
                f"Study norms needs what a key sends to be the same for every query, but {model.name} multiplies it by "
                "a gate (or norm) of the query before W_O; run surface with quantities=norm, which has the gate inside."
            )
        if self.frequencies is not None:
            read_counts(Path(self.frequencies))

    def _of_pairs(self, layer: Layer, reading: Reading) -> Stats:
        weights, norms = OctaveBins(-40, 0, self.weight_parts), OctaveBins(-8, 8, self.norm_parts)
        return {
            f"rank@{layer.stack}": rank_counts(layer, reading.key_categories(layer), norms, weights),
            **_sampled_pairs(layer, reading, self.points, self.fraction, self.seed),
        }

    def _tokens(self, layer: Layer, reading: Reading) -> Stats:
        """What each occurrence of a token got and sent, mean over the layer's heads; sampled alike in all layers."""
        state: Stats = {}
        texts, real = reading.keys(layer), layer.key_mask
        ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(text.ids) for text in texts], batch_first=True).to(
            real.device
        )
        if layer.index == 0 and layer.first_row == 0:
            state[f"tokens@{layer.stack}"] = Histogram.of(ids[real], torch.ones(()), VOCABULARY, over=one_cell())
        got = received(layer, reading, "raw")[:, :, 0].mean(1, dtype=torch.float64)
        seen = masked_pairs(layer).sum(1).double()
        both = over_blocks(layer, reading, "norms.tokens", torch.stack([got, seen]))
        if both is not None:
            rows = reading.query_lengths(layer)[:, None]
            alpha = both[0] * rows / both[1]
            columns = (ids.double(), alpha, sent_norm(layer).mean(1, dtype=torch.float64))
            where = ravel(
                (reading.documents.to(ids.device)[:, None], torch.arange(ids.shape[1], device=ids.device)), (0, LENGTH)
            )
            state[at("occurrences", layer)] = Reservoir.of(columns, where, real, size=self.occurrences, seed=self.seed)
        return state

    def table(self, state: State, setting: Setting) -> pl.DataFrame:
        """One row a fact: the paper's id, where, of which category, which number (`what`), and its value."""
        rows = [row for stack in setting.stacks for row in facts(state, stack)]
        schema = {"paper": pl.String, "stack": pl.String, "layer": pl.Int64, "head": pl.Int64, "name": pl.String,
                  "category": pl.String, "what": pl.String, "value": pl.Float64}  # fmt: skip
        return pl.DataFrame(rows, schema=schema, orient="row").filter(pl.col("value").is_finite())

    def answers(self, table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:
        return answers(table, setting)

    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        table = self.table(state, setting)
        return each_stack(setting, lambda stack, where: drawn(state, table.filter(stack=stack), stack, where))


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


def _received_norms(layer: Layer, reading: Reading, kinds: Float[Tensor, "batch key category"]) -> Stats:
    got = received(layer, reading, "raw")[:, :, :1]
    rows = reading.row_weights(layer)[:, None]
    return {
        at("raw/to", layer): to_categories(got, kinds, rows),
        at("norm/to", layer): to_categories(got * sent_norm(layer)[:, :, None], kinds, rows),
    }


def _sent(layer: Layer, kinds: Float[Tensor, "batch key category"], *, by_text: bool) -> Stats:
    lengths = sent_norm(layer).double()
    total, count = torch.einsum("bhk,bkc->bhc", lengths, kinds), kinds.sum(1)[:, None]
    if by_text:  # a text without such tokens has no mean
        total, count = total / count.clamp(min=1), count.clamp(max=1)
    real = layer.key_mask.flatten().double()
    return {
        at("f", layer): Moments.of(lengths.transpose(0, 1).flatten(1), real),
        at("f/of", layer): Sums(total.sum(0), count.sum(0).expand_as(total[0]).clone()),
    }


def _stream(layer: Layer) -> Stats:
    if layer.residual is None or layer.stack == "cross":  # a cross layer's residual is not what its keys are made of
        return {}
    lengths = torch.linalg.vector_norm(layer.residual, dim=-1)[layer.query_mask]
    return {at("x", layer): Moments.of(lengths, torch.ones_like(lengths))}


def _sampled_pairs(layer: Layer, reading: Reading, points: int, fraction: float, seed: int) -> Stats:
    """(α, ‖f(x)‖) of randomly drawn pairs of each category.

    The i-th draw of a document and layer is a hash of (document, layer, i), so batches and shards do not matter; draws
    that fall on a pair that is not seen, or in another block of rows, are dropped. They are drawn on the CPU, the same
    for every device.
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
    shown = inside & layer.visible[text, row, key].cpu()
    columns = (layer.alpha[text, head, row, key].cpu(), sent_norm(layer)[text, head, key].cpu())
    kinds = reading.key_categories(layer)[text, key].cpu()
    return {
        f"pairs/{name}@{layer.stack}": Reservoir.of(columns, ids, shown & (kinds == number), size=points, seed=seed)
        for number, name in enumerate(CATEGORIES)
    }
