"""fig6: does frequency explain the weight that a token gets, or the length of the vector that it sends?

A token's rank by frequency is had in two ways: from counts, of the corpus itself or given; and from its place in the
vocabulary, as in the paper (footnote 5), for vocabularies are written in the order of frequency, or nearly so
(WordPiece, merges of BPE, SentencePiece). Special tokens and single characters have no such place and are left out, but
for commas, periods, [SEP] and [CLS] (or what a model has for them), which are taken for the commonest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import torch
from jaxtyping import Float
from torch import Tensor

from headwise.errors import InputError
from headwise.models.model import Model
from headwise.stats import Groups, Histogram, LinearBins, Reservoir, Sums
from headwise.stats.spearman import spearman
from headwise.studies.study import State
from headwise.text.categories import MARKERS

VOCABULARY = LinearBins(0, 2**18, 2**18)  # ids of tokens; those from 262,144 on share the last bin
VOCABULARY_PLACES = "vocabulary"
PLACEHOLDER = re.compile(r"\[.+\]|<.+>")  # [unused7], <0x0A>: not of any text
MARKED = ("other", ". and ,", "[SEP] / last", "[CLS] / first")


def read_counts(path: Path) -> tuple[list[str], list[float]]:
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


def given(path: Path, model: Model) -> Histogram:
    """Counts by token id; a token that the vocabulary does not have is read as an id, or left out."""
    tokens, counts = read_counts(path)
    vocabulary = model.tokenizer.get_vocab()
    ids = [vocabulary.get(token, int(token) if token.isdecimal() else -1) for token in tokens]
    known = torch.tensor([number >= 0 for number in ids])
    return Histogram.of(
        torch.tensor(ids)[known], torch.tensor(counts, dtype=torch.float64)[known], VOCABULARY, over=one_cell()
    )


def vocabulary_places(tokens: Mapping[str, int], ends: Sequence[int | None], special: Collection[int]) -> Sums:
    """Of every id its rank (0: it has none) and the number of its kind in MARKED; `ends`: separator and first token.

    >>> known = {"[CLS]": 0, "[SEP]": 1, "the": 2, "x": 3, "##ing": 4, ",": 5, "[unused1]": 6}
    >>> vocabulary_places(known, (1, 0), {0, 1}).mean.tolist()
    [[3.0, 2.0, 4.0, 0.0, 5.0, 1.0, 0.0], [3.0, 2.0, 0.0, 0.0, 0.0, 1.0, 0.0]]
    """
    bare = {number: token.strip(MARKERS) for token, number in sorted(tokens.items(), key=lambda item: item[1])}
    marks = [[number for number, text in bare.items() if text == mark] for mark in ",."]
    top = {number: 1 for group in marks for number in group}
    top |= {number: kind for kind, number in enumerate(ends, start=2) if number is not None and number in bare}
    words = [number for number, text in bare.items() if len(text) > 1 and not PLACEHOLDER.fullmatch(text)]
    rest = [number for number in words if number not in special and number not in top]
    places = torch.zeros(2, max(bare, default=-1) + 1, dtype=torch.float64)
    for rank, number in enumerate((*top, *rest), start=1):
        places[0, number], places[1, number] = rank, top.get(number, 0)
    return Sums(places, torch.ones_like(places))


def places_of(model: Model) -> Sums:
    """Of a model's own tokenizer; [SEP] and [CLS], or the ends of a text where those go by other names."""
    tokenizer: Any = model.tokenizer
    separator = tokenizer.eos_token_id if tokenizer.sep_token_id is None else tokenizer.sep_token_id
    first = tokenizer.bos_token_id if tokenizer.cls_token_id is None else tokenizer.cls_token_id
    ends = (separator, None if first == separator else first)
    return vocabulary_places(tokenizer.get_vocab(), ends, set(tokenizer.all_special_ids))


def one_cell() -> Groups:
    """Everything in one cell."""
    return Groups(torch.zeros((), dtype=torch.int64), (1,))


def occurrences(state: State, stack: str) -> pl.DataFrame:
    """The sampled tokens with the rank of their frequency: id, rank, alpha, f (both mean over layers and heads)."""
    rows = _kept(state, stack)
    counts = state.of(Histogram, "given" if "given" in state else f"tokens@{stack}")
    number = rows[:, 0].long()
    count = counts.counts[0, VOCABULARY.index(number).long()]
    falling = (-counts.counts[0]).sort().values
    rank = torch.searchsorted(falling, -count) + 1  # 1 for the commonest; ties share the least
    table = pl.DataFrame(
        {"id": number.tolist(), "count": count.tolist(), "rank": rank.tolist(), "alpha": rows[:, 1].tolist(),
         "f": rows[:, 2].tolist()}
    )  # fmt: skip
    return table.filter(pl.col("count") > 0)


def by_vocabulary(state: State, stack: str) -> pl.DataFrame:
    """The sampled tokens with their places in the vocabulary: id, rank, kind (of MARKED), alpha, f."""
    schema = {"id": pl.Int64, "rank": pl.Float64, "kind": pl.String, "alpha": pl.Float64, "f": pl.Float64}
    if VOCABULARY_PLACES not in state:
        return pl.DataFrame(schema=schema)
    rows, places = _kept(state, stack), state.sums(VOCABULARY_PLACES).mean
    rows = rows[rows[:, 0] < places.shape[1]]
    rank, kind = places[:, rows[:, 0].long()]
    kinds = [MARKED[int(number)] for number in kind]
    columns = (rows[:, 0].long().tolist(), rank.tolist(), kinds, rows[:, 1].tolist(), rows[:, 2].tolist())
    return pl.DataFrame(dict(zip(schema, columns, strict=True)), schema=schema).filter(pl.col("rank") > 0)


def _kept(state: State, stack: str) -> Float[Tensor, "token 3"]:
    """Id, α and ‖f‖ of the sampled tokens, mean over layers.

    A small reservoir keeps the same tokens in every layer, as their hashes are those of document and place alone.
    """
    return torch.stack([layer.rows for layer in state.by_layer(Reservoir, "occurrences", stack)]).mean(0)


def frequency_correlations(state: State, stack: str) -> Iterator[tuple[str, int, float]]:
    """Spearman's ρ of rank and value, over occurrences as in the paper and over types (means of their occurrences).

    `vocabulary`: over occurrences, with ranks by the vocabulary.
    """
    table = occurrences(state, stack)
    types = table.group_by("id", maintain_order=True).mean()
    ranked = (("occurrences", table), ("types", types), ("vocabulary", by_vocabulary(state, stack)))
    for what, rows in ranked:
        for column in ("alpha", "f"):
            varies = rows["rank"].n_unique() > 1 and rows[column].n_unique() > 1
            rank, value = (rows[name].cast(pl.Float64).to_numpy() for name in ("rank", column))
            rho = float(spearman(rank, value)) if varies else math.nan
            yield f"{column}_{what}", rows.height, rho
