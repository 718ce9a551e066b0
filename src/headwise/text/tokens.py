"""From text to what the model reads: tokens, ids, segments, offsets, words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from headwise.errors import InputError, TooLongError
from headwise.text.words import piece_offsets, units
from headwise.types import Encoding


def encode(
    tokenizer: PreTrainedTokenizerBase,
    text: str,
    pair: str | None = None,
    *,
    limit: int | None,
    truncate: bool = False,
    as_target: bool = False,
    add_special_tokens: bool = True,
) -> Encoding:
    """One text or a pair as the model reads it, special tokens included unless `add_special_tokens` says no.

    Raises where the text is empty, is not Unicode, or has more than `limit` tokens; `truncate` cuts it instead.
    """
    _check_text(text)
    if pair is not None:
        _check_text(pair)
    options: dict[str, Any] = {"truncation": truncate and limit is not None, "padding": False, "verbose": False}
    if options["truncation"]:
        options["max_length"] = limit
    if not add_special_tokens:
        options["add_special_tokens"] = False
    if tokenizer.is_fast:
        options["return_offsets_mapping"] = True
    coded = tokenizer(text_target=text, **options) if as_target else tokenizer(text, pair, **options)
    ids = list(coded["input_ids"])
    doubled = _opens_itself(tokenizer, text, ids)
    ids = ids[doubled:]
    if limit is not None and len(ids) > limit:
        raise TooLongError(
            f"A text may have at most {limit} tokens for this model, but this one has {len(ids)}; shorten it, or pass "
            "truncate=True (--truncate) to cut it."
        )
    if not ids:
        raise InputError("A text must give at least one token, but this one gives none; pass another text.")
    return _encoding(tokenizer, coded, ids, (text, pair), doubled)


def encode_ids(
    tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], *, limit: int | None, vocabulary: int
) -> Encoding:
    """Token ids as they are; the text is what they decode to without special tokens."""
    ids = [int(number) for number in ids]
    wrong = [number for number in ids if not 0 <= number < vocabulary]
    if not ids or wrong:
        got = f"{wrong[0]} is among them" if wrong else "there is none"
        raise InputError(f"Token ids go from 0 to {vocabulary - 1}, but {got}; pass ids of this model's tokenizer.")
    if limit is not None and len(ids) > limit:
        raise TooLongError(f"A text may have at most {limit} tokens for this model, but {len(ids)} ids were given.")
    special_ids = {number for number in tokenizer.all_special_ids if number != tokenizer.unk_token_id}
    special = [number in special_ids for number in ids]
    named = [tokenizer.convert_ids_to_tokens(number) for number in ids]
    tokens = [f"<{number}>" if token is None else str(token) for token, number in zip(named, ids, strict=True)]
    text = str(tokenizer.decode([number for number, s in zip(ids, special, strict=True) if not s]))
    own = [at for at, is_special in enumerate(special) if not is_special]
    offsets: list[tuple[int, int]] = [(0, 0)] * len(ids)
    for at, span in zip(own, _spans(tokenizer, text, [ids[at] for at in own], [tokens[at] for at in own]), strict=True):
        offsets[at] = span
    source = [None if is_special else 0 for is_special in special]
    unit, words = _units(tokens, offsets, source, (text, None))
    return Encoding(
        tokens=tuple(_readable(tokenizer, tokens)), ids=tuple(ids), special=tuple(special), segment=(0,) * len(ids),
        offsets=tuple(offsets), unit=tuple(unit), words=tuple(words),
    )  # fmt: skip


def _spans(
    tokenizer: PreTrainedTokenizerBase, text: str, ids: Sequence[int], tokens: Sequence[str]
) -> list[tuple[int, int]]:
    """Where tokens stand in the text they decode to: as the tokenizer says, where it reads that text as these ids."""
    if tokenizer.is_fast and text:
        coded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        if list(coded["input_ids"]) == list(ids):
            return [(int(a), int(b)) for a, b in coded["offset_mapping"]]
    return piece_offsets(text, list(tokens))


def _opens_itself(tokenizer: PreTrainedTokenizerBase, text: str, ids: Sequence[int]) -> int:
    """1 where the text begins with the token that was put before it again: chat templates write it, too."""
    opening = tokenizer.bos_token
    repeated = len(ids) > 2 and ids[0] == ids[1] == tokenizer.bos_token_id
    return int(repeated and isinstance(opening, str) and text.startswith(opening) and text.strip() != opening)


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise InputError(f"A text must be a string, but a {type(text).__name__} was given; pass the text itself.")
    if not text.strip():
        raise InputError("A text must have at least one visible character, but it is empty; pass a text.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"A text must be valid Unicode, but character {error.start} is not; decode the input as UTF-8 first."
        ) from None


def _encoding(
    tokenizer: PreTrainedTokenizerBase, coded: Any, ids: list[int], texts: tuple[str, str | None], doubled: int
) -> Encoding:
    tokens = tokenizer.convert_ids_to_tokens(ids)
    special_ids = {i for i in tokenizer.all_special_ids if i != tokenizer.unk_token_id}
    if tokenizer.is_fast:
        offsets, source = list(coded["offset_mapping"])[doubled:], coded.sequence_ids(0)[doubled:]
    else:
        offsets, source = _found(tokenizer, tokens, [i in special_ids for i in ids], texts)
    if not any(side is not None for side in source):
        raise InputError("A text must give at least one token of its own, but this one gives none; pass another text.")
    unit, words = _units(tokens, offsets, source, texts)
    return Encoding(
        tokens=tuple(_readable(tokenizer, tokens)),
        ids=tuple(ids),
        special=tuple(s is None or i in special_ids for s, i in zip(source, ids, strict=True)),
        segment=tuple(_segments(source)),
        offsets=tuple((int(a), int(b)) for a, b in offsets),
        unit=tuple(unit),
        words=tuple(words),
    )  # fmt: skip


def _found(
    tokenizer: PreTrainedTokenizerBase, tokens: Sequence[str], special: Sequence[bool], texts: tuple[str, str | None]
) -> tuple[list[tuple[int, int]], list[int | None]]:
    """Offsets and source text of each token, for tokenizers that do not report them."""
    own = [at for at, is_special in enumerate(special) if not is_special]
    first = min(len(tokenizer.tokenize(texts[0])), len(own))
    offsets: list[tuple[int, int]] = [(0, 0)] * len(tokens)
    source: list[int | None] = [None] * len(tokens)
    for side, places in enumerate((own[:first], own[first:])):
        spans = piece_offsets(texts[side] or "", [tokens[at] for at in places])
        for at, span in zip(places, spans, strict=True):
            offsets[at], source[at] = span, side
    return offsets, source


def _units(
    tokens: Sequence[str],
    offsets: Sequence[tuple[int, int]],
    source: Sequence[int | None],
    texts: tuple[str, str | None],
) -> tuple[list[int], list[str]]:
    """Words of both texts in the order of the tokens; an added special token is a word of its own."""
    unit, names, start = [], [], 0
    while start < len(tokens):
        side, stop = source[start], start + 1
        while side is not None and stop < len(tokens) and source[stop] == side:
            stop += 1
        of_token, words = ([0], [tokens[start]]) if side is None else units(texts[side] or "", offsets[start:stop])
        unit += [len(names) + number for number in of_token]
        names += words
        start = stop
    return unit, names


def _segments(source: Sequence[int | None]) -> list[int]:
    """0 up to the first text's closing special token, 1 from the second text on."""
    segments, current = [], 0
    for side in source:
        current = current if side is None else side
        segments.append(current)
    return segments


def _readable(tokenizer: PreTrainedTokenizerBase, tokens: Sequence[str]) -> list[str]:
    """Tokens as people read them: byte-level tokens decoded where they are whole characters."""
    alphabet = _byte_alphabet() if _is_byte_level(tokenizer) else None
    return [_decoded(token, alphabet) if alphabet else token for token in tokens]


def _is_byte_level(tokenizer: PreTrainedTokenizerBase) -> bool:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return backend is not None and "ByteLevel" in repr(backend.decoder)


def _decoded(token: str, alphabet: dict[str, int]) -> str:
    """The text of a byte-level token, a leading space kept as `Ġ`; unchanged where it is part of a character.

    >>> _decoded("ĠcafÃ©", _byte_alphabet())
    'Ġcafé'
    """
    try:
        text = bytes(alphabet[char] for char in token).decode("utf-8")
    except (KeyError, UnicodeDecodeError):
        return token
    return "Ġ" + text[1:] if text.startswith(" ") else text.replace("\n", "Ċ")


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's map from printable characters to bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {chr(b): b for b in plain} | {chr(256 + n): b for n, b in enumerate(rest)}
