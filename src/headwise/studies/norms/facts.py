"""The rows of the table, one a fact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jaxtyping import Float
from torch import Tensor

from headwise.stats import Moments, RankHistogram, Sums
from headwise.studies.norms.frequencies import frequency_correlations
from headwise.studies.study import State
from headwise.text.categories import CATEGORIES

GRIDS = {"fig4": "separator", "fig10": "first", "fig11": "punctuation", "fig12": "other"}
SPREAD = ("mean", "sd", "cv", "high", "low")
Fact = tuple[str, str, int | None, int | None, str | None, str | None, str, float]


def facts(state: State, stack: str) -> Iterator[Fact]:
    for layer, moments in enumerate(state.by_layer(Moments, "f", stack)):
        yield from _per_head("table1", stack, layer, {name: getattr(moments, name) for name in SPREAD})
    for layer, moments in enumerate(state.by_layer(Moments, "x", stack)):
        for name in SPREAD:
            yield ("table4", stack, layer, None, f"L{layer}", None, _said(name), float(getattr(moments, name)))
    yield from _by_category(state, stack)
    yield from _correlations(state, stack)
    for what, count, rho in frequency_correlations(state, stack):
        yield ("fig6", stack, None, None, None, None, f"rho_{what}", rho)
        yield ("fig6", stack, None, None, None, None, f"n_{what}", float(count))
    for layer, sums in enumerate(state.by_layer(Sums, "singular", stack)):
        top, bottom = sums.mean[:, 0], sums.mean[:, -1]
        yield from _per_head("fig9", stack, layer, {"largest": top, "smallest": bottom, "ratio": top / bottom})


def _said(name: str) -> str:
    return {"high": "max", "low": "min"}.get(name, name)


def _per_head(
    paper: str, stack: str, layer: int, columns: Mapping[str, Float[Tensor, " head"]], category: str | None = None
) -> Iterator[Fact]:
    for name, values in columns.items():
        for head, value in enumerate(values.tolist()):
            yield (paper, stack, layer, head, f"L{layer}.H{head}", category, _said(name), value)


def _by_category(state: State, stack: str) -> Iterator[Fact]:
    """fig3 (layer means) and the heat maps (heads)."""
    names = {"alpha": "raw/to", "norm": "norm/to", "f": "f/of"}
    means = {what: [sums.mean for sums in state.by_layer(Sums, name, stack)] for what, name in names.items()}
    for figure, category in GRIDS.items():
        number = CATEGORIES.index(category)
        for what, layers in means.items():
            for layer, mean in enumerate(layers):
                column = mean.reshape(-1, len(CATEGORIES))[:, number]
                if what != "f":
                    yield ("fig3", stack, layer, None, f"L{layer}", category, what, float(column.mean()))
                yield from _per_head(figure, stack, layer, {what: column}, category)


def _correlations(state: State, stack: str) -> Iterator[Fact]:
    counts = state.of(RankHistogram, f"rank@{stack}")
    whole = RankHistogram(counts.x_bins, counts.y_bins, counts.counts.sum(0, keepdim=True))
    for names, part in ((CATEGORIES, counts), (("all",), whole)):
        numbers = {"rho": part.correlation(), "error_bound": part.error_bound(), "pairs": part.count.double()}
        for what, values in numbers.items():
            for category, value in zip(names, values.tolist(), strict=True):
                if what != "pairs" or value > 0:
                    yield ("table2", stack, None, None, None, category, what, value)
