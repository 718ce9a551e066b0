"""How long a run will take: foretold before it starts, and what is left while it goes on.

A text of t tokens takes

    seconds(t) = pass(t) · (SHARED + EACH · studies + Σ passes(t) of the studies that ask it)

where pass(t) is the time of a text in a warm pass of many copies at once (`together`), as studies make theirs, measured
here on a text of the corpus and scaled by tokens. What is left is what was foretold of the texts that are left, times
the seconds that a foretold second took in this run, when a text was last done, less the time since: texts that few
studies ask count little, and those that an interrupted run had done not at all.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice

import torch

from headwise.engine.fold import EVERY, Item, readable
from headwise.engine.plan import OPENING, Plan
from headwise.models.model import Model
from headwise.studies.study import Study

AT_ONCE, FEWEST, MOST = 768, 4, 64  # tokens of the pass that is timed, about, and the copies of a text that it may have
SHARED, EACH = 1.5, 0.5  # what the shared pass costs, in such passes, and what each study makes of it
A_SHARD = 0.02  # seconds that each study takes of every shard, however short its texts are
AFTER, PARTS_AFTER = 0.4, 1.2  # seconds of table and figures, of tables without each part and a report's page; a study
SPECIAL = 8  # tokens that even an empty text costs
SPREAD = 1.4  # what is told is from the seconds over it to the seconds times it
TOLD, LONG = 20.0, 120.0  # seconds from which a run without passes of its own is foretold; from which less is offered


@dataclass(frozen=True)
class Forecast:
    """Seconds of every shard, its texts, what share of all is whose, and seconds of what follows the texts."""

    shards: Sequence[float]
    texts: Sequence[int]
    shares: Mapping[str, float]
    after: float = 0.0
    each: Sequence[Sequence[float]] = ()  # of a shard's texts, the shortest first, as they are read

    @property
    def whole(self) -> float:
        """Seconds of all."""
        return sum(self.shards) + self.after

    def of(self, shard: int) -> float:
        """Seconds of one; subtle: segments are counted roughly, so that there may be a shard more."""
        return self.shards[shard] if shard < len(self.shards) else 0.0

    def of_first(self, shard: int, texts: int, of: int) -> float:
        """Seconds of so many texts `of` those of a shard, in the order in which they are read.

        >>> told, untold = Forecast([8.0], [3], {}, each=[[0.0, 2.0, 6.0]]), Forecast([8.0], [4], {})
        >>> told.of_first(0, 2, 3), untold.of_first(0, 1, 4)
        (2.0, 2.0)
        """
        each = self.each[shard] if shard < len(self.each) else ()
        known = len(each) == of and sum(each)
        return self.of(shard) * (sum(each[:texts]) / sum(each) if known else texts / max(1, of))


@dataclass(frozen=True)
class Pass:
    """What a text takes in a pass of several: seconds, its tokens, and tokens for a character of the corpus."""

    seconds: float
    tokens: int
    a_character: float

    def of(self, tokens: float) -> float:
        return self.seconds * (tokens + SPECIAL) / (self.tokens + SPECIAL)


def forecast(model: Model, plan: Plan, studies: Sequence[Study], *, parts: int) -> Forecast | None:
    """Of a run; None where none of the first texts can be read."""
    if (one := timed(model, plan)) is None:
        return None
    return of_texts(lengths(model, plan, one), studies, heads_of(model), one, parts=parts, shard=plan.shard_documents)


def heads_of(model: Model) -> int:
    return sum(model.layers(stack) * model.heads(stack) for stack in model.stacks)


def timed(model: Model, plan: Plan) -> Pass | None:
    """A pass of the middle one of the first texts; None where none of them can be read."""
    opening = list(islice(plan.corpus.documents(), OPENING))
    items = list(readable(model, opening, plan, Counter()))
    if not items:
        return None
    middle = sorted(items, key=lambda item: item.length)[len(items) // 2]
    characters = sum(len(document.text) + len(document.pair or "") for document in opening)
    return Pass(_seconds(model, middle), middle.length, sum(item.length for item in items) / max(1, characters))


def together(tokens: int) -> int:
    """How many copies of a text are timed at once; subtle: a pass of few short texts is nothing but its overhead.

    >>> together(12), together(100), together(512), together(3)
    (64, 8, 4, 64)
    """
    return max(FEWEST, min(MOST, round(AT_ONCE / tokens)))


def _seconds(model: Model, item: Item) -> float:
    """Of a text in such a pass, warm: the first pass of a shape is slower."""
    count = together(item.length)
    batch = model.batch([item.text] * count, [item.target] * count if item.target else [])
    taken: list[float] = []
    with torch.inference_mode():
        while len(taken) < (2 if not taken or taken[0] < 1 else 1):
            began = time.perf_counter()
            model.hf(**batch.inputs)
            taken.append(time.perf_counter() - began)
    return min(taken) / count


def lengths(model: Model, plan: Plan, one: Pass) -> list[float]:
    """About how many tokens each text has, by its characters; 0 of one that is too long and not cut."""
    most = min((limit for limit in (plan.max_tokens, model.limit) if limit is not None), default=math.inf)
    if plan.corpus.segments is not None:
        return [float(plan.corpus.segments)] * (sum(1 for _ in plan.corpus.documents()) // 2)
    long = (one.a_character * (len(text.text) + len(text.pair or "")) for text in plan.corpus.documents())
    return [tokens if tokens <= most else most * plan.truncate for tokens in long]


def of_texts(
    lengths: Sequence[float], studies: Sequence[Study], heads: int, one: Pass, *, parts: int, shard: int
) -> Forecast:
    """Of texts of so many tokens each, in shards of so many texts."""
    totals: Counter[str] = Counter()
    shards = math.ceil(len(lengths) / shard)
    each: list[list[tuple[float, float]]] = [[] for _ in range(shards)]
    asks = [(study, study.settings().get("texts") or math.inf) for study in studies]
    shared = SHARED + EACH * sum(study.has("observe") or study.has("observe_hidden") for study in studies)
    for number, tokens in enumerate(lengths):
        passes = {study.name: study.passes(round(tokens), heads) for study, most in asks if number < most}
        costs = {name: count * one.of(tokens) for name, count in {EVERY: shared, **passes}.items() if tokens}
        totals.update(costs)
        each[number // shard].append((tokens, sum(costs.values(), 0.0)))
    read = [[seconds for _, seconds in sorted(texts, key=lambda text: text[0])] for texts in each]
    seconds = [A_SHARD * len(studies) + sum(texts) for texts in read]
    whole = sum(seconds) or 1.0
    after = len(studies) * (AFTER + (PARTS_AFTER if parts else 0.0))
    shares = {name: part / whole for name, part in totals.most_common()}
    return Forecast(seconds, [len(texts) for texts in read], shares, after, read)


def foretold(found: Forecast, studies: Sequence[Study], done: Set[int] = frozenset()) -> list[str]:
    """What is said before the first text: nothing of a short run, one line, and how to make a long one shorter."""
    left = [number for number in range(len(found.shards)) if number not in done]
    texts, seconds = sum(found.texts[n] for n in left), sum(found.shards[n] for n in left) + found.after
    own = any(name != EVERY for name, share in found.shares.items() if share)
    if not texts or not (own or seconds >= TOLD):
        return []
    large = [f"{name} {100 * share:.0f} %" for name, share in found.shares.items() if share >= 0.2 and name != EVERY]
    whose = f", {' and '.join([', '.join(large[:-1]), large[-1]] if large[1:] else large)} of it" if large else ""
    learned = [study.name for study in studies if study.cost == "learning"]
    besides = f"; what {' and '.join(learned)} learns comes after that" if learned else ""
    line = f"{texts:,} text{'s' if texts != 1 else ''} will take {span(seconds)}{whose}{besides}"
    return [line, _shorter(found, texts, len(studies))] if seconds > LONG else [line]


def _shorter(found: Forecast, texts: int, studies: int) -> str:
    first = next(iter(found.shares))
    without = f", or leave out {first}" if first != EVERY and studies > 1 else ""
    fewer = f"read fewer texts (--first {max(1, texts // 4)})" if texts > 1 else "take a shorter text"
    return f"for less: {fewer}{without}"


def remaining(total: float, worked: float, elapsed: float) -> float:
    """Seconds left of `total` foretold ones, of which those of finished texts, `worked`, took `elapsed`.

    >>> remaining(100, 20, 30), remaining(100, 0, 30), remaining(100, 0, 130)
    (120.0, 70.0, 0.0)
    """
    if worked <= 0:
        return float(max(0.0, total - elapsed))
    return elapsed / worked * max(0.0, total - worked)


def span(seconds: float) -> str:
    """
    >>> span(5), span(60), span(200), span(3000), span(7200)
    ('less than 15 s', 'about 45–85 s', 'about 2–5 minutes', 'about 35–70 minutes', 'about 1.4–2.8 hours')
    """
    low, high = seconds / SPREAD, seconds * SPREAD
    if high < 15:
        return "less than 15 s"
    if high < 120:
        return f"about {5 * round(low / 5)}–{5 * round(high / 5)} s"
    if high < 5400:
        return f"about {max(1, math.floor(low / 60))}–{math.ceil(high / 60)} minutes"
    return f"about {low / 3600:.1f}–{high / 3600:.1f} hours"


def duration(seconds: float) -> str:
    """
    >>> duration(119), duration(120), duration(5400)
    ('119 s', '2 minutes', '1.5 hours')
    """
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} hours"
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} s"
