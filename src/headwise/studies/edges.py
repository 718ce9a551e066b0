r"""Which quantity tells which edges matter: cut single edges, and rank them by each quantity.

An edge is the attention from one query to one key, of one head (`head`) or of all heads of a layer (`layer`). It is
cut, the rest of its row takes its share, and what moves is noted: the mean over tokens of |Δ loss|, that of a label, or
1 − cos of what an encoder gives. Edges are drawn from four strata of their weight (per layer as many from each, where
there are any), since most weights are tiny and a uniform draw would ask about nothing else.

    ρ = Spearman's rank correlation of a quantity and what moves, over the edges of a text; mean over texts

overall and within layers (mean of the layers' ρ), with a 95 % bootstrap interval over texts, and the same of the
difference to raw weights in the same texts. Of `layer` edges, quantities of heads are averaged over the heads.
Each stack of an encoder–decoder is asked on its own: its encoder, its decoder, and its cross-attention.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import polars as pl
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.allowed import SEED, setting
from headwise.attributions import PASSES
from headwise.errors import InputError, ModelError
from headwise.interventions.effects import Cut, Variant, effects
from headwise.interventions.outcomes import KINDS, Question
from headwise.measures import ATTENTION, MIXING
from headwise.models.model import Model
from headwise.plots import intervals
from headwise.plots.theme import themed
from headwise.results.shown import finite
from headwise.stats import Pieces
from headwise.stats.spearman import spearman
from headwise.studies import STUDIES
from headwise.studies.ablation import questions
from headwise.studies.ablation.answers import MATTER
from headwise.studies.ablation.facts import Array, ends, resampled
from headwise.studies.answers import Answer
from headwise.studies.needs import Cost
from headwise.studies.study import Reading, Setting, State, Stats, Study, each_stack
from headwise.studies.tables import counted
from headwise.types import Batch, Layer

STRATA = (0.003, 0.03, 0.1, 0.3, 1.01)  # of the weight
OF_HEADS = ("raw", "effective", "norm")
OF_LAYERS = (*OF_HEADS, "globenc", "alti", "value-zeroing")
PARTS = {"head": OF_HEADS, "layer": OF_LAYERS}
FEWEST = 6  # edges that a rank correlation takes
OF_STACK = {"self": "", "encoder": " of the encoder", "decoder": " of the decoder", "cross": " of the cross-attention"}
SCHEMA = {"stack": pl.String, "part": pl.String, "quantity": pl.String, "over": pl.String,
          "value": pl.Float64, "low": pl.Float64, "high": pl.Float64, "gain": pl.Float64, "gain_low": pl.Float64,
          "gain_high": pl.Float64, "texts": pl.Int64, "edges": pl.Int64}  # fmt: skip
Maps = Mapping[str, Float[Tensor, "layer head query key"]]


@STUDIES.add("edges", "do effective attention and norms tell which edges matter better than raw weights?", order=57)
@dataclass(frozen=True)
class EdgesStudy(Study):
    """`edges` a layer of every stack, of heads and of whole layers each. `texts`: how many, from the first on; 0 for
    all. `outcome`: what the model does, by default what its head is for. `seed` of the draw, the masks and the
    bootstrap."""

    title: ClassVar[str] = "Which quantity tells which edges matter"
    cost: ClassVar[Cost] = "passes"
    own_head: ClassVar[bool] = True
    by_name: ClassVar[bool] = True
    captions: ClassVar[Mapping[str, str]] = {"edges": "how each quantity ranks edges, against cutting them"}
    edges: int = setting(16, least=len(STRATA) - 1)
    texts: int = setting(8, least=0)
    outcome: str = ""
    seed: int = setting(0, least=0, most=SEED)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.outcome and self.outcome not in KINDS:
            raise InputError(f"What a model does is one of {', '.join(KINDS)}, but {self.outcome!r} was asked for.")

    def passes(self, tokens: int, heads: int) -> int:  # noqa: ARG002
        """Edges of heads and of whole layers, of about 12 heads each."""
        return 2 * self.edges * heads // 12

    def ask(self, model: Model, reading: Reading) -> Stats:
        first = reading.first(self.texts, model)
        found: dict[str, dict[int, Tensor]] = {}
        for question, number, row in questions(self, model, first) if first is not None else ():
            assert first is not None
            targets = [first.batch.targets[row]] if first.batch.targets else []
            batch = model.batch([first.batch.texts[row]], targets)
            for stack in model.stacks:
                maps, seen = maps_of(model, batch, stack)
                for part in PARTS:
                    cut = self._cut(model, question, part, maps, seen, number, stack=stack)
                    found.setdefault(f"{part}@{stack}", {})[number] = cut
        return {key: Pieces.of(rows) for key, rows in found.items()}

    def _cut(
        self, model: Model, question: Question, part: str, maps: Maps, seen: Tensor, number: int, *, stack: str
    ) -> Float[Tensor, "edge column"]:
        """Of every drawn edge: its layer, what moves, and the quantities."""
        weights = maps["raw"] if part == "head" else maps["raw"].mean(1, keepdim=True)
        drawn = drawn_edges(weights, seen, self.edges, self.seed * 1_000_003 + number)
        variants = [
            Variant(cuts=(Cut((stack, layer), query, key, head if part == "head" else None),))
            for layer, head, query, key in drawn.tolist()
        ]
        moved = effects(model, question, variants, signed=False)[:, 0]
        columns = [drawn[:, 0].double(), moved, *(_at(maps[name], drawn, part) for name in PARTS[part])]
        return torch.stack(columns, dim=1)

    def table(self, state: State, setting: Setting) -> pl.DataFrame:
        """One row a stack, part, quantity and way to rank."""
        keys = [(stack, part) for stack in setting.stacks for part in PARTS if f"{part}@{stack}" in state]
        rows = [{"stack": stack} | row for stack, part in keys for row in _rows(state, part, stack, self.seed)]
        return pl.DataFrame(rows, schema=SCHEMA)

    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        table = self.table(state, setting).filter(pl.col("value").is_not_nan())
        return each_stack(setting, lambda stack, where: _drawn(table.filter(stack=stack), where))

    def answers(self, table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:
        """Whether some quantity beats raw weights for sure, of edges of heads and of layers, stack by stack."""
        rows = table.filter((pl.col("over") == "all") & pl.col("value").is_finite())
        for stack in setting.stacks:
            for part, name in (("head", "a head"), ("layer", "a whole layer")):
                some = rows.filter(stack=stack, part=part)
                if not some.filter(quantity="raw").is_empty():
                    yield Answer(MATTER, _said(some, f"{name}{OF_STACK[stack]}"))


def _said(rows: pl.DataFrame, name: str) -> str:
    raw = rows.filter(quantity="raw")["value"][0]
    better = finite(rows, "gain_low").filter(pl.col("gain_low") > 0).sort("value", descending=True)
    texts = counted(int(rows["texts"][0]), "text")
    said = "no quantity tells it better for sure"
    if not better.is_empty():
        said = "better for sure: " + ", ".join(f"{r['quantity']} {r['value']:.2f}" for r in better.to_dicts())
    return f"Which edges of {name} matter, raw weights tell with ρ = {raw:.2f}; {said} ({texts})."


def _drawn(table: pl.DataFrame, where: str) -> dict[str, Any]:
    """The figure of one stack; none where nothing was cut."""
    if table.is_empty() or not int(table["edges"].sum() or 0):
        return {}
    rows = table.with_columns(what=pl.col("part") + "-" + pl.col("over"), name=pl.col("quantity"))
    panels = {
        "head-all": "edges of heads, all together", "head-layers": "… within layers",
        "layer-all": "edges of layers, all together", "layer-layers": "… within layers",
    }  # fmt: skip
    panels = {what: said for what, said in panels.items() if what in set(rows["what"])}  # few edges: none by layer
    texts = int(table["texts"].max())  # type: ignore[arg-type]
    chart = themed(
        intervals.dots(rows, panels, order=[q for q in OF_LAYERS if q in set(rows["quantity"])], control="raw"),
        f"{where}: which quantity tells which edges matter",
        "Rank correlation (Spearman's ρ) of a quantity with what moves when the edge is cut; mean over texts.",
        f"Bars: 95 % bootstrap intervals over {counted(texts, 'text')}. Dashed: raw weights.",
    )
    return {"edges": chart}


def maps_of(model: Model, batch: Batch, stack: str) -> tuple[Maps, Tensor]:
    """Every quantity of a stack, and which pairs are seen in each layer; NaN where a model has none."""
    layers: list[Layer] = []
    with torch.no_grad():
        model.run(batch, layers.append, rows=0, wanted=lambda site: site.stack == stack)
        maps = {name: torch.cat([ATTENTION[name](layer) for layer in layers]).abs() for name in OF_HEADS}
        for name in OF_LAYERS[len(OF_HEADS) :]:
            maps[name] = _mixing(model, batch, layers, name)
    return maps, torch.cat([layer.visible for layer in layers])


def _mixing(model: Model, batch: Batch, layers: Sequence[Layer], name: str) -> Float[Tensor, "layer one query key"]:
    """NaN also of what passes of the model tell of another stack than the first."""
    none = torch.full_like(layers[0].alpha[:, :1], torch.nan).repeat(len(layers), 1, 1, 1)
    try:
        if name in PASSES:
            return PASSES[name](model, batch)[0][:, None] if layers[0].stack == model.stacks[0] else none
        return torch.cat([MIXING[name](layer) for layer in layers])[:, None]
    except (InputError, ModelError):
        return none


def drawn_edges(
    weights: Float[Tensor, "layer head query key"], seen: Tensor, count: int, seed: int
) -> Int[Tensor, "edge place"]:
    """Layer, head, query and key of edges: in every layer as many from each stratum of the weight, where there are any.

    A row with one key cannot be cut: nothing would be left.
    """
    generator = torch.Generator().manual_seed(seed)
    each = count // (len(STRATA) - 1)
    found = []
    for layer, own in enumerate(weights):
        free = (seen[layer] & (seen[layer].sum(-1, keepdim=True) > 1)).expand_as(own)
        for low, high in pairwise(STRATA):
            places = (free & (own >= low) & (own < high)).nonzero()
            some = places[torch.randperm(len(places), generator=generator)[:each].sort().values]
            found.append(torch.cat([torch.full((len(some), 1), layer), some.cpu()], dim=1))
    return torch.cat(found)


def _at(maps: Float[Tensor, "layer head query key"], edges: Int[Tensor, "edge place"], part: str) -> Tensor:
    layer, head, query, key = edges.T
    if part == "layer":
        maps, head = maps.mean(1, keepdim=True), torch.zeros_like(head)
    return maps[layer, head, query, key].double().cpu()


def _rows(state: State, part: str, stack: str, seed: int) -> Iterator[dict[str, Any]]:
    texts = [tensor.numpy() for tensor in state.pieces(f"{part}@{stack}").tensors]
    weights = resampled(len(texts), seed)
    for over, rank in (("all", _overall), ("layers", _within)):
        rho = np.array([[rank(text, 2 + at) for text in texts] for at in range(len(PARTS[part]))])
        for at, quantity in enumerate(PARTS[part]):
            row = {"part": part, "quantity": quantity, "over": over, "value": float(np.mean(rho[at])),
                   "gain": float(np.mean(rho[at] - rho[0])), "texts": len(texts),
                   "edges": sum(len(text) for text in texts)}  # fmt: skip
            if weights is not None:
                low, high = map(float, ends(weights @ rho[at]))
                gain_low, gain_high = map(float, ends(weights @ (rho[at] - rho[0])))
                row |= {"low": low, "high": high, "gain_low": gain_low, "gain_high": gain_high}
            yield row


def _overall(text: Array, column: int) -> float:
    return float(spearman(text[:, 1], text[:, column])) if np.isfinite(text[:, column]).all() else float("nan")


def _within(text: Array, column: int) -> float:
    """The mean over the layers that have enough edges to be ranked."""
    layers = [text[text[:, 0] == layer] for layer in np.unique(text[:, 0])]
    ranked = [_overall(layer, column) for layer in layers if len(layer) >= FEWEST]
    known = [rho for rho in ranked if rho == rho]
    return float(np.mean(known)) if known else float("nan")
