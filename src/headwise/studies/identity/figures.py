"""The figures of the identity study, from its table, by the numbers of Brunner et al. 2020."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from headwise.errors import InputError
from headwise.plots.theme import CATEGORIES, SEQUENTIAL, themed
from headwise.results.shown import number

COLOURS = {"none": CATEGORIES[6], "linear": CATEGORIES[0], "mlp": CATEGORIES[1]}
DASHES = {"cosine": [1, 0], "l2": [5, 4]}
CROSS = {"linear cosine": "fig2b", "linear l2": "fig8", "mlp l2": "fig9", "mlp cosine": "fig10"}
NEIGHBOURS = {"linear cosine": "fig14", "mlp cosine": "fig15", "mlp l2": "fig16", "linear l2": "fig17"}
PREVIOUS = {-1: "#08519c", -2: "#4292c6", -3: "#9ecae1"}  # the paper's blue, paler with distance
NEXT = {1: "#a50f15", 2: "#ef3b2c", 3: "#fc9272"}  # its red
RATE = "tokens recovered"
CELL = 34


def identity_figures(table: pl.DataFrame, model: str, target: str) -> Mapping[str, Any]:
    """All figures that the table has the rows for."""
    rates = table.filter(pl.col("what") == "rate").with_columns(kind=pl.col("map") + " " + pl.col("distance"))
    own = rates.filter((pl.col("layer") == pl.col("tested")) & (pl.col("set") == "test"))
    here = own.filter(pl.col("offset") == 0)
    charts: dict[str, Any] = {}
    if here.height:
        charts["fig11" if target == "previous" else "fig2a"] = _by_layer(here, model, target)
    for kind, name in CROSS.items():
        crossed = rates.filter((pl.col("kind") == kind) & (pl.col("offset") == 0) & (pl.col("set") == "test"))
        if crossed["tested"].n_unique() > 1 and crossed.height > crossed["layer"].n_unique():
            charts[name] = _crossed(crossed, model, kind)
            charts[f"matrix-{kind.replace(' ', '-')}"] = _matrix(crossed, model, kind)
    both = rates.filter((pl.col("layer") == pl.col("tested")) & (pl.col("offset") == 0) & (pl.col("map") != "none"))
    if both["set"].n_unique() > 1:
        charts["fig7"] = _train_and_test(both, model)
    for kind, name in NEIGHBOURS.items():
        near = own.filter((pl.col("kind") == kind) & (pl.col("offset") != 0))
        if near.height:
            charts[name] = _neighbours(near, model, kind)
    return charts | _token_figures(table, model)


def two_models(tables: Mapping[str, pl.DataFrame]) -> Any:
    """fig12–13: the rates of two models on one plot, the first one dashed; `tables` by the models' names."""
    (first, one), (second, two) = tables.items()
    for what, column in (("width", "width"), ("number of layers", "layer")):
        sizes = [int(table[column].max()) for table in (one, two)]  # type: ignore[arg-type]
        if sizes[0] != sizes[1]:
            sizes = [size + (column == "layer") for size in sizes]
            raise InputError(
                f"Two models on one plot must have the same {what}, but {first} has {sizes[0]} and {second} has "
                f"{sizes[1]}; compare a model with one that was trained on from it."
            )
    columns = ("what", "map", "distance", "target", "offset", "layer", "tested", "set", "value")
    rows = pl.concat([table.select(*columns, model=pl.lit(name)) for name, table in tables.items()])
    rows = rows.filter(
        (pl.col("what") == "rate") & (pl.col("layer") == pl.col("tested")) & (pl.col("set") == "test")
        & (pl.col("offset") == 0)
    ).with_columns(kind=pl.col("map") + " " + pl.col("distance"))  # fmt: skip
    kinds = rows["kind"].unique(maintain_order=True).to_list()
    base = alt.Chart(rows.select("layer", "value", "kind", "model")).encode(
        x=_layer_axis(),
        y=alt.Y("value:Q", title=RATE, axis=alt.Axis(format="%"), scale=alt.Scale(zero=False)),
        color=alt.Color("kind:N", title="map, distance", sort=kinds, scale=alt.Scale(range=CATEGORIES)),
        tooltip=["model:N", "kind:N", "layer:O", alt.Tooltip("value:Q", format=".1%")],
    )
    chart = _dashed(base, _dash("model", {first: [5, 4], second: [1, 0]})).properties(width=420, height=260)
    goal = "the token one layer below" if "previous" in rows["target"].to_list() else "the input token"
    return themed(
        chart,
        f"{second} against {first}: recovering {goal}",
        f"Dashed: {first}. Where the solid line falls below its dashed twin, the second model has moved its tokens",
        "further from where they came from.",
    )


def _map_colour(rows: pl.DataFrame) -> alt.Color:
    there = {name: colour for name, colour in COLOURS.items() if name in rows["map"].to_list()}
    scale = alt.Scale(domain=list(there), range=list(there.values()))
    return alt.Color("map:N", sort=list(there), scale=scale, legend=alt.Legend(symbolOpacity=1))


def _dash(field: str, dashes: Mapping[str, list[int]]) -> alt.StrokeDash:
    """Different strokes for a few names, with a legend that shows them."""
    return alt.StrokeDash(
        f"{field}:N",
        sort=list(dashes),
        scale=alt.Scale(domain=list(dashes), range=list(dashes.values())),
        legend=alt.Legend(symbolType="stroke", symbolSize=400, symbolStrokeColor="#444", symbolStrokeWidth=2),
    )


def _dashed(base: Any, dash: alt.StrokeDash) -> Any:
    """Lines with points on them. subtle: of one mark with points the legend would not show the strokes."""
    return alt.layer(base.mark_line(strokeWidth=2).encode(strokeDash=dash), base.mark_circle(size=30, opacity=1))


def _rate_scale(low: float) -> alt.Scale:
    return alt.Scale(range=SEQUENTIAL, domain=[low, 1], interpolate="rgb")


def _layer_axis(field: str = "layer", title: str = "layer") -> alt.X:
    return alt.X(f"{field}:O", title=title, axis=alt.Axis(labelAngle=0, labelOverlap=True))


def _rules(rows: pl.DataFrame) -> list[Any]:
    """What guessing scores, and what a perfect map would where that is not all."""
    chance, ceiling = (float(rows[name].mean()) for name in ("chance", "ceiling"))  # type: ignore[arg-type]
    rules = [_rule(chance, f"guessing ({number(chance, '.1%')})")]
    if ceiling < 0.995:
        most = f"the most, as words repeat ({number(ceiling, '.1%')})"
        rules.append(_rule(ceiling, most, right=True))  # on the left the lines themselves are there
    return rules


def _rule(y: float, name: str, *, right: bool = False) -> Any:
    """A dotted line with its name at one end."""
    base = alt.Chart(pl.DataFrame({"y": [y], "name": [name]})).encode(y="y:Q")
    end: dict[str, Any] = {"align": "left", "dx": 4, "baseline": "bottom", "dy": -2}
    if right:
        end = {"align": "right", "dx": -4, "baseline": "top", "dy": 3}
    text = base.mark_text(color="#666", **end).encode(x=alt.value("width" if right else 0), text="name:N")
    return base.mark_rule(strokeDash=[2, 3], color="#666") + text


def _by_layer(rows: pl.DataFrame, model: str, target: str) -> Any:
    rows = rows.with_columns(pl.col("low").clip(0, 1), pl.col("high").clip(0, 1))
    base = alt.Chart(rows.select("layer", "value", "low", "high", "map", "distance", "word")).encode(
        x=_layer_axis(), color=_map_colour(rows)
    )
    band = base.mark_area(opacity=0.15).encode(y="low:Q", y2="high:Q", detail="distance:N")
    shown = base.encode(
        y=alt.Y("value:Q", title=RATE, axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
        tooltip=["map:N", "distance:N", "layer:O"]
        + [alt.Tooltip(f"{name}:Q", format=".1%") for name in ("value", "low", "high", "word")],
    )
    goal = {"input": "the input token", "previous": "the token one layer below"}.get(target, f"layer {target}")
    return themed(
        alt.layer(band, _dashed(shown, _dash("distance", DASHES)), *_rules(rows)).properties(width=440, height=280),
        f"{model}: how often {goal} can be recovered from a hidden token",
        "Nearest neighbour within the sentence, after a map that was learned on other sentences, or none. Bands: 95 %",
        "interval of the mean over folds (often narrower than the line).",
    )


def _crossed(rows: pl.DataFrame, model: str, kind: str) -> Any:
    layers = sorted(rows["layer"].unique())
    shown = sorted({layers[0], layers[(len(layers) - 1) // 2], layers[-2], layers[-1]})
    some = rows.filter(pl.col("layer").is_in(shown))
    lines = (
        alt.Chart(some.select("layer", "tested", "value"))
        .mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=30))
        .encode(
            x=_layer_axis("tested", "layer that the map is tested on"),
            y=alt.Y("value:Q", title=RATE, axis=alt.Axis(format="%"), scale=alt.Scale(zero=False)),
            color=alt.Color("layer:O", title="learned from layer", scale=alt.Scale(range=CATEGORIES)),
            tooltip=["layer:O", "tested:O", alt.Tooltip("value:Q", format=".1%")],
        )
        .properties(width=420, height=260)
    )
    return themed(
        lines,
        f"{model}: maps on layers they have not seen ({kind})",
        "A line that stays high to the left: what was learned above holds below. One that falls to the right:",
        "the layers above keep the token in another way.",
    )


def _matrix(rows: pl.DataFrame, model: str, kind: str) -> Any:
    size = rows["tested"].n_unique()
    cell = CELL if size <= 16 else 20
    base = alt.Chart(rows.select("layer", "tested", "value")).encode(
        x=_layer_axis("tested", "tested on layer"), y=alt.Y("layer:O", title="learned from layer")
    )
    colour = alt.Color("value:Q", title=RATE, scale=_rate_scale(0.0), legend=alt.Legend(format="%"))
    cells = base.mark_rect(stroke="white").encode(
        color=colour, tooltip=["layer:O", "tested:O", alt.Tooltip("value:Q", format=".1%")]
    )
    numbers = base.mark_text(fontSize=10).encode(
        text=alt.Text("value:Q", format=".0%"),
        color=alt.condition("datum.value > 0.6", alt.value("white"), alt.value("black")),
    )
    chart = alt.layer(cells, numbers) if size <= 16 else alt.layer(cells)
    return themed(
        chart.properties(width=cell * size, height=cell * rows["layer"].n_unique()),
        f"{model}: every layer's map on every layer ({kind})",
        "Rows: where the map was learned; columns: where it is tested.",
        "Below the diagonal maps go down to layers nearer the input, above it they go up.",
    )


def _train_and_test(rows: pl.DataFrame, model: str) -> Any:
    base = alt.Chart(rows.select("layer", "value", "set", "map", "distance")).encode(
        x=_layer_axis(),
        y=alt.Y("value:Q", title=RATE, axis=alt.Axis(format="%"), scale=alt.Scale(zero=False)),
        color=_map_colour(rows),
        tooltip=["map:N", "distance:N", "set:N", "layer:O", alt.Tooltip("value:Q", format=".1%")],
    )
    chart = _dashed(base, _dash("set", {"test": [1, 0], "train": [5, 4]})).properties(width=260, height=220)
    return themed(
        chart.facet(column=alt.Column("distance:N", title=None)),
        f"{model}: on the sentences learned from, and on others",
        "The gap between a map's two lines is what it learned by heart.",
    )


def _neighbours(rows: pl.DataFrame, model: str, kind: str) -> Any:
    offsets = sorted(rows["offset"].unique().to_list())
    colours = [{**PREVIOUS, **NEXT}.get(offset, "#888888") for offset in offsets]
    lines = (
        alt.Chart(rows.select("layer", "value", "offset"))
        .mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=30))
        .encode(
            x=_layer_axis(),
            y=alt.Y("value:Q", title=RATE, axis=alt.Axis(format="%"), scale=alt.Scale(zero=True)),
            color=alt.Color("offset:O", title="neighbour", scale=alt.Scale(domain=offsets, range=colours)),
            tooltip=["offset:O", "layer:O", alt.Tooltip("value:Q", format=".1%")],
        )
    )
    return themed(
        alt.layer(lines, *_rules(rows)).properties(width=420, height=260),
        f"{model}: recovering the neighbours of a token from it ({kind})",
        "Blue: tokens before it, red: tokens after it, paler the farther away.",
    )


def _token_figures(table: pl.DataFrame, model: str) -> dict[str, Any]:
    """One map for each figure: the best learned one there is, else none; by cosine where there is a choice."""
    charts = {}
    about = {
        "tag": ("by part of speech", "part of speech", "Low cells: tokens that lose themselves in their context."),
        "frequency": (
            "by frequency of the word piece", "occurrences in the corpus", "Low cells: tokens that are lost.",
        ),
    }  # fmt: skip
    for what, (title, axis, caption) in about.items():
        if (rows := _preferred(table.filter(pl.col("what") == what))).height:
            kind = f"{rows['map'][0]} {rows['distance'][0]}"
            chart = _group_grid(rows, axis)
            charts[what] = themed(chart, f"{model}: tokens recovered {title} ({kind})", caption)
    if (rows := _preferred(table.filter(pl.col("what") == "attribution"))).height:
        charts["attribution"] = _attribution(rows, model)
    return charts


def _preferred(rows: pl.DataFrame) -> pl.DataFrame:
    for map_ in ("linear", "mlp", "none"):
        for distance in ("cosine", "l2"):
            some = rows.filter((pl.col("map") == map_) & (pl.col("distance") == distance))
            if some.height:
                return some
    return rows.clear()


def _group_grid(rows: pl.DataFrame, axis: str) -> Any:
    groups: Sequence[str] = rows["group"].unique(maintain_order=True).to_list()
    base = alt.Chart(rows.select("layer", "group", "value", "count")).encode(
        x=_layer_axis(), y=alt.Y("group:N", sort=list(groups), title=axis)
    )
    low = float(rows["value"].min())  # type: ignore[arg-type]
    low = min(low, 0.9)
    colour = alt.Color("value:Q", title=RATE, scale=_rate_scale(low), legend=alt.Legend(format="%"))
    cells = base.mark_rect(stroke="white").encode(
        color=colour, tooltip=["group:N", "layer:O", alt.Tooltip("value:Q", format=".1%"), "count:Q"]
    )
    numbers = base.mark_text(fontSize=10).encode(
        text=alt.Text("value:Q", format=".0%"),
        color=alt.condition(f"datum.value > {low + 0.6 * (1 - low)}", alt.value("white"), alt.value("black")),
    )
    layers = rows["layer"].n_unique()
    chart = alt.layer(cells, numbers) if layers <= 16 else alt.layer(cells)
    return chart.properties(width=CELL * layers, height=20 * len(groups))


def _attribution(rows: pl.DataFrame, model: str) -> Any:
    correlations = rows.filter(pl.col("group").str.starts_with("spearman")).with_columns(
        kind=pl.col("group").replace({"spearman_margin": "with the margin", "spearman_rate": "with being recovered"})
    )
    left = (
        alt.Chart(correlations.select("layer", "value", "kind"))
        .mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=30))
        .encode(
            x=_layer_axis(),
            y=alt.Y("value:Q", title="Spearman's ρ of own contribution"),
            color=alt.Color("kind:N", title=None, legend=alt.Legend(orient="top")),
            tooltip=["kind:N", "layer:O", alt.Tooltip("value:Q", format=".2f")],
        )
        .properties(width=260, height=220)
    )
    means = rows.filter(pl.col("group").str.starts_with("own")).with_columns(
        kind=pl.col("group").replace({"own_recovered": "recovered", "own_lost": "lost"})
    )
    right = (
        alt.Chart(means.select("layer", "value", "kind"))
        .mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=30))
        .encode(
            x=_layer_axis(),
            y=alt.Y("value:Q", title="own contribution, mean", axis=alt.Axis(format="%")),
            color=alt.Color("kind:N", title=None, sort=["recovered", "lost"], legend=alt.Legend(orient="top")),
            tooltip=["kind:N", "layer:O", alt.Tooltip("value:Q", format=".1%")],
        )
        .properties(width=260, height=220)
    )
    return themed(
        alt.hconcat(left, right).resolve_scale(color="independent"),
        f"{model}: are mixed tokens lost tokens? ({rows['map'][0]} {rows['distance'][0]})",
        "ρ above 0: tokens that hold more of themselves are recovered more surely. Own contribution: how much",
        "recovered and lost tokens hold of themselves (hidden-token attribution).",
    )
