"""The verdict as data: may a heatmap of this model be shown as an explanation? What decided, and what may be written.

The answer is the worst vote of the studies that were run (reports/answers.py). Its numbers are those that the votes
rest on, those of the votes that decided first, and those of the study `lamps`; each has n, and an interval where one
was made. What may be written is chosen by what was tested and how it came out (reports/sentences.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import polars as pl

from headwise.lamps import EPSILON, SINK, WIDTH_SMALL
from headwise.models.packaged import real_name
from headwise.reports.answers import ABLATION, MATTERS, Results, answers_of, said_of, summary, verdict
from headwise.reports.intervals import of_enough, with_intervals
from headwise.reports.sentences import NOT_TESTED, UNDECIDED, holdings, instead, sentences, to_test
from headwise.results import Result
from headwise.stats.shares import of_share
from headwise.studies import STUDIES
from headwise.studies.answers import BELIEVE, COUNTED, VERDICTS, Number, Tested, Verdict, Vote
from headwise.studies.lamps import ALL, RESTS_ON
from headwise.studies.tables import first_stack, percent
from headwise.studies.tables import heads as names_of

SCHEMA = "headwise-verdict-2"
QUESTION = "May a heatmap of this model's attention be shown as an explanation?"
SHARES = {
    "null_share": "of the squared weights change nothing, if weights may be negative or not sum to 1",
    "unique_rows": "of a text's rows, in the mean over texts, are shown to have weights that no others can replace",
    "carried": "of what is sent follows the weights",
    "parked": "of the weight is parked on no word (special tokens, periods, commas; a decoder's first token)",
    "sent": (
        "of what is sent comes from where weight is parked, in the mean over heads "
        "(a sink with less than half as much is a no)"
    ),
}
LOOSE = (
    "of a row is what a weight may move by, to tokens that send nearly the same (a word said twice): the output stays "
    f"within {percent(EPSILON)}"
)
COUNTS = {
    "sink_share": f"of the heads are sinks: {percent(SINK)} of their weight or more is parked on no word",
    "shown_share": "of the heads have maps that may be shown",
}
Decision = Verdict | Literal["undecided"]  # where no vote counts
DECISIONS: tuple[Decision, ...] = ("no", "undecided", "with care", "yes")  # the worst first
NAMES = ("verdict", *SHARES, *COUNTS, "accuracy", "texts", "heads")  # what --fail-if may ask


@dataclass(frozen=True)
class Judgement:
    """All that the one page says. `facts`: model, its weights' hash, corpus, versions, date."""

    verdict: Decision
    short: str
    decided_by: tuple[str, ...]
    votes: tuple[tuple[str, Tested, Verdict, str], ...]  # study, what was tested, vote, because
    numbers: tuple[Number, ...]
    may: tuple[str, ...]
    may_not: tuple[str, ...]
    not_tested: tuple[str, ...]
    instead: str  # what may be shown of the model's answer
    facts: Mapping[str, Any]
    undecided: tuple[tuple[str, Tested, str], ...] = ()  # study, what it asked, why that is too little

    def found(self) -> dict[str, Any]:
        """What --fail-if may ask."""
        first = {number.name: number.value for number in self.numbers}
        return {"verdict": self.verdict, **{name: first.get(name) for name in NAMES[1:-2]},
                "texts": self.facts["documents"], "heads": self.facts["heads"]}  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "question": QUESTION, **asdict(self)}


def judged(results: Results, right: Sequence[bool] = ()) -> Judgement:
    """The verdict of what was run; `right` tells of labelled texts whether the model says their label."""
    order = {name: at for at, name in enumerate(STUDIES)}  # as in a report
    results = {name: results[name] for name in sorted(results, key=lambda name: order.get(name, len(order)))}
    votes = [(name, vote) for name, result in results.items() for vote in votes_of(name, result)]
    cast, undecided = [vote for _, vote in votes], undecided_of(results)
    open_ = {vote.tested: vote.because for _, vote in undecided if vote.tested not in {one.tested for one in cast}}
    worst: Decision = worst_of([vote.verdict for _, vote in votes]) or "undecided"
    outcome, holding, facts = outcomes(cast), holdings(cast), facts_of(results)
    numbers = tuple(map(of_enough, _told(votes, undecided, worst, results)))
    may, may_not = sentences(outcome, holding, pinned=pinned(numbers))
    return Judgement(
        verdict=worst,
        short=verdict(votes, undecided),
        decided_by=tuple(dict.fromkeys(name for name, vote in votes if vote.verdict == worst)),
        votes=tuple((name, vote.tested, vote.verdict, vote.because) for name, vote in votes),
        numbers=(*numbers, *accuracy_of(right)),
        may=may,
        may_not=tuple(line.replace(NOT_TESTED, UNDECIDED) for line in may_not) if MATTERS in open_ else may_not,
        not_tested=tuple(tested for tested, came in outcome.items() if came is None and tested not in open_),
        instead=_undecided(open_[MATTERS]) if MATTERS in open_ else instead(cast, how=to_test(facts)),
        facts=facts,
        undecided=tuple((name, vote.tested, vote.because) for name, vote in undecided),
    )


def votes_of(name: str, result: Result) -> list[Vote]:
    """What a study votes, its numbers with the interval over parts of the texts where it has none of its own."""
    cast = [answer.vote for answer in answers_of(name, result) if answer.question == BELIEVE and answer.vote]
    return [with_intervals(vote, result.parts, lambda table: said_of(name, result, table)) for vote in cast]


def undecided_of(results: Results) -> list[tuple[str, Vote]]:
    """Votes that do not count, as they rest on too few texts."""
    found = [(name, answer) for name, result in results.items() for answer in answers_of(name, result)]
    return [(name, answer.undecided) for name, answer in found if answer.undecided is not None]


def _undecided(why: str) -> str:
    return f"Which tokens it rests on is undecided: {why}."


def _told(
    votes: Sequence[tuple[str, Vote]], undecided: Sequence[tuple[str, Vote]], worst: Decision, results: Results
) -> tuple[Number, ...]:
    """The numbers of all votes; those of votes that do not count stand last."""
    return (*deciding(votes, worst, results), *(number for _, vote in undecided for number in vote.numbers))


def deciding(votes: Sequence[tuple[str, Vote]], worst: Decision, results: Results) -> tuple[Number, ...]:
    """Every number that a vote rests on, those of the votes that decided first; then the lamps' and the rest."""
    told = numbers_of(results["lamps"].table, _needed(votes), asked=ABLATION in results) if "lamps" in results else ()
    decided = [(name, vote) for name, vote in votes if vote.verdict == worst]
    first = [number for name, vote in decided for number in (*vote.numbers, *_lit(name, vote, told))]
    others = [number for _, vote in votes if vote.verdict != worst for number in vote.numbers]
    return (*first, *(number for number in told if number not in first), *others)


def _lit(name: str, vote: Vote, lamps: Sequence[Number]) -> list[Number]:
    """Those of the lamps' numbers that this vote rests on."""
    return [number for number in lamps if name == "lamps" and number.name in RESTS_ON.get(vote.tested, ())]


def pinned(numbers: Sequence[Number]) -> bool:
    """Whether every row of every text was found to be the only distribution that gives its output."""
    return any(one.name == "unique_rows" and one.value == one.low == one.high == 1 for one in numbers)


def outcomes(votes: Sequence[Vote]) -> dict[Tested, Verdict | None]:
    """By what was tested the worst vote; None where no study asked."""
    tested: tuple[Tested, ...] = get_args(Tested)
    by_test: dict[Tested, list[Verdict]] = {
        one: [vote.verdict for vote in votes if vote.tested == one] for one in tested
    }
    return {one: worst_of(found) for one, found in by_test.items()}


def worst_of(found: Sequence[Verdict]) -> Verdict | None:
    return next((one for one in VERDICTS if one in found), None)


def _needed(votes: Sequence[tuple[str, Vote]]) -> Sequence[str] | None:
    """Heads that clearly matter; None where that was not told."""
    return next((vote.holds_for for _, vote in votes if vote.tested == "heads"), None)


def numbers_of(table: pl.DataFrame, needed: Sequence[str] | None = None, *, asked: bool = False) -> tuple[Number, ...]:
    """Means over heads with their intervals, and the shares of heads that are sinks, and that may be shown.

    `needed`: heads that clearly matter, None where that was not told, though it may have been `asked`.
    """
    table = first_stack(table)
    whole, heads = table.row(by_predicate=pl.col("name") == ALL, named=True), table.filter(pl.col("name") != ALL)
    texts = int(whole["texts"])
    means = [Number(name, says, whole[name], whole[f"{name}_low"], whole[f"{name}_high"], texts)
             for name, says in {**SHARES, "loose": LOOSE}.items()
             if name in SHARES or (whole.get(name) or 0.0) >= WIDTH_SMALL]  # fmt: skip
    counts: dict[str, Any] = {"sink_share": heads["sink"].mean(), "shown_share": (heads["show"] == "yes").mean()}
    shown = heads.filter(pl.col("show") == "yes")
    says = dict(COUNTS)
    says["shown_share"] += _shown(shown, needed, asked=asked)
    return (
        *means,
        *(Number(name, says[name], float(of), None, None, texts, without=COUNTED) for name, of in counts.items()),
    )


def _shown(shown: pl.DataFrame, needed: Sequence[str] | None, *, asked: bool) -> str:
    """Which maps may be shown, and whether their heads matter."""
    names = f" ({names_of(shown)})" if len(shown) else ""
    if needed is None and asked:
        return f" so far{names}; whether they matter is undecided"
    if needed is None:
        return f" so far{names}; whether they matter was not asked ({ABLATION} asks)"
    known = len(set(shown["name"]) & set(needed))
    mattering = f"; {known} of these {len(shown)} clearly matter when taken away alone" if len(shown) else ""
    return f"{names}, by what is unique and what is carried{mattering}"


def accuracy_of(right: Sequence[bool]) -> tuple[Number, ...]:
    """How often the model says the label, with Wilson's interval."""
    if not right:
        return ()
    low, high = of_share(sum(right), len(right))
    return (
        Number("accuracy", "of the labels are what the model says", sum(right) / len(right), low, high, len(right)),
    )


def facts_of(results: Results) -> dict[str, Any]:
    """The model by its real name and hash, the corpus, versions and date."""
    manifest = next(iter(results.values())).manifest
    model, heads = manifest["model"], sum(layers * count for layers, count, _ in manifest["stacks"].values())
    return {
        **summary(results), "model": real_name(model["name"]), "called": model["name"], "weights": model["weights"],
        "revision": model["revision"], "heads": heads, "fingerprint": manifest["plan"]["corpus"]["fingerprint"],
        "versions": manifest["versions"], "time": manifest["time"], "studies": list(results),
        "task": model["task"], "kind": _kind(manifest),
    }  # fmt: skip


def _kind(manifest: Mapping[str, Any]) -> str:
    return "encoder–decoder" if "cross" in manifest["stacks"] else "decoder" if manifest["causal"] else "encoder"


def plain(value: Any) -> Any:
    """A value for JSON, which knows no NaN."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
