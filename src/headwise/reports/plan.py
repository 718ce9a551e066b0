"""Which studies a report runs, on how much, and why the others are left out.

The corpus says what is labelled: a parse brings `syntax`, mentions bring `coref`, translations bring `alignment`, a
label brings `faithfulness` and `adversary`; `probe`, which trains for long, is run where it is named. A study that does
not apply to the model is left out with the reason it gives. A budget of minutes is shared out by what one forward pass
costs here: how many texts are read, and of how many the hidden tokens are traced to their origins.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch

from headwise.engine.fold import readable
from headwise.engine.plan import Plan
from headwise.errors import InputError, ModelError
from headwise.models.model import Model
from headwise.studies import STUDIES
from headwise.text.corpus import CorpusSpec, Document

UNLABELLED = ("surface", "norms", "nullspace", "distances", "importance", "mixing", "identity")
LABELLED = {"conllu": ("syntax",), "conll": ("coref",), "pairs": ("alignment",)}
OF_LABEL = ("faithfulness", "adversary")
ALL = tuple(dict.fromkeys([*UNLABELLED, *(name for names in LABELLED.values() for name in names), *OF_LABEL]))
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "mixing": {"texts": 3},
    "identity": {"folds": 5, "sentences": 1000},
    "faithfulness": {"texts": 24},
    "adversary": {"texts": 12},
}
TIMED = 6  # texts of which one pass is timed
FEWEST = 4  # texts that a map can be learned from and tested on
PASSES = 3.0  # what the shared pass with its studies costs, in forward passes (docs/benchmarks.md)
TANGENT = 1.0  # the cost of one tangent of one token, in forward passes of the text
ASKED = 250  # passes of one text by `faithfulness` or `adversary`, beside one for every token


@dataclass(frozen=True)
class Agenda:
    """What will be run; `left_out` has a reason for each study that is not."""

    settings: Mapping[str, Mapping[str, Any]]
    left_out: Mapping[str, str]
    documents: int | None  # the first so many; None: all
    note: str = ""  # how the budget was shared out

    def to_json(self) -> dict[str, Any]:
        return {"settings": dict(self.settings), "left_out": dict(self.left_out), "documents": self.documents,
                "note": self.note}  # fmt: skip

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Agenda:
        settings = {study: {key: _tuples(value) for key, value in chosen.items()}
                    for study, chosen in fields["settings"].items()}  # fmt: skip
        return cls(settings, fields["left_out"], fields["documents"], fields["note"])


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def agenda(
    model: Model,
    corpus: CorpusSpec,
    *,
    studies: Sequence[str] | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    budget: float | None = None,
    truncate: bool = False,
    max_tokens: int | None = None,
) -> Agenda:
    """What to run of a model and a corpus; `studies` are all that apply, unless they are named."""
    wanted = list(studies) if studies else [*UNLABELLED, *_labelled(corpus)]
    first = list(islice(corpus.documents(), TIMED))
    if not first:
        raise InputError(f"A report needs at least one text, but {corpus.name} has none that can be read.")
    plan = Plan({}, {}, corpus, truncate=truncate, max_tokens=max_tokens)
    share = _shares(model, first, budget, plan, wanted) if budget is not None else Shares()
    few = {"identity": {"folds": max(2, len(first) - 1)}} if len(first) < TIMED else {}
    chosen: dict[str, Mapping[str, Any]] = {}
    left_out: dict[str, str] = {}
    for name in wanted:
        given = {
            key: value
            for source in (DEFAULTS, share.settings, few, settings or {})
            for key, value in source.get(name, {}).items()
        }
        if name == "identity" and len(first) < FEWEST and not studies:
            left_out[name] = f"maps are learned from {FEWEST} texts or more, and there are {len(first)}."
            continue
        study = STUDIES[name](**given)
        try:
            study.check(model)
        except (InputError, ModelError) as error:
            if studies:
                raise
            left_out[name] = str(error)
            continue
        chosen[name] = given
    if not chosen:
        raise InputError(f"A report needs at least one study that applies to {model.name}; none does.")
    return Agenda(chosen, left_out, share.documents, share.note)


@dataclass(frozen=True)
class Shares:
    documents: int | None = None
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    note: str = ""


def _shares(model: Model, first: Sequence[Document], minutes: float, plan: Plan, wanted: Sequence[str]) -> Shares:
    """Half of the budget for the shared pass, a third for studies with passes of their own, the rest for learning."""
    if not minutes > 0:
        raise InputError(f"A budget is a number of minutes above 0, but {minutes:g} was given.")
    items = list(readable(model, first, plan, Counter()))
    if not items:
        raise InputError(f"A report needs texts that {model.name} can read, but none of the first {len(first)} is one.")
    start = time.perf_counter()
    with torch.inference_mode():
        for item in items:
            model.hf(**model.batch([item.text], [item.target] if item.target else []).inputs)
    once = (time.perf_counter() - start) / len(items)
    tokens = sum(item.length for item in items) / len(items)
    documents = max(8, int(minutes * 60 / 2 / (PASSES * once)))
    tangents = STUDIES["mixing"]().tangents  # pyright: ignore[reportAttributeAccessIssue]
    asking = [name for name in ("mixing", *OF_LABEL) if name in wanted]
    part = minutes * 60 / 3 / max(1, len(asking))
    origins = max(1, int(part / (TANGENT * tangents * tokens * once)))
    explained = max(1, int(part / ((ASKED + tokens) * once)))
    learned = max(20, min(2000, int(20 * minutes * 60 / tokens)))
    return Shares(
        documents,
        {
            "mixing": {"texts": origins},
            "identity": {"folds": 5, "sentences": learned},
            **{name: {"texts": explained} for name in OF_LABEL},
        },
        f"Budget {minutes:g} min; a pass of one text took {1000 * once:.0f} ms, so at most {documents:,} texts are "
        f"read, {origins:,} of them are traced to their origins, {learned:,} serve to learn maps, and the predictions "
        f"of {explained:,} are explained where texts have labels.",
    )


def _labelled(corpus: CorpusSpec) -> list[str]:
    return [*LABELLED.get(corpus.kind, ()), *(OF_LABEL if corpus.label is not None else ())]
