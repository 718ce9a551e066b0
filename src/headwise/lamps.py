"""Three lamps over the map of a head, one a question; the one rule that every page, table and sentence here uses.

unique    could other weights have given the same output?    share of the squared weights in the null space; how many
                                                             rows may leave room for other distributions; how wide
                                                             their intervals are; how far a weight may go to tokens
                                                             that send nearly the same (measures/loose.py)
carries   does what is sent go where the weights go?         Σ_k min(α_k, ‖α_k f(x_k)‖ / Σ_j ‖α_j f(x_j)‖), mean over
                                                             rows: the share of the lengths that follows the weights
matters   what does the model lose with the head at zero?    nats of its loss, or 1 − cos of its vector; dark where
                                                             nobody asked, or where a first-order estimate is not far
                                                             above the threshold of green: it may be off that far

*Unique?* is green only where it was shown: where the rows that leave room are few enough (a weight of such a row may be
anything, so their share bounds the mean of the intervals), or where the intervals were asked. A small share in the null
space alone shows nothing of a broad map: each of many small weights may then move.

A head is a *sink* where half of its weight or more is parked on special tokens, periods and commas, the first token of
a causal model, or on one and the same token whoever looks, unless as much of it goes to one neighbour whatever stands
there (in short texts the token before is often a special one). No lamp is green over a sink, nor beside a red one:
such a map should not be shown as an explanation. A lamp that would be green there is *held* back at amber, and says
that its own answer is yes and which lamp holds it.

>>> [lamp.colour for lamp in lamps(Head(null_share=0.0, unique_rows=1.0, carried=0.8, parked=0.1))]
['green', 'green', 'dark']
>>> [lamp.colour for lamp in lamps(Head(null_share=0.0, unique_rows=1.0, carried=0.8, parked=0.5, on="."))]
['amber', 'amber', 'dark']
>>> lamps(Head(null_share=0.0, unique_rows=1.0, carried=0.4)).unique.says
'No other weights give this output (0 % in the null space). Yes, but held back: not to be shown (Carries anything?).'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple, TypeGuard

Colour = Literal["red", "amber", "green", "dark"]
Showing = Literal["no", "with care", "yes"]
QUESTIONS = ("unique", "carries", "matters")
ASKED = {"unique": "Unique?", "carries": "Carries anything?", "matters": "Matters?"}

# Up to the first green, above the last red; of `carried` and `matters` from the first green, below the last red.
NULL_SMALL, NULL_LARGE = 0.05, 0.3  # of the squared weights in the null space
WIDTH_SMALL, WIDTH_LARGE = 0.05, 0.3  # of a weight's interval in the mean; or of the rows that leave room for any
CARRIED_MUCH, CARRIED_LITTLE = 0.75, 0.5  # of the lengths that follow the weights
MATTERS_MUCH, MATTERS_LITTLE = 0.01, 0.001  # nats (1 % and 0.1 % of a probability) or 1 − cos (angles of 8° and 2.6°)
# Times that the first order may be too large; it is never called little. In eight sentences of demo-llm 92 of 689 heads
# with an estimate of .01 nats or more moved less than .01, of 199 with .05 or more none; of labels less is known.
ROUGH = 20
FIRST_ORDER = "and does not tell"  # of an estimate so near to a threshold
UNSHOWN = 0.65  # level of a lamp that is amber only because nothing was shown
SINK_SAYS = "A sink:"
ALONE = "One token is all that there is to look at: nothing can be judged."
PLAIN = "distribution (none negative, sum 1)"
UNASKED = "how far it may go was not asked (trace.attention_interval asks it of a row)."
SINK = 0.5  # of the weight on parking places
ROUNDED = 1e-9  # a number that is written as its threshold is at it
EPSILON = 0.01  # of the length of the output, that counts as nearly the same


@dataclass(frozen=True)
class Head:
    """What is known of one head; None: not measured. `unique_rows`: rows that no other distribution can replace."""

    null_share: float | None = None
    unique_rows: float | None = None
    width: float | None = None  # of the intervals of the weights, mean over rows of the widest
    loose: float | None = None  # how far a weight may go to tokens that send nearly the same, mean over rows
    carried: float | None = None
    parked: float | None = None  # of the weight, on parking places
    sent: float | None = None  # of the lengths, on the same places
    neighbour: float | None = None  # of the weight, the most that goes one way: a token back, to itself, a token on
    on: str = ""  # the place with most of the weight, as people read it
    matters: float | None = None
    what: str = "output"  # moves by so much
    unit: str = "nats"  # of `matters`
    exact: bool = False  # `matters` by taking the head away, else to first order
    alone: bool = False  # one token is all that it can look at


@dataclass(frozen=True)
class Lamp:
    """`level` is 0 … 1 (worst to best; a third and two thirds are the edges of amber), None where nothing is known."""

    question: str
    colour: Colour
    level: float | None
    says: str
    held: bool = False  # yes by itself, but amber for another lamp's sake


class Lamps(NamedTuple):
    unique: Lamp
    carries: Lamp
    matters: Lamp

    @property
    def sink(self) -> bool:
        return self.carries.says.startswith(SINK_SAYS)

    @property
    def showing(self) -> Showing:
        """Whether the map may be shown as what the head did: no by a red lamp, with care by an amber one."""
        colours = {lamp.colour for lamp in self}
        known = {"unique", "carries"} <= {lamp.question for lamp in self if lamp.colour != "dark"}
        return "no" if "red" in colours else "yes" if "amber" not in colours and known else "with care"


def lamps(head: Head) -> Lamps:
    """The three lamps of a head."""
    found = Lamps(_unique(head), _carries(head), _matters(head))
    why = held_back(found)
    return Lamps(*(_held(lamp, why) if why and lamp.colour == "green" else lamp for lamp in found))


def held_back(found: Lamps) -> str:
    """Why no lamp of this head is green; empty where one may be."""
    red = [ASKED[lamp.question] for lamp in found if lamp.colour == "red"]
    return f"not to be shown ({', '.join(red)})" if red else f"a sink ({ASKED['carries']})" if found.sink else ""


def _held(lamp: Lamp, why: str) -> Lamp:
    return replace(lamp, colour="amber", level=0.5, says=f"{lamp.says} Yes, but held back: {why}.", held=True)


def is_sink(head: Head) -> bool:
    parked = head.parked if _known(head.parked) else 0.0
    return parked >= SINK - ROUNDED and not (_known(head.neighbour) and head.neighbour >= parked - ROUNDED)


def summed_up(found: Sequence[Lamps], *, asks: str) -> str:
    """What the lamps of several heads come to; `asks`: what would ask whether they matter, where that was not asked."""
    dark = sum(each.matters.colour == "dark" for each in found)
    sinks, untold = (sum(each.sink for each in found), sum(FIRST_ORDER in each.matters.says for each in found))
    return summed_up_of(
        [each.showing for each in found], sinks=sinks, asks=asks if dark > untold else "", untold=untold
    )


def summed_up_of(showing: Sequence[str], *, sinks: int, asks: str = "", untold: int = 0) -> str:
    """The same of what may be shown, head by head; `untold`: heads of which the first order does not tell.

    >>> summed_up_of(["yes", "no", "no"], sinks=1)
    'Of 3 maps 1 may be shown as what the head did, 0 with care and 2 not; 1 is of a sink.'
    >>> summed_up_of(["yes"], sinks=0, asks="--matters")
    'So far, the map may be shown as what the head did. Whether the head matters was not asked (--matters asks).'
    >>> summed_up_of(["yes"], sinks=0, untold=1)[51:]
    'Of the head the first order does not tell whether it matters (--exact does).'
    """
    parked = {0: "none is of a sink", 1: "1 is of a sink"}.get(sinks, f"{sinks} are of sinks")
    so_far = "So far, " if asks or untold else ""
    one = len(showing) == 1
    unasked = f" Whether the {'head matters' if one else 'heads matter'} was not asked ({asks} asks)." if asks else ""
    if untold:
        who = "the head" if one else f"{untold} head{'s' if untold > 1 else ''}"
        they = "it matters" if untold == 1 else "they matter"
        unasked += f" Of {who} the first order does not tell whether {they} (--exact does)."
    if one:
        may = {"yes": "may be shown", "with care": "may be shown with care", "no": "should not be shown"}[showing[0]]
        said = f"the map {may} as what the head did{'; it is of a sink' if sinks else ''}."
        return f"{so_far}{said if so_far else said.capitalize()}{unasked}"
    yes, care, no = (showing.count(one) for one in ("yes", "with care", "no"))
    said = f"{len(showing)} maps {yes} may be shown as what the head did, {care} with care and {no} not; {parked}."
    return f"{so_far}{'of' if so_far else 'Of'} {said}{unasked}"


# --- the questions ---


def _unique(head: Head) -> Lamp:
    """The worst of what is known: of other weights with the same output, and of some with nearly the same."""
    if head.alone:
        return Lamp("unique", "dark", None, ALONE)
    exact = _exactly(head)
    if exact.colour == "dark" or not _known(head.loose) or head.loose < WIDTH_SMALL:
        return exact
    moved = f"A weight may move by {_percent(head.loose, WIDTH)} of its row to tokens that send nearly the same"
    says = f"{moved}, as a word said twice: the output stays within {_percent(EPSILON)}."
    return min(_lit("unique", head.loose, WIDTH, says), exact, key=lambda lamp: lamp.level or 0.0)


def _exactly(head: Head) -> Lamp:
    share, free = head.null_share, 1.0 - head.unique_rows if _known(head.unique_rows) else None
    if not _known(share):
        return Lamp("unique", "dark", None, "Whether other weights would do was not measured.")
    if free is not None and free <= 0 and share <= NULL_LARGE + ROUNDED:
        return Lamp("unique", "green", 1.0, f"No other weights give this output ({_percent(share)} in the null space).")
    signed = (
        f"{_percent(share, NULL)} of the squared weights change nothing if weights may be negative or not sum to 1;"
    )
    if free is not None and free <= 0:
        return Lamp("unique", "amber", 0.5, f"{signed} yet no other {PLAIN} gives this output.")
    room = f"{'rows' if free is None else f'{_percent(free, WIDTH)} of the rows'} may leave room for another {PLAIN};"
    found = [_lit("unique", share, NULL, f"{signed} {room} {UNASKED}")]
    if _known(head.width):
        wide = f"{signed} as a {PLAIN} each could be another within {head.width:.2f}."
        found = [replace(lamp, says=wide) for lamp in (*found, _lit("unique", head.width, WIDTH, wide))]
    elif free is None or WIDTH.colour(free) != "green":
        found.append(replace(found[0], colour="amber", level=UNSHOWN))
    return min(found, key=lambda lamp: lamp.level or 0.0)


def with_other(found: Lamps, moved: float) -> Lamps:
    """Lamps that tell how far the weights of another distribution went, once one was looked for; colours stay."""
    far = f"the one looked for moves no weight by more than {moved:.2g}, others may move one farther."
    says = found.unique.says.replace(UNASKED, far)
    return found._replace(unique=replace(found.unique, says=says))


def _carries(head: Head) -> Lamp:
    if head.alone:
        return Lamp("carries", "dark", None, ALONE)
    carried = head.carried
    known = _known(carried)
    follows = f"{_percent(carried, CARRIED)} of what is sent follows the weights." if known else ""
    if is_sink(head):
        return _sink(head, follows)
    if not known:
        return Lamp("carries", "dark", None, "What the weights carry was not measured.")
    return _lit("carries", carried, CARRIED, follows)


def _sink(head: Head, follows: str) -> Lamp:
    """Red where the parked weight sends less than half of its share, or where little follows the weights at all."""
    parked = head.parked or 0.0
    place = f", the most on {head.on}" if head.on else ""
    sent = f"; {_percent(head.sent or 0.0)} of what is sent comes from there" if _known(head.sent) else ""
    said = f"{SINK_SAYS} {_percent(parked)} of the weight is parked{place}{sent}. {follows}".strip()
    hollow = _known(head.sent) and (head.sent or 0.0) < parked / 2 - ROUNDED
    little = _known(head.carried) and CARRIED.colour(head.carried or 0.0) == "red"
    if hollow or little:
        return Lamp("carries", "red", 0.15, said)
    own = _known(head.carried) and CARRIED.colour(head.carried or 0.0) == "green"
    return Lamp("carries", "amber", 0.4, said, held=own)


def _matters(head: Head) -> Lamp:
    moved = head.matters
    if moved is None or not math.isfinite(moved):
        return Lamp("matters", "dark", None, "Not asked: what the model does without this head is not known yet.")
    size = abs(moved)
    if head.exact:
        says = f"With it at zero the {head.what} moves by {size:.2g} {head.unit}."
        return _lit("matters", size, MATTERS, says)
    about = f"With it at zero the {head.what} moves by about {size:.2g} {head.unit}, to first order"
    if MATTERS.colour(size / ROUGH) != "green":
        untold = f"{about}, which may be off {ROUGH} times or more {FIRST_ORDER}: taking it away does (--exact)."
        return Lamp("matters", "dark", None, untold)
    return _lit("matters", size, MATTERS, f"{about}.")


# --- numbers ---


class Scale(NamedTuple):
    """Four numbers from best to worst; green up to the second, red beyond the third."""

    best: float
    good: float
    bad: float
    worst: float

    def colour(self, value: float) -> Colour:
        sign = 1 if self.worst > self.best else -1  # whether less is better, or more
        if sign * value <= sign * self.good + ROUNDED:
            return "green"
        return "amber" if sign * value <= sign * self.bad + ROUNDED else "red"

    def level(self, value: float) -> float:
        """1 at the best, two thirds at good, a third at bad, 0 at the worst; linear between."""
        for at, (left, right) in enumerate(pairwise(self)):
            share = (value - left) / (right - left)
            if share <= 1:
                return round(1 - (at + max(0.0, share)) / 3, 4)
        return 0.0


NULL = Scale(0.0, NULL_SMALL, NULL_LARGE, 1.0)
WIDTH = Scale(0.0, WIDTH_SMALL, WIDTH_LARGE, 1.0)
CARRIED = Scale(1.0, CARRIED_MUCH, CARRIED_LITTLE, 0.0)
MATTERS = Scale(0.1, MATTERS_MUCH, MATTERS_LITTLE, 0.0)


def _lit(question: str, value: float, scale: Scale, says: str) -> Lamp:
    return Lamp(question, scale.colour(value), scale.level(value), says)


def _known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def _percent(share: float, scale: Scale | None = None) -> str:
    """With as many digits as its colour needs.

    >>> _percent(0.7474), _percent(0.7474, CARRIED), _percent(0.74, CARRIED)
    ('75 %', '74.7 %', '74 %')
    """
    written = [f"{100 * share:.{digits}f}" for digits in range(4)]
    plain = (one for one in written if scale is None or scale.colour(float(one) / 100) == scale.colour(share))
    return f"{next(plain, written[-1])} %"
