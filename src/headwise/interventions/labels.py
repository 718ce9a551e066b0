"""Labels of a corpus as classes of a model, by one rule; one that is no class is refused, never left out in silence.

by name      as the model's configuration spells it, or in other case
by number    where every class has a number of its own in its name ("1 star" … "5 stars", "LABEL_0" …), that number;
             else the class's place, from 0
none         an empty label, −1, as GLUE marks texts whose label is not told, and whatever a model with a single
             output is given: it tells numbers, not classes
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from headwise.errors import InputError
from headwise.models.model import Model
from headwise.text.corpus import Document

NAMED, TOLD = 12, 5  # classes, and labels that are none, that a message lists


def classes(model: Model) -> dict[str, int]:
    """Names of the model's classes and their places."""
    return {str(name): int(at) for name, at in (model.hf.config.label2id or {}).items()}


def told(model: Model, note: object) -> str | None:
    """The label that a document brings to a model of classes; None where there is none."""
    text = str(note).strip() if isinstance(note, str | int) and len(classes(model)) > 1 else ""
    return text if text not in ("", "-1") else None


def class_of(model: Model, label: str | int) -> int | None:
    """The place of the class that a label names; None where the model has no such class."""
    names, text = classes(model), str(label).strip()
    folded = {name.casefold(): at for name, at in names.items()}
    if text in names or (text.casefold() in folded and len(folded) == len(names)):
        return names.get(text, folded.get(text.casefold()))
    if re.fullmatch(r"\d+\.0", text):  # as pandas writes 3 in a column where a value is missing
        return class_of(model, text.removesuffix(".0"))
    if not text.isdecimal():
        return None
    numbers = _numbers(names)
    at = numbers.get(int(text)) if numbers else int(text)
    return at if at is not None and at < (model.hf.config.num_labels or 0) else None


def _numbers(names: dict[str, int]) -> dict[int, int]:
    """Place by the one number in a class's name; empty unless every name has one and no two the same."""
    found = {at: re.findall(r"\d+", name) for name, at in names.items()}
    numbers = {int(each[0]): at for at, each in found.items() if len(each) == 1}
    return numbers if len(numbers) == len(names) else {}


def no_class(model: Model, label: str) -> InputError:
    """What to say of a label that is no class."""
    return _refused(model, [repr(label)])


def _refused(model: Model, found: Sequence[str]) -> InputError:
    names = list(classes(model))
    listed = ", ".join(names[:NAMED]) + (" …" if len(names) > NAMED else "")
    numbers = sorted(_numbers(classes(model))) or range(len(names))
    them = "it" if len(found) == 1 else "them"
    return InputError(
        f"A label must be a class of {model.name} ({listed}, or its number, {min(numbers)} to {max(numbers)}), but the "
        f"corpus has {', '.join(found)}; rename {them} in the file, or leave out --label."
    )


def check_labels(model: Model, documents: Iterable[Document]) -> None:
    """Refuse texts whose labels are no classes of the model, with how many there are of the commonest few."""
    labels = [label for label in (told(model, document.notes) for document in documents) if label is not None]
    unknown = Counter(label for label in labels if class_of(model, label) is None)
    if unknown:
        (first, count), *others = unknown.most_common(TOLD)
        more = [f"{len(unknown) - TOLD} others"] if len(unknown) > TOLD else []
        rest = [f"{label!r} ({times})" for label, times in others]
        raise _refused(model, [f"{first!r} ({count} of the first {len(labels)} texts)", *rest, *more])
