"""How alike heads are: Jensen-Shannon divergences between all heads, drawn in a plane (Clark et al. 2019 §6, fig6).

    distance(a, b) = Σ_tokens JS(a(token), b(token))      in nats, at most ln 2 a token

Rows are smoothed by 0.001/n as in the released code, n the keys that a row of the stack can see. `js_sum` is the
paper's sum over tokens; `js`, the mean a token, is the same on another scale, and what is drawn. All heads of a stack
are compared, whatever their layer; stacks of an encoder–decoder read different texts and are not.

The maps of a batch are held until its last layer: a text of n tokens takes 4 · layers · heads · n² bytes (half of it in
a causal model).

Behaviours are read off `surface`, of the raw weights: the kind of key that takes the largest share of a head's mean
row, where that is above 0.4; else `broad` where the mean entropy is above 0.9 of uniform attention's; else `other`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
import torch
from jaxtyping import Bool
from torch import Tensor

from headwise.allowed import SEED, setting
from headwise.errors import InputError
from headwise.measures import ATTENTION
from headwise.measures.distance import Distances, clusters, plane, smoothed, summed_js
from headwise.plots import plane as plane_plot
from headwise.plots.theme import CATEGORIES, themed
from headwise.results.shown import finite
from headwise.stats import Sums
from headwise.studies import STUDIES
from headwise.studies.answers import DOING, NOISE, Answer
from headwise.studies.study import Reading, Setting, State, Stats, Study, at, only_quantity
from headwise.studies.surface import Surface
from headwise.studies.tables import counted, first_stack, heads, percent
from headwise.types import Layer

SURFACE = "surface/"
CLEAR, BROAD = 0.4, 0.9
BEHAVIOURS = {
    "previous": "previous token",
    "next": "next token",
    "current": "current token",
    "to_first": "first token",
    "to_separator": "separator",
    "to_punctuation": "punctuation",
}
DOES = {
    "previous token": "look at the previous token",
    "next token": "look at the next token",
    "current token": "look at the token itself",
    "first token": "park on the first token",
    "separator": "park on separators",
    "punctuation": "look at periods and commas",
    "broad": "look everywhere",
}
SAME = 0.05  # nats of Jensen–Shannon divergence below which two heads are called copies
GREY = "#b0b0b0"
MANY = [*CATEGORIES, "#882255", "#44AA99", "#999933", "#AA4499", "#661100"]  # Okabe and Ito, then Tol
COLOURS = dict(zip([*BEHAVIOURS.values(), "broad"], CATEGORIES, strict=True)) | {"other": GREY}


@STUDIES.add(
    "distances", "Jensen-Shannon distances between all heads, their plane and clusters (Clark et al. fig6)", order=40
)
@dataclass(frozen=True)
class AllDistances(Study):
    """`quantities`, one at a time: raw weights, or norms with each row divided by its sum.

    `clusters`: how many; None finds out.
    """

    title: ClassVar[str] = "Which heads do the same"
    first_by: ClassVar[tuple[str, ...]] = ("stack", "a<b", "js")
    captions: ClassVar[Mapping[str, str]] = {
        "fig6": "heads that attend alike are near each other; by layer, behaviour and cluster (Clark et al. 2019)",
    }
    quantities: tuple[str, ...] = setting(("raw",), of=ATTENTION)
    clusters: int | None = setting(None, least=1)
    seed: int = setting(0, least=0, most=SEED)  # of the random starts of the plane

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_quantity(self.quantity)

    @property
    def quantity(self) -> str:
        return only_quantity(self, self.quantities)

    def observe(self, layer: Layer, reading: Reading) -> Stats:
        pairs = _comparable(layer)
        rows = smoothed(ATTENTION[self.quantity](layer), pairs)
        earlier = reading.memo.setdefault(f"distances {self.quantity} {layer.stack} {layer.first_row}", [])
        total = summed_js(rows, earlier)
        earlier.append(rows)
        tokens = layer.query_mask.sum().double().expand_as(total).clone()
        even = layer.visible.sum(-1).clamp(min=1).double().log()
        return {
            at("js", layer): Sums(total, tokens),
            at("uniform", layer): Sums.of(even.view(1, -1), reading.row_weights(layer).view(1, -1)),
            **{f"{SURFACE}{key}": value for key, value in _surface().observe(layer, reading).items()},
        }

    def table(self, state: State, setting: Setting) -> pl.DataFrame:
        """One row an ordered pair of heads, with the place, cluster and behaviour of its first head.

        A row's first head is `a`: all about a head, its own facts and its distances to the others, is one filter away.
        """
        return pl.concat([_pairs(state, stack, self._heads(state, stack, setting)[0]) for stack in setting.stacks])

    def answers(self, table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:
        texts = counted(setting.tokens["documents"], "text")
        table = first_stack(table)
        each = table.unique("a", maintain_order=True).select("behaviour_a", name="a")
        known = {kind: each.filter(pl.col("behaviour_a") == kind) for kind in DOES}
        plain = sum(map(len, known.values()))
        headline = (
            f"{plain} of {len(each)} heads have a behaviour that can be named by position (over {percent(CLEAR)} of "
            f"their attention on one place, or broad); {len(each) - plain} have none ({texts})."
        )
        for kind, group in known.items():
            if len(group):
                yield Answer(DOING, f"{len(group)} of {len(each)} {DOES[kind]}{_bar(kind)}: {heads(group)}.", headline)
        if not plain:
            yield Answer(DOING, f"No head gives over {percent(CLEAR)} of its attention to one place.", headline)
        pairs = finite(table, "js").filter(pl.col("a") < pl.col("b"))
        copies = pairs.filter(pl.col("js") < SAME)
        yield Answer(
            NOISE,
            f"{len(copies) or 'None'} of {len(pairs):,} pairs of heads attend nearly alike (below {SAME} nats of "
            f"Jensen–Shannon divergence, {texts}); what they carry may differ.",
        )

    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        """fig6, of the first stack; fig6-decoder and fig6-cross of the others."""
        first = next(iter(setting.stacks))
        return {
            "fig6" if stack == first else f"fig6-{stack}": self._fig6(state, stack, setting) for stack in setting.stacks
        }

    def _heads(self, state: State, stack: str, setting: Setting) -> tuple[pl.DataFrame, float]:
        """Per head: name, layer, head, behaviour, cluster, x and y; and the stress of the plane."""
        distances = matrix(state, stack).mean.numpy()
        points, stress = plane(distances, seed=self.seed)
        heads = heads_of(state, stack, setting)
        heads = heads.select("name", "layer", "head").with_columns(
            pl.Series("behaviour", behaviours(heads)),
            pl.Series("cluster", clusters(distances, count=self.clusters)),
            pl.Series("x", points[:, 0]),
            pl.Series("y", points[:, 1]),
        )
        return heads, stress

    def _fig6(self, state: State, stack: str, setting: Setting) -> Any:
        heads, stress = self._heads(state, stack, setting)
        distances = matrix(state, stack).mean.numpy()
        count = int(heads["cluster"].max()) + 1  # type: ignore[arg-type] - a number, as there are heads
        numbers = {number: MANY[number % len(MANY)] for number in range(count)}
        chart = plane_plot.panels(
            heads, {"layer": None, "behaviour": COLOURS, "cluster": numbers}, "nats a token (distances only)"
        )
        inside, outside = _within_and_between(distances, heads["layer"].to_numpy())
        what = "attention" if self.quantity == "raw" else "norms, as shares of their row"
        where = "" if len(setting.stacks) == 1 else f", {stack}"
        return themed(
            chart,
            f"{setting.model}{where}: heads that attend alike are near each other",
            f"One point a head; distance is the mean Jensen-Shannon divergence of {what}, as well as a plane keeps it "
            f"(stress {stress:.2f}).",
            f"Mean distance within a layer {inside:.3f}, between layers {outside:.3f} nats. A behaviour is what takes "
            f"over {CLEAR} of the mean row; broad: entropy over {BROAD} of uniform.",
        )


def _bar(kind: str) -> str:
    """What makes a head one of this kind; other studies count the heads that park by other bars."""
    of_even = f", with an entropy over {percent(BROAD)} of that of even weights"
    return of_even if kind == "broad" else f" with over {percent(CLEAR)} of their weight"


def _surface() -> Study:
    return Surface(quantities=("raw",))  # pyright: ignore - its decorator hides its fields


def _check_quantity(quantity: str) -> None:
    if not ATTENTION.entry(quantity).signed:
        return
    unsigned = [each.name for each in ATTENTION.entries() if not each.signed]
    raise InputError(
        f"Jensen-Shannon divergences are between distributions, but {quantity} attention is signed and its rows need "
        f"not sum to 1; choose {' or '.join(unsigned)}."
    )


def _comparable(layer: Layer) -> Bool[Tensor, "batch query key"]:
    """The pairs over which all layers of a stack are compared: real queries × real keys, none later where causal.

    subtle: not `layer.visible`, since layers with a window and layers without see different keys of the same row.
    """
    rows = torch.arange(layer.alpha.shape[2], device=layer.alpha.device) + layer.first_row
    later = torch.arange(layer.alpha.shape[3], device=layer.alpha.device) > rows[:, None]
    pairs = layer.query_mask[:, :, None] & layer.key_mask[:, None, :]
    looks_ahead = bool((layer.visible & pairs & later).any())
    return pairs if looks_ahead else pairs & ~later


def matrix(state: State, stack: str) -> Sums:
    """Distances between all heads of a stack, layer by layer: the observed half and its mirror image."""
    layers = state.by_layer(Sums, "js", stack)
    size = layers[-1].total.shape[1]
    total, weight = torch.zeros(2, size, size, dtype=torch.float64)
    for index, sums in enumerate(layers):
        rows = slice(index * len(sums.total), (index + 1) * len(sums.total))
        seen = slice(0, sums.total.shape[1])
        for whole, part in ((total, sums.total), (weight, sums.weight)):
            whole[rows, seen], whole[seen, rows] = part, part.mT
    return Sums(total, weight)


def heads_of(state: State, stack: str, setting: Setting) -> pl.DataFrame:
    """The surface of every head of a stack, with the entropy of uniform attention beside its own."""
    surface = State(state.after(Sums, SURFACE))
    table = _surface().table(surface, setting).filter(pl.col("stack") == stack)
    uniform = torch.cat([sums.mean for sums in state.by_layer(Sums, "uniform", stack)])
    return table.with_columns(pl.Series("uniform", uniform.numpy()[table["layer"].to_numpy()]))


def behaviours(heads: pl.DataFrame) -> list[str]:
    """What each head does, by the rule above."""
    names = [name for name in BEHAVIOURS if name in heads.columns]
    shares = heads.select(pl.col(names).fill_null(0.0).fill_nan(0.0)).to_numpy()
    broad = (heads["entropy"] > BROAD * heads["uniform"]).to_list()
    return [
        BEHAVIOURS[names[row.argmax()]] if row.max() > CLEAR else "broad" if flat else "other"
        for row, flat in zip(shares, broad, strict=True)
    ]


def _pairs(state: State, stack: str, heads: pl.DataFrame) -> pl.DataFrame:
    sums = matrix(state, stack)
    names = {"name": "a", **{name: f"{name}_a" for name in heads.columns if name != "name"}}
    b = heads.select(b="name", layer_b="layer", head_b="head")
    return (
        heads.rename(names)
        .join(b, how="cross", maintain_order="left_right")
        .select(
            pl.lit(stack).alias("stack"), "a", "b", "layer_a", "head_a", "layer_b", "head_b",
            pl.Series("js", sums.mean.flatten().numpy()), pl.Series("js_sum", sums.total.flatten().numpy()),
            "behaviour_a", "cluster_a", "x_a", "y_a",
        )
    )  # fmt: skip


def _within_and_between(distances: Distances, layers: np.ndarray) -> tuple[float, float]:
    """Mean distance between different heads of one layer, and of different layers (NaN where there are none)."""
    same = layers[:, None] == layers
    inside = distances[same & ~np.eye(len(layers), dtype=bool)]
    outside = distances[~same]
    return tuple(float(part.mean()) if part.size else float("nan") for part in (inside, outside))  # type: ignore[return-value]
