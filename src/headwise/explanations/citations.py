"""Citations: for every sentence of an answer, the passages of a context it rests on, each with its effect.

Random halves of the sources are taken out and the log-probability of each sentence of the answer is asked again; a
sparse linear model of these ablations says which sources matter (ContextCite, https://arxiv.org/abs/2409.00729), a
surrogate that knows sources together too how much each adds (surrogate.py). With each half its other half is asked: in
such pairs what two sources do only together cancels out of the effect of one. Exact paths are the first guess: a source
that they give much is penalised less (an adaptive lasso). Ablations come in rounds until every effect is known to
± PRECISION of the largest one, or `passes` are spent. One pass serves all sentences.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import torch
from jaxtyping import Bool
from torch import Tensor

from headwise.errors import InputError, ModelError
from headwise.explanations.asking import ANSWER, Wish, ask, readable, task_of
from headwise.explanations.paths import paths
from headwise.explanations.question import Question
from headwise.explanations.sparse import lasso
from headwise.explanations.surrogate import surrogate
from headwise.explanations.targets import Target
from headwise.explanations.units import SENTENCE, Unit, gathered, removed, units_of
from headwise.models.model import Model
from headwise.text.terminal import visible

ROUND, PASSES, PRECISION = 16, 64, 0.25
PENALTY = 0.05  # of the lasso, in standard deviations of the sentence's log-probability
LEAST = 0.1  # nats: an effect below it is no rest


@dataclass(frozen=True)
class Citation:
    """A source and what its removal costs a sentence of the answer, in nats of its log-probability, with a 95 %
    interval."""

    source: str
    effect: float
    low: float
    high: float


@dataclass(frozen=True)
class Cited:
    """One sentence of the answer and what it rests on, the strongest first; nothing: the model's own knowledge."""

    sentence: str
    citations: tuple[Citation, ...]

    def __str__(self) -> str:
        if not self.citations:
            return visible(f"{self.sentence} [rests on none: the model's own knowledge]")
        return visible(f"{self.sentence} [{'; '.join(c.source for c in self.citations)}]")


@dataclass(frozen=True)
class Citations:
    """An answer with its sources. `fit` is R² of the surrogate on each sentence, each ablation said from the others."""

    answer: str
    sources: tuple[str, ...]
    sentences: tuple[Cited, ...]
    fit: tuple[float, ...]
    passes: int
    seed: int

    @property
    def table(self) -> pl.DataFrame:
        """One row a citation."""
        rows = [(s.sentence, c.source, c.effect, c.low, c.high) for s in self.sentences for c in s.citations]
        names = ["sentence", "source", "effect", "low", "high"]
        kinds = [pl.String, pl.String, pl.Float64, pl.Float64, pl.Float64]
        return pl.DataFrame(rows, schema=dict(zip(names, kinds, strict=True)), orient="row")


def cite(
    model: Model,
    context: str,
    question: str,
    answer: str | None = None,
    *,
    units: str = "sentences",
    generate: int = ANSWER,
    passes: int = PASSES,
    seed: int = 0,
) -> Citations:
    """What an answer to `question` rests on in `context`; without an answer the model writes one."""
    if task_of(model) != "causal-lm":
        raise ModelError(f"Citations need a model that writes (--task causal-lm), but {model.name} does not.")
    if not context.strip():
        raise InputError("A context must have at least one visible character, but it is empty; give another file.")
    if passes < ROUND:
        raise InputError(f"Citations need at least {ROUND} passes, but passes={passes} was asked for.")
    if units not in ("sentences", "passages"):
        raise InputError(f"Sources are sentences or passages, but units={units!r} was asked for.")
    text = f"{context.strip()}\n\n{question.strip()}"
    wish = Wish(generate=generate) if answer is None else Wish(target=answer, chat=True)
    asked = by_sentence(context_only(ask(model, text, wish=wish), question.strip()))
    sources = tuple(unit for unit in units_of(asked, units) if unit.given)
    guess = gathered(guess_of(asked), sources).abs().numpy()
    x, y, spent = ablated(asked, sources, guess, passes, seed)
    made = [_cited(asked.targets[at].name, sources, x, y[at], guess[at]) for at in range(len(asked.targets))]
    whole = " ".join(target.name for target in asked.targets)
    cited, fit = zip(*made, strict=True)
    return Citations(whole, tuple(unit.name for unit in sources), cited, fit, spent, seed)


def context_only(asked: Question, question: str) -> Question:
    """The question itself always stays, and so do the empty lines between."""
    text = asked.texts[0]
    start = text.rfind(question)
    own = (a < start and bool(text[a:b].strip()) for a, b in asked.text.offsets)
    given = tuple(g and o for g, o in zip(asked.given, own, strict=True))
    return replace(asked, given=given)


def by_sentence(asked: Question) -> Question:
    """One target for each sentence of the answer: the joint log-probability of its tokens."""
    tokens = asked.targets[1:] or asked.targets
    names = readable(asked.model, [target.chosen[0] for target in tokens])
    whole, starts = "".join(names), np.cumsum([0, *map(len, names)])[:-1]
    cuts = [found.start() for found in SENTENCE.finditer(whole)]
    sentence = [sum(cut <= start for cut in cuts) for start in starts]
    made = []
    for number in sorted(set(sentence)):
        own = [t for t, s in zip(tokens, sentence, strict=True) if s == number]
        name = "".join(n for n, s in zip(names, sentence, strict=True) if s == number).strip()
        rows, chosen = tuple(t.rows[0] for t in own), tuple(t.chosen[0] for t in own)
        made.append(Target("answer", "log-probability", name, rows, chosen))
    return replace(asked, targets=tuple(made))


def guess_of(asked: Question) -> torch.Tensor:
    """Exact paths of every sentence, each on its own; ones where paths do not add up."""
    try:
        return torch.cat([paths(replace(asked, targets=(target,))).tokens for target in asked.targets])
    except ModelError:
        return torch.ones(len(asked.targets), len(asked), dtype=torch.float64)


def ablated(
    asked: Question, sources: tuple[Unit, ...], guess: np.ndarray, most: int, seed: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """(which sources are there [pass source], log-probability of each sentence [sentence pass], passes)."""
    generator = torch.Generator().manual_seed(seed)
    gone = torch.empty(0, len(sources), dtype=torch.bool)
    values = torch.empty(len(asked.targets), 0, dtype=torch.float64)
    while True:
        pairs = min(ROUND, most - len(gone)) // 2
        new = paired(torch.rand(pairs, len(sources), generator=generator) < 0.5)
        found = asked.without(removed(sources, new, asked), removal="delete")[..., 0]
        gone, values = torch.cat([gone, new]), torch.cat([values, found], dim=1)
        x, y = (~gone).double().numpy(), values.numpy()
        if most - len(gone) < 2 or _precise(x, y, guess):
            return x, y, len(gone)


def paired(gone: Bool[Tensor, "variant source"]) -> Bool[Tensor, "both source"]:
    """Each set, and what it leaves."""
    return torch.cat([gone, ~gone])


def _precise(x: np.ndarray, y: np.ndarray, guess: np.ndarray) -> bool:
    """Whether every effect is known to ± PRECISION of the largest one."""
    if len(x) < 2 * x.shape[1]:
        return False
    for row, first in zip(y, guess, strict=True):
        if row.std() == 0:
            continue
        effect, low, high = surrogate(x, row, first).effects()
        if (high - low).max() / 2 > PRECISION * np.abs(effect).max():
            return False
    return True


def chosen_sources(x: np.ndarray, y: np.ndarray, guess: np.ndarray) -> np.ndarray:
    """The sources that an adaptive lasso keeps; one of which the guess thinks much pays less."""
    share = guess / guess.max() if guess.max() > 0 else np.ones_like(guess)
    return np.flatnonzero(lasso(x, y, PENALTY * float(y.std()), 1 / (0.25 + share)))


def _cited(
    sentence: str, sources: tuple[Unit, ...], x: np.ndarray, y: np.ndarray, guess: np.ndarray
) -> tuple[Cited, float]:
    if y.std() == 0:
        return Cited(sentence, ()), 1.0
    model = surrogate(x, y, guess)
    effect, low, high = model.effects()
    found = [
        Citation(sources[at].name, float(effect[at]), float(low[at]), float(high[at]))
        for at in chosen_sources(x, y, guess)
        if low[at] > 0 and effect[at] >= LEAST
    ]
    return Cited(sentence, tuple(sorted(found, key=lambda c: -c.effect))), model.fit()
