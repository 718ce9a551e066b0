r"""The three lamps of every head over a corpus (headwise.lamps), with intervals from resampled texts.

    null_share    1 − Σ_q ‖a⊥_q‖² / Σ_q ‖a_q‖²             of a text: what of the squared weights changes nothing
    unique_rows   the share of rows that no other distribution can replace
    loose         mean over rows of how far a weight may go to keys that send nearly the same (measures/loose.py)
    carried       mean over rows of Σ_k min(α_k, p_k)       p_k = ‖α_k f(x_k)‖ / Σ_j ‖α_j f(x_j)‖
    parked, sent  mean over rows of Σ_{k ∈ P} α_k and of Σ_{k ∈ P} p_k
    neighbour     the most of a row's weight, in the mean, that goes one way: a token back, to itself, a token on

P are special tokens, periods and commas, and the first token of a causal model. For loose, carried, parked, sent and
neighbour only rows with a choice (three keys or more) count. Every number is taken text by text; its mean over texts
lights the lamp, and resampled texts give its interval. Rows with a name are heads; the row `all` is their mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl
import torch
from jaxtyping import Float, Float64
from numpy import ndarray
from torch import Tensor

from headwise.allowed import SEED, setting
from headwise.lamps import (
    ASKED,
    CARRIED,
    NULL,
    QUESTIONS,
    ROUNDED,
    SINK,
    WIDTH_LARGE,
    WIDTH_SMALL,
    Colour,
    Lamps,
    held_back,
    lamps,
    summed_up,
)
from headwise.measures import ATTENTION
from headwise.measures.loose import loose
from headwise.measures.reductions import key_sums, squared_norms
from headwise.models.model import Model
from headwise.plots.grid import head_grid
from headwise.plots.theme import themed
from headwise.stats import Pieces
from headwise.studies import STUDIES
from headwise.studies.answers import BELIEVE, NOISE, Answer, Verdict, Vote
from headwise.studies.nullspace import identifiable
from headwise.studies.state import Key
from headwise.studies.study import Reading, Setting, State, Stats, Study, at, each_stack
from headwise.studies.tables import counted, first_stack, percent, within
from headwise.traces.lamps import CHOICE, OTHER, head_of, neighbours
from headwise.types import Layer

BESIDE = ("before", "same", "after")
SUMS = ("whole", "reached", "unique", "rows", "loose", "carried", "parked", "sent", *BESIDE, "chosen")
NUMBERS = ("null_share", "unique_rows", "loose", "carried", "parked", "sent", "neighbour")
SHOWN = {"null_share": "changes nothing", "loose": "room to move", "carried": "follows the weights",
         "parked": "parked on no word"}  # fmt: skip
RESTS_ON: Mapping[str, tuple[str, ...]] = {  # the numbers by which a lamp is lit
    "unique": ("null_share", "unique_rows", "loose"),
    "carries": ("carried", "parked", "sent", "neighbour"),
}
ALL = "all"
VERDICTS: Mapping[str, Verdict] = {"green": "yes", "amber": "with care", "red": "no"}
MOST = 0.95  # of the resampled means lie in the interval


@STUDIES.add("lamps", "whether each head's map may be shown: unique? carries anything? with intervals", order=45)
@dataclass(frozen=True)
class Lit(Study):
    """`resamples` of the texts give the intervals, from `seed`."""

    title: ClassVar[str] = "May a head's map be shown?"
    first_by: ClassVar[tuple[str, ...]] = ("stack", "-null_share")
    captions: ClassVar[Mapping[str, str]] = {"lamps": "the numbers that light the lamps of every head, head by head"}
    resamples: int = setting(1000, least=100, most=10**6)
    seed: int = setting(0, least=0, most=SEED)

    def observe(self, layer: Layer, reading: Reading) -> Stats:
        """Sums over these rows for every text and head; blocks of rows are kept apart until the end."""
        parts = _sums(layer, reading)
        pieces = {int(number): part[None] for number, part in zip(reading.documents, parts, strict=True)}
        return {at(f"rows {layer.first_row}", layer): Pieces.of(pieces)}

    def conclude(self, state: State, model: Model, report: Callable[[str], None]) -> Stats:  # noqa: ARG002
        """The blocks of a text added up."""
        total: dict[str, dict[int, Tensor]] = {}
        for key in state:
            documents = total.setdefault(str(Key.read(key)._replace(name="lamps")), {})
            for number, part in state.documents(key).items():
                documents[number] = documents[number] + part if number in documents else part.clone()
        return {key: Pieces.of(documents) for key, documents in total.items()}

    def table(self, state: State, setting: Setting) -> pl.DataFrame:
        """One row a head, and one of all: numbers, their intervals, how many texts, the lamps, whether to show it."""
        rows = [row for stack in setting.stacks for row in self._rows(stack, values_of(state, stack))]
        return pl.DataFrame(
            rows, infer_schema_length=None, schema_overrides={"layer": pl.Int64, "head": pl.Int64, "held": pl.String}
        )

    def _rows(self, stack: str, layers: list[Float[ndarray, "document head number"]]) -> Iterator[dict[str, Any]]:
        names = [(layer, head) for layer, values in enumerate(layers) for head in range(values.shape[1])]
        values = np.concatenate(layers, axis=1)
        with_all = np.concatenate([_mean(values, 1)[:, None], values], axis=1)
        for place, numbers in zip([(None, None), *names], self._intervals(with_all), strict=True):
            layer, head = place
            name = ALL if layer is None else f"L{layer}.H{head}"
            lit = lamps(head_of(numbers))
            colours = {f"lamp_{question}": getattr(lit, question).colour for question in QUESTIONS}
            where = {"stack": stack, "layer": layer, "head": head, "name": name, "texts": len(values)}
            held = ", ".join(lamp.question for lamp in lit if lamp.held) or None
            yield {**where, **numbers, **colours, "held": held, "show": lit.showing, "sink": lit.sink}

    def _intervals(self, values: Float[ndarray, "document head number"]) -> Iterator[dict[str, float]]:
        """Of every head the mean of each number, and the interval of the mean."""
        means = _mean(values, 0)
        generator = np.random.default_rng(self.seed)
        weights = generator.multinomial(len(values), np.full(len(values), 1 / len(values)), size=self.resamples)
        there = ~np.isnan(values)
        total, count = (np.einsum("rd,dhn->rhn", weights, of) for of in (np.nan_to_num(values), there.astype(float)))
        drawn = np.where(count > 0, total / np.maximum(count, 1e-12), np.nan)
        low, high = _ends(drawn)
        for head in range(values.shape[1]):
            yield {key: float(of[head, number]) for number, name in enumerate(NUMBERS)
                   for key, of in ((name, means), (f"{name}_low", low), (f"{name}_high", high))}  # fmt: skip

    def answers(self, table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:
        table = first_stack(table)
        if table.is_empty():
            return
        whole, heads = table.row(by_predicate=pl.col("name") == ALL, named=True), table.filter(pl.col("name") != ALL)
        texts = counted(setting.tokens["documents"], "text")
        lit = {row["name"]: lamps(head_of(row)) for row in heads.iter_rows(named=True)}
        by = f"by the lamps {ASKED['unique'].lower()} and {ASKED['carries'].lower()} in the mean over {texts}"
        yield Answer(BELIEVE, f"{summed_up(list(lit.values()), asks='')[:-1]} ({by}).")
        yield _voted(
            whole,
            lit,
            "unique",
            "null_share",
            "of the squared weights change nothing, if weights may be negative or not sum to 1",
        )
        yield _voted(whole, lit, "carries", "carried", "of what is sent follows the weights")
        sinks = heads.filter(pl.col("sink")).sort("parked", descending=True)
        if len(sinks):
            first = ", ".join(sinks["name"].head(3).to_list())
            said = f"{len(sinks)} of {len(heads)} heads are sinks: {percent(SINK)} of their weight or more is parked on"
            yield Answer(NOISE, f"{said} {_places(setting)} together (most in {first}; {texts}).")

    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        """`lamps`: layers × heads, one grid a number."""
        whole = self.table(state, setting).filter(pl.col("name") != ALL)

        def drawn(stack: str, where: str) -> dict[str, Any]:
            heads = whole.filter(stack=stack).unpivot(
                list(SHOWN), index=["layer", "head", "name"], variable_name="what", value_name="value"
            )
            caption = (
                "Shares, means over texts. Room: how far a weight may go to tokens that send nearly the same. "
                "Parked: on special tokens, periods, commas, a causal model's first token."
            )
            grids = head_grid(heads, SHOWN, tops=dict.fromkeys(SHOWN, 1.0) | {"loose": WIDTH_LARGE})
            return {"lamps": themed(grids, f"{where}: what lights the lamps", caption)}

        return each_stack(setting, drawn)


def _sums(layer: Layer, reading: Reading) -> Float64[Tensor, "batch head number"]:
    """The sums of SUMS over the real rows of this block; float64 from one number a row on."""
    real = layer.query_mask.double()[:, None]
    chosen = real * (layer.visible.sum(-1) >= CHOICE)[:, None]
    whole, reached = squared_norms(layer)
    parked = _parking(layer, reading)
    weight = key_sums(layer, "raw", parked[..., None])[..., 0]
    total, sent = key_sums(layer, "norm", torch.stack([torch.ones_like(parked), parked], -1)).unbind(-1)
    total = total.clamp(min=torch.finfo(total.dtype).tiny)
    carried = torch.minimum(layer.alpha, ATTENTION["norm"](layer) / total[..., None]).sum(-1)
    rows = (
        (whole, real), (reached, real), (identifiable(layer), real), (torch.ones_like(real), real),
        (loose(layer).to(real), chosen), (carried, chosen), (weight, chosen), (sent / total, chosen),
        *((step, chosen) for step in neighbours(layer).unbind(-1)), (torch.ones_like(real), chosen),
    )  # fmt: skip
    return torch.stack([(of.double() * counts).sum(-1).expand(whole.shape[:2]) for of, counts in rows], -1).cpu()


def _parking(layer: Layer, reading: Reading) -> Float[Tensor, "batch key"]:
    kinds = reading.key_categories(layer)
    return ((kinds != OTHER) & (kinds >= 0)).to(layer.alpha)


def values_of(state: State, stack: str) -> list[Float[ndarray, "document head number"]]:
    """Layer by layer the numbers of every text and head."""
    found = []
    for pieces in state.by_layer(Pieces, "lamps", stack):
        sums = dict(zip(SUMS, torch.cat(pieces.tensors).unbind(-1), strict=True))
        null = (1 - sums["reached"] / sums["whole"]).clamp(0, 1)
        by_rows = [
            sums["unique"] / sums["rows"],
            *(sums[name] / sums["chosen"] for name in ("loose", "carried", "parked", "sent")),
            torch.stack([sums[step] for step in BESIDE]).amax(0) / sums["chosen"],
        ]
        found.append(torch.stack([null, *by_rows], -1).numpy())
    return found


def _mean(values: Float[ndarray, "..."], axis: int) -> Float[ndarray, "..."]:
    count = (~np.isnan(values)).sum(axis)
    return np.where(count > 0, np.nansum(values, axis) / np.maximum(count, 1), np.nan)


def _ends(drawn: Float[ndarray, "resample head number"]) -> Float[ndarray, "end head number"]:
    """Where the middle of the resampled means ends; NaN for a number that no text has."""
    ends, known = np.full((2, *drawn.shape[1:]), np.nan), ~np.isnan(drawn).all(0)
    ends[:, known] = np.nanquantile(drawn[:, known], [(1 - MOST) / 2, (1 + MOST) / 2], axis=0)
    return ends


def _places(setting: Setting) -> str:
    first = "the first token, " if setting.causal else ""
    return f"{first}special tokens, periods and commas"


def _voted(
    whole: Mapping[str, Any], lit: Mapping[str, Lamps], question: Literal["unique", "carries"], number: str, says: str
) -> Answer:
    """The mean over heads and texts with its interval; the lamp of the mean is the vote, beside those of the heads.

    Whether the weights are unique is voted by that lamp's own answer, also where it is held back for the other's sake:
    the other has a vote of its own, and the worst decides.
    """
    value, low, high = (whole[name] for name in (number, f"{number}_low", f"{number}_high"))
    if not np.isfinite(value):
        return Answer(BELIEVE, f"{ASKED[question]} These texts are too short to tell.")
    mean, colours = lamps(head_of(whole)), [_colour(each, question) for each in lit.values()]
    held = sum(getattr(each, question).held for each in lit.values()) if question == "carries" else 0
    told = {word: f"{colours.count(of)} {word}" for of, word in VERDICTS.items()}
    told["with care"] += f" ({held} held back)" if held else ""
    heads = f"of {len(lit)} heads {', '.join(told.values())}"
    scale = NULL if question == "unique" else CARRIED
    said, least, most = within(value, low, high, (scale.good, scale.bad))
    clause = (
        f"{said} {says} ({least} to {most}, {counted(whole['texts'], 'text')}; {heads})"
        f"{_but(mean, question, whole)}{_close(question, whole)}"
    )
    green = tuple(name for name, colour in zip(lit, colours, strict=True) if colour == "green")
    vote = Vote(question, VERDICTS[_colour(mean, question)], clause, holds_for=green, out_of=len(lit))
    return Answer(BELIEVE, f"{ASKED[question]} In the mean over heads {clause}.", vote=vote)


def _colour(found: Lamps, question: Literal["unique", "carries"]) -> Colour:
    lamp = getattr(found, question)
    return "green" if question == "unique" and lamp.held else lamp.colour


def _close(question: Literal["unique", "carries"], whole: Mapping[str, Any]) -> str:
    """What the lamp might also be, with one of its numbers at an end of its interval."""
    found = [
        _colour(lamps(head_of({**whole, name: end})), question)
        for name in RESTS_ON[question] for end in (whole.get(f"{name}_low"), whole.get(f"{name}_high"))
        if end is not None and np.isfinite(end)
    ]  # fmt: skip
    own = _colour(lamps(head_of(whole)), question)
    order = list(VERDICTS)
    places = sorted(map(order.index, [own, *found]))
    others = [f"“{VERDICTS[colour]}”" for colour in order[places[0] : places[-1] + 1] if colour != own]
    return f"; close: within the intervals it could be {' or '.join(others)}" if others else ""


def _but(mean: Lamps, question: Literal["unique", "carries"], whole: Mapping[str, Any]) -> str:
    """Why the lamp of the mean is not what its number alone would light."""
    if question == "carries" and mean.sink:
        hollow = ", less than half as much" if whole["sent"] < whole["parked"] / 2 - ROUNDED else ""
        there = f"{percent(whole['sent'])} of what is sent comes from there{hollow}"
        return f"; a sink: {percent(whole['parked'])} of the weight is parked, {there}"
    if question == "carries":
        return f"; yes, but held back: {held_back(mean)}" if mean.carries.held else ""
    moved = whole.get("loose") or 0.0  # a run of an earlier version has none
    if moved >= WIDTH_SMALL:
        return f"; {percent(moved)} of a row may move to tokens that send nearly the same"
    if whole["unique_rows"] >= 1:
        return f"; {'' if _colour(mean, question) == 'green' else 'yet '}no other distribution gives the output"
    room = _colour(mean, question) == "amber" and NULL.colour(whole["null_share"]) == "green"
    return f"; {percent(1 - whole['unique_rows'])} of the rows may leave room for another distribution" if room else ""
