"""Clark et al. 2019, "What Does BERT Look At?" (https://arxiv.org/abs/1906.04341)."""

from __future__ import annotations

import polars as pl

from headwise.papers.claim import (
    Claim,
    Item,
    Job,
    NotComparableError,
    Paper,
    Seen,
    Table,
    apart,
    asked,
    first_stack,
    heads,
    percent,
    with_words,
)
from headwise.papers.data import EWT, EWT_GET, EWT_TRAIN, GUM, GUM_GET, wikipedia
from headwise.papers.pictures import heads_by_name, heads_of_relations, heads_that_stand_out
from headwise.papers.printed import antecedents_by_type, best_of_relations, parsers
from headwise.results.shown import finite, shown
from headwise.stats.shares import of_share

RANGE = "the range of the seeds, of both terms, which is no 95 % interval"
FEW_PAIRS = 50  # a relation with fewer tells nothing


def raw(table: Table) -> Table:
    return asked(first_stack(table).filter(pl.col("quantity") == "raw"))


def by_layer(table: Table, column: str) -> list[float]:
    """The mean over the heads of each layer."""
    return table.group_by("layer", maintain_order=True).agg(pl.col(column).mean())[column].to_list()


def most(table: Table, column: str) -> float:
    """The largest number of a column; NaN where there is none."""
    values = [value for value in table[column].to_list() if value is not None and value == value]
    return max(values, default=float("nan"))


def relative_position(table: Table) -> Seen:
    """In a causal model no token sees the next one: there the previous token decides alone."""
    rows = raw(table)
    previous, following = most(rows, "previous"), most(rows, "next")
    words = f"previous: {heads(rows.filter(pl.col('previous') > 0.5))}"
    if following == 0:
        return Seen(previous, words, instead="the previous token only: the next is not seen")
    return Seen(min(previous, following), f"{words}; next: {heads(rows.filter(pl.col('next') > 0.5))}")


def separator(table: Table) -> Seen:
    layers, first = (by_layer(raw(table), f"to_{kind}") for kind in ("separator", "first"))
    if not max(layers) > 0:
        raise NotComparableError("the texts have no separators")
    words = (
        f"the mean of layer {layers.index(max(layers))}; "
        f"to the first token at most {percent(max(first))} (layer {first.index(max(first))})"
    )
    return Seen(max(layers), words)


def parking(table: Table) -> Seen:
    """The kind of token on which the one head parks that parks most is told: not all that `special token` means."""
    rows = shown(raw(table)).with_columns(parked=pl.max_horizontal("to_first", "to_separator"))
    chosen = rows.filter(pl.col("parked") > 0.5)
    kind = max(("first", "separator"), key=lambda kind: _or_least(most(rows, f"to_{kind}")))
    instead = f"{kind} tokens, over half in {len(chosen)} of {len(rows)} heads"
    return Seen(most(rows, "parked"), f"over half: {heads(chosen)}", instead=instead)


def _or_least(value: float) -> float:
    return value if value == value else float("-inf")


def separator_to_itself(table: Table) -> Seen:
    rows = finite(raw(table), "to_separator")
    there = rows.filter(pl.col("to_separator") > 0.5)
    if not most(rows, "to_separator") > 0:
        raise NotComparableError("the texts have no separators")
    if not len(there):
        raise NotComparableError("no head gives separators over half of its attention")
    share = float(there["separator_to_separator"].mean() or 0.0)  # pyright: ignore[reportArgumentType]
    return Seen(share, f"mean of the {len(there)} heads that attend to separators")


def broad_first(table: Table) -> Seen:
    """The first third of the layers, rounded up (layers 0 and 1 of 6), against the rest."""
    layers = by_layer(raw(table), "entropy")
    if len(layers) < 2:
        raise NotComparableError("there is one layer only")
    third = (len(layers) + 2) // 3
    low, rest = (sum(some) / len(some) for some in (layers[:third], layers[third:]))
    words = f"{low:.2f} nats in the first third of the layers, {rest:.2f} in the rest ({_by_layer(layers)})"
    return Seen(low - rest, words)


def _by_layer(layers: list[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in layers) + ", layer by layer"


def broad_summary(table: Table) -> Seen:
    layers = by_layer(raw(table), "entropy_from_first")
    if len(layers) < 2 or not all(value > 0 for value in layers):
        raise NotComparableError("there is no [CLS], or the first token sees only itself")
    rest = sum(layers[:-1]) / (len(layers) - 1)
    return Seen(layers[-1] - rest, f"{layers[-1]:.2f} nats in the last layer, {rest:.2f} in the mean of the others")


def near_within_layers(table: Table) -> Seen:
    pairs = first_stack(table).filter(pl.col("a") != pl.col("b"))
    same = pairs.filter(pl.col("layer_a") == pl.col("layer_b"))["js"].mean()
    other = pairs.filter(pl.col("layer_a") != pl.col("layer_b"))["js"].mean()
    if same is None or other is None:
        raise NotComparableError("there is one layer or one head only")
    near, far = float(same), float(other)  # pyright: ignore[reportArgumentType]
    return Seen(far / near - 1, f"mean Jensen-Shannon {near:.3f} nats within a layer, {far:.3f} between layers")


def no_op(table: Table) -> Seen:
    """Separators, or where there are none (a causal model) the first token, on which it parks."""
    rows = first_stack(table)
    upper = rows.filter(2 * (pl.col("layer") + 1) > pl.col("layer").max() + 1)
    of = {kind: by_layer(upper.filter(pl.col(f"to_{kind}").is_not_nan()), f"to_{kind}")
          for kind in ("separator", "first", "other")}  # fmt: skip
    kind = "separator" if of["separator"] else "first"
    if not of[kind] or not of["other"]:
        raise NotComparableError("the texts have no separators and no first token")
    parked, other = (sum(of[name]) / len(of[name]) for name in (kind, "other"))
    instead = "" if kind == "separator" else "the first token: there are no separators"
    return Seen(parked / other, f"{kind} tokens {parked:.2g}, other tokens {other:.2g}", instead=instead)


def relations(table: Table) -> Seen:
    best = first_stack(table).filter(pl.col("best") & (pl.col("count") >= FEW_PAIRS))
    best = best.filter(~pl.col("relation").str.starts_with("all"))
    head = asked(best.filter(pl.col("quantity") == "raw")).select("relation", "accuracy", "low")
    offset = best.filter(pl.col("quantity") == "offset").select("relation", offset="accuracy", offset_low="low")
    both = shown(head.join(offset, on="relation"))
    won = len(both.filter(pl.col("low") > pl.col("offset")))
    lost = len(both.filter(pl.col("offset_low") > pl.col("accuracy")))
    top = both.sort("accuracy", descending=True).head(3)
    named = ", ".join(
        f"{row['relation']} {row['accuracy']:.0%}/{row['offset']:.0%}" for row in top.iter_rows(named=True)
    )
    low, high = of_share(won, len(both))
    return Seen(
        won / max(1, len(both)), f"{named} (head/offset)", low, high, len(both), controls=(lost / max(1, len(both)),)
    )


def antecedents(table: Table) -> Seen:
    rows = first_stack(table).filter(pl.col("type") == "all")
    head = asked(rows.filter((pl.col("quantity") == "raw") & pl.col("best"))).sort("accuracy").row(-1, named=True)
    rules = {row["name"]: row for row in rows.filter(pl.col("quantity") == "rules").iter_rows(named=True)}
    words = f"{head['name']} {head['accuracy']:.0%}; " + ", ".join(
        f"{name} {row['accuracy']:.0%}" for name, row in rules.items()
    )
    seen, nearest = (Seen(row["accuracy"], low=row["low"], high=row["high"]) for row in (head, rules["nearest"]))
    return with_words(apart(seen, nearest), words, n=int(head["count"]))


def uas(table: Table, probe: str, quantity: str | None = None) -> Seen:
    """UAS of a probe as a share; the interval is its range over seeds."""
    rows = table.filter((pl.col("what") == "uas") & (pl.col("decoder") == "argmax") & (pl.col("probe") == probe))
    row = asked(rows.filter(pl.col("quantity") == quantity) if quantity else rows).row(0, named=True)
    return Seen(row["value"] / 100, low=row["low"] / 100, high=row["high"] / 100)


def attention_parses(table: Table) -> Seen:
    alone, right = uas(table, "attention", "raw"), uas(table, "right-branching")
    control = uas(table, "untrained+vectors").value - right.value
    words = f"attention {alone.value:.0%}, right-branching {right.value:.0%}"
    return with_words(apart(alone, right), words, controls=(control,))


def vectors_add(table: Table) -> Seen:
    alone, both = uas(table, "attention", "raw"), uas(table, "attention+vectors", "raw")
    control = uas(table, "untrained+vectors").value - alone.value
    return with_words(
        apart(both, alone), f"{both.value:.0%} with vectors, {alone.value:.0%} without", controls=(control,)
    )


SURFACE = wikipedia("surface")
SYNTAX = Job("syntax", EWT, EWT_GET)
COREF = Job("coref", GUM, GUM_GET, run={"truncate": True, "max_tokens": 128})
PAPER = Paper(
    "clark2019",
    "Clark, Khandelwal, Levy and Manning 2019, What Does BERT Look At?",
    "https://arxiv.org/abs/1906.04341",
    (
        Item("fig1", "example heads as bipartite maps", SURFACE, ("maps",), pictures=heads_that_stand_out),
        Item("rel-pos", "mean attention to the previous, same and next token", SURFACE, ("rel-pos",), (
            Claim("some heads put over half of their attention on the previous, others on the next token",
                  "previous: heads of layers 2, 4, 7, 8; next: of 1, 2, 2, 3, 6 (one-based)",
                  "mean attention of the best head to the previous token, and to the next: the smaller (causal: the "
                  "previous alone)",
                  relative_position, above=0.5),
        ), also=("§3.1",)),
        Item("fig2-top", "mean attention to [CLS], [SEP], periods and commas", SURFACE, ("fig2",), (
            Claim("over half of the attention of some layers goes to separators", "layers 6–10 (one-based)",
                  "attention to separators, mean of the layer that gives most", separator, above=0.5),
            Claim("heads park attention on a special token", "[SEP]; [CLS] in low layers",
                  "attention to the first token or to separators, of the head that gives most", parking, above=0.5),
        ), also=("fig2",)),
        Item("fig2-bottom", "from separators to separators, and from others", SURFACE, ("fig2-bottom",), (
            Claim("where separators are attended to, they attend to themselves", "over 90 %",
                  "attention of separators to separators, in heads that give separators over half",
                  separator_to_itself, above=0.9),
        )),
        Item("fig3", "mean |∂loss/∂α| to special tokens, by layer",
             Job("importance", wikipedia("importance").data, wikipedia("importance").get, corpus={"segments": 128},
                 head=True, model="a model with a language-model head, loaded with --task masked-lm or causal-lm"),
             ("fig3",), (
            Claim("the loss hardly depends on attention to separators in the upper layers", "tiny from layer 5 on",
                  "mean |∂loss/∂α| to separators (none: to the first token) over that to other tokens, upper half of "
                  "the layers", no_op, below=0.5),
        )),
        Item("fig4", "entropy of the heads", SURFACE, ("fig4",), (
            Claim("low layers have broad heads", "the first layers are the broadest",
                  "mean entropy of the first third of the layers less that of the rest, nats", broad_first, above=0.25,
                  form="number"),
            Claim("from [CLS] the last layer is broad", "3.89 nats",
                  "entropy from [CLS] in the last layer less the mean of the others, nats", broad_summary, above=0.25,
                  form="number"),
        )),
        Item("table1", "every head as a dependency parser", SYNTAX, ("table1",), (
            Claim("a head per relation beats the best fixed offset", "in all 14 relations listed",
                  f"share of the relations (of {FEW_PAIRS} pairs or more) in which the best head's interval is above "
                  "the best offset", relations, above=0.5, unit="relations", least=10,
                  control="the best fixed offset, above the head"),
        ), rows=lambda table: best_of_relations(table, FEW_PAIRS)),
        Item("fig5", "maps of heads that do a relation", SYNTAX, ("maps",), pictures=heads_of_relations),
        Item("table2", "antecedents by attention", COREF, ("table2",), (
            Claim("a head finds antecedents far better than the nearest mention", "65 against 27 %; rules 69 %",
                  "accuracy of the best head less that of the nearest mention", antecedents, above=0.1,
                  unit="mentions", least=100, form="points"),
        ), rows=antecedents_by_type),
        Item("table3", "parsing from all heads together", Job("probe", EWT, EWT_GET, learns=EWT_TRAIN), ("table3",), (
            Claim("all heads together parse far above right-branching", "UAS 61 against 26",
                  "UAS of attention less that of right-branching", attention_parses, above=0.1, unit="seeds", least=3,
                  control="untrained attention with vectors", form="points", interval=RANGE),
            Claim("word vectors add much to attention", "UAS 77 against 61",
                  "UAS with vectors less UAS of attention alone", vectors_add, above=0.05, unit="seeds", least=3,
                  control="untrained attention with vectors", form="points", interval=RANGE),
        ), rows=parsers),
        Item("fig6", "all heads by their distances, and those that do a relation or find antecedents by name",
             wikipedia("distances"), ("fig6", "named"), (
            Claim("heads of one layer are near each other", "seen in the plane of fig6",
                  "mean distance between layers over that within, less 1", near_within_layers, above=0.1),
        ), pictures=heads_by_name, beside=(SYNTAX, COREF)),
    ),
)  # fmt: skip
