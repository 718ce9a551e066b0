"""Which explanation of a prediction may be believed: comprehensiveness, sufficiency, agreement with leave-one-out.

For every text of the corpus the model's own prediction is explained by every method; then the tokens that a method
names are removed, or kept alone, and the model is asked again (attributions/faithfulness.py has the formulas). A token
classifier is asked about one token of each text, drawn by lot, whose own tokens may be removed too. `random`
names tokens by lot: a method that is no better says nothing about this model. All methods face the same texts, so
beside each mean there is the mean of the differences from `random`, text by text; its interval is the one to look at.

Intervals are mean ± 1.96 standard errors over texts. A text counts for a method where all its numbers are defined.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl
import torch
from jaxtyping import Float
from torch import Tensor

from headwise.allowed import SEED, setting
from headwise.attributions.asked import asked_by_lot
from headwise.attributions.explain import BASELINES, TokenScores, method
from headwise.attributions.faithfulness import (
    FRACTIONS,
    aopc,
    check_fractions,
    drops,
    kendall,
    removals,
    spearman,
)
from headwise.attributions.prediction import OUTPUTS, head_of, outputs_without, predicted, removable, removal_for
from headwise.errors import InputError
from headwise.models.model import Model
from headwise.plots import intervals
from headwise.plots.theme import themed
from headwise.stats import Moments
from headwise.studies import STUDIES
from headwise.studies.answers import BELIEVE, Answer, Number, Verdict, Vote, few
from headwise.studies.needs import Cost, Means, Needs
from headwise.studies.study import Reading, Setting, State, Stats, Study
from headwise.studies.tables import between, counted

CONTROL, TRUTH, ATTENTION = "random", "leave-one-out", "raw-attention"
PASSES = 250  # of one text, about, beside one for every token
SIDES = ("comprehensiveness", "sufficiency")
COLUMNS = {"aopc": SIDES, "gain": tuple(f"{side}_gain" for side in SIDES), "rank": ("kendall", "spearman")}
Z = 1.96  # standard errors on either side of a mean


@STUDIES.add(
    "faithfulness", "which explanations of a prediction hold when the tokens they name are removed (AOPC, τ)", order=110
)
@dataclass(frozen=True)
class Faithfulness(Study):
    """`methods`: names of explanations or origins. `of`: what is explained, logit or log-probability of the prediction.

    `removal`: mask, pad or delete. `fractions` of a text's tokens that are removed. `k`: tangents of `hidden-token`.
    `steps` and `baseline` (pad, mask or zero) of integrated gradients. `texts`: how many documents from the first on
    are asked, as each costs some hundred passes; 0 for all. `seed` of `random` and of the tangents.
    """

    title: ClassVar[str] = "Which explanations hold"
    needs: ClassVar[Needs] = Needs(task=("classification", "token-classification"))
    cost: ClassVar[Cost] = "passes"
    own_head: ClassVar[bool] = True
    first_by: ClassVar[tuple[str, ...]] = ("-comprehensiveness_gain", "sufficiency_gain", "-kendall")
    votes_on: ClassVar[tuple[str, ...]] = ("matters",)
    captions: ClassVar[Mapping[str, str]] = {
        "aopc": "how far the prediction falls without the tokens that a method names, beyond random ones",
        "curves": "probability lost as more of the named tokens are removed, or kept alone",
    }
    methods: tuple[str, ...] = (
        "random", "raw-attention", "rollout", "globenc-rollout", "alti-rollout", "gradient-norm", "gradient-input",
        "gradient-input-norm", "integrated-gradients", "leave-one-out",
    )  # fmt: skip
    removal: str = "mask"
    fractions: tuple[float, ...] = setting(FRACTIONS, above=0, most=1)
    of: str = setting("logit", one_of=OUTPUTS)
    k: int = setting(16, least=1)
    steps: int = setting(32, least=1)
    baseline: str = setting("pad", one_of=BASELINES)
    texts: int = setting(0, least=0)
    seed: int = setting(0, least=0, most=SEED)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.methods:
            method(name)
        if len(set(self.methods)) < len(self.methods) or not self.methods:
            raise InputError(f"There must be at least one method, each once, but methods={self.methods} was asked for.")
        check_fractions(self.fractions)

    def check(self, model: Model) -> None:
        super().check(model)
        head_of(model)
        removal_for(model, self.removal)

    def passes(self, tokens: int, heads: int) -> int:  # noqa: ARG002
        return PASSES + tokens

    def ask(self, model: Model, reading: Reading) -> Stats:
        """Explanations of all methods, then one round of passes over all that they want removed."""
        first = reading.first(self.texts, model)
        if first is None:
            return {}
        batch, removal = first.batch, removal_for(model, self.removal)
        may = removable(batch)
        if head_of(model) == "token-classification":
            batch = asked_by_lot(batch, first.documents, may, self.seed)
        target = predicted(model, batch)
        names = dict.fromkeys([*self.methods, CONTROL, TRUTH])
        found = {name: method(name)(model, batch, target=target, **self._options(name)) for name in names}
        asked = {name: removals(found[name].scores, may, self.fractions) for name in names if name in self._scored}
        nothing = torch.zeros_like(may)[None]
        variants = torch.cat([nothing, *(sets.flatten(0, 1) for sets in asked.values())])
        whole, *parts = outputs_without(model, batch, variants, target, removal).split(
            [1, *[2 * len(self.fractions)] * len(asked)]
        )
        counted = may.any(-1)
        fallen = {
            name: torch.where(_defined(found[name], counted), drops(whole[0], part.unflatten(0, (2, -1))), torch.nan)
            for name, part in zip(asked, parts, strict=True)
        }
        state: Stats = {"probability": _moments(torch.where(counted, whole.exp(), torch.nan))}
        for name in self.methods:
            ranks = [rank(found[name].scores, found[TRUTH].scores, may) for rank in (kendall, spearman)]
            state[f"drop@{name}"] = _moments(fallen[name])
            state[f"aopc@{name}"] = _moments(aopc(fallen[name]))
            state[f"gain@{name}"] = _moments(aopc(fallen[name]) - aopc(fallen[CONTROL]))
            state[f"rank@{name}"] = _moments(torch.stack(ranks))
            error = found[name].error
            if error is not None:
                size = found[name].scores.double().sum(-1).abs()
                state[f"error@{name}"] = _moments(torch.stack([error.double(), error.double() / size]))
        return state

    @property
    def _scored(self) -> tuple[str, ...]:
        """Methods whose tokens are removed; the control always is."""
        return tuple(dict.fromkeys([*self.methods, CONTROL]))

    def _options(self, name: str) -> dict[str, Any]:
        explained = {"of": self.of}
        options: dict[str, dict[str, Any]] = {
            "random": {"seed": self.seed},
            "gradient-norm": explained,
            "gradient-input": explained,
            "gradient-input-norm": explained,
            "integrated-gradients": {**explained, "steps": self.steps, "baseline": self.baseline},
            "leave-one-out": {**explained, "removal": self.removal},
            "hidden-token": {"k": self.k, "seed": self.seed},
        }
        return options.get(name, {})

    def table(self, state: State, setting: Setting) -> pl.DataFrame:  # noqa: ARG002
        """One row a method."""
        return pl.DataFrame([self._row(state, name) for name in self.methods])

    def _row(self, state: State, name: str) -> dict[str, Any]:
        row: dict[str, Any] = {"method": name, "texts": int(state.moments(f"aopc@{name}").count[0])}
        for key, columns in COLUMNS.items():
            mean, half = interval(state.moments(f"{key}@{name}"))
            for at, column in enumerate(columns):
                row |= {column: mean[at], f"{column}_low": mean[at] - half[at], f"{column}_high": mean[at] + half[at]}
        for side, means in zip(SIDES, state.moments(f"drop@{name}").mean.tolist(), strict=True):
            row |= {f"{side}@{percent(q)}": mean for q, mean in zip(self.fractions, means, strict=True)}
        if f"error@{name}" in state:
            row |= {"completeness_error": float(state.moments(f"error@{name}").mean[0])}
        return row

    @classmethod
    def for_report(cls, means: Means) -> Mapping[str, Any]:
        return {"texts": 24 if means.seconds is None else means.passes(PASSES + means.tokens)}

    def answers(self, table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:
        gains = table.filter((pl.col("method") != CONTROL) & pl.col("comprehensiveness_gain").is_finite())
        if gains.is_empty():
            yield Answer(BELIEVE, "No text was long enough to remove tokens from.")
            return
        ranked = gains.sort("comprehensiveness_gain", descending=True).with_row_index("place")
        best, attention = ranked.row(0, named=True), ranked.filter(method=ATTENTION)
        shown = ranked.filter((pl.col("place") == 0) | (pl.col("method") == ATTENTION))
        told = "; ".join(f"{row['method']} {_gain(row)}" for row in shown.iter_rows(named=True))
        yield Answer(
            BELIEVE,
            f"How far the prediction's probability falls without the tokens that an explanation names (mean over "
            f"{percent(min(self.fractions))} to {percent(max(self.fractions))} of the tokens taken away), beyond "
            f"random ones: {told}, over {counted(best['texts'], 'text')}{_intervals(best)}{_best(best, len(gains))}.",
            vote=_vote(attention.row(0, named=True), ranked, setting) if len(attention) else None,
        )

    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        """aopc: means with intervals; curves: the probability against the share of tokens removed or kept."""
        table = self.table(state, setting)
        order = table.sort("comprehensiveness", descending=True, nulls_last=True)["method"].to_list()
        seen = state.moments("probability")
        texts = f"{counted(int(seen.count[0]), 'text')}, mean probability of the prediction {float(seen.mean[0]):.2f}"
        return {
            "aopc": self._bars(table, order, setting.model, texts),
            "curves": self._curves(state, order, setting.model),
        }

    def _bars(self, table: pl.DataFrame, order: list[str], model: str, texts: str) -> Any:
        panels = {
            "comprehensiveness_gain": "comprehensiveness − random's (high is good)",
            "sufficiency_gain": "sufficiency − random's (low is good)",
            "kendall": "Kendall's τ with leave-one-out",
        }
        rows = [
            {
                "what": what,
                "name": row["method"],
                "value": row[what],
                "low": row[f"{what}_low"],
                "high": row[f"{what}_high"],
            }
            for what in panels
            for row in table.iter_rows(named=True)
            if row[what] == row[what] and not (what == "kendall" and row["method"] == TRUTH)
        ]
        return themed(
            intervals.dots(pl.DataFrame(rows), panels, order=order, control=CONTROL),
            f"{model}: which explanations hold when their tokens are removed ({self.removal})",
            "AOPC: fall of the prediction's probability, mean over fractions of the tokens, less that of random tokens",
            "in the same text: without them (comprehensiveness), or with them alone (sufficiency). Bars: 95 %",
            "intervals; of these two, one that crosses the dashed line is not shown to beat random.",
            f"τ: are tokens ranked alike? {texts[:1].upper()}{texts[1:]}.",
        )

    def _curves(self, state: State, order: list[str], model: str) -> Any:
        panels = {"comprehensiveness": "fall when they are removed", "sufficiency": "fall when only they are kept"}
        rows = [
            {
                "what": side,
                "name": name,
                "percent": 100 * fraction,
                "value": float(state.moments(f"drop@{name}").mean[at, column]),
            }
            for at, side in enumerate(SIDES)
            for name in order
            for column, fraction in enumerate(self.fractions)
        ]
        table = pl.DataFrame(rows).filter(pl.col("value").is_not_nan())
        return themed(
            intervals.curves(table, panels, order=order, control=CONTROL, x="percent", unit="tokens named (%)"),
            f"{model}: probability lost as tokens are removed ({self.removal})",
            "Where the named tokens are removed, high lines name what the model needs. Where only they are kept,",
            "low lines name what is enough for it. Grey is random.",
        )


def _best(row: Mapping[str, Any], methods: int) -> str:
    """Which method is the best, of as many texts as it takes to say so."""
    return "" if few(row["texts"]) else f"; {row['method']} is the best of {methods} here"


def _intervals(row: Mapping[str, Any]) -> str:
    return " (95\u00a0% intervals)" if math.isfinite(row["comprehensiveness_gain_low"]) else ""


def _gain(row: Mapping[str, Any]) -> str:
    """With a digit more where an end that is not 0 would read as 0, as it decides."""
    value, low, high = (row[f"comprehensiveness_gain{end}"] for end in ("", "_low", "_high"))
    form = "+.4f" if any(end and abs(end) < 0.0005 for end in (low, high)) else "+.3f"
    return f"{value:{form}} ({between(low, high, form)})"


def _vote(attention: Mapping[str, Any], ranked: pl.DataFrame, setting: Setting) -> Vote:
    """By the intervals: attention must beat random tokens, and not be beaten by another method beyond doubt.

    Every method's number is told, best first; the vote holds for those whose interval is above 0.
    """
    rows = list(ranked.iter_rows(named=True))
    numbers = tuple(_number(row, setting) for row in rows)
    beyond = tuple(row["method"] for row in rows if row["comprehensiveness_gain_low"] > 0)
    return Vote("matters", *_judged(attention, rows[0]), numbers, beyond, len(rows))


def _judged(attention: Mapping[str, Any], best: Mapping[str, Any]) -> tuple[Verdict, str]:
    gain, texts = _gain(attention), counted(attention["texts"], "text")
    if not attention["comprehensiveness_gain_low"] > 0:
        said = "the tokens that attention names are not shown to matter more than random ones"
        close = (
            "; close: its interval holds 0, where this turns" if attention["comprehensiveness_gain_high"] > 0 else ""
        )
        return "no", f"{said}: without them the probability falls by {gain} more, over {texts}{close}"
    if best["comprehensiveness_gain_low"] > attention["comprehensiveness_gain_high"]:
        said = f"{best['method']} names tokens that matter more than those that attention names"
        beyond = f"beyond random ones the probability falls by {_gain(best)} and by {gain}"
        return "with care", f"{said}: {beyond}, over {texts}"
    said = "the probability falls more without the tokens that attention names than without random ones"
    return "yes", f"{said}: by {gain}, over {texts}"


def _number(row: Mapping[str, Any], setting: Setting) -> Number:
    """A method's gain over random tokens."""
    value, low, high = (row[f"comprehensiveness_gain{end}"] for end in ("", "_low", "_high"))
    what = f" ({_raw(setting)})" if row["method"] == ATTENTION else ""
    says = (
        f"is how much further the probability falls without the tokens that {row['method']} names{what} than without "
        "random ones"
    )
    return Number(f"gain_{row['method']}", says, value, low, high, int(row["texts"]), share=False)


def _raw(setting: Setting) -> str:
    """Which of all the maps `raw-attention` is."""
    row = "the last token's" if setting.causal else "as a rule that of [CLS]"
    return f"the last layer, in the row that the answer is read from, {row}; mean of its heads, no single head's map"


def percent(fraction: float) -> str:
    return f"{100 * fraction:g}\u00a0%"


def interval(moments: Moments) -> tuple[list[float], list[float]]:
    """Mean and half the width of its 95 % interval, in each cell; no width below two texts."""
    error = (moments.m2 / (moments.count - 1) / moments.count).sqrt()
    half = torch.where(moments.count > 1, Z * error, torch.nan)
    return moments.mean.tolist(), half.tolist()


def _defined(explanation: TokenScores, counted: Tensor) -> Tensor:
    """Texts that have tokens to remove and scores for all of them."""
    return counted & ~explanation.scores.isnan().any(-1)


def _moments(x: Float[Tensor, "... batch"]) -> Moments:
    return Moments.of(x.double().cpu(), torch.ones(x.shape[-1], dtype=torch.float64))
