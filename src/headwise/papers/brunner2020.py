"""Brunner et al. 2020, "On Identifiability in Transformers" (https://arxiv.org/abs/1908.04211)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from headwise.papers.claim import (
    TWO,
    Claim,
    Item,
    Job,
    NotComparableError,
    Paper,
    Seen,
    Table,
    TooLittleError,
    apart,
    asked,
    first_stack,
    percent,
    with_words,
)
from headwise.papers.data import (
    COLA,
    COLA_GET,
    MNLI,
    MNLI_GET,
    MRPC,
    MRPC_GET,
    WIKITEXT,
    WIKITEXT_GET,
    paraphrases,
    wikipedia,
)
from headwise.papers.pictures import SHARES, another_attention, raw_effective_null, with_less_data
from headwise.studies.identity.figures import two_models

PEAK = 0.2  # of a layer's attention: less is no peak
LONGER = 1.5  # times the shortest texts: less is no sweep over lengths


def mean_by_length(table: Table, item: str, what: str) -> Table:
    """The mean over layers and heads, per bucket of lengths; a bucket without texts has no length."""
    rows = first_stack(table).filter((pl.col("paper") == item) & (pl.col("what") == what))
    rows = rows.filter(pl.col("length").is_finite() & pl.col("value").is_finite())
    return rows.group_by(pl.col("length").round(2)).agg(pl.col("value").mean()).sort("length")


def check_room(table: Table) -> None:
    """Up to the head size nothing is in the null space, which is what the paper says of such texts."""
    free = mean_by_length(table, "rank", "null_dim") if "length" in table.columns else table.clear()
    if len(free) and free["value"][-1] < 0.5:
        raise TooLittleError("texts are not longer than the heads are wide")


def null_space(table: Table) -> Seen:
    """A share of the tokens, not a count: that would vary with the lengths of the texts."""
    rank, free = mean_by_length(table, "rank", "rank"), mean_by_length(table, "rank", "null_dim")
    length, most, left = rank["length"][-1], rank["value"][-1], free["value"][-1]
    check_room(table)
    return Seen(left / length, f"{left:.1f} directions at {length:.1f} tokens, of rank {most:.1f}", limits=(0.0, 1.0))


def freedom_by_layer(table: Table) -> Table:
    """§3.3 over the corpus: a row a layer, one of all, and of all a row a bucket of lengths; its four numbers."""
    rows = first_stack(table).filter(pl.col("paper") == "§3.3")
    keys = pl.format("{} keys", pl.col("length").round(0).cast(pl.Int64))
    rows = rows.filter(pl.col("length").is_null() | pl.col("layer").is_null())
    return rows.with_columns(name=pl.coalesce(keys, "name")).pivot("what", index="name", values="value")


def falling(table: Table) -> Seen:
    check_room(table)
    r = mean_by_length(table, "fig1a", "pearson")
    if not len(r) or r["length"][-1] < LONGER * r["length"][0]:
        raise TooLittleError(f"no texts are {LONGER:g} times as long as the shortest")
    first, last = r.row(0), r.row(-1)
    return Seen(last[1], f"at {last[0]:.0f} tokens, after {first[1]:.2f} at {first[0]:.0f}")


def peak_gone(table: Table) -> Seen:
    check_room(table)

    def layer_means(what: str, kind: str) -> list[float]:
        item = {"raw": "fig1b", "effective": "fig1c"}[what]
        rows = first_stack(table).filter(
            (pl.col("paper") == item) & (pl.col("what") == what) & (pl.col("category") == kind)
        )
        return rows.group_by("layer", maintain_order=True).agg(pl.col("value").mean())["value"].to_list()

    parked = {kind: max(layer_means("raw", kind), default=0.0) for kind in ("first", "separator")}
    kind = max(parked, key=lambda name: parked[name])
    if parked[kind] < PEAK:
        raise NotComparableError(f"there is no peak: at most {percent(parked[kind])} to {kind} tokens")
    layer = layer_means("raw", kind).index(parked[kind])
    effective = layer_means("effective", kind)[layer]
    words = f"in layer {layer}: {percent(parked[kind])} raw, {percent(effective)} effective"
    return Seen(effective / parked[kind], words, instead=f"{kind} tokens")


def rates(table: Table, *, kind: str = "linear", distance: str = "cosine") -> Table:
    tested = table.filter((pl.col("what") == "rate") & (pl.col("set") == "test"))
    return asked(tested.filter((pl.col("map") == kind) & (pl.col("distance") == distance)))


def own_rows(table: Table, **choice: str) -> list[Seen]:
    """Rates of maps tested on the layer they were learned on, or that need no learning, with intervals over folds."""
    rows = rates(table, **choice).filter((pl.col("layer") == pl.col("tested")) & (pl.col("offset") == 0))
    return [_rate(row) for row in asked(rows).sort("tested").iter_rows(named=True)]


def _rate(row: dict[str, Any]) -> Seen:
    return Seen(row["value"], low=row["low"], high=row["high"], limits=(0.0, 1.0))


def own_layers(table: Table, **choice: str) -> list[float]:
    return [seen.value for seen in own_rows(table, **choice)]


def told(values: list[float]) -> str:
    return ", ".join(f"{100 * value:.0f}" for value in values) + "\u00a0%"


def recovered(table: Table) -> Seen:
    layers = own_rows(table)
    worst = min(layers, key=lambda seen: seen.value)
    return with_words(worst, f"{told([seen.value for seen in layers])}, layer by layer")


def without_map(table: Table) -> Seen:
    """The layer at a third of the depth, rounded up: layer 4 of 12, 2 of 6."""
    layers = own_rows(table, kind="none")
    third = layers[(len(layers) + 2) // 3 - 1]
    return with_words(third, f"{told([seen.value for seen in layers])}, layer by layer")


def crossed(table: Table, learned: str, tested: str) -> Seen:
    """The rate of the first or last layer's map on the first or last layer."""
    square = rates(table).filter(pl.col("offset") == 0)
    number = {"first": 0, "last": square["tested"].max()}
    cell = square.filter((pl.col("layer") == number[learned]) & (pl.col("tested") == number[tested]))
    if cell.is_empty():
        raise NotComparableError("maps were not tested on other layers")
    return _rate(cell.row(0, named=True))


def first_map_fails(table: Table) -> Seen:
    own, up = crossed(table, "last", "last"), crossed(table, "first", "last")
    return with_words(apart(own, up), f"{own.value:.0%} by its own map, {up.value:.0%} by the first layer's")


def last_map_serves(table: Table) -> Seen:
    own, down = crossed(table, "last", "last"), crossed(table, "last", "first")
    return with_words(down, f"{own.value:.0%} on the last layer itself")


def neighbours(table: Table) -> Seen:
    rows = rates(table).filter((pl.col("layer") == pl.col("tested")) & (pl.col("offset") != 0))
    last = asked(rows.filter(pl.col("tested") == rows["tested"].max())).sort("offset")
    named = {row["offset"]: _rate(row) for row in last.iter_rows(named=True)}
    words = "after the last layer: " + ", ".join(f"{at:+d} {seen.value:.0%}" for at, seen in named.items())
    return with_words(max(named.values(), key=lambda seen: seen.value), words)


def mixing_rows(table: Table, kind: str, statistic: str) -> list[float]:
    """One value a layer; layers in which few tokens count (the last of a classifier: [CLS] alone) are left out."""
    rows = asked(table.filter((pl.col("kind") == kind) & (pl.col("statistic") == statistic) & (pl.col("group") == "")))
    rows = rows.filter(pl.col("layer").is_not_null())
    if "count" in rows.columns:
        rows = rows.filter(pl.col("count").is_null() | (2 * pl.col("count") >= pl.col("count").max()))
    return rows.sort("layer")["value"].to_list()


def mixtures(table: Table) -> Seen:
    medians, chance = mixing_rows(table, "own", "median"), mixing_rows(table, "own", "chance")
    return Seen(medians[0], f"median {told(medians)}, layer by layer (chance {percent(chance[0])})")


def own_share_falls(table: Table) -> Seen:
    medians = mixing_rows(table, "own", "median")
    if len(medians) < 2:
        raise NotComparableError("there is one layer only")
    return Seen(medians[-1] / medians[0], f"median {told(medians)}, layer by layer")


def not_own(table: Table) -> Seen:
    return _not_own(table, -1)


def own_at_first(table: Table) -> Seen:
    return _not_own(table, 0)


def _not_own(table: Table, at: int) -> Seen:
    """Tokens whose main origin the error of the estimate leaves open may be either: they widen the interval."""
    shares = mixing_rows(table, "not-own", "share")
    rows = table.filter((pl.col("kind") == "not-own") & (pl.col("statistic") == "unsure"))
    slack = 0.0 if rows.is_empty() else mixing_rows(table, "not-own", "unsure")[at]
    open_ = "" if rows.is_empty() else f"; {percent(slack)} of the tokens are open by the error of the estimate"
    return Seen(shares[at], f"{told(shares)}, layer by layer{open_}", slack=slack, limits=(0.0, 1.0))


def near_shares(table: Table) -> list[float]:
    """Of what is not a token's own, how much comes from within five tokens, layer by layer."""
    rows = asked(table.filter((pl.col("kind") == "offset") & pl.col("layer").is_not_null()))
    near = rows.filter(pl.col("group").is_in([str(at) for at in range(-5, 6) if at]))
    return near.group_by("layer", maintain_order=True).agg(pl.col("value").sum()).sort("layer")["value"].to_list()


def local(table: Table) -> Seen:
    shares = near_shares(table)
    return Seen(shares[0], f"{told(shares)}, layer by layer")


def less_local(table: Table) -> Seen:
    shares = near_shares(table)
    return Seen(shares[-1] / shares[0], f"{told(shares)}, layer by layer")


NULL, IDENTITY, MIXING = (
    wikipedia("nullspace"),
    paraphrases("identity", solver="newton"),
    paraphrases("mixing", texts=0, example="0*7"),
)
PREVIOUS = paraphrases("identity", solver="newton", target="previous")
ADAM: dict[str, Any] = {"solver": "adam", "folds": 1}  # the paper has 10 folds: --set folds=10, and much patience
LESS = tuple(
    paraphrases("identity", maps=("linear", "mlp"), distances=("cosine",), cross=False, fraction=share, **ADAM)
    for share in SHARES
)
LENGTHS = Job("nullspace", WIKITEXT, WIKITEXT_GET, run={"truncate": True, "max_tokens": 512})  # paragraphs as they are
FREE = replace(LENGTHS, settings={"intervals": 1, "bucket": 32})
INFERENCE: dict[str, Any] = {"columns": ("sentence1", "sentence2")}  # MNLI, or any tsv whose columns have these names
SURE = paraphrases("mixing", texts=0, tangents=4, unsure=0.05)  # k is chosen by its error before fig3b is judged
OWN = (
    Claim("hidden tokens are mixtures from the first layer on", "median 30.6 % after layer 1",
          "median share of a token in itself after the first layer", mixtures, below=0.5),
    Claim("a token's own share falls with depth", "medians 30.6, 14.4, 10.7 % (layers 1, 6, 12)",
          "median share after the last layer over that after the first", own_share_falls, below=0.75),
)  # fmt: skip
LEARNED = 100  # texts from which a map is learned, at the least
RECOVERED = Claim(
    "a linear map recovers the token in every layer", "93 % after the last layer (cosine)",
    "rate of the map that was learned (solver=newton learns a better one), in the worst layer", recovered, above=0.9,
    unit="folds", least=4, texts=LEARNED,
)  # fmt: skip
PAPER = Paper(
    "brunner2020",
    "Brunner, Liu, Pascual, Richter, Ciaramita and Wattenhofer 2020, On Identifiability in Transformers",
    "https://arxiv.org/abs/1908.04211",
    (
        Item("rank", "rank of T and dimension of its null space (§3.1–3.2)", NULL, ("rank",), (
            Claim("beyond the head size, attention is not identifiable", "null space of n − d_v or more dimensions",
                  "directions of a row that change nothing, over the number of tokens, of the longest texts",
                  null_space, above=0.01),
        ), also=("§3.1–3.2",)),
        Item("alternative", "another attention, the same output: of one head, and how free rows are (§3.3)", FREE,
             ("maps", "freedom"), also=("§3.3",), pictures=another_attention, rows=freedom_by_layer),
        Item("fig1a", "raw against effective attention, by length", LENGTHS, ("fig1a",), (
            Claim("raw and effective attention part as texts grow", "r = 1 up to 64 tokens, falling after",
                  "Pearson's r of the longest texts", falling, below=0.9, form="number"),
        )),
        Item("fig1bc", "where effective attention goes", NULL, ("fig1b", "fig1c", "fig5"), (
            Claim("the peak on the parked token is not in effective attention", "[SEP]: gone",
                  "effective over raw attention to it, in the layer where the raw one is largest", peak_gone,
                  below=0.5),
        ), also=("fig1b", "fig1c", "fig5")),
        Item("fig6", "raw, effective and null maps of a head", NULL, ("maps",), pictures=raw_effective_null),
        Item("fig2a", "can the input token be recovered", IDENTITY, ("fig2a",), (
            RECOVERED,
            Claim("without a map it can be told in the lower third", "up to layer 4 of 12",
                  "rate without a map at a third of the depth", without_map, above=0.9, unit="folds", least=4),
        )),
        Item("fig2b", "maps tested on other layers", IDENTITY,
             ("fig2b", "fig8", "matrix-linear-cosine"), (
            Claim("the first layer's map does not serve the last", "below 70 against 93 %",
                  "rate on the last layer of its own map less that of the first layer's", first_map_fails, above=0.1,
                  unit="folds", least=4, form="points", texts=LEARNED),
            Claim("the last layer's map serves the first", "94 %, rising downwards",
                  "rate of the last layer's map on the first", last_map_serves, above=0.9, unit="folds", least=4,
                  texts=LEARNED),
        ), also=("fig8",)),
        Item("fig9", "fig2 as the paper trains it: linear maps and MLPs by Adam, on their own and on other layers",
             paraphrases("identity", maps=("none", "linear", "mlp"), **ADAM),
             ("fig2a", "fig2b", "fig8", "fig9", "fig10"), also=("fig10", "fig8–10")),
        Item("fig7", "train and test rates, linear maps and MLPs",
             paraphrases("identity", maps=("linear", "mlp"), sets=("test", "train"), cross=False, **ADAM), ("fig7",)),
        Item("B.2", "with 50, 80, 90 and 100 % of the data", LESS[-1], ("fractions",), pictures=with_less_data,
             beside=LESS[:-1]),
        Item("fig11", "from a layer to the one below", PREVIOUS, ("fig11",), (
            Claim("the layer below can be recovered", "nearly always", "rate in the worst layer", recovered, above=0.9,
                  unit="folds", least=4, texts=LEARNED),
        )),
        Item("fig12", "the same of a model fine-tuned on MRPC, beside the one that it came from", PREVIOUS, (TWO,),
             against=two_models),
        Item("fig13", "the same of a model fine-tuned on CoLA, on CoLA",
             Job("identity", COLA, COLA_GET, PREVIOUS.settings, corpus={"columns": (3,)}), (TWO,), against=two_models),
        Item("fig14", "neighbours of the token",
             paraphrases("identity", maps=("linear",), solver="newton", folds=4, offsets=(-3, -2, -1, 1, 2, 3)),
             ("fig14", "fig17"), (
            Claim("neighbours are recovered less well than the token", "far below the token itself",
                  "rate of the best neighbour after the last layer", neighbours, below=0.9, unit="folds", least=4,
                  texts=LEARNED),
        ), also=("fig17",)),
        Item("fig15", "neighbours by linear maps and MLPs, trained by Adam",
             paraphrases("identity", maps=("linear", "mlp"), offsets=(-3, -2, -1, 1, 2, 3), cross=False, **ADAM),
             ("fig14", "fig15", "fig16", "fig17"), also=("fig16", "fig14–17")),
        Item("fig3a", "a token's share in its own hidden token", MIXING, ("fig3a",), OWN),
        Item("fig3b", "tokens that are not their own main part", SURE, ("fig3b",), (
            Claim("after the first layer every token is mainly itself", "0 in layers 1–3",
                  "share of tokens that are not their own main part, first layer", own_at_first, below=0.02),
            Claim("deep tokens are often not mainly themselves", "30 % in layers 11–12",
                  "share of tokens that are not their own main part, last layer", not_own, above=0.1),
        )),
        Item("fig4a", "share of neighbours by distance", MIXING, ("fig4a",)),
        Item("fig4b", "share by signed offset", MIXING, ("fig4b",), (
            Claim("mixing is mostly local", "most contributions come from near tokens",
                  "of what is not a token's own, from within five tokens, after the first layer", local, above=0.5),
            Claim("less so with depth", "the last layers reach farther",
                  "the same after the last layer over that after the first", less_local, below=0.9),
        )),
        Item("fig18", "what [CLS] is made of", MIXING, ("fig18",)),
        Item("fig19", "the context of seven tokens of a text, layer by layer", MIXING,
             tuple(f"fig{number}" for number in range(19, 26)), also=("fig19–25",)),
        Item("fig26", "shares by part of speech",
             Job("mixing", MRPC, MRPC_GET, {"texts": 0, "tags": "spacy"}), ("fig26-37",), also=("fig26–37",)),
        Item("fig38", "the same on CoLA",
             Job("identity", COLA, COLA_GET, {"solver": "newton"}, corpus={"columns": (3,)}), ("fig2a",),
             (replace(RECOVERED, theirs="chance is 1 / mean length"),), also=("fig38–39",)),
        Item("fig40", "mixing on CoLA",
             Job("mixing", COLA, COLA_GET, {"texts": 0}, corpus={"columns": (3,)}),
             ("fig3a", "fig3b", "fig4a", "fig4b"), tuple(replace(claim, theirs="as on MRPC") for claim in OWN),
             also=("fig40–43",)),
        Item("mnli-identity", "fig38–39 on MNLI",
             Job("identity", MNLI, MNLI_GET, {"solver": "newton"}, corpus=INFERENCE), ("fig2a",),
             (replace(RECOVERED, theirs="as on MRPC"),)),
        Item("mnli-mixing", "fig40–43 on MNLI", Job("mixing", MNLI, MNLI_GET, {"texts": 0}, corpus=INFERENCE),
             ("fig3a", "fig3b", "fig4a", "fig4b"), tuple(replace(claim, theirs="as on MRPC") for claim in OWN)),
    ),
)  # fmt: skip
