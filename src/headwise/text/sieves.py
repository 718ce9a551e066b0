"""Rules that pick an antecedent: what a head has to beat.

Clark et al. 2019 §4.3 (https://arxiv.org/abs/1906.04341), the last one after Lee et al. 2011
(https://aclanthology.org/W11-1902): of the earlier mentions

    nearest      the nearest
    head match   the nearest with the same head word; none where there is no such mention
    sieves       the nearest of the earliest sieve that lets any through: same string, same head word, number, gender
                 and person agree, any

Case does not matter. Number, gender and person are those that the parse gives to the head; every noun is a third
person, and what is unknown agrees with everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headwise.text.conllu import feature
from headwise.text.coref import CorefDocument

Attributes = tuple[str | None, str | None, str | None]  # number, gender, person
Rule = Callable[[CorefDocument, int, Sequence[int]], int | None]


def nearest(document: CorefDocument, mention: int, candidates: Sequence[int]) -> int | None:  # noqa: ARG001
    """The last of the candidates, which are mentions in the order of the text."""
    return candidates[-1] if candidates else None


def head_match(document: CorefDocument, mention: int, candidates: Sequence[int]) -> int | None:
    """The nearest candidate with the mention's head word."""
    return nearest(document, mention, [other for other in candidates if _same_head(document, mention, other)])


def sieves(document: CorefDocument, mention: int, candidates: Sequence[int]) -> int | None:
    """The nearest candidate that passes the earliest sieve."""
    for passes in (_same_string, _same_head, _agree, _any):
        passed = [other for other in candidates if passes(document, mention, other)]
        if passed:
            return passed[-1]
    return None


RULES: Mapping[str, Rule] = {"nearest": nearest, "head match": head_match, "sieves": sieves}


def attributes(document: CorefDocument, mention: int) -> Attributes:
    """Number, gender and person of a mention's head, None where the parse does not say."""
    head = document.heads[mention]
    feats = document.feats[head]
    number = feature(feats, "Number")
    person = feature(feats, "Person")
    if document.upos[head] in ("NOUN", "PROPN") and person is None:
        person = "3"
    return "Plur" if number == "Ptan" else number, feature(feats, "Gender"), person


def _same_string(document: CorefDocument, one: int, other: int) -> bool:
    return document.written(one) == document.written(other)


def _same_head(document: CorefDocument, one: int, other: int) -> bool:
    return document.forms[document.heads[one]].casefold() == document.forms[document.heads[other]].casefold()


def _agree(document: CorefDocument, one: int, other: int) -> bool:
    both = zip(attributes(document, one), attributes(document, other), strict=True)
    return all(a is None or b is None or a == b for a, b in both)


def _any(document: CorefDocument, one: int, other: int) -> bool:  # noqa: ARG001
    return True
