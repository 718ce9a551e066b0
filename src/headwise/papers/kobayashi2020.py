"""Kobayashi et al. 2020, "Attention is Not Only a Weight" (https://arxiv.org/abs/2004.10102)."""

from __future__ import annotations

from statistics import median

import polars as pl

from headwise.papers.claim import Claim, Found, Item, Paper, Table, asked, first_stack, graded, percent
from headwise.papers.data import translations, wikipedia


def part(table: Table, item: str, what: str) -> Table:
    return first_stack(table).filter((pl.col("paper") == item) & (pl.col("what") == what))


def mean(table: Table, item: str, what: str) -> float:
    return float(part(table, item, what)["value"].mean() or 0.0)  # pyright: ignore[reportArgumentType]


def spread_of_vectors(table: Table) -> Found:
    values = part(table, "table1", "cv")["value"]
    words = f"{values.mean():.2f} on average, {values.min():.2f} to {values.max():.2f}"
    return Found(words, graded([mean(table, "table1", "cv") >= 0.2]))


def spread_of_inputs(table: Table) -> Found:
    inputs, vectors = mean(table, "table4", "cv"), mean(table, "table1", "cv")
    return Found(f"{inputs:.2f} for x, {vectors:.2f} for f(x)", graded([inputs < vectors]))


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


def short_vectors(table: Table) -> Found:
    kind, weight, norm = parked_shares(table)
    words = f"{kind} tokens: {percent(weight)} of the weight, {percent(norm)} of the summed norms"
    return Found(words, graded([norm < weight / 2]))


def at_odds(table: Table) -> Found:
    rho = part(table, "table2", "rho")
    of = dict(zip(rho["category"].to_list(), rho["value"].to_list(), strict=True))
    bound = mean(table, "table2", "error_bound")
    told = ", ".join(f"{kind} {value:.2f}" for kind, value in of.items())
    kind = parked_token(table)
    return Found(f"{told} (error bound {bound:.2f})", graded([of[kind] < -0.2, of[kind] < of.get("other", 0.0) - 0.2]))


def frequent_words(table: Table) -> Found:
    f, alpha = mean(table, "fig6", "rho_f_occurrences"), mean(table, "fig6", "rho_alpha_occurrences")
    return Found(f"{f:.2f} for ‖f(x)‖, {alpha:.2f} for the weight", graded([f > 0.5, abs(alpha) < abs(f)]))


def stretching(table: Table) -> Found:
    ratios = part(table, "fig9", "ratio")["value"].to_list()
    words = f"{min(ratios):.1f} at the least, {median(ratios):.1f} in the median"
    return Found(words, graded([min(ratios) >= 1.8, median(ratios) >= 1.8]))


def errors_by_layer(table: Table, quantity: str, position: str = "input") -> list[float]:
    """AER over all pairs of the map of all heads together, argmax, by decoder layer."""
    rows = table.filter(
        (pl.col("quantity") == quantity) & (pl.col("position") == position) & (pl.col("extraction") == "argmax")
        & pl.col("head").is_null() & pl.col("layer").is_not_null() & pl.col("all_aer").is_finite()
    )  # fmt: skip
    return asked(rows).sort("layer")["all_aer"].to_list()


def _errors(values: list[float]) -> str:
    return " ".join(f"{100 * value:.1f}" for value in values)


def norms_align(table: Table) -> Found:
    weights, norms = errors_by_layer(table, "raw"), errors_by_layer(table, "norm-sum")
    better = [min(norms) < min(weights) - 0.05, sum(norms) < sum(weights)]
    return Found(f"weights {_errors(weights)}; norms {_errors(norms)}", graded(better))


def early_layers_align(table: Table) -> Found:
    norms = errors_by_layer(table, "norm-sum")
    best = norms.index(min(norms))
    words = f"layer {best + 1} of {len(norms)} is the best (norms {_errors(norms)})"
    return Found(words, graded([best + 1 <= len(norms) / 2]))


def input_position(table: Table) -> Found:
    least = {place: min(errors_by_layer(table, "norm-sum", place)) for place in ("input", "output")}
    words = f"{100 * least['input']:.1f} for the word just read, {100 * least['output']:.1f} for the word to come"
    return Found(words, graded([least["input"] < least["output"]]))


NORMS, ALIGNMENT = wikipedia("norms"), translations("alignment")
PAPER = Paper(
    "kobayashi2020",
    "Kobayashi, Kuribayashi, Yokoi and Inui 2020, Attention is Not Only a Weight",
    "https://arxiv.org/abs/2004.10102",
    (
        Item("table1", "how long ‖f(x)‖ is, per head", NORMS, (), (
            Claim("the lengths of transformed vectors vary: coefficient of variation", "0.22 on average, .12 to .37",
                  "0.2 or more on average", spread_of_vectors),
        )),
        Item("table4", "how long ‖x‖ is, per layer", NORMS, (), (
            Claim("the inputs vary less than what the heads make of them", "0.12 against 0.22",
                  "a smaller coefficient of variation", spread_of_inputs),
        )),
        Item("fig3", "weights and norms by category and layer", NORMS, ("fig3",), (
            Claim("special tokens get much weight and send short vectors", "[SEP]: most of the weight, little norm",
                  "the parked token's share of the norms is less than half of its share of the weight", short_vectors),
        )),
        Item("table2", "Spearman correlation of α and ‖f(x)‖", NORMS, ("table2",), (
            Claim("weight and length are at odds on special tokens",
                  "−.34 [CLS], −.69 [SEP], −.25 punctuation, −.06 other",
                  "below −0.2 on the parked token, and 0.2 below that of other tokens", at_odds),
        )),
        Item("fig4", "weights and lengths, layers × heads", NORMS, ("fig4", "fig10", "fig11", "fig12"),
             also=("fig10–12",)),
        Item("fig5", "α against ‖f(x)‖, a sample of pairs", NORMS, ("fig5",)),
        Item("fig6", "frequency of a word against α and ‖f(x)‖", NORMS, ("fig6",), (
            Claim("frequent words send short vectors; weights do not tell", "ρ .75 with ‖f(x)‖, −.08 with α",
                  "over 0.5 for lengths, and smaller for weights (over occurrences)", frequent_words),
        )),
        Item("fig9", "singular values of the map f", NORMS, ("fig9",), (
            Claim("f stretches some directions much more than others", "largest/smallest 1.8 or more",
                  "1.8 or more in every head; in part: in the median head", stretching),
        )),
        Item("fig7", "alignment error by decoder layer", ALIGNMENT, ("fig7", "table3"), (
            Claim("norms align words better than weights do (AER %, layers 1–6)",
                  "weights 76.2 80.1 51.9 92.1 93.5 94.4; norms 32.5 28.3 42.7 87.0 88.6 90.5",
                  "the best layer at least 5 points better, and the mean over layers better; in part: one of these",
                  norms_align),
            Claim("early decoder layers align, late ones do not", "layer 2 of 6 is the best",
                  "the best layer is in the first half", early_layers_align),
            Claim("a decoder state aligns with the word it has read, not with the one to come",
                  "input position is better", "a lower error of norms in the best layer", input_position),
        ), also=("table3",)),
        Item("fig8", "soft alignments beside the reference", ALIGNMENT, ("fig8",), also=("fig13–17",)),
    ),
)  # fmt: skip
