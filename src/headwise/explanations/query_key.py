r"""Query · key, dimension by dimension: what one score is the sum of inside a head (bertviz's neuron view, any family).

    q · k  =  Σ_d q_d k_d,        score  =  times · (q · k)  +  added

q and k are what the model's own attention multiplies: after norms, scales and rotations that it makes before. `times`
is the scale that follows (and a cap, held at its value), `added` what is added to the product before the softmax: a
position bias (relative, ALiBi), the mask, a shift of the whole row. Both are read off the frozen network (frozen.py),
by a derivative, so that no family is known by name.

Where positions turn pairs of dimensions (RoPE), q_d k_d of a single dimension depends on where the text begins; the sum
over the two dimensions of a pair depends on the distance alone, and is what `joined` gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import torch
from torch import Tensor

from headwise.errors import ModelError
from headwise.explanations.frozen import Scored
from headwise.text.written import pretty

SCHEMA = {"dimension": pl.Int64, "pair": pl.Int64, "query": pl.Float64, "key": pl.Float64, "product": pl.Float64}
SMALL = 1e-6  # of the score: less than this is not said to be added


@dataclass(frozen=True)
class QueryKey:
    """`table`: dimension, pair (its number; null where it is not turned with another), query, key, product."""

    where: str  # L3.H5
    tokens: tuple[str, str]
    score: float
    times: float
    table: pl.DataFrame

    @property
    def dot(self) -> float:
        """q · k."""
        return float(self.table["product"].sum())

    @property
    def added(self) -> float:
        """What the score has besides times · q · k; rounding is none."""
        left = self.score - self.times * self.dot
        return left if abs(left) > SMALL * max(abs(self.score), abs(self.times * self.dot), 1.0) else 0.0

    def joined(self) -> pl.DataFrame:
        """dimensions ("3" or "3+19") and product, the two dimensions of a pair as one, in the order of the first."""
        own = pl.coalesce(pl.col("pair"), -1 - pl.col("dimension"))  # a pair's number, or one of its own
        return (
            self.table.group_by(own.alias("own"), maintain_order=True)
            .agg(pl.col("dimension").cast(pl.String).str.join("+").alias("dimensions"), pl.col("product").sum())
            .drop("own")
        )

    def figure(self) -> Any:
        """An Altair chart of `joined`."""
        from headwise.plots.products import product_bars  # altair takes a second, and only a figure needs it

        return product_bars(self.joined(), *str(self).split("\n"))

    def __str__(self) -> str:
        query, key = map(pretty, self.tokens)
        top = self.joined().sort(pl.col("product").abs(), descending=True, maintain_order=True).head(3)
        parts = ", ".join(f"{row['product']:+.2f} ({row['dimensions']})" for row in top.to_dicts())
        bias = f" {self.added:+.2f} (position bias, mask or shift)" if self.added else ""
        return (
            f"{self.where}, query of {query!r} · key of {key!r} = {self.dot:.2f} over {len(self.table)} dimensions.\n"
            f"Score: {self.dot:.2f} × {self.times:.3g}{bias} = {self.score:.2f}. Largest by dimension: {parts}."
        )

    __repr__ = __str__  # the end of a notebook's cell says what print says


def factors(scored: Scored, name: str) -> tuple[Tensor, Tensor, Tensor]:
    """q [head query d], k [head key d] and their product as the network has it."""
    found = [one for one in scored.products if scored.scores is not None and _fits(one[2], scored.scores)]
    if len(found) != 1:
        raise ModelError(
            f"A score must be one product of a query and a key, but {name} makes it of {len(found) or 'no'} such "
            "products; it has no view by dimensions."
        )
    a, b, out = found[0]
    q, k = a.detach(), b.detach().transpose(-1, -2)
    return q.reshape(-1, *q.shape[-2:]), k.reshape(-1, *k.shape[-2:]), out


def _fits(out: Tensor, scores: Tensor) -> bool:
    """A product of all heads, queries and keys; a sink may stand beside the keys."""
    heads = out.shape[1] if out.ndim == 4 else out.shape[0]
    rows = (heads, out.shape[-2]) == tuple(scores.shape[1:3])
    return out.ndim in (3, 4) and scores.ndim == 4 and rows and 0 <= scores.shape[-1] - out.shape[-1] <= 1


def query_key_of(
    scored: Scored, place: tuple[int, int, int], pairs: Sequence[tuple[int, int]], *, where: str, name: str,
    tokens: tuple[str, str],
) -> QueryKey:  # fmt: skip
    """The products of one cell (head, query, key) of one attention call; `name` is the model's."""
    head, query, key = place
    q, k, out = factors(scored, name)
    assert scored.scores is not None
    score = scored.scores[0, head, query, key]
    slope = torch.autograd.grad(score, out, retain_graph=True)[0].reshape(len(q), *out.shape[-2:])
    a, b = q[head, query].double().cpu(), k[head, key].double().cpu()
    number = {d: at for at, pair in enumerate(pairs) for d in pair}
    table = pl.DataFrame(
        {"dimension": range(len(a)), "pair": [number.get(d) for d in range(len(a))], "query": a.tolist(),
         "key": b.tolist(), "product": (a * b).tolist()}, schema=SCHEMA
    )  # fmt: skip
    return QueryKey(where, tokens, float(score.detach()), float(slope[head, query, key]), table)


__all__ = ["QueryKey", "factors", "query_key_of"]
