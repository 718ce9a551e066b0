"""Kobayashi et al. 2020, "Attention is Not Only a Weight" (https://arxiv.org/abs/2004.10102)."""

from __future__ import annotations

from statistics import median
from typing import Any

import polars as pl

from headwise.papers.claim import (
    Claim,
    Item,
    NotComparableError,
    Paper,
    Seen,
    Table,
    apart,
    asked,
    first_stack,
    least_of,
    percent,
    with_words,
)
from headwise.papers.data import translations, wikipedia
from headwise.papers.printed import correlations

PARKED = 0.2  # of all weight: a token with less is not where attention is parked


def part(table: Table, item: str, what: str) -> Table:
    return first_stack(table).filter((pl.col("paper") == item) & (pl.col("what") == what))


def mean(table: Table, item: str, what: str) -> float:
    return float(part(table, item, what)["value"].mean() or 0.0)  # pyright: ignore[reportArgumentType]


def spread_of_vectors(table: Table) -> Seen:
    values = part(table, "table1", "cv")["value"]
    return Seen(mean(table, "table1", "cv"), f"{values.min():.2f} to {values.max():.2f} by head")


def spread_of_inputs(table: Table) -> Seen:
    asked(part(table, "table4", "cv"))
    inputs, vectors = mean(table, "table4", "cv"), mean(table, "table1", "cv")
    return Seen(inputs / vectors, f"{inputs:.2f} for x, {vectors:.2f} for f(x)")


def lengths(table: Table, item: str) -> Table:
    """table1 or table4 as the paper has it: mean, sd, cv, max and min, a row a head or layer, the mean of all last."""
    rows = first_stack(table).filter(pl.col("paper") == item)
    wide = rows.pivot("what", index="name", values="value", maintain_order=True)
    return pl.concat([wide, wide.select(pl.lit("mean").alias("name"), pl.exclude("name").mean())])


def by_category(table: Table, what: str) -> dict[str, float]:
    """Mean over layers of what goes to each category in fig3."""
    rows = part(table, "fig3", what).group_by("category", maintain_order=True).agg(pl.col("value").mean())
    return dict(zip(rows["category"].to_list(), rows["value"].to_list(), strict=True))


def parked_token(table: Table) -> str:
    """The special category with most of the weight: where attention is parked, if anywhere."""
    weights = by_category(table, "alpha")
    return max((kind for kind in ("first", "separator") if kind in weights), key=lambda kind: weights[kind])


def parked_shares(table: Table) -> tuple[str, float, float]:
    """The parked token, its share of all weight, and its share of the summed norms."""
    kind = parked_token(table)
    sums = [by_category(table, what) for what in ("alpha", "norm")]
    weight, norm = (each[kind] / sum(value for name, value in each.items() if name != "all") for each in sums)
    return kind, weight, norm


def where_parked(table: Table) -> tuple[str, float, float]:
    kind, weight, norm = parked_shares(table)
    if weight < PARKED:
        raise NotComparableError(
            f"special tokens get too little here: over all heads {kind} tokens, which get most, have {percent(weight)} "
            f"of the weight, less than {percent(PARKED)} (single heads may park all the same: clark2019 fig2-top)"
        )
    return kind, weight, norm


def short_vectors(table: Table) -> Seen:
    kind, weight, norm = where_parked(table)
    words = f"{percent(weight)} of the weight, {percent(norm)} of the summed norms"
    return Seen(norm / weight, words, instead=f"{kind} tokens")


def at_odds(table: Table) -> Seen:
    rho = part(table, "table2", "rho")
    of = dict(zip(rho["category"].to_list(), rho["value"].to_list(), strict=True))
    words = ", ".join(f"{kind} {value:.2f}" for kind, value in of.items())
    kind, slack = where_parked(table)[0], mean(table, "table2", "error_bound")
    return Seen(of[kind], words, slack=slack, limits=(-1.0, 1.0), instead=f"{kind} tokens")


RANKED = {"vocabulary": ", ranks by the vocabulary", "occurrences": ""}


def by_rank(table: Table, column: str) -> tuple[float, str]:
    """Spearman's ρ with the rank of frequency: by the vocabulary as in the paper, else by counts (older results)."""
    found = [name for name in RANKED if part(table, "fig6", f"rho_{column}_{name}").height]
    name = found[0] if found else "occurrences"
    asked(part(table, "fig6", f"rho_{column}_{name}"))
    return mean(table, "fig6", f"rho_{column}_{name}"), RANKED[name]


def frequent_words(table: Table) -> Seen:
    rho, ranks = by_rank(table, "f")
    return Seen(rho, f"over occurrences{ranks}")


def weights_do_not_tell(table: Table) -> Seen:
    (f, ranks), (alpha, _) = by_rank(table, "f"), by_rank(table, "alpha")
    return Seen(abs(f) - abs(alpha), f"ρ {f:.2f} for ‖f(x)‖, {alpha:.2f} for the weight{ranks}")


def stretching(table: Table) -> Seen:
    """Of the weights alone: exact, so its interval is the number itself."""
    ratios = asked(part(table, "fig9", "ratio"))["value"].to_list()
    words = f"the least of the heads; {median(ratios):.1f} in the median"
    return Seen(min(ratios), words, min(ratios), min(ratios), len(ratios))


def errors(table: Table, quantity: str, position: str = "input") -> list[Seen]:
    """AER of the map of all heads together, argmax, by decoder layer, with its interval over pairs."""
    rows = table.filter(
        (pl.col("quantity") == quantity) & (pl.col("position") == position) & (pl.col("extraction") == "argmax")
        & pl.col("head").is_null() & pl.col("layer").is_not_null() & pl.col("aer").is_finite()
    )  # fmt: skip
    return [_error(row) for row in asked(rows).sort("layer").iter_rows(named=True)]


def _error(row: dict[str, Any]) -> Seen:
    return Seen(row["aer"], low=row["low"], high=row["high"])


def errors_by_layer(table: Table) -> Table:
    """table3 as the paper has it: AER in percent, a row a layer for the word just read, the mean of all last."""
    rows = table.filter(
        (pl.col("position") == "input") & (pl.col("extraction") == "argmax") & pl.col("head").is_null()
        & pl.col("layer").is_not_null() & pl.col("aer").is_finite()
    )  # fmt: skip
    rows = rows.sort("layer").select((pl.col("layer") + 1).cast(pl.String), "quantity", pl.col("aer") * 100)
    wide = rows.pivot("quantity", index="layer", values="aer", maintain_order=True)
    return pl.concat([wide, wide.select(pl.lit("mean").alias("layer"), pl.exclude("layer").mean())])


def of_gradients(table: Table) -> Table:
    """AER in percent of the maps made by gradients, with their intervals."""
    rows = table.filter(pl.col("quantity").str.contains("gradient") & pl.col("aer").is_finite())
    return rows.select("quantity", "position", "extraction", *(pl.col(name) * 100 for name in ("aer", "low", "high")))


def diagonal(table: Table) -> Seen:
    """The baseline that knows no words: source and target aligned by place."""
    rows = table.filter((pl.col("quantity") == "the diagonal") & pl.col("aer").is_finite())
    return _error(asked(rows).row(0, named=True))


def _told(values: list[Seen]) -> str:
    return " ".join(f"{100 * seen.value:.1f}" for seen in values)


def norms_align(table: Table) -> Seen:
    weights, norms, place = errors(table, "raw"), errors(table, "norm-sum"), diagonal(table)
    words = f"weights {_told(weights)}; norms {_told(norms)}; the diagonal {100 * place.value:.1f}"
    return with_words(apart(least_of(*weights, place), least_of(*norms)), words)


def early_layers_align(table: Table) -> Seen:
    norms, place = errors(table, "norm-sum"), diagonal(table)
    half = len(norms) // 2
    if not half:
        raise NotComparableError("there is one decoder layer only")
    best = norms.index(least_of(*norms))
    words = f"layer {best + 1} of {len(norms)} is the best (norms {_told(norms)}; the diagonal {100 * place.value:.1f})"
    return with_words(apart(least_of(*norms[half:], place), least_of(*norms[:half])), words)


def input_position(table: Table) -> Seen:
    read, to_come = (least_of(*errors(table, "norm-sum", place)) for place in ("input", "output"))
    words = f"{100 * read.value:.1f} for the word just read, {100 * to_come.value:.1f} for the word to come"
    return with_words(apart(least_of(to_come, diagonal(table)), read), words)


NORMS, ALIGNMENT = wikipedia("norms", lengths="texts"), translations("alignment")
PAIRED: dict[str, Any] = {"unit": "pairs", "least": 50, "control": "the diagonal, in the number", "form": "points"}
PAPER = Paper(
    "kobayashi2020",
    "Kobayashi, Kuribayashi, Yokoi and Inui 2020, Attention is Not Only a Weight",
    "https://arxiv.org/abs/2004.10102",
    (
        Item("table1", "how long ‖f(x)‖ is, per head", NORMS, (), (
            Claim("the lengths of transformed vectors vary", "coefficient of variation 0.22 on average, .12 to .37",
                  "coefficient of variation of ‖f(x)‖, mean over heads", spread_of_vectors, above=0.2, form="number"),
        ), rows=lambda table: lengths(table, "table1")),
        Item("table4", "how long ‖x‖ is, per layer", NORMS, (), (
            Claim("the inputs vary less than what the heads make of them", "0.12 against 0.22",
                  "coefficient of variation of ‖x‖ over that of ‖f(x)‖", spread_of_inputs, below=0.8, form="number"),
        ), rows=lambda table: lengths(table, "table4")),
        Item("fig3", "weights and norms by category and layer", NORMS, ("fig3",), (
            Claim("special tokens get much weight and send short vectors", "[SEP]: most of the weight, little norm",
                  f"share of the summed norms over share of the weight, of the special token that gets most (at least "
                  f"{percent(PARKED)})", short_vectors,
                  below=0.5),
        )),
        Item("table2", "Spearman correlation of α and ‖f(x)‖", NORMS, ("table2",), (
            Claim("weight and length are at odds on special tokens",
                  "−.34 [CLS], −.69 [SEP], −.25 punctuation, −.06 other",
                  f"ρ on the special token that gets most weight (at least {percent(PARKED)}), its error bound in the "
                  "interval", at_odds, below=-0.2, form="number"),
        ), rows=correlations),
        Item("fig4", "weights and lengths, layers × heads", NORMS, ("fig4", "fig10", "fig11", "fig12"),
             also=("fig10–12",)),
        Item("fig5", "α against ‖f(x)‖, a sample of pairs", NORMS, ("fig5",)),
        Item("fig6", "frequency of a word against α and ‖f(x)‖", NORMS, ("fig6",), (
            Claim("frequent words send short vectors", "ρ .75 between frequency rank and ‖f(x)‖",
                  "ρ of frequency rank and ‖f(x)‖", frequent_words, above=0.5, form="number"),
            Claim("weights do not tell frequent words", "ρ −.08",
                  "|ρ| of lengths less |ρ| of weights", weights_do_not_tell, above=0.2, form="number"),
        )),
        Item("fig9", "singular values of the map f", NORMS, ("fig9",), (
            Claim("f stretches some directions much more than others", "largest/smallest 1.8 or more",
                  "largest over smallest singular value, the least of the heads", stretching, above=1.8, unit="heads",
                  least=4, form="number"),
        )),
        Item("fig7", "alignment error by decoder layer", ALIGNMENT, ("fig7", "table3"), (
            Claim("norms align words better than weights do (AER %, layers 1–6)",
                  "weights 76.2 80.1 51.9 92.1 93.5 94.4; norms 32.5 28.3 42.7 87.0 88.6 90.5",
                  "AER of the best layer by weights, or of the diagonal if that is lower, less that by norms",
                  norms_align, above=0.05, **PAIRED),
            Claim("early decoder layers align, late ones do not", "layer 2 of 6 is the best",
                  "AER by norms of the best later layer, or of the diagonal, less that of the best in the first half",
                  early_layers_align, above=0.0, **PAIRED),
            Claim("a decoder state aligns with the word it has read, not with the one to come",
                  "input position is better",
                  "AER by norms for the word to come, or of the diagonal, less that for the word just read",
                  input_position, above=0.0, **PAIRED),
        ), also=("table3",), rows=errors_by_layer),
        Item("smoothgrad", "alignment error of SmoothGrad with 30 samples (table3)",
             translations("alignment", head=True, gradients=("smooth-gradient",), samples=30), ("fig7", "table3"),
             rows=of_gradients),
        Item("fig8", "soft alignments beside the reference", ALIGNMENT, ("fig8", "fig13-17"), also=("fig13–17",)),
    ),
)  # fmt: skip
