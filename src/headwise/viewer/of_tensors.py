"""bertviz's input as a page: attention tensors and tokens, nothing else known about the model.

`attention` is a list or tuple with one tensor (batch, heads, query, key) a layer, as `output_attentions=True` gives it,
or one tensor [layer batch head query key] or [layer head query key]; the batch has one text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from headwise.errors import InputError
from headwise.quantities import ATTENTION
from headwise.viewer.of_trace import array
from headwise.viewer.payload import MARKS, Maps, Page, Side, Stack, numbers, pretty
from headwise.viewer.telling import opening, opening_note

SPECIAL = {
    *("[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]", "[BOS]", "[EOS]", "<s>", "</s>", "<pad>", "<unk>", "<mask>"),
    *("<bos>", "<eos>", "<cls>", "<sep>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>"),
}
WEIGHTS_ONLY = "Only attention weights were given, so nothing is known about the values that they weigh."
WORD_START = re.compile("^[Ġ▁ ]")


def page_of_tensors(
    attention: Any = None,
    tokens: Sequence[str] | None = None,
    sentence_b_start: int | None = None,
    *,
    prettify_tokens: bool = True,
    layer: int | None = None,
    heads: Sequence[int] | None = None,
    encoder_attention: Any = None,
    decoder_attention: Any = None,
    cross_attention: Any = None,
    encoder_tokens: Sequence[str] | None = None,
    decoder_tokens: Sequence[str] | None = None,
    include_layers: Sequence[int] | None = None,
    include_heads: Sequence[int] | None = None,
    model: str = "",
) -> Page:
    """A page of raw attention from tensors; `layer` and `heads` say what it opens with, `include_…` what it holds."""
    texts = {"tokens": tokens, "encoder_tokens": encoder_tokens, "decoder_tokens": decoder_tokens}
    sides = {name: side(t, sentence_b_start, prettify_tokens) for name, t in texts.items() if t is not None}
    given = {
        "self": (attention, "tokens", "tokens"),
        "encoder": (encoder_attention, "encoder_tokens", "encoder_tokens"),
        "decoder": (decoder_attention, "decoder_tokens", "decoder_tokens"),
        "cross": (cross_attention, "decoder_tokens", "encoder_tokens"),
    }
    stacks = tuple(
        _stack(name, tensors, sides, (rows, columns), include_layers, include_heads)
        for name, (tensors, rows, columns) in given.items()
        if tensors is not None
    )
    if not stacks:
        raise InputError("Something must be given to show: pass attention=, or encoder_, decoder_ or cross_attention=.")
    asked = {"layer": layer, "heads": None if heads is None else ",".join(map(str, heads))}
    start = {name: value for name, value in asked.items() if value is not None} or opening(stacks[0])
    return Page(
        title=" ".join(word for word in stacks[0].queries.words if word not in SPECIAL),
        model=model,
        stacks=stacks,
        notes=(WEIGHTS_ONLY, *opening_note(start)),
        start=start,
    )


def _stack(
    name: str,
    tensors: Any,
    sides: dict[str, Side],
    axes: tuple[str, str],
    layers: Sequence[int] | None,
    heads: Sequence[int] | None,
) -> Stack:
    absent = list(dict.fromkeys(axis for axis in axes if axis not in sides))
    if absent:
        raise InputError(f"The tokens of the {name} attention must be given; pass {' and '.join(absent)}=.")
    values = stacked(tensors)
    kept_layers = numbers(values.shape[0], layers, axis="Layer")
    kept_heads = numbers(values.shape[1], heads, axis="Head")
    kept = values[list(kept_layers)][:, list(kept_heads)]
    rows, columns = (sides[axis] for axis in axes)
    if kept.shape[2:] != (len(rows), len(columns)):
        raise InputError(
            f"The {name} attention must have one row and one column a token, {len(rows)} × {len(columns)}; got"
            f" {kept.shape[2]} × {kept.shape[3]}. Pass the tokens of this text, special tokens included."
        )
    return Stack(name, rows, columns, (Maps(ATTENTION.entry("raw"), kept, kept_layers, kept_heads),))


def stacked(tensors: Any) -> Float[np.ndarray, "layer head query key"]:
    """Tensors in any of bertviz's shapes, with the batch axis of length one taken away."""
    layers = [array(layer) for layer in tensors]
    if not layers:
        raise InputError("Attention must have at least one layer; got none.")
    layers = [layer.reshape(layer.shape[1:]) if layer.ndim == 4 and layer.shape[0] == 1 else layer for layer in layers]
    shapes = sorted({layer.shape for layer in layers})
    if len(shapes) != 1 or len(shapes[0]) != 3:
        raise InputError(
            "Each layer's attention must be (batch, heads, query, key) with a batch of one text, and all layers alike;"
            f" got {shapes}. Pick one text of the batch with attention[i:i + 1]."
        )
    return np.stack(layers).astype(np.float32)


def side(tokens: Sequence[str], sentence_b_start: int | None, prettify: bool) -> Side:
    """The tokens with what their spelling tells: special ones, the sentence they are in, the word they belong to."""
    raw = [str(token) for token in tokens]
    if sentence_b_start is not None and not 0 <= sentence_b_start <= len(raw):
        raise InputError(f"sentence_b_start must be a position in 0 … {len(raw)}; got {sentence_b_start}.")
    special = [token in SPECIAL for token in raw]
    unit = units(raw, special)
    pieces = [[raw[t] for t, u in enumerate(unit) if u == number] for number in range(max(unit, default=-1) + 1)]
    limit = len(raw) if sentence_b_start is None else sentence_b_start
    return Side(
        tokens=tuple(pretty(token) if prettify else token for token in raw),
        special=tuple(special),
        segment=tuple(int(position >= limit) for position in range(len(raw))),
        unit=tuple(unit),
        words=tuple(word(piece) for piece in pieces),
    )


def units(tokens: Sequence[str], special: Sequence[bool]) -> list[int]:
    """The word of each token, read off WordPiece's ## or the word-start marks Ġ and ▁; else each token is a word.

    >>> units(["[CLS]", "un", "##believable", "!"], [True, False, False, False])
    [0, 1, 1, 2]
    """
    marked = any(WORD_START.match(token) for token in tokens)
    found, after_special = [], True
    for token, is_special in zip(tokens, special, strict=True):
        continues = token.startswith("##") or (marked and not WORD_START.match(token))
        joins = bool(found) and continues and not is_special and not after_special
        found.append(found[-1] if joins else (found[-1] + 1 if found else 0))
        after_special = is_special
    return found


def word(pieces: Sequence[str]) -> str:
    """The text of a word from its tokens."""
    joined = "".join(piece.removeprefix("##") if number else piece for number, piece in enumerate(pieces))
    return MARKS.sub("", joined).strip() or joined
