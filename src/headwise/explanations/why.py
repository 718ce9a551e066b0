r"""Why does a head look there? The score before the softmax, as an exact sum of what query and key are made of.

In the frozen network (frozen.py), cut at every earlier head and feed-forward block, the hidden token that a query is
made of is a sum: its embedding, what every earlier head brought to it from each token, what every earlier feed-forward
block gave, and biases. The norms, W_Q, a norm of queries and their rotation are linear there, so that with the key held

    score(q, k)  =  Σ_components Σ_tokens  part,      by one backward pass,

and the same with the query held, for what the key is made of. Either side adds up to the whole score, scale, position
biases and caps included: whatever the model's own softmax reads. A head's part is spread over the tokens whose values
it read; what an embedding or a feed-forward block gives belongs to the query (or key) itself; a bias to no token.

That the parts add up is checked for every score, to 1e-4 of the score or of the largest part, if that is more. A model
that does not multiply queries and keys by a plain product, or that mixes tokens outside attention, is refused.
Relatives: Elhage et al. 2021 (https://transformer-circuits.pub/2021/framework), there in weights and for two layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from headwise.attributions.passes import plain_experts
from headwise.attributions.prediction import attend_all
from headwise.errors import ModelError
from headwise.explanations.frozen import Freezing, Scored, freezing
from headwise.explanations.query_key import QueryKey, query_key_of
from headwise.explanations.rotations import pairs_of
from headwise.measures.gradients import differentiating
from headwise.models.blocks import feed_forwards
from headwise.models.capture import Call, watching
from headwise.models.editing import Place, giving
from headwise.models.model import Model
from headwise.text.written import pretty
from headwise.traces import WAYS, Trace

TOLERANCE = 1e-4
SIDES = {"query": "left", "key": "right"}  # of q @ kᵀ
SCHEMA = {"side": pl.String, "component": pl.String, "stack": pl.String, "layer": pl.Int64, "head": pl.Int64,
          "place": pl.Int64, "token": pl.String, "part": pl.Float64}  # fmt: skip
Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One cell of one map."""

    stack: str
    layer: int
    head: int
    query: int
    key: int


@dataclass(frozen=True)
class Why:
    """`table`: side (query or key), component, stack, layer and head, place and token that it comes from, part.

    The parts of each side add up to `score`; `error` is how far they are from it. `weight` is the attention itself.
    `query_key`: the score by dimensions of the head, where it is one product (query_key.py).
    """

    cell: Cell
    tokens: tuple[str, str]
    score: float
    weight: float
    table: pl.DataFrame
    error: float
    query_key: QueryKey | None = None

    def top(self, count: int = 5) -> pl.DataFrame:
        """The largest parts of each side, by size."""
        ordered = self.table.sort(pl.col("part").abs(), descending=True)
        return pl.concat([ordered.filter(side=side).head(count) for side in SIDES])

    def __str__(self) -> str:
        cell, (query, key) = self.cell, map(pretty, self.tokens)
        where = f"{'' if cell.stack == 'self' else f'{cell.stack} '}L{cell.layer}.H{cell.head}"
        lines = [f"{where} gives {self.weight:.2f} of the attention of {query!r} to {key!r} (score {self.score:.2f})."]
        for side, token in zip(SIDES, (query, key), strict=True):
            parts = ", ".join(_said(row) for row in self.top(3).filter(side=side).to_dicts())
            lines.append(f"Of what {token!r} is made of ({side}): {parts}.")
        return "\n".join(lines)

    __repr__ = __str__  # the end of a notebook's cell says what print says; `top()` and `table` have the numbers


def _said(row: Row) -> str:
    source = f" from {pretty(row['token'])!r}" if row["token"] is not None else ""
    return f"{row['part']:+.2f} {row['component']}{source}"


@dataclass(frozen=True)
class Reached:
    """The network up to an attention call: what is a leaf there, in the order of the pass, and what the call made."""

    heads: tuple[tuple[Tensor, Tensor, Tensor], ...]  # output, weights and values
    feed_forward: tuple[tuple[Place, Tensor], ...]
    embedded: tuple[Tensor, ...]
    constants: tuple[Tensor, ...]
    weights: Tensor  # of this call
    scored: Scored


class _Stop(Exception):  # noqa: N818 - no error
    """The last of the calls was reached; nothing above it is needed."""


@WAYS.add("why", "Why a head looks there.")
def why(trace: Trace, stack: str, layer: int, head: int, query: int, key: int) -> Why:
    """The parts of the score of one cell, on the query's side and on the key's."""
    return whys(trace, [Cell(stack, layer, head, query, key)])[0]


@WAYS.add("query_key", "The product of one query and one key, dimension by dimension.")
@differentiating()
def query_key(trace: Trace, stack: str, layer: int, head: int, query: int, key: int) -> QueryKey:
    """The score of one cell by the dimensions of its head."""
    cell = Cell(stack, layer, head, query, key)
    reached = _until(trace, [(stack, layer)], "left")[stack, layer]
    _read(trace.model, reached, cell)
    return _product_of(trace, reached.scored, cell)


def _product_of(trace: Trace, scored: Scored, cell: Cell) -> QueryKey:
    pairs = pairs_of(trace.model, trace.text, trace.target, (cell.stack, cell.layer))
    return query_key_of(
        scored, (cell.head, cell.query, cell.key), pairs, where=_where(trace, cell), name=trace.model.name,
        tokens=_tokens(trace, cell),
    )  # fmt: skip


def _where(trace: Trace, cell: Cell) -> str:
    """The head, and of which attention it is where there are several."""
    stack = f"{cell.stack} " if len(trace.stacks) > 1 else ""
    return f"{stack}L{cell.layer}.H{cell.head}"


def _tokens(trace: Trace, cell: Cell) -> tuple[str, str]:
    return trace.queries(cell.stack).tokens[cell.query], trace.keys(cell.stack).tokens[cell.key]


@differentiating()
def whys(trace: Trace, cells: Sequence[Cell]) -> list[Why]:
    """The same for several cells, which share their two passes."""
    model: Model = trace.model
    if model.hf.dtype not in (torch.float32, torch.float64):
        raise ModelError(f"Parts of a score need float32 or float64, but {model.name} is in {model.hf.dtype}.")
    places = list(dict.fromkeys((cell.stack, cell.layer) for cell in cells))
    runs = {side: _until(trace, places, way) for side, way in SIDES.items()} if places else {}
    return [_found(trace, cell, {side: run[cell.stack, cell.layer] for side, run in runs.items()}) for cell in cells]


def _found(trace: Trace, cell: Cell, runs: Mapping[str, Reached]) -> Why:
    rows: list[Row] = []
    score = weight = error = 0.0
    for side, reached in runs.items():
        score, weight = _read(trace.model, reached, cell)
        parts = list(_parts(trace, reached, cell, side))
        error = max(error, _missed(trace.model, parts, score))
        rows += [{"side": side, **row} for row in parts]
    try:
        by_dimension = _product_of(trace, runs["query"].scored, cell)
    except ModelError:
        by_dimension = None
    return Why(cell, _tokens(trace, cell), score, weight, pl.DataFrame(rows, schema=SCHEMA), error, by_dimension)


def _until(trace: Trace, places: Sequence[Place], side: str) -> dict[Place, Reached]:
    """Run the frozen network up to the attention at these places, cut at every head and feed-forward block before."""
    model: Model = trace.model
    sites = [(site.stack, site.index) for site in model.proof.sites]
    heads: list[tuple[Tensor, Tensor, Tensor]] = []
    feed_forward: list[tuple[Place, Tensor]] = []
    found: dict[Place, Reached] = {}

    def watch(call: Call) -> tuple[Tensor, Tensor]:
        out, alpha = attend_all(call)
        at = sites[len(heads)]
        if at in places:
            embedded = tuple(leaf for _, leaf in mode.leaves.embedded)
            found[at] = Reached(
                tuple(heads), tuple(feed_forward), embedded, tuple(mode.leaves.constants), alpha.detach(), mode.last()
            )
            if len(found) == len(places):
                raise _Stop
        leaf = out.detach().requires_grad_()
        heads.append((leaf, alpha.detach(), call.value.detach()))
        return leaf, alpha

    def cut(place: Place) -> Any:
        def leaf_of(out: Tensor) -> Tensor:
            leaf = out.detach().requires_grad_()
            feed_forward.append((place, leaf))
            return leaf

        return leaf_of

    blocks = feed_forwards(model)
    inputs = model.batch([trace.text], [] if trace.target is None else [trace.target]).inputs
    cutting = giving(model, blocks, {place: cut(place) for place in blocks})
    options = {"use_cache": False} if model.causal or model.is_encoder_decoder else {}
    with freezing(model, Freezing(), side=side) as mode, watching(model.hf, watch), plain_experts(model), cutting, mode:
        try:
            model.hf(**inputs, **options)
        except _Stop:
            return found
    stack, layer = next(place for place in places if place not in found)
    raise ModelError(f"The attention of {stack} layer {layer} of {model.name} was not reached.")


def _read(model: Model, reached: Reached, cell: Cell) -> tuple[float, float]:
    """The score and the weight; what the softmax read must give the weights of this very call."""
    weights, scores = reached.weights, reached.scored.scores
    row = None if scores is None else scores.detach()
    if row is not None and row.ndim == 4 and row.shape[:3] == weights.shape[:3]:
        row = row[0, cell.head, cell.query]
        own = row.softmax(-1)[: weights.shape[-1]]
        if torch.allclose(own.to(weights), weights[0, cell.head, cell.query], atol=1e-5):
            return float(row[cell.key]), float(weights[0, cell.head, cell.query, cell.key])
    raise ModelError(f"A score must be what a softmax reads, but the weights of {model.name} come from no plain one.")


def _parts(trace: Trace, reached: Reached, cell: Cell, side: str) -> Iterator[Row]:
    model: Model = trace.model
    scores = reached.scored.scores
    assert scores is not None
    heads, blocks = [leaf for leaf, _, _ in reached.heads], [leaf for _, leaf in reached.feed_forward]
    leaves = [*heads, *blocks, *reached.embedded, *reached.constants]
    score = scores[0, cell.head, cell.query, cell.key]
    slopes = torch.autograd.grad(score, leaves, allow_unused=True, retain_graph=True)
    slope = dict(zip(map(id, leaves), slopes, strict=True))
    source = _source(trace, cell, side)
    bias = sum(float(_product(leaf, slope[id(leaf)]).sum()) for leaf in reached.constants)
    own = 0.0
    for leaf in reached.embedded:
        part = _product(leaf, slope[id(leaf)])
        if tuple(leaf.shape[:-1]) in ((1, source.count), (source.count,)):
            _alone(model, part.reshape(source.count, -1), source.place)
            own += float(part.sum())
        else:
            bias += float(part.sum())
    yield {"component": "embedding", "place": source.place, "token": source.tokens[source.place], "part": own}
    for (stack, layer), leaf in reached.feed_forward:
        part = float(_product(leaf, slope[id(leaf)]).sum())
        if stack in source.stacks:
            yield {"component": f"feed-forward {layer}", "stack": stack, "layer": layer, "place": source.place,
                   "token": source.tokens[source.place], "part": part}  # fmt: skip
    for site, (leaf, alpha, value) in zip(model.proof.sites, reached.heads, strict=False):
        g = slope[id(leaf)]
        if site.stack in source.stacks and g is not None:
            _alone(model, _product(leaf, g)[0].flatten(1), source.place)
            yield from _head_rows(trace, (site.stack, site.index), _by_key(g, alpha, value))
    yield {"component": "bias", "part": bias}


@dataclass(frozen=True)
class _Source:
    """Which token a side is made of, among which, and the stacks that it passed."""

    place: int
    tokens: tuple[str, ...]
    stacks: tuple[str, ...]

    @property
    def count(self) -> int:
        return len(self.tokens)


def _source(trace: Trace, cell: Cell, side: str) -> _Source:
    place, text = (cell.query, trace.queries(cell.stack)) if side == "query" else (cell.key, trace.keys(cell.stack))
    if cell.stack in ("self", "encoder"):
        return _Source(place, text.tokens, (cell.stack,))
    if cell.stack == "cross" and side == "key":
        return _Source(place, text.tokens, ("encoder",))
    return _Source(place, text.tokens, ("decoder", "cross"))


def _product(leaf: Tensor, slope: Tensor | None) -> Float64[Tensor, "..."]:
    return torch.zeros_like(leaf).double() if slope is None else leaf.detach().double() * slope.double()


def _by_key(slope: Float[Tensor, "one query head d_head"], alpha: Tensor, value: Tensor) -> Float64[Tensor, "head key"]:
    """What a head brought, by the token whose value it read (without a sink, which has none)."""
    wide = value[0].repeat_interleave(alpha.shape[1] // value.shape[1], dim=0).double()
    weights = alpha[0, ..., : wide.shape[1]].double()
    return torch.einsum("hqk,qhd,hkd->hk", weights, slope[0].double(), wide)


def _head_rows(trace: Trace, place: Place, parts: Float64[Tensor, "head key"]) -> Iterator[Row]:
    stack, layer = place
    tokens, of = trace.keys(stack).tokens, "" if stack == "self" else f"{stack} "
    for head, row in enumerate(parts.tolist()):
        for key, part in enumerate(row):
            if part != 0.0:
                yield {"component": f"{of}L{layer}.H{head}", "stack": stack, "layer": layer, "head": head, "place": key,
                       "token": tokens[key], "part": part}  # fmt: skip


def _alone(model: Model, part: Float64[Tensor, "token number"], place: int) -> None:
    """Between attentions, a hidden token is made of its own past alone."""
    size = part.abs().sum(-1)
    if float(size.sum() - size[place]) > TOLERANCE * float(size.sum()):
        raise ModelError(
            f"Tokens must be mixed by attention alone, and queries multiplied with keys in this order, but "
            f"{model.name} does otherwise; its scores have no such parts."
        )


def _missed(model: Model, rows: list[Row], score: float) -> float:
    parts = [row["part"] for row in rows]
    error = abs(sum(parts) - score) / max(abs(score), max(map(abs, parts)), 1e-9)
    if not error <= TOLERANCE:
        raise ModelError(
            f"The parts of a score must add up to it to {TOLERANCE:g}, but those of {model.name} miss by {error:.1e}."
        )
    return error


__all__ = ["Cell", "Why", "query_key", "why", "whys"]
