"""What may be written of a model's attention and what not: those of docs/explanation.md, by what was tested.

A vote is about the mean over heads, and a mean licenses no sentence about a head: such a sentence may be written of the
heads for which it holds by their own numbers (`Vote.holds_for`), and says how many these are. What was not tested may
not be written.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

from headwise.results.shown import number
from headwise.studies.answers import Number, Tested, Verdict, Vote
from headwise.studies.tables import some

NOT_TESTED, UNDECIDED = "that was not tested", "that is undecided, of too few texts"
Pair = tuple[str, str]  # what may be written (empty: nothing by the mean alone), and what not
SENTENCES: Mapping[tuple[Tested, Verdict | None], Pair] = {
    ("unique", "yes"): (
        "",
        "that a head matters to the model's answer because its weights are unique: that is another test.",
    ),
    ("unique", "with care"): (
        "a weight with its effective weight, or its interval, beside it.",
        "“the weight of token k is 0.4” as if it could be no other{others}.",
    ),
    ("unique", "no"): (
        "“the weight of token k lies between x and y”, by its interval (trace.attention_interval).",
        "“the weight of token k is 0.4”{others}, or anything else of single weights: others give the same output.",
    ),
    ("alike", "yes"): (
        "",
        "that a single weight could be no other, or that a large one sends much: those are other tests.",
    ),
    ("alike", "with care"): (
        "the raw map with the effective one beside it.",
        "the raw map alone, as what reaches the head's output{others}.",
    ),
    ("alike", "no"): (
        "the effective map in place of the raw one.",
        "of the raw map that it is what the head makes its output of{others}.",
    ),
    ("carries", "yes"): ("", "that these vectors do not cancel, or that the model uses them."),
    ("carries", "with care"): (
        "“head h puts x % of its weight on token k”, of a head that is no sink, with the norms beside it.",
        "“head h passes on token k”{others}: what is sent goes elsewhere in part, or another lamp holds them back.",
    ),
    ("carries", "no"): (
        "“through head h, token k sends the longest vector”, by its norms, which stand in place of raw weights.",
        "“head h passes on token k”{others}: what is sent does not go where the weights go.",
    ),
    ("parked", "yes"): (
        "“over all heads, first tokens and separators carry about what they get.”",
        "that they do so in one head, or that every other token does.",
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
        "“most hidden tokens are still their own words”, in the layers that were measured.",
        "“attention to word k” of a token or a layer that was not measured.",
    ),
    ("words", "with care"): (
        "“attention to position k”.",
        "“attention to word k” beyond the first layer: hidden tokens are mixtures.",
    ),
    ("words", "no"): ("“attention to position k”.", "“attention to word k” beyond the first layer."),
    ("heads", "yes"): (
        "",
        "“… because of what the head looks at”: a head that is taken away takes all of its map with it.",
    ),
    ("heads", "with care"): (
        "“without head h the model's loss (or vector) moves by x”, of a head for which it was measured.",
        "“without head h the answer changes”: what moves is its loss (or vector), and the answer may stay; or anything "
        "of a head that was not measured, or was chosen for its map.",
    ),
    ("heads", "no"): (
        "“without head h alone the model answers about as before”, of a head for which it was measured.",
        "“the model uses head h”{others}: without any one of them it answers about as before.",
    ),
    ("matters", "yes"): ("", "that attention is the explanation: other methods may name other tokens."),
    ("matters", "with care"): ("", "“the model decided because of token k” from attention alone."),
    ("matters", "no"): ("", "“the model decided because of token k” from attention."),
    ("matters", None): ("", f"“the model decided because of token k”: {NOT_TESTED}."),
}
PINNED = (  # of texts on which every row is the only distribution with its output
    "“no other weights (none negative, sum 1) give these heads the same output”, on these texts; longer ones may "
    "differ."
)
OPEN: Pair = ("alike", "yes")  # its ban is that another weight may be possible: not where none is
OF_WEIGHTS = (  # which allow a single weight to be told: not where weights are not unique
    ("carries", "with care"), ("parked", "yes"), ("parked", "with care"), ("parked", "no"),
)  # fmt: skip
OTHERS = ", of other heads than those named"  # where some are
OF_ONE: Mapping[Tested, tuple[str, str, str]] = {  # what may be written of one head or method, and of which
    "unique": (
        "“hardly any other weights give this head the same output”", "head", "whose own answer to “unique?” is yes",
    ),
    "alike": (
        "“hardly any of this head's weights are without effect on its output”", "head",
        "with r ≥ 0.9 of raw and effective weights, and at most 30 % of the squared ones in the null space",
    ),
    "carries": (
        "“through this head, the tokens with large weights send most of what is sent”", "head",
        "whose own lamp carries anything? is green",
    ),
    "heads": (
        "“without this head alone the model's loss (or vector) moves”", "head", "where the head's own interval says so",
    ),
    "matters": (
        "“in the mean over these texts, the prediction falls more without the tokens that this method names than "
        "without random ones”", "method", "whose own interval is above 0, best first",
    ),
}  # fmt: skip


class Holding(NamedTuple):
    """For which a sentence about one of them holds, and of how many in all."""

    names: tuple[str, ...]
    out_of: int


def sentences(
    outcome: Mapping[Tested, Verdict | None], holding: Mapping[Tested, Holding], *, pinned: bool = False
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What may be written and what not, by what was tested; no single weight where the weights are not unique.

    `pinned`: every row of every text was found to be the only distribution with its output, whatever the vote.
    """
    unsure = outcome["unique"] == "no" and not pinned
    may, may_not = list[str](), list[str]()
    for tested, came in outcome.items():
        if came is None and tested != "matters":
            continue
        if pinned and tested == "unique":
            may.append(PINNED)
            may_not.append(SENTENCES["unique", "yes"][1])
            continue
        yes, no = SENTENCES[tested, came]
        named = of_one(tested, holding.get(tested, Holding((), 0)))
        may += [yes] if yes and not (unsure and (tested, came) in OF_WEIGHTS) else []
        may += named
        may_not += [] if pinned and (tested, came) == OPEN else [no.format(others=OTHERS if named else "")]
    return tuple(may), tuple(may_not)


def of_one(tested: Tested, holding: Holding) -> list[str]:
    """A sentence about a single head, and of which heads it may be said; none where it holds for none."""
    if not holding.names:
        return []
    says, thing, which = OF_ONE[tested]
    count, out_of = len(holding.names), holding.out_of
    of = f"the one {thing} of {out_of}" if count == 1 else f"the {count} of {out_of} {thing}s"
    return [f"{says}, of {of} {which} ({some(holding.names)})."]


def holdings(votes: Sequence[Vote]) -> dict[Tested, Holding]:
    """By what was tested, of the first vote that names any."""
    tested: tuple[Tested, ...] = get_args(Tested)
    named = [(vote.tested, Holding(vote.holds_for, vote.out_of)) for vote in reversed(votes) if vote.out_of]
    return {one: dict(named)[one] for one in tested if one in dict(named)}


# --- the model's answer ---


def instead(votes: Sequence[Vote], *, how: str) -> str:
    """What may be shown of the model's answer: the best method that beats random tokens; or none, or how to ask."""
    tried = next((vote for vote in votes if vote.tested == "matters" and vote.out_of), None)
    if tried is None:
        return f"Which tokens it rests on was not tested: {how}."
    if not tried.holds_for:
        return (
            f"None of the {tried.out_of} methods that were tried: the tokens that they name are not shown to matter "
            "more than random ones."
        )
    best, *others = tried.holds_for
    row = next(one for one in tried.numbers if one.name == f"gain_{best}")
    low, high = both_ends(row)
    then = f"; then {some(others)}" if others else ""
    return (
        f"The tokens that {best} names: without them {number(row.value)} of probability is lost beyond random ones "
        f"({low} to {high}), the most of {tried.out_of} methods{then}. Chosen and tried on the "
        f"same {row.n:,} texts."
    )


def both_ends(of: Number) -> tuple[str, str]:
    """The ends of an interval with so many digits that they read apart, and none that is not 0 reads as 0."""
    low, high = of.low, of.high
    said = "", ""
    for digits in (2, 3, 4):
        said = number(low, f".{digits}f"), number(high, f".{digits}f")
        hidden = [end for end, read in zip((low, high), said, strict=True) if end and not read.strip("-0.")]
        if low == high or (said[0] != said[1] and not hidden):
            break
    return said


def to_test(facts: Mapping[str, Any]) -> str:
    """What would test what attention names against the model's answer."""
    name, corpus = shlex.quote(facts["called"]), shlex.quote(facts["corpus"])
    if facts["kind"] == "encoder–decoder":
        return "headwise explain tests it text by text (--task translation)"
    if facts["kind"] == "decoder":
        how = "--task causal-lm --set faithfulness.removal=delete"
        return f"headwise verdict {name} {how} --corpus {corpus} --out answer would test it"
    if facts["task"] in ("classification", "token-classification"):
        return "faithfulness would test it (--studies …,faithfulness)"
    return "faithfulness would test it, of a classifier: headwise verdict FOLDER --task classification"
