"""The verdict as data: may a heatmap of this model be shown as an explanation? What decided, and what may be written.

The answer is the worst vote of the studies that were run (reports/answers.py). Its numbers are those that the votes
rest on, those that decided first, and those of the study `lamps`; each has n, and an interval where one was made. The
sentences are those of docs/explanation.md, chosen by what was tested and how it came out; what was not tested may not
be written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

import polars as pl

from headwise.models.packaged import PACKAGED
from headwise.reports.answers import Results, answers_of, said_of, summary, verdict
from headwise.reports.intervals import with_intervals
from headwise.results import Result
from headwise.stats.shares import of_share
from headwise.studies.answers import BELIEVE, COUNTED, VERDICTS, Number, Tested, Verdict, Vote
from headwise.studies.lamps import ALL
from headwise.studies.tables import first_stack
from headwise.studies.tables import heads as names_of

SCHEMA = "headwise-verdict-1"
QUESTION = "May a heatmap of this model's attention be shown as an explanation?"
SHARES = {
    "null_share": "of the squared weights change nothing",
    "unique_rows": "of the rows have weights that no others can replace",
    "carried": "of what is sent follows the weights",
    "parked": "of the weight is parked on no word",
}
COUNTS = {"sink_share": "of the heads are sinks", "shown_share": "of the heads have maps that may be shown"}
NAMES = ("verdict", *SHARES, *COUNTS, "accuracy", "texts", "heads")  # what --fail-if may ask

Pair = tuple[str, str]  # what may be written, and what not
SENTENCES: Mapping[tuple[Tested, Verdict | None], Pair] = {
    ("unique", "yes"): (
        "“… and hardly any other weights give this head the same output.”",
        "that a head matters to the model's answer because its weights are unique: that is another test.",
    ),
    ("unique", "with care"): (
        "a weight with its effective weight, or its interval, beside it.",
        "“the weight of token k is 0.4” as if it could be no other.",
    ),
    ("unique", "no"): (
        "nothing of single weights.",
        "“the weight of token k is 0.4”: most of what the raw map shows changes nothing.",
    ),
    ("alike", "yes"): (
        "“the raw map shows about what reaches this head's output.”",
        "that a single weight could be no other: that is another test.",
    ),
    ("alike", "with care"): (
        "the raw map with the effective one beside it.",
        "the raw map alone, as what reaches the head's output.",
    ),
    ("alike", "no"): (
        "the effective map in place of the raw one.",
        "of the raw map that it is what the head makes its output of.",
    ),
    ("carries", "yes"): (
        "“through this head, the tokens with large weights send most of what is sent.”",
        "that these vectors do not cancel, or that the model uses them.",
    ),
    ("carries", "with care"): (
        "“head h puts x % of its weight on token k”, of a head that is no sink, with the norms beside it.",
        "“head h passes on token k”: what is sent goes elsewhere in part.",
    ),
    ("carries", "no"): (
        "“head h looks at token k”: where it looks, and no more; show norms in place of raw weights.",
        "“head h passes on token k”: what is sent does not go where the weights go.",
    ),
    ("parked", "yes"): (
        "the weight on first tokens and separators as it is: they carry about what they get.",
        "that every other token carries what it gets.",
    ),
    ("parked", "with care"): (
        "weights with those on first tokens and separators set apart.",
        "a weight on a first token or separator as if it carried as much.",
    ),
    ("parked", "no"): (
        "weights among words, with first tokens and separators left out; or norms in place of raw weights.",
        "“the model attends to the first token” (or a separator): its weight is not what it carries.",
    ),
    ("words", "yes"): (
        "“attention to word k” of the layers that were measured.",
        "“attention to word k” of other layers.",
    ),
    ("words", "with care"): (
        "“attention to position k”.",
        "“attention to word k” beyond the first layer: hidden tokens are mixtures.",
    ),
    ("words", "no"): ("“attention to position k”.", "“attention to word k” beyond the first layer."),
    ("heads", "yes"): (
        "“without this head the model's answer changes”, of almost any head.",
        "“… because of what the head looks at”: a head that is taken away takes all of its map with it.",
    ),
    ("heads", "with care"): (
        "“without head h the model's answer changes by x”, of a head for which it was measured.",
        "“without head h the answer changes” of a head that was not measured, or was chosen for its map.",
    ),
    ("heads", "no"): (
        "nothing of a single head's part in the answer.",
        "“the model uses head h”: without any one head it answers as before.",
    ),
    ("matters", "yes"): (
        "“removing the tokens that attention names moves the prediction more than random ones do.”",
        "that attention is the explanation: other methods may name other tokens.",
    ),
    ("matters", "with care"): (
        "“removing the tokens that attention names moves the prediction”, beside the method that does so more.",
        "“the model decided because of token k” from attention alone.",
    ),
    ("matters", "no"): ("nothing of the model's answer.", "“the model decided because of token k”."),
    ("matters", None): (
        "nothing of a token's part in the model's answer: that was not tested (faithfulness, of a classifier).",
        "“the model decided because of token k”.",
    ),
}

OF_WEIGHTS = (  # which allow a single weight to be told: not where weights are not unique
    ("carries", "with care"), ("parked", "yes"), ("parked", "with care"), ("parked", "no"),
)  # fmt: skip


@dataclass(frozen=True)
class Judgement:
    """All that the one page says. `facts`: model, its weights' hash, corpus, versions, date."""

    verdict: Verdict
    short: str
    decided_by: tuple[str, ...]
    votes: tuple[tuple[str, Tested, Verdict, str], ...]  # study, what was tested, vote, because
    numbers: tuple[Number, ...]
    may: tuple[str, ...]
    may_not: tuple[str, ...]
    not_tested: tuple[str, ...]
    facts: Mapping[str, Any]

    def found(self) -> dict[str, Any]:
        """What --fail-if may ask."""
        first = {number.name: number.value for number in self.numbers}
        return {"verdict": self.verdict, **{name: first.get(name) for name in NAMES[1:-2]},
                "texts": self.facts["documents"], "heads": self.facts["heads"]}  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "question": QUESTION, **asdict(self)}


def judged(results: Results, right: Sequence[bool] = ()) -> Judgement:
    """The verdict of what was run; `right` tells of labelled texts whether the model says their label."""
    votes = [(name, vote) for name, result in results.items() for vote in votes_of(name, result)]
    worst = worst_of([vote.verdict for _, vote in votes]) or "with care"
    outcome = outcomes([vote for _, vote in votes])
    may, may_not = sentences(outcome)
    return Judgement(
        verdict=worst,
        short=verdict(votes),
        decided_by=tuple(name for name, vote in votes if vote.verdict == worst),
        votes=tuple((name, vote.tested, vote.verdict, vote.because) for name, vote in votes),
        numbers=(*deciding(votes, worst, results), *accuracy_of(right)),
        may=may,
        may_not=may_not,
        not_tested=tuple(tested for tested, came in outcome.items() if came is None),
        facts=facts_of(results),
    )


def sentences(outcome: Mapping[Tested, Verdict | None]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What may be written and what not, by what was tested; no single weight where the weights are not unique."""
    told: list[tuple[Tested, Verdict | None]] = [
        (tested, came) for tested, came in outcome.items() if came is not None or tested == "matters"
    ]
    unsure = outcome["unique"] == "no"
    may = tuple(SENTENCES[each][0] for each in told if not (unsure and each in OF_WEIGHTS))
    return may, tuple(SENTENCES[each][1] for each in told)


def votes_of(name: str, result: Result) -> list[Vote]:
    """What a study votes, its numbers with the interval over parts of the texts where it has none of its own."""
    cast = [answer.vote for answer in answers_of(name, result) if answer.question == BELIEVE and answer.vote]
    return [with_intervals(vote, result.parts, lambda table: said_of(name, result, table)) for vote in cast]


def deciding(votes: Sequence[tuple[str, Vote]], worst: Verdict, results: Results) -> tuple[Number, ...]:
    """Every number that a vote rests on, those of the votes that decided first; the lamps have theirs in a table."""
    lamps = numbers_of(results["lamps"].table) if "lamps" in results else ()
    lit = any(name == "lamps" and vote.verdict == worst for name, vote in votes)
    first = [number for _, vote in votes if vote.verdict == worst for number in vote.numbers]
    others = [number for _, vote in votes if vote.verdict != worst for number in vote.numbers]
    return (*lamps, *first, *others) if lit else (*first, *lamps, *others)


def outcomes(votes: Sequence[Vote]) -> dict[Tested, Verdict | None]:
    """By what was tested the worst vote; None where no study asked."""
    tested: tuple[Tested, ...] = get_args(Tested)
    by_test: dict[Tested, list[Verdict]] = {
        one: [vote.verdict for vote in votes if vote.tested == one] for one in tested
    }
    return {one: worst_of(found) for one, found in by_test.items()}


def worst_of(found: Sequence[Verdict]) -> Verdict | None:
    return next((one for one in VERDICTS if one in found), None)


def numbers_of(table: pl.DataFrame) -> tuple[Number, ...]:
    """Means over heads with their intervals, and the shares of heads that are sinks, and that may be shown."""
    table = first_stack(table)
    whole, heads = table.row(by_predicate=pl.col("name") == ALL, named=True), table.filter(pl.col("name") != ALL)
    texts = int(whole["texts"])
    means = [Number(name, says, whole[name], whole[f"{name}_low"], whole[f"{name}_high"], texts)
             for name, says in SHARES.items()]  # fmt: skip
    counts: dict[str, Any] = {"sink_share": heads["sink"].mean(), "shown_share": (heads["show"] == "yes").mean()}
    shown = heads.filter(pl.col("show") == "yes")
    says = dict(COUNTS)
    says["shown_share"] += (
        f" so far{f' ({names_of(shown)})' if len(shown) else ''}; whether they matter the lamps did not ask"
    )
    return (
        *means,
        *(Number(name, says[name], float(of), None, None, texts, without=COUNTED) for name, of in counts.items()),
    )


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
    }  # fmt: skip


def plain(value: Any) -> Any:
    """A value for JSON, which knows no NaN."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def real_name(name: str) -> str:
    """The checkpoint behind a short name: demo is all-MiniLM-L6-v2."""
    package = PACKAGED.get(name)
    return name if package is None or package.hub is None else package.hub.rpartition("/")[2]
