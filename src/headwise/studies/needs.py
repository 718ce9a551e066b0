"""What a study needs of a model and a corpus, and the sentence where that is not so; what a report can afford."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headwise.models.model import Model
from headwise.text.corpus import CorpusSpec

Kind = Literal["encoder", "decoder", "encoder–decoder"]
Brought = Literal["parse", "mentions", "pairs", "label"]
Cost = Literal["pass", "passes", "learning"]

BRINGS: dict[str, Brought] = {"conllu": "parse", "conll": "mentions", "pairs": "pairs"}  # by kind of corpus
ASKED_FOR: dict[Brought, str] = {
    "parse": "parsed sentences: give a CoNLL-U file (--corpus FILE.conllu)",
    "mentions": "coreference: give a .conll file with its CoNLL-U (--corpus FILE.conll)",
    "pairs": "sentences and their translations: give FILE.pairs, or a source and a target with --kind pairs",
    "label": "texts with labels: name their column (--label COLUMN)",
}


@dataclass(frozen=True)
class Needs:
    """`model`: kinds that will do, none for any. `corpus`: what texts must bring. `task`: heads that will do, in words.

    Whether a model has such a head only `Study.check` can tell.
    """

    model: tuple[Kind, ...] = ()
    corpus: Brought | None = None
    task: tuple[str, ...] = ()

    def lacks_model(self, name: str, model: Model) -> str | None:
        """Why the study `name` does not take the model; None where it does."""
        if not self.model or kind_of(model) in self.model:
            return None
        advice = "take its encoder alone (--task encoder)" if self._encoder_would_do(model) else "take another model"
        return f"Study {name} takes {_or(self.model)}, but {model.name} is {_a(kind_of(model))}; {advice}."

    def _encoder_would_do(self, model: Model) -> bool:
        return model.is_encoder_decoder and "encoder" in self.model and not self.task

    def lacks_corpus(self, name: str, corpus: CorpusSpec) -> str | None:
        """Why the study `name` does not take the corpus; None where it does."""
        if self.corpus is None or self.corpus in brought(corpus):
            return None
        return f"Study {name} reads {ASKED_FOR[self.corpus]}."

    def told(self) -> str:
        """All of it in a few words, for lists: "an encoder–decoder; pairs"; empty where nothing is needed."""
        parts = [_or(self.model) if self.model else "", self.corpus or "", _task(self.task)]
        return "; ".join(part for part in parts if part)


def kind_of(model: Model) -> Kind:
    return "encoder–decoder" if model.is_encoder_decoder else "decoder" if model.causal else "encoder"


def brought(corpus: CorpusSpec) -> set[Brought]:
    """What the texts of a corpus bring with them."""
    found: set[Brought] = {BRINGS[corpus.kind]} if corpus.kind in BRINGS else set()
    return found | ({"label"} if corpus.label is not None else set())


def _task(names: tuple[str, ...]) -> str:
    return f"--task {' or '.join(names)}" if names else ""


def _or(kinds: tuple[str, ...]) -> str:
    return " or ".join(_a(kind) for kind in kinds)


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


@dataclass(frozen=True)
class Means:
    """What a report can afford for a study: how many texts there are (None: enough), and where it has a budget the
    seconds that are the study's, the seconds of one forward pass, and the tokens of a text in the mean."""

    texts: int | None = None
    seconds: float | None = None
    once: float = 0.0
    tokens: float = 0.0

    def passes(self, a_text: float) -> int:
        """For how many texts so many forward passes each can be made, one at least."""
        assert self.seconds is not None
        return max(1, int(self.seconds / (a_text * self.once)))
