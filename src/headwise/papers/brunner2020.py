"""Brunner et al. 2020, "On Identifiability in Transformers" (https://arxiv.org/abs/1908.04211)."""

from __future__ import annotations

import polars as pl

from headwise.papers.claim import Claim, Found, Item, Job, Paper, Table, asked, first_stack, graded, percent
from headwise.papers.data import COLA, COLA_GET, MRPC, MRPC_GET, paraphrases, wikipedia


def mean_by_length(table: Table, item: str, what: str) -> Table:
    """The mean over layers and heads, per bucket of lengths; a bucket without texts has no length."""
    rows = first_stack(table).filter((pl.col("paper") == item) & (pl.col("what") == what))
    rows = rows.filter(pl.col("length").is_finite() & pl.col("value").is_finite())
    return rows.group_by(pl.col("length").round(2)).agg(pl.col("value").mean()).sort("length")


def null_space(table: Table) -> Found:
    rank, free = mean_by_length(table, "rank", "rank"), mean_by_length(table, "rank", "null_dim")
    length, most, left = rank["length"][-1], rank["value"][-1], free["value"][-1]
    words = f"at {length:.0f} tokens rank {most:.0f}, so {left:.0f} directions of a row change nothing"
    if left < 0.5:
        return Found(f"{words}; texts are not longer than the heads are wide", "not comparable")
    return Found(words, graded([left > 0.5]))


def falling(table: Table) -> Found:
    r = mean_by_length(table, "fig1a", "pearson")
    if not len(r):
        return Found("no text is long enough", "not comparable")
    first, last = r.row(0), r.row(-1)
    words = f"r = {first[1]:.2f} at {first[0]:.0f} tokens, {last[1]:.2f} at {last[0]:.0f}"
    return Found(words, graded([last[1] < 0.9, last[1] <= first[1] + 0.02]))


def peak_gone(table: Table) -> Found:
    def layer_means(what: str, kind: str) -> list[float]:
        item = {"raw": "fig1b", "effective": "fig1c"}[what]
        rows = first_stack(table).filter(
            (pl.col("paper") == item) & (pl.col("what") == what) & (pl.col("category") == kind)
        )
        return rows.group_by("layer", maintain_order=True).agg(pl.col("value").mean())["value"].to_list()

    parked = {kind: max(layer_means("raw", kind), default=0.0) for kind in ("first", "separator")}
    kind = max(parked, key=lambda name: parked[name])
    layer = layer_means("raw", kind).index(parked[kind])
    effective = layer_means("effective", kind)[layer]
    words = f"{kind} tokens in layer {layer}: {percent(parked[kind])} raw, {percent(effective)} effective"
    if parked[kind] < 0.2:
        return Found(f"{words}; there is no peak to begin with", "not comparable")
    return Found(words, graded([effective < parked[kind] / 2]))


def rates(table: Table, *, kind: str = "linear", distance: str = "cosine") -> Table:
    tested = table.filter((pl.col("what") == "rate") & (pl.col("set") == "test"))
    return asked(tested.filter((pl.col("map") == kind) & (pl.col("distance") == distance)))


def own_layers(table: Table, **choice: str) -> list[float]:
    """Rates of maps tested on the layer they were learned on, or that need no learning."""
    rows = rates(table, **choice).filter((pl.col("layer") == pl.col("tested")) & (pl.col("offset") == 0))
    return asked(rows).sort("tested")["value"].to_list()


def told(values: list[float]) -> str:
    return ", ".join(f"{100 * value:.0f}" for value in values) + "\u00a0%"


def recovered(table: Table) -> Found:
    layers = own_layers(table)
    return Found(f"{told(layers)}, layer by layer", graded([layers[-1] >= 0.9, min(layers) >= 0.9]))


def without_map(table: Table) -> Found:
    layers = own_layers(table, kind="none")
    held = next((at for at, value in enumerate(layers) if value < 0.9), len(layers))
    words = f"{told(layers)}: over 90 % in {held} of {len(layers)} layers"
    return Found(words, graded([3 * held >= len(layers), layers[-1] < layers[0] or held == len(layers)]))


def carried_over(table: Table) -> Found:
    square = rates(table).filter(pl.col("offset") == 0)
    last = square["tested"].max()

    def cell(learned: object, tested: object) -> float:
        return float(square.filter((pl.col("layer") == learned) & (pl.col("tested") == tested))["value"][0])

    if not len(square.filter((pl.col("layer") == 0) & (pl.col("tested") == last))):
        return Found("maps were not tested on other layers", "not comparable")
    up, own, down = cell(0, last), cell(last, last), cell(last, 0)
    words = (
        f"on the last layer {up:.0%} by the first one's map, {own:.0%} by its own, which has {down:.0%} on the first"
    )
    return Found(words, graded([up < own, down >= own - 0.02]))


def one_below(table: Table) -> Found:
    layers = own_layers(table)
    return Found(told(layers), graded([min(layers) >= 0.9]))


def neighbours(table: Table) -> Found:
    rows = rates(table).filter(pl.col("layer") == pl.col("tested"))
    last = rows.filter(pl.col("tested") == rows["tested"].max())
    named = {row["offset"]: row["value"] for row in last.sort("offset").iter_rows(named=True)}
    words = "after the last layer: " + ", ".join(f"{at:+d} {value:.0%}" for at, value in named.items() if at)
    return Found(words, graded([max(value for at, value in named.items() if at) < 0.9]))


def mixing_rows(table: Table, kind: str, statistic: str) -> list[float]:
    rows = asked(table.filter((pl.col("kind") == kind) & (pl.col("statistic") == statistic) & (pl.col("group") == "")))
    return rows.filter(pl.col("layer").is_not_null()).sort("layer")["value"].to_list()


def own_share(table: Table) -> Found:
    medians, chance = mixing_rows(table, "own", "median"), mixing_rows(table, "own", "chance")
    words = f"median {told(medians)}, layer by layer (chance {percent(chance[0])})"
    return Found(words, graded([medians[-1] < medians[0], medians[0] < 0.5]))


def not_own(table: Table) -> Found:
    shares = mixing_rows(table, "not-own", "share")
    return Found(f"{told(shares)}, layer by layer", graded([shares[0] < 0.02, shares[-1] > 0.1]))


def local(table: Table) -> Found:
    rows = table.filter((pl.col("kind") == "offset") & pl.col("layer").is_not_null())
    near = rows.filter(pl.col("group").is_in([str(at) for at in range(-5, 6) if at]))
    shares = near.group_by("layer", maintain_order=True).agg(pl.col("value").sum()).sort("layer")["value"].to_list()
    words = f"from within five tokens: {told(shares)} of what is not its own, layer by layer"
    return Found(words, graded([shares[0] > 0.5, shares[-1] < shares[0]]))


NULL, IDENTITY, MIXING = (
    wikipedia("nullspace"),
    paraphrases("identity", solver="newton"),
    paraphrases("mixing", texts=0),
)
PAPER = Paper(
    "brunner2020",
    "Brunner, Liu, Pascual, Richter, Ciaramita and Wattenhofer 2020, On Identifiability in Transformers",
    "https://arxiv.org/abs/1908.04211",
    (
        Item("rank", "rank of T and dimension of its null space (§3.1–3.2)", NULL, ("rank",), (
            Claim("beyond the head size, attention is not identifiable", "null space of n − d_v or more dimensions",
                  "some direction of the longest texts' rows changes nothing", null_space),
        ), also=("§3.1–3.2",)),
        Item("alternative", "another attention, the same output (§3.3)", None, also=("§3.3",),
             command='headwise view "TEXT" shows it for a head; trace.alternative_attention(layer, head) gives it'),
        Item("fig1a", "raw against effective attention, by length", NULL, ("fig1a",), (
            Claim("raw and effective attention part as texts grow", "r = 1 up to 64 tokens, falling after",
                  "below 0.9 for the longest texts", falling),
        )),
        Item("fig1bc", "where effective attention goes", NULL, ("fig1b", "fig1c", "fig5"), (
            Claim("the peak on the parked token is not in effective attention", "[SEP]: gone",
                  "less than half of the raw share, in the layer where that is largest", peak_gone),
        ), also=("fig1b", "fig1c", "fig5")),
        Item("fig6", "raw, effective and null maps of a head", None,
             command='headwise inspect "TEXT" --figure fig6.svg'),
        Item("fig2a", "can the input token be recovered", IDENTITY, ("fig2a",), (
            Claim("a linear map recovers the token in every layer", "93 % after the last layer (cosine)",
                  "90 % or more in every layer, by the map that was learned (solver=newton learns a better one)",
                  recovered),
            Claim("without a map it can be told in the lower third", "up to layer 4 of 12",
                  "over 90 % in a third of the layers or more", without_map),
        )),
        Item("fig2b", "maps tested on other layers", IDENTITY, ("fig2b", "matrix-linear-cosine"), (
            Claim("the last layer's map serves the others; the first layer's does not",
                  "below 70 %, and 94 % and rising",
                  "the first layer's map is worse on the last layer; the last one's is as good on the first",
                  carried_over),
        ), also=("fig8–10",)),
        Item("fig7", "train and test rates; with less data",
             paraphrases("identity", solver="newton", sets=("test", "train")), ("fig7",), also=("B.2",)),
        Item("fig11", "from a layer to the one below", paraphrases("identity", solver="newton", target="previous"),
             ("fig11",), (
            Claim("the layer below can be recovered", "nearly always", "90 % or more in every layer", one_below),
        ), also=("fig12", "fig13")),
        Item("fig14", "neighbours of the token",
             paraphrases("identity", maps=("linear",), solver="newton", folds=4, offsets=(-3, -2, -1, 1, 2, 3)),
             ("fig14-17",), (
            Claim("neighbours are recovered less well than the token", "far below the token itself",
                  "all below 90 % after the last layer", neighbours),
        ), also=("fig14–17",)),
        Item("fig3a", "a token's share in its own hidden token", MIXING, ("fig3a",), (
            Claim("hidden tokens are mixtures, more so with depth", "medians 30.6, 14.4, 10.7 % (layers 1, 6, 12)",
                  "below 50 % after the first layer, and lower after the last", own_share),
        )),
        Item("fig3b", "tokens that are not their own main part", MIXING, ("fig3b",), (
            Claim("deep tokens are often not mainly themselves", "0 in layers 1–3, 30 % in 11–12",
                  "under 2 % after the first layer, over 10 % after the last", not_own),
        )),
        Item("fig4a", "share of neighbours by distance", MIXING, ("fig4a",)),
        Item("fig4b", "share by signed offset", MIXING, ("fig4b",), (
            Claim("mixing is mostly local, less so with depth", "most contributions come from near tokens",
                  "over half from within five tokens after the first layer, less after the last", local),
        )),
        Item("fig18", "what [CLS] is made of", MIXING, ("fig18",)),
        Item("fig19", "one token's context, layer by layer", MIXING, ("fig19",), also=("fig19–25",)),
        Item("fig26", "shares by part of speech",
             Job("mixing", MRPC, MRPC_GET, {"texts": 0, "tags": "spacy"}), ("fig26-37",), also=("fig26–37",)),
        Item("fig38", "the same on CoLA",
             Job("identity", COLA, COLA_GET, {"solver": "newton"}, corpus={"columns": (3,)}), ("fig2a",), (
            Claim("a linear map recovers the token in every layer", "chance is 1 / mean length",
                  "90 % or more in every layer", recovered),
        ), also=("fig38–39",)),
        Item("fig40", "mixing on CoLA",
             Job("mixing", COLA, COLA_GET, {"texts": 0}, corpus={"columns": (3,)}),
             ("fig3a", "fig3b", "fig4a", "fig4b"), (
            Claim("hidden tokens are mixtures, more so with depth", "as on MRPC",
                  "below 50 % after the first layer, and lower after the last", own_share),
        ), also=("fig40–43",)),
    ),
)  # fmt: skip
