"""What the model's answers rest on, and whether that holds: every text explained, and each explanation tried on it.

The model is asked what it itself says to a text (`asking.ask_read`): a label, the next token, a masked one, the given
translation. Every method scores the words; then words are deleted and kept alone in the order of the scores and in
random orders (explanations/trial.py), and the one rule (explanations/verdict.py) says whether to believe it. Over
texts, by method:

    deletion    AOPC less the mean of the random orders on the same text: the fall of p beyond chance
    insertion   mean of p with the first words alone, less that of the random orders
    naopc       AOPC between the worst order found (0) and the best (1); on `naopc_texts`, of up to SHORT words, alone
    kendall     rank correlation with leave-one-out
    half        the share of the words that holds half of what speaks for the answer (the sum of scores above 0)
    yes, partly, no, nothing    shares of the texts with that verdict

Intervals are mean ± 1.96 standard errors over texts (of `half` cut at 0 and 1), of shares of texts Wilson's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl
import torch
from jaxtyping import Float64
from torch import Tensor

from headwise.allowed import SEED, setting
from headwise.errors import InputError, ModelError
from headwise.explanations.asking import ask_read, task_of
from headwise.explanations.explain import ALONE_REMOVAL
from headwise.explanations.methods import METHODS, leave_units_out
from headwise.explanations.question import REMOVALS, Question, default_removal
from headwise.explanations.trial import Trial, try_all
from headwise.explanations.units import gathered, units_of
from headwise.explanations.verdict import FEW, verdict
from headwise.models.model import Model
from headwise.plots import intervals
from headwise.plots.theme import themed
from headwise.results.shown import number
from headwise.stats import Moments
from headwise.stats.shares import of_share
from headwise.studies import STUDIES
from headwise.studies.answers import RESTS, Answer, few
from headwise.studies.faithfulness import interval
from headwise.studies.needs import Cost, Means, Needs
from headwise.studies.study import Reading, Setting, State, Stats, Study
from headwise.studies.tables import between, counted, some

TRUTH, CONTROL = "leave-one-out", "random"
BELIEFS = ("yes", "partly", "no", "nothing")
NUMBERS = ("deletion", "insertion", "naopc", "kendall", "half")
AUTO = "auto"
PASSES = 250  # of one text, about
HOLDS = 0.5  # the share of texts that must be able to tell


@STUDIES.add(
    "reasons", "what the model's answers rest on, by every method, each tried by removal on its text", order=112
)
@dataclass(frozen=True)
class Reasons(Study):
    """`methods`: names of `headwise.explanations.methods`. `removal`, of leave-one-out as of the trials: mask, delete,
    block, or auto: the trials put the mask token there where the model was taught one, else delete, and leave-one-out
    blocks attention. `texts`: how many documents from the first on; 0 for all. `seed` of the random orders.
    """

    title: ClassVar[str] = "What do its answers rest on?"
    needs: ClassVar[Needs] = Needs(task=("classification", "causal-lm", "masked-lm", "translation"))
    cost: ClassVar[Cost] = "passes"
    own_head: ClassVar[bool] = True
    captions: ClassVar[Mapping[str, str]] = {
        "trials": "how far the answer falls without the words that a method names, beyond random orders",
        "beliefs": "on how many texts each method's explanation is to be believed",
    }
    methods: tuple[str, ...] = (
        "leave-one-out", "paths", "integrated-gradients", "gradient-input", "gradient-norm", "raw-attention", "random",
    )  # fmt: skip
    removal: str = setting(AUTO, one_of=(AUTO, *REMOVALS))
    texts: int = setting(24, least=0)
    seed: int = setting(0, least=0, most=SEED)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.methods:
            METHODS[name]
        if len(set(self.methods)) < len(self.methods) or not self.methods:
            raise InputError(f"There must be at least one method, each once, but methods={self.methods} was asked for.")

    def check(self, model: Model) -> None:
        super().check(model)
        if task_of(model) == "token-classification":
            raise ModelError(f"{model.name} labels every word; explain one with headwise explain --at WORD.")

    def passes(self, tokens: int, heads: int) -> int:  # noqa: ARG002
        return PASSES + tokens

    def ask(self, model: Model, reading: Reading) -> Stats:
        first = reading.first(self.texts, model)
        if first is None:
            return {}
        texts, targets = first.batch.texts, first.batch.targets or [None] * len(first.batch.texts)
        found = [self._tried(ask_read(model, *both)) for both in zip(texts, targets, strict=True)]
        rows = {name: torch.stack([row[name] for row in found], dim=-1) for name in self.methods}
        return {f"of@{name}": Moments.of(x, torch.ones(x.shape[-1], dtype=torch.float64)) for name, x in rows.items()}

    def _tried(self, question: Question) -> dict[str, Float64[Tensor, " number"]]:
        """Every number of one text, by method; NaN where a method does not take the model or the text is too short."""
        units = units_of(question, "words")
        nothing = torch.full((len(NUMBERS) + len(BELIEFS),), torch.nan, dtype=torch.float64)
        if sum(unit.given for unit in units) < FEW:
            return dict.fromkeys(self.methods, nothing)
        removal = default_removal(question.model) if self.removal == AUTO else self.removal
        alone = ALONE_REMOVAL if self.removal == AUTO else removal  # as the default explanation has it
        scores = {TRUTH: leave_units_out(question, units, alone).tokens[0]}
        for name in self.methods:
            if name in scores:
                continue
            try:
                scores[name] = gathered(METHODS[name](question).tokens, units)[0]
            except (InputError, ModelError):
                continue
        trials = try_all(question, units, scores, removal=removal, seed=self.seed, others={TRUTH: scores[TRUTH]})
        given = torch.tensor([unit.given for unit in units])
        return {
            name: numbers(trials[name], scores[name][given]) if name in trials else nothing for name in self.methods
        }

    def table(self, state: State, setting: Setting) -> pl.DataFrame:  # noqa: ARG002
        """One row a method."""
        return pl.DataFrame([_row(state.moments(f"of@{name}"), name) for name in self.methods])

    @classmethod
    def for_report(cls, means: Means) -> Mapping[str, Any]:
        return {"texts": 6 if means.seconds is None else means.passes(PASSES + means.tokens)}

    def answers(self, table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:  # noqa: ARG002 - n is the table's own
        tried = table.filter((pl.col("method") != CONTROL) & (pl.col("texts") > 0))
        if tried.is_empty():
            yield Answer(RESTS, f"No text had {FEW} words or more to remove, so that no explanation could be tried.")
            return
        tried = tried.filter(pl.all_horizontal(pl.col("deletion", *BELIEFS).is_finite()))
        if tried.is_empty():
            return
        row = tried.row(0, named=True)
        n = row["texts"]
        yes, partly, no, nothing = (round(row[name] * n) for name in BELIEFS)
        best = tried.sort("deletion", descending=True, nulls_last=True).row(0, named=True)
        yield Answer(
            RESTS,
            f"Of {counted(n, 'answer')} the words that {row['method']} names hold up on {yes}, in part on {partly}, "
            f"not on {no}; {nothing} cannot tell, as no removal that was tried moves the answer, all move it alike, or "
            "the words are too few. Half of what speaks for an answer is in "
            f"{number(row['half'], '.0%')} of the words. As words go one after another in its order, until none is "
            f"left, the fall of the probability, less that in random orders, is {_gain(row)} in the mean of the "
            f"steps{_unless(best, row)}. (faithfulness takes tokens away, half of them at most, so its numbers are "
            "others.)",
            headline=headline(tried, row["nothing"], n),
        )

    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        """trials: means with intervals; beliefs: shares of texts."""
        table = self.table(state, setting)
        order = table.sort("deletion", descending=True, nulls_last=True)["method"].to_list()
        texts = counted(int(table["texts"].max() or 0), "text")  # type: ignore[arg-type]
        return {
            "trials": themed(
                intervals.dots(_rows(table, TRIALS), TRIALS, order=order, control=CONTROL),
                f"{setting.model}: which explanations of its answers hold",
                "Words are deleted, or kept alone, in the order of each method's scores; less the mean of random",
                "orders on the same text. Bars: 95 % intervals; one that crosses the line is not shown to beat chance.",
                f"{texts}.",
            ),
            "beliefs": themed(
                intervals.dots(_rows(table, SHARES), SHARES, order=order, control=CONTROL),
                f"{setting.model}: on how many texts to believe an explanation",
                "Yes: it beats 95 % of random orders when its words are deleted and when they alone are kept; in part:",
                "one way only. Bars: 95 % intervals over texts.",
                f"{texts}.",
            ),
        }


TRIALS = {
    "deletion": "fall of p beyond chance (high is good)",
    "insertion": "p with them alone, beyond chance (high is good)",
    "kendall": "Kendall's \u03c4 with leave-one-out",
}
SHARES = {"yes": "share of texts: believe it", "partly": "in part", "no": "do not"}


def numbers(trial: Trial, scores: Float64[Tensor, " unit"]) -> Float64[Tensor, " number"]:
    """NUMBERS and BELIEFS of one trial, with the scores of the units that may be removed."""
    belief = verdict(trial).belief
    chance = sum(trial.random_aopc) / len(trial.random_aopc)
    alone = trial.levels("insertion")
    found = [
        trial.aopc - chance,
        trial.level("insertion") - sum(alone) / len(alone),
        math.nan if trial.naopc is None else trial.naopc,
        (trial.agreement or {}).get(TRUTH, math.nan),
        half_of(scores),
        *(float(belief == name) for name in BELIEFS),
    ]
    return torch.tensor(found, dtype=torch.float64)


def half_of(scores: Float64[Tensor, " unit"]) -> float:
    """The share of the units that holds half of the sum of scores above zero; NaN where none is.

    >>> half_of(torch.tensor([1.0, 5.0, 0.0, -9.0, 2.0, 2.0], dtype=torch.float64))  # 5 of 10
    0.16666666666666666
    """
    above = scores.clamp(min=0).sort(descending=True).values
    if not above.sum() > 0:
        return math.nan
    return (int((above.cumsum(0) < above.sum() / 2 - 1e-12).sum()) + 1) / len(scores)


def headline(tried: pl.DataFrame, nothing: float, texts: int) -> str:
    """By each method's interval of what its words lower the answer by beyond random orders, where texts can tell.

    subtle: that no removal tried moves an answer does not say that it rests on no words; other removals may move it.
    """
    if why := few(texts):
        return f"Undecided: {why}."
    if nothing > HOLDS:
        return (
            "On most texts this cannot be told: no removal that was tried moves the answer, all move it alike, or the "
            "words are too few."
        )
    above, open_ = (pl.col("deletion_low") > 0), (pl.col("deletion_low") <= 0) & (pl.col("deletion_high") >= 0)
    better, undecided = (
        tried.filter(which).sort("deletion", descending=True)["method"].to_list() for which in (above, open_)
    )
    held = f"the 95\u00a0% interval{'' if len(undecided) == 1 else 's'} of {some(undecided)} hold"
    held += f"{'s' if len(undecided) == 1 else ''} 0"
    if better:
        rest = f" Of others this is undecided: {held}." if undecided else ""
        return (
            f"On words that can be named, by {some(better)}: removing these moves the answers more than removing "
            f"others.{rest}"
        )
    if undecided:
        return f"Undecided whether on words that can be named: {held}, so that random words may do as well."
    return "Not on the words that explanations name: removing random ones moves the answers more."


def _gain(row: Mapping[str, Any]) -> str:
    low, high = row["deletion_low"], row["deletion_high"]
    which = "95\u00a0% interval " if math.isfinite(low + high) else ""
    return f"{row['deletion']:+.3f} ({which}{between(low, high, '+.3f')})"


def _unless(best: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    return "" if best["method"] == row["method"] else f"; most in that of {best['method']}, {_gain(best)}"


def _row(moments: Moments, name: str) -> dict[str, Any]:
    mean, half = interval(moments)
    texts = int(moments.count[0])
    row: dict[str, Any] = {"method": name, "texts": texts}
    for at, column in enumerate((*NUMBERS, *BELIEFS)):
        low, high = mean[at] - half[at], mean[at] + half[at]
        if column in BELIEFS and texts:
            low, high = of_share(round(mean[at] * texts), texts)
        if column == "half":
            low, high = max(low, 0.0), min(high, 1.0)  # NaN, which comes first, stays
        row |= {column: mean[at], f"{column}_low": low, f"{column}_high": high}
        if column == "naopc":
            row["naopc_texts"] = int(moments.count[at])
    return row


def _rows(table: pl.DataFrame, panels: Mapping[str, str]) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {"what": what, "name": row["method"], "value": row[what], "low": row[f"{what}_low"],
             "high": row[f"{what}_high"]}
            for what in panels
            for row in table.iter_rows(named=True)
            if row[what] == row[what] and not (what == "kendall" and row["method"] == TRUTH)
        ],
        schema={"what": pl.String, "name": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64},
    )  # fmt: skip
