"""fig6: does frequency explain the weight that a token gets, or the length of the vector that it sends?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import torch

from headwise.errors import InputError
from headwise.models.model import Model
from headwise.stats import Groups, Histogram, LinearBins, Reservoir
from headwise.stats.spearman import spearman
from headwise.studies.study import State

VOCABULARY = LinearBins(0, 2**18, 2**18)  # ids of tokens; those from 262,144 on share the last bin


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


def one_cell() -> Groups:
    """Everything in one cell."""
    return Groups(torch.zeros((), dtype=torch.int64), (1,))


def occurrences(state: State, stack: str) -> pl.DataFrame:
    """The sampled tokens with the rank of their frequency: id, rank, alpha, f (both mean over layers and heads)."""
    layers = state.by_layer(Reservoir, "occurrences", stack)
    # A small reservoir keeps the same tokens in every layer, as their hashes are those of document and place alone.
    rows = torch.stack([layer.rows for layer in layers]).mean(0)
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


def frequency_correlations(state: State, stack: str) -> Iterator[tuple[str, int, float]]:
    """Spearman's ρ of rank and value, over occurrences as in the paper and over types (means of their occurrences)."""
    table = occurrences(state, stack)
    types = table.group_by("id", maintain_order=True).mean()
    for what, rows in (("occurrences", table), ("types", types)):
        for column in ("alpha", "f"):
            varies = rows["rank"].n_unique() > 1 and rows[column].n_unique() > 1
            rank, value = (rows[name].cast(pl.Float64).to_numpy() for name in ("rank", column))
            rho = float(spearman(rank, value)) if varies else math.nan
            yield f"{column}_{what}", rows.height, rho
