"""Coreference without a parse: CoNLL-2012 and LitBank files as they are, and GAP's table.

    CoNLL-2012   the shared task's columns; the fifth is the word's tag (https://aclanthology.org/W12-4501)
    LitBank      the same columns without tags (https://aclanthology.org/2020.lrec-1.6)
    GAP          a tsv: a text, a pronoun, two names and which of them it means (https://aclanthology.org/Q18-1042)

Where there is no tree the head of a mention is its last word before a preposition, a comma or a relative word ("the
king of France": king). Where there are no tags a mention is a pronoun if its head is in a closed list, a name if it is
capitalised, else nominal.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from headwise.errors import InputError
from headwise.text.coref import CorefDocument, Mention

GAP = ("ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref")
PRONOUNS = frozenset(re.split(" ", (
    "i me my mine myself you your yours yourself he him his himself she her hers herself it its itself we us our ours "
    "ourselves they them their theirs themselves one who whom whose this that these those"
)))  # fmt: skip
ENDS = frozenset(re.split(" ", "of in on at for with from to by who whom which that whose where when , ; : ( --"))
WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")


def document(name: str, forms: Sequence[str], tags: Sequence[str], mentions: Sequence[Mention]) -> CorefDocument:
    """Words with a space between them; `tags` are Penn's, or whatever stands where there are none."""
    starts = [0]
    for form in forms:
        starts.append(starts[-1] + len(form) + 1)
    spans = tuple((start, start + len(form)) for start, form in zip(starts, forms, strict=False))
    return placed(name, " ".join(forms), spans, mentions, tags)


def placed(
    name: str, text: str, spans: Sequence[tuple[int, int]], mentions: Sequence[Mention], tags: Sequence[str]
) -> CorefDocument:
    """The same where the words stand in a text as it was written."""
    forms = tuple(text[start:end] for start, end in spans)
    return CorefDocument(
        name=name, text=text, forms=forms, spans=tuple(spans),
        upos=tuple(kind(form, tag) for form, tag in zip(forms, tags, strict=True)), xpos=tuple(tags),
        feats=("",) * len(forms), mentions=tuple(mentions), heads=tuple(head(mention, forms) for mention in mentions),
    )  # fmt: skip


def head(mention: Mention, forms: Sequence[str]) -> int:
    """The last word before what follows a noun.

    >>> head(Mention(0, 4, 1), ["the", "king", "of", "France"])
    1
    """
    inside = range(mention.start + 1, mention.stop)
    return next((word for word in inside if forms[word].lower() in ENDS), mention.stop) - 1


def kind(form: str, tag: str) -> str:
    """PRON, PROPN or NOUN, by the Penn tag or, where there is none, by the word."""
    if form.lower() in PRONOUNS or tag.startswith(("PRP", "WP")):
        return "PRON"
    known = tag.strip("-_*")
    return "PROPN" if (tag.startswith("NNP") if known else form[:1].isupper()) else "NOUN"


def is_gap(header: str) -> bool:
    return set(GAP) <= set(header.strip("\r\n").split("\t"))


def gap(lines: Iterator[str], skipped: Counter[str]) -> Iterator[CorefDocument]:
    """The rows of a GAP table, header first; a row in which neither name is meant asks nothing and is counted."""
    columns = next(lines, "").strip("\r\n").split("\t")
    for number, line in enumerate(lines, start=2):
        row = dict(zip(columns, line.strip("\r\n").split("\t"), strict=False))
        if set(GAP) - set(row):
            skipped["missing column"] += 1
            continue
        meant = [row[f"{name}-coref"].upper() == "TRUE" for name in ("A", "B")]
        if not any(meant):
            skipped["neither name is meant"] += 1
            continue
        yield _gap_row(row, meant, number)


def _gap_row(row: dict[str, str], meant: Sequence[bool], number: int) -> CorefDocument:
    spans = [match.span() for match in WORD.finditer(row["Text"])]
    entities = (0, *(0 if same else at for at, same in enumerate(meant, start=1)))
    mentions = [
        Mention(*_words(spans, row["Text"], row[name], row[f"{name}-offset"], number), entity)
        for name, entity in zip(("Pronoun", "A", "B"), entities, strict=True)
    ]
    return placed(row["ID"], row["Text"], spans, sorted(mentions, key=lambda one: one.order), [""] * len(spans))


def _words(spans: Sequence[tuple[int, int]], text: str, name: str, offset: str, line: int) -> tuple[int, int]:
    """The words that a name covers, which must stand at its offset."""
    start = int(offset) if offset.isdigit() else -1
    if start < 0 or text[start : start + len(name)] != name:
        raise InputError(f"Line {line}: {name!r} must stand at character {offset} of its text; correct the row.")
    inside = [at for at, (a, b) in enumerate(spans) if a < start + len(name) and b > start]
    return inside[0], inside[-1] + 1
