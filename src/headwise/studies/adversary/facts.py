"""The table of the adversary study."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from headwise.stats import Moments
from headwise.studies.faithfulness import interval
from headwise.studies.study import Setting, State

SCHEMA = {"form": pl.String, "stack": pl.String, "layer": pl.Int64, "head": pl.Int64, "name": pl.String,
          "what": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64, "count": pl.Int64}  # fmt: skip
Fact = tuple[str, str | None, int | None, int | None, str | None, str, float, float, float, int]
WHOLE = ("js", "tvd", "flipped")


def facts(state: State, setting: Setting) -> pl.DataFrame:
    """Whole texts first, then every head; what was never found (a model with short texts only) is left out."""
    rows = [*_whole(state), *(row for stack in setting.stacks for row in _heads(state, stack))]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row").filter(pl.col("value").is_finite())


def _whole(state: State) -> Iterator[Fact]:
    if "rival" in state:
        for what, row in zip(WHOLE, _rows(state.moments("rival")), strict=True):
            yield ("per-instance", None, None, None, None, what, *row)
    for name, tau in state.after(Moments, "tau/"):
        yield ("importance", None, None, None, None, name, *_rows(tau)[0])


def _heads(state: State, stack: str) -> Iterator[Fact]:
    names = {"rival": ("per-instance", "js"), "exact": ("exact", "js"), "change": ("exact", "output_change"),
             "free": ("exact", "rows_with_another")}  # fmt: skip
    for key, (form, what) in names.items():
        for layer, moments in enumerate(state.by_layer(Moments, key, stack)):
            for head, row in enumerate(_rows(moments)):
                yield (form, stack, layer, head, f"L{layer}.H{head}", what, *row)


def _rows(moments: Moments) -> list[tuple[float, float, float, int]]:
    """Mean, its 95 % interval and the count of each cell; no interval below two."""
    means, halves = interval(moments)
    return [(m, m - h, m + h, int(n)) for m, h, n in zip(means, halves, moments.count.tolist(), strict=True)]
