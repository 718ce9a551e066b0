"""The figures of the study `mixing`, from its table alone, named as in the papers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import polars as pl

from headwise.plots.boxes import QUANTILES, boxes
from headwise.plots.maps import numbered
from headwise.plots.series import series
from headwise.plots.strip import strip
from headwise.plots.theme import CATEGORIES, themed
from headwise.studies.mixing.facts import GROUPS, REACH
from headwise.studies.mixing.table import example_tokens, mixing_table, tags_of
from headwise.studies.state import State
from headwise.studies.tables import counted

WHISKERS = "Box: quartiles; whiskers: 5 % and 95 % of the tokens; orange: median."
FEWEST = 10  # tokens of a tag that make a box
SOME = 0.5  # a layer is drawn where at least this share of the tokens has an origin


@dataclass(frozen=True)
class Page:
    """What all figures of a run share."""

    table: pl.DataFrame
    where: str  # model and quantity
    read: str  # how much was read
    layers: tuple[int, ...]  # those to be drawn

    def of(self, kind: str, statistic: str | None = None) -> pl.DataFrame:
        rows = self.table.filter((pl.col("kind") == kind) & pl.col("layer").is_in(self.layers))
        return rows if statistic is None else rows.filter(pl.col("statistic") == statistic)

    def spread(self, kind: str) -> pl.DataFrame:
        """One row a layer and group, with a column for each quantile."""
        rows = self.of(kind).filter(pl.col("statistic").is_in(QUANTILES))
        return rows.pivot("statistic", index=["layer", "group", "count"], values="value").drop_nulls().drop_nans()

    @property
    def first_middle_last(self) -> dict[int, str]:
        """Layers by name; fewer where there are fewer."""
        first, middle, last = self.layers[0], self.layers[len(self.layers) // 2], self.layers[-1]
        return {middle: f"middle ({middle})", first: f"first ({first})", last: f"last ({last})"}


def mixing_figures(state: State, model: str, quantity: str) -> dict[str, Any]:
    """fig3a (fig2a where output-weighted), fig2b, fig3b, fig4a, fig4b; as far as texts have them fig18, fig19, tags."""
    table = mixing_table(state)
    texts, length = int(state.moments("length").count), float(state.moments("length").mean)
    layers = _layers_with_origins(table)
    left_out = sorted(set(table["layer"].drop_nulls()) - set(layers))
    read = f"{counted(texts, 'text')} of {length:.0f} tokens on average, special ones included." + (
        f" Layer {', '.join(map(str, left_out))} is left out: most tokens have no origin there." if left_out else ""
    )
    page = Page(table, f"{model}, {quantity}", read, layers)
    weighted = quantity == "output-weighted"
    charts = {
        "fig2a" if weighted else "fig3a": own_figure(page),
        "fig2b": rank_figure(page),
        "fig3b": not_own_figure(page),
        "fig4a": neighbour_figure(page),
        "fig4b": offset_figure(page),
    }
    if "separator" in state:
        charts["fig18"] = first_token_figure(page)
    if (example := example_tokens(state)) is not None:
        document, tokens, names = example
        charts |= {f"fig{19 + at}": example_figure(page, document, token, names) for at, token in enumerate(tokens)}
    if tags_of(state):
        charts |= {
            "fig3": tag_figure(page, sorted({page.layers[0], page.layers[-1]})),
            "fig4": tag_rank_figure(page),
            "fig5-15" if weighted else "fig26-37": tag_figure(page, page.layers),
        }
    return charts


def _layers_with_origins(table: pl.DataFrame) -> tuple[int, ...]:
    own = table.filter((pl.col("kind") == "own") & (pl.col("statistic") == "median")).sort("layer")
    most = own["count"].max() or 0
    kept = own.filter(pl.col("count") >= SOME * most)["layer"]  # type: ignore[operator]
    return tuple(kept)


def own_figure(page: Page) -> Any:
    chance = page.of("own", "chance").select("layer", "value").drop_nans()
    chart = boxes(
        page.spread("own"), "layer", titles=("layer", "contribution of a token to itself"), order=page.layers,
        percent=True, rule=chance, step=44,
    )  # fmt: skip
    return themed(
        chart,
        f"{page.where}: how much of a token is left in its place",
        page.read,
        WHISKERS,
        "Black tick: chance, one part in as many as the token can come from. The lower, the more a layer has mixed.",
    )


def rank_figure(page: Page) -> Any:
    chart = boxes(page.spread("rank"), "layer", titles=("layer", "rank of the own token"), order=page.layers, step=44)
    return themed(
        chart,
        f"{page.where}: where a token ranks among all that went into it",
        page.read,
        WHISKERS,
        "Rank 1: no other token contributes more. A box that is one line at 1: so for at least 95 % of the tokens.",
    )


def not_own_figure(page: Page) -> Any:
    table = page.of("not-own", "share").filter(pl.col("group") == "")
    table = table.with_columns(kind=pl.lit("all tokens")).drop_nans()
    chart = series(
        table, "layer", {"all tokens": CATEGORIES[0]}, titles=("layer", "share of tokens"), legend=None, points=True
    )
    return themed(
        chart,
        f"{page.where}: hidden tokens whose main origin is another token",
        page.read,
        "The share of tokens that are not the largest contributor to their own place.",
    )


def neighbour_figure(page: Page) -> Any:
    table = page.of("neighbours", "relative").drop_nans().with_columns(kind="group")
    colours = dict(zip(GROUPS, ("#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#d8c415"), strict=True))
    chart = series(
        table,
        "layer",
        colours,
        titles=("layer", "share of the group's sum over layers"),
        legend="distance",
        points=True,
    )
    return themed(
        chart,
        f"{page.where}: in which layer neighbours of a distance count most",
        page.read,
        "Mean contribution of one such neighbour, left or right. Each line sums to 1 over the layers:",
        "lines tell in which layer a distance matters most, not which distance matters more.",
    )


def offset_figure(page: Page) -> Any:
    table = _broken_at_zero(_profiles(page, "offset"))
    chart = series(
        table, "place", _layer_colours(page), titles=("offset of the input token (left < 0)", "share of the context"),
        legend="layer", marked={0.0: "the token itself"},
    )  # fmt: skip
    return themed(
        chart,
        f"{page.where}: how far the context of a token reaches",
        page.read,
        "Contribution by offset, as a share of what does not come from the token itself. Lines sum to 1 together with",
        f"what is farther than {REACH} tokens (see the table); “all” is the mean over the layers.",
    )


def first_token_figure(page: Page) -> Any:
    kinds = {"to-first": "position of the input token", "to-first-by-separator": "distance from the first separator"}
    marks = {"to-first": {0.0: "first token"}, "to-first-by-separator": {0.0: "separator"}}
    charts = [
        series(
            _profiles(page, kind), "place", _layer_colours(page), titles=(title, "share"), legend="layer",
            marked=marks[kind], size=(360, 220),
        )
        for kind, title in kinds.items()
    ]  # fmt: skip
    return themed(
        alt.hconcat(*charts, spacing=30).resolve_scale(y="shared"),
        f"{page.where}: what the first token ([CLS]) is made of",
        f"{page.read} Total contribution to [CLS] by place over all texts, without its own part.",
        "The first separator ends a text, or stands where two texts meet. Far places are those of fewer texts.",
    )


def example_figure(page: Page, document: int, token: int, names: list[str]) -> Any:
    labels = numbered(names)
    rows = page.table.filter((pl.col("kind") == "example") & pl.col("layer").is_in(page.layers))
    rows = rows.filter(pl.col("statistic") == f"{document}:{token}")
    at = pl.col("group").str.split(" ").list.first().cast(pl.Int64)
    table = rows.sort(at, "layer").select(
        "layer", "value", token=at.replace_strict(dict(enumerate(labels)), return_dtype=pl.String)
    )
    return themed(
        strip(table.drop_nans(), own=labels[token], unit="contribution"),
        f"{page.where}: what token {token} “{names[token]}” of text {document} is made of",
        "One row a layer; a row sums to 1. Framed: the token itself, whose colour is cut at the end of the scale.",
    )


def tag_figure(page: Page, layers: Sequence[int]) -> Any:
    """A panel a layer, tags ordered by their median in the last one."""
    table, order = _tag_table(page, "tag-own", descending=True)
    top = float(table.filter(pl.col("layer").is_in(list(layers)))["q95"].max() or 1)  # type: ignore[arg-type]
    scales = "Each panel has its own scale." if len(layers) > 2 else ""
    panels = [
        boxes(
            table.filter(pl.col("layer") == layer), "group", titles=("", "own contribution"), order=order,
            percent=True, title=f"layer {layer}", step=20, angle=-90, top=top if len(layers) <= 2 else None,
        )
        for layer in layers
    ]  # fmt: skip
    return themed(
        alt.concat(*panels, columns=1 if len(layers) <= 2 else 2, spacing={"row": 84, "column": 72}, bounds="flush"),
        f"{page.where}: how much of a token is left in its place, by part of speech",
        page.read,
        WHISKERS,
        f"Ordered by the median in layer {page.layers[-1]}; tags of at least {FEWEST} tokens. {scales}",
    )


def tag_rank_figure(page: Page) -> Any:
    last = page.layers[-1]
    table, order = _tag_table(page, "tag-rank", descending=False)
    chart = boxes(
        table.filter(pl.col("layer") == last), "group", titles=("", "rank of the own token"), order=order, step=20,
        angle=-90,
    )  # fmt: skip
    return themed(
        chart,
        f"{page.where}: where a token ranks among its origins, by part of speech, layer {last}",
        page.read,
        WHISKERS,
        f"Ordered by the median; tags of at least {FEWEST} tokens. Rank 1: no other token contributes more.",
    )


def _tag_table(page: Page, kind: str, *, descending: bool) -> tuple[pl.DataFrame, list[str]]:
    """The spread of tags that are not rare, and their order by median, then mean of the quartiles."""
    table = page.spread(kind).filter(pl.col("count") >= FEWEST)
    last = table.filter(pl.col("layer") == page.layers[-1])
    order = last.sort("median", pl.col("q25") + pl.col("q75"), "group", descending=[descending, descending, False])
    rest = [tag for tag in table["group"].unique(maintain_order=True) if tag not in set(order["group"])]
    return table, [*order["group"], *rest]


def _profiles(page: Page, kind: str) -> pl.DataFrame:
    """Shares by place of the first, middle and last layer and of all layers together."""
    names = {**page.first_middle_last, None: "all"}
    rows = page.table.filter((pl.col("kind") == kind) & ~pl.col("group").str.contains("[<>]")).drop_nans("value")
    parts = [
        rows.filter(pl.col("layer").eq_missing(pl.lit(layer, dtype=pl.Int64))).select(
            "value", place=pl.col("group").cast(pl.Int64), kind=pl.lit(name)
        )
        for layer, name in names.items()
    ]
    return pl.concat(parts).filter(pl.col("value") > 0)


def _broken_at_zero(table: pl.DataFrame) -> pl.DataFrame:
    """A line must not run through offset 0, which is the token itself and has no value here."""
    kinds = table["kind"].unique(maintain_order=True)
    gap = pl.DataFrame({"value": None, "place": 0, "kind": kinds}, schema=table.schema)
    return pl.concat([table, gap]).sort("kind", "place")


def _layer_colours(page: Page) -> dict[str, str]:
    named = [page.first_middle_last[layer] for layer in sorted(page.first_middle_last)]
    return dict(zip([*named, "all"], ("#440154", "#21918c", "#e0a500", "#999999")[-len(named) - 1 :], strict=True))
