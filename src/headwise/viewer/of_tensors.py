"""bertviz's input as a page: attention tensors and tokens, nothing else known about the model.

`attention` is a list or tuple with one tensor (batch, heads, query, key) a layer, as `output_attentions=True` gives it,
or one tensor [layer batch head query key] or [layer head query key]; the batch has one text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, SupportsIndex

import numpy as np
from jaxtyping import Float

from headwise.errors import InputError
from headwise.quantities import ATTENTION, ROWS_UNKNOWN, Quantity
from headwise.text.written import MARKS, pretty
from headwise.viewer.of_trace import array
from headwise.viewer.payload import Maps, Page, Side, Stack, numbers
from headwise.viewer.telling import opening, opening_note, opening_stack

SPECIAL = {
    *("[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]", "[BOS]", "[EOS]", "<s>", "</s>", "<pad>", "<unk>", "<mask>"),
    *("<bos>", "<eos>", "<cls>", "<sep>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>"),
}
WEIGHTS_ONLY = "Only attention weights were given, so nothing is known about the values that they weigh."
OUTPUTS = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")  # of transformers
GIVEN = "Numbers as they were given."
OFF_ONE = 0.02  # by which a row may miss 1 and still be called a softmax's: half precision over hundreds of keys
EAGER = 'load the model with attn_implementation="eager" and call it with output_attentions=True'
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
    head: int | None = None,
    display_mode: str | None = None,
    model: str = "",
) -> Page:
    """A page of raw attention from tensors; `layer` and `heads` say what it opens with, `include_…` what it holds.

    `head`, one of `heads`, is `neuron_view`'s; `display_mode` (light or dark) is `model_view`'s.
    """
    if display_mode not in (None, "light", "dark"):
        raise InputError(f"display_mode must be 'light' or 'dark', but got {display_mode!r}.")
    if heads is None and head is not None:
        heads = [head]
    elif isinstance(heads, SupportsIndex):  # a number by itself
        heads = [int(heads)]
    for tensors in (attention, encoder_attention, decoder_attention, cross_attention):
        if isinstance(tensors, Sequence):
            _layers(tensors)  # first, as arguments that are swapped are seen there
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
        raise InputError(
            "Something must be given to show: pass attention=, or encoder_, decoder_ or cross_attention=. If the model "
            f"gave None, {EAGER}."
        )
    asked = layer is not None or heads is not None
    opened = opening_stack(stacks)
    start = _start(stacks, layer, heads, head) if asked else opening(opened)
    note = () if asked else opening_note(start, opened)
    start |= {} if display_mode is None else {"theme": display_mode}
    return Page(
        title=" ".join(word for word in stacks[0].queries.words if word not in SPECIAL),
        model=model,
        stacks=stacks,
        notes=(WEIGHTS_ONLY, *note),
        start=start,
    )


def _start(
    stacks: Sequence[Stack], layer: int | None, heads: Sequence[int] | None, head: int | None
) -> dict[str, str | int]:
    """The state that was asked for, of the stack that a page opens with, or else of one that has it."""
    wanted = {"layer": [] if layer is None else [layer], "head": [*(heads or ()), *([] if head is None else [head])]}
    has = [
        stack
        for stack in stacks
        if all(one in _there(stack)[axis] for axis, numbered in wanted.items() for one in numbered)
    ]
    stack = opening_stack(has or stacks)
    for axis, numbered in wanted.items():
        there = _there(stack)[axis]
        if wrong := [one for one in numbered if one not in there]:
            raise InputError(
                f"A page opens at a {axis} that it holds, {_in_words(there)}, but {axis} {wrong[0]!r} was asked for; "
                "name one of these."
            )
    start: dict[str, str | int] = {"stack": stack.name} | {axis: int(few[0]) for axis, few in wanted.items() if few}
    if head is not None:
        start["head"] = int(head)
    return start if heads is None else {**start, "heads": ",".join(str(int(one)) for one in heads)}


def _there(stack: Stack) -> dict[str, tuple[int, ...]]:
    return {"layer": stack.quantities[0].layers, "head": stack.quantities[0].heads}


def _in_words(there: Sequence[int]) -> str:
    """The numbers of layers or heads.

    >>> _in_words((0, 1, 2)), _in_words((3, 5)), _in_words((4,))
    ('0 … 2', '3, 5', '4')
    """
    run = len(there) > 1 and list(there) == list(range(there[0], there[-1] + 1))
    return f"{there[0]} … {there[-1]}" if run else ", ".join(map(str, there))


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
    if (empty := np.isnan(values).all((-2, -1))).any():
        layer, at = np.argwhere(empty)[0].tolist()
        raise InputError(
            f"The {name} attention must have numbers to show, but all of L{layer}.H{at} are NaN; look for what made "
            "them so: half precision, or a text that is all padding."
        )
    kept_layers = numbers(values.shape[0], layers, axis="Layer")
    kept_heads = numbers(values.shape[1], heads, axis="Head")
    kept = values[list(kept_layers)][:, list(kept_heads)]
    rows, columns = (sides[axis] for axis in axes)
    if kept.shape[2:] != (len(rows), len(columns)):
        raise InputError(
            f"The {name} attention must have one row and one column a token, {len(rows)} × {len(columns)}; got"
            f" {kept.shape[2]} × {kept.shape[3]}. Pass the tokens of this text, special tokens included."
        )
    return Stack(name, rows, columns, (Maps(_given(values), kept, kept_layers, kept_heads),))


def _given(values: Float[np.ndarray, "layer head query key"]) -> Quantity:
    """Raw attention, or, where the numbers cannot be weights of a softmax, what they are and where that was seen."""
    raw = ATTENTION.entry("raw")
    if (values < 0).any():
        layer, head, query, key = np.argwhere(values < 0)[0].tolist()
        seen = f"L{layer}.H{head} has {values[layer, head, query, key]:.3g} in row {query}, below zero"
    else:
        sums = values.sum(-1)
        off = np.abs(sums - 1) > OFF_ONE  # NaN is not
        if not off.any():
            return raw
        layer, head, query = np.argwhere(off)[0].tolist()
        seen = f"row {query} of L{layer}.H{head} adds up to {sums[layer, head, query]:.3g}, not to 1"
    about = f"{GIVEN} They do not look like attention: {seen}."
    return replace(raw, label="Given numbers", about=about, rows=ROWS_UNKNOWN, unit="value", distribution=False,
                   signed=bool((values < 0).any()))  # fmt: skip


def stacked(tensors: Any) -> Float[np.ndarray, "layer head query key"]:
    """Tensors in any of bertviz's shapes, with the batch axis of length one taken away."""
    layers = [array(layer) for layer in _layers(tensors)]
    layers = [layer.reshape(layer.shape[1:]) if layer.ndim == 4 and layer.shape[0] == 1 else layer for layer in layers]
    for at, layer in enumerate(layers):
        if layer.ndim == 4:
            raise InputError(
                f"The attention must be of one text, but each layer has a batch of {len(layer)}; pick text i: "
                "hw.view([layer[i : i + 1] for layer in attention], tokens)."
            )
        if layer.ndim != 3:
            whole = getattr(tensors, "shape", None)
            got = f"layer {at} is {layer.shape}" if whole is None else f"one of {tuple(whole)} was given"
            raise InputError(
                "The attention must be tensors (batch, heads, query, key), one a layer, but "
                f"{got}; a layer by itself goes in a list, [att], with att (heads, query, key)."
            )
    other = next((at for at, layer in enumerate(layers) if layer.shape != layers[0].shape), None)
    if other is not None:
        raise InputError(
            "All layers must have the same heads and tokens, (heads, query, key), but layer 0 is "
            f"{layers[0].shape} and layer {other} {layers[other].shape}; show those that are alike: "
            f"hw.view(attention[:{other}], tokens)."
        )
    return np.stack(layers).astype(np.float32)


def _layers(tensors: Any) -> list[Any]:
    """What was given for the layers, once it can be tensors."""
    if parts := [part for part in OUTPUTS if hasattr(tensors, part)]:
        taken = ", ".join(f"{part[:-1]}=outputs.{part}" for part in parts if getattr(tensors, part) is not None)
        raise InputError(f"The attention of the outputs must be passed, not all of them: {taken or EAGER}.")
    if not hasattr(tensors, "__iter__") or isinstance(tensors, dict):
        raise InputError(
            f"The attention must be tensors, one a layer, but got {type(tensors).__name__}; of a model "
            "of hw.load show a trace: model.trace(text).show()."
        )
    layers = list(tensors)
    if isinstance(tensors, str) or any(isinstance(layer, str) for layer in layers):
        raise InputError("The attention comes first and the tokens second; swap them: hw.view(attention, tokens).")
    if not layers or any(layer is None for layer in layers):
        raise InputError(
            f"The attention must have at least one layer, a tensor each, but the model gave none; {EAGER}."
        )
    return layers


def side(tokens: Sequence[str], sentence_b_start: int | None, prettify: bool) -> Side:
    """The tokens with what their spelling tells: special ones, the sentence they are in, the word they belong to."""
    raw = list(tokens)
    if isinstance(tokens, str) or not all(isinstance(token, str) for token in raw):
        got = "one string" if isinstance(tokens, str) else f"a {type(tokens).__name__} of others"
        raise InputError(
            f"The tokens must be a list of strings, but got {got}; pass "
            "tokenizer.convert_ids_to_tokens(inputs.input_ids[0])."
        )
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
