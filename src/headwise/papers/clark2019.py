"""Clark et al. 2019, "What Does BERT Look At?" (https://arxiv.org/abs/1906.04341)."""

from __future__ import annotations

import polars as pl

from headwise.papers.claim import Claim, Found, Item, Job, Paper, Table, asked, first_stack, graded, heads, percent
from headwise.papers.data import EWT, EWT_GET, GUM, GUM_GET, wikipedia


def raw(table: Table) -> Table:
    return asked(first_stack(table).filter(pl.col("quantity") == "raw"))


def by_layer(table: Table, column: str) -> list[float]:
    """The mean over the heads of each layer."""
    return table.group_by("layer", maintain_order=True).agg(pl.col(column).mean())[column].to_list()


def relative_position(table: Table) -> Found:
    previous, following = (raw(table).filter(pl.col(way) > 0.5) for way in ("previous", "next"))
    words = f"previous: {heads(previous)}; next: {heads(following)}"
    return Found(words, graded([bool(len(previous)), bool(len(following))]))


def separator(table: Table) -> Found:
    layers = by_layer(raw(table), "to_separator")
    first = by_layer(raw(table), "to_first")
    words = (
        f"at most {percent(max(layers))} to separators (mean of layer {layers.index(max(layers))}); "
        f"to the first token at most {percent(max(first))} (layer {first.index(max(first))})"
    )
    return Found(words, "holds" if max(layers) > 0.5 else "does not hold")


def parking(table: Table) -> Found:
    chosen = raw(table).filter(pl.max_horizontal("to_first", "to_separator") > 0.5)
    return Found(f"{len(chosen)} heads: {heads(chosen)}", "holds" if len(chosen) else "does not hold")


def separator_to_itself(table: Table) -> Found:
    there = raw(table).filter(pl.col("to_separator") > 0.5)
    if not len(there):
        return Found("no head gives separators over half of its attention", "not comparable")
    share = float(there["separator_to_separator"].mean() or 0.0)  # pyright: ignore[reportArgumentType]
    return Found(f"{percent(share)} in the {len(there)} heads that attend to them", graded([share > 0.9]))


def broad_first(table: Table) -> Found:
    layers = by_layer(raw(table), "entropy")
    words = f"{layers[0]:.2f} nats in layer 0, {min(layers):.2f} at the least (layer {layers.index(min(layers))})"
    return Found(words, "holds" if layers[0] > sum(layers) / len(layers) else "does not hold")


def broad_summary(table: Table) -> Found:
    layers = by_layer(raw(table), "entropy_from_first")
    if len(layers) < 2 or not all(value > 0 for value in layers):
        return Found("there is no [CLS], or the first token sees only itself", "not comparable")
    words = (
        f"{layers[-1]:.2f} nats in the last layer, {sum(layers[:-1]) / (len(layers) - 1):.2f} in the mean of the others"
    )
    return Found(words, "holds" if layers[-1] > sum(layers[:-1]) / (len(layers) - 1) else "does not hold")


def near_within_layers(table: Table) -> Found:
    pairs = first_stack(table).filter(pl.col("a") != pl.col("b"))
    same = pairs.filter(pl.col("layer_a") == pl.col("layer_b"))["js"].mean()
    other = pairs.filter(pl.col("layer_a") != pl.col("layer_b"))["js"].mean()
    if same is None or other is None:
        return Found("one layer or one head only", "not comparable")
    words = f"mean Jensen-Shannon {same:.3f} nats within a layer, {other:.3f} between layers"
    return Found(words, "holds" if float(same) < float(other) else "does not hold")  # pyright: ignore[reportArgumentType]


def no_op(table: Table) -> Found:
    layers = by_layer(first_stack(table), "to_separator")
    if not any(value == value for value in layers):
        return Found("the texts have no separators", "not comparable")
    half = len(layers) // 2
    early, late = sum(layers[:half]) / max(half, 1), sum(layers[half:]) / max(len(layers) - half, 1)
    words = f"mean |∂loss/∂α| to separators {early:.2g} in the lower half of the layers, {late:.2g} in the upper"
    return Found(words, "holds" if late < early else "does not hold")


def relations(table: Table) -> Found:
    best = first_stack(table).filter(pl.col("best") & (pl.col("count") > 0))
    head = best.filter(pl.col("quantity") == "raw").select("relation", "accuracy")
    offset = best.filter(pl.col("quantity") == "offset").select("relation", offset="accuracy")
    both = head.join(offset, on="relation")
    won = both.filter(pl.col("accuracy") > pl.col("offset"))
    top = both.sort("accuracy", descending=True).head(3)
    named = ", ".join(f"{row[0]} {row[1]:.0%}/{row[2]:.0%}" for row in top.iter_rows())
    return Found(
        f"the best head beats the best offset in {len(won)} of {len(both)} relations; {named} (head/offset)",
        graded([2 * len(won) > len(both)]),
    )


def antecedents(table: Table) -> Found:
    all_mentions = first_stack(table).filter(pl.col("type") == "all")
    head = asked(all_mentions.filter((pl.col("quantity") == "raw") & pl.col("best")))["accuracy"].max()
    rules = all_mentions.filter(pl.col("quantity") == "rules")
    of = dict(zip(rules["name"].to_list(), rules["accuracy"].to_list(), strict=True))
    words = f"best head {head:.0%}; " + ", ".join(f"{name} {value:.0%}" for name, value in of.items())
    return Found(words, graded([float(head or 0.0) > of["nearest"]]))  # pyright: ignore[reportArgumentType]


def probes(table: Table) -> Found:
    scores = table.filter((pl.col("what") == "uas") & (pl.col("decoder") == "argmax"))
    asked(scores.filter(pl.col("quantity") == "raw"))
    of = {(row["probe"], row["quantity"]): float(row["value"]) for row in scores.iter_rows(named=True)}
    alone, vectors = of["attention", "raw"], of["attention+vectors", "raw"]
    right = next(value for (probe, _), value in of.items() if probe == "right-branching")
    words = f"attention {alone:.0f} %, with vectors {vectors:.0f} %, right-branching {right:.0f} %"
    return Found(words, graded([alone > right + 10, vectors > alone]))


SURFACE = wikipedia("surface")
SYNTAX = Job("syntax", EWT, EWT_GET)
PAPER = Paper(
    "clark2019",
    "Clark, Khandelwal, Levy and Manning 2019, What Does BERT Look At?",
    "https://arxiv.org/abs/1906.04341",
    (
        Item("fig1", "example heads as bipartite maps", None, command='headwise view "TEXT" -o fig1.html'),
        Item("rel-pos", "mean attention to the previous, same and next token", SURFACE, ("rel-pos",), (
            Claim("some heads put over half of their attention on the previous or the next token",
                  "previous: heads of layers 2, 4, 7, 8; next: of 1, 2, 2, 3, 6 (one-based)",
                  "at least one head each", relative_position),
        )),
        Item("fig2-top", "mean attention to [CLS], [SEP], periods and commas", SURFACE, ("fig2",), (
            Claim("over half of the attention of some layers goes to separators", "layers 6–10 (one-based)",
                  "the mean of a layer is over 50 %", separator),
            Claim("heads park attention on a special token", "[SEP]; [CLS] in low layers",
                  "some head gives the first token or separators over 50 %", parking),
        ), also=("fig2",)),
        Item("fig2-bottom", "from separators to separators, and from others", SURFACE, ("fig2-bottom",), (
            Claim("where separators are attended to, they attend to themselves", "over 90 %",
                  "over 90 % in the mean of heads that give separators over half", separator_to_itself),
        )),
        Item("fig3", "mean |∂loss/∂α| to special tokens, by layer",
             Job("importance", wikipedia("importance").data, wikipedia("importance").get, corpus={"segments": 128},
                 model="a model with a language-model head, loaded with --task masked-lm or causal-lm"), ("fig3",), (
            Claim("the loss hardly depends on attention to separators in the upper layers", "tiny from layer 5 on",
                  "smaller in the upper half of the layers than in the lower", no_op),
        )),
        Item("fig4", "entropy of the heads", SURFACE, ("fig4",), (
            Claim("low layers have broad heads", "the first layers are the broadest",
                  "layer 0 is above the mean of all layers", broad_first),
            Claim("from [CLS] the last layer is broad", "3.89 nats",
                  "the last layer is above the mean of the others", broad_summary),
        )),
        Item("table1", "every head as a dependency parser", SYNTAX, ("table1",), (
            Claim("a head per relation beats the best fixed offset", "in all 14 relations listed",
                  "in more than half of the relations", relations),
        )),
        Item("fig5", "maps of heads that do a relation", SYNTAX, ("heads-raw",)),
        Item("table2", "antecedents by attention",
             Job("coref", GUM, GUM_GET, run={"truncate": True, "max_tokens": 128}), ("table2",), (
            Claim("a head finds antecedents far better than the nearest mention", "65 against 27 %; rules 69 %",
                  "the best head is above the nearest mention", antecedents),
        )),
        Item("table3", "parsing from all heads together", Job("probe", EWT, EWT_GET), ("table3",), (
            Claim("all heads together parse far above right-branching, and better with vectors",
                  "UAS 61, with vectors 77, right-branching 26",
                  "more than 10 points above right-branching; vectors add", probes),
        )),
        Item("fig6", "all heads by their distances", wikipedia("distances"), ("fig6",), (
            Claim("heads of one layer are near each other", "seen in the plane of fig6",
                  "the mean distance within layers is smaller than between", near_within_layers),
        )),
    ),
)  # fmt: skip
