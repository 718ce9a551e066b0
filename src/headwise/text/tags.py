"""Parts of speech of tokens: by spaCy, from a CoNLL-U file, or brought by the corpus itself.

A tag belongs to a word; every token of the word has it. Special tokens are their own tags ([CLS], [SEP]). Tags are
`xpos`, the language's own (Penn Treebank's for English: NN, VBD, …), or `upos`, the universal ones (NOUN, VERB, …).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from headwise.errors import InputError
from headwise.text.conllu import Sentence, sentences, words_of
from headwise.types import Encoding

TAGSETS = ("xpos", "upos")
NO_TAG = "_"
UNUSED = ("ner", "parser", "senter", "lemmatizer")  # parts of a spaCy pipeline that tags do not need


@dataclass(frozen=True)
class Tagged:
    """The words of one text: their characters and their tags."""

    spans: tuple[tuple[int, int], ...]
    tags: tuple[str, ...]


def token_tags(text: Encoding, sides: Sequence[Tagged]) -> tuple[str | None, ...]:
    """The tag of every token, given the words of the text (and of its pair); None for a token of no tagged word."""
    found: list[str | None] = [
        token if special else None for token, special in zip(text.tokens, text.special, strict=True)
    ]
    for segment, side in enumerate(sides):
        for at, word in enumerate(words_of(text, side.spans, segment)):
            if word >= 0 and side.tags[word] != NO_TAG:
                found[at] = side.tags[word]
    return tuple(found)


def source(text: Encoding, segment: int = 0) -> str:
    """What the tokens of a text (or of its pair) were made from: every word at its own characters, blanks between.

    subtle: a byte-level token may begin with the blank before its word, which its offsets then count.
    """
    letters: list[str] = []
    for unit, (start, stop) in _unit_spans(text, segment).items():
        word = text.words[unit]
        start += max(stop - start - len(word), 0)
        letters += " " * (start + len(word) - len(letters))
        letters[start : start + len(word)] = word
    return _blank("".join(letters))


def by_spacy(text: str, folder: Path, *, tagset: str = "xpos") -> Tagged:
    """The words and tags that a spaCy pipeline, saved in `folder`, gives to a text."""
    words = [word for word in _pipeline(folder)(text) if not word.is_space]
    return Tagged(
        tuple((word.idx, word.idx + len(word)) for word in words),
        tuple(word.tag_ if tagset == "xpos" else word.pos_ for word in words),
    )


def by_sentence(text: str, sentence: Sentence, *, tagset: str = "xpos") -> Tagged:
    """The words and tags of a CoNLL-U sentence, found in `text`; white space may differ.

    The text may end before the sentence does, as one that was cut to the model's limit. Raises, naming the sentence
    and the word, where a word is not the next one in the text, and where the text goes on after the last word.
    """
    text, spans, at = _blank(text), [], 0
    for number, (start, stop) in enumerate(sentence.spans):
        written, at = _blank(sentence.text[start:stop]), _next_word(text, at)
        if not text.startswith(written, at):
            if written.startswith(text[at:]):
                break
            raise _mismatch(sentence, f"word {number + 1}, {written!r},", text[at:])
        spans.append((at, at + len(written)))
        at += len(written)
    else:
        if text[at:].strip():
            raise _mismatch(sentence, "its end", text[at:].strip())
    return Tagged(tuple(spans), getattr(sentence, tagset)[: len(spans)])


@cache
def tag_file(path: str) -> tuple[Sentence, ...]:
    """The sentences of a CoNLL-U file."""
    try:
        with open(path, encoding="utf-8") as lines:
            return tuple(sentences(lines))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"Tags must be corpus, none, spacy or a readable CoNLL-U file, but {path} gave: {error}; check the path."
        ) from None


def check_spacy() -> None:
    """Raise where spaCy is not installed."""
    try:
        import spacy  # noqa: F401
    except ImportError:
        raise InputError(
            "Tags by spaCy need spaCy, which is not installed: pip install 'headwise[linguistics]'."
        ) from None


@cache
def _pipeline(folder: Path) -> Any:
    check_spacy()
    import spacy

    return spacy.load(folder, exclude=list(UNUSED))


def _unit_spans(text: Encoding, segment: int) -> dict[int, tuple[int, int]]:
    """The characters of each word's tokens, first to last."""
    spans: dict[int, tuple[int, int]] = {}
    for at, unit in enumerate(text.unit):
        if text.segment[at] == segment and not text.special[at]:
            start, stop = text.offsets[at]
            first, last = spans.get(unit, (start, stop))
            spans[unit] = (min(first, start), max(last, stop))
    return spans


def _blank(text: str) -> str:
    """The text with one blank for each character of white space."""
    return "".join(" " if char.isspace() else char for char in text)


def _next_word(text: str, at: int) -> int:
    while at < len(text) and text[at] == " ":
        at += 1
    return at


def _mismatch(sentence: Sentence, expected: str, rest: str) -> InputError:
    return InputError(
        f"The words of sentence {sentence.name} (line {sentence.line}) must spell the text of its document, but where "
        f"{expected} should be there is {rest[:24]!r}; correct the tags, or the order of the sentences."
    )
