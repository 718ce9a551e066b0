"""A text with a picture in it, for language models that read both (LLaVA): its tokens stand in the text, with a place.

The picture goes where the text has the model's own mark for it ("<image>"), or, where it has none, before the first
token that is not special. How many tokens it becomes is what the configuration says; the model itself refuses a count
that is not that of its features. The layers that are shown are those of the language model: its picture part is a
tower of its own (`task="image"`).
"""

from __future__ import annotations

import inspect
from math import isqrt
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedModel

from headwise.errors import InputError
from headwise.models.pictures import grid_places, pixels_of
from headwise.models.senses import patch_size, picture_shape
from headwise.types import Encoding

if TYPE_CHECKING:
    from headwise.models.model import Model

MARKS = ("image_token_id", "image_token_index")


def mark_of(hf: PreTrainedModel) -> int | None:
    """The id that stands for a token of a picture; None where the model reads text alone."""
    known = (getattr(hf.config, name, None) for name in MARKS)
    reads = "pixel_values" in inspect.signature(hf.forward).parameters
    return next((number for number in known if isinstance(number, int)), None) if reads else None


def with_picture(model: Model, text: Encoding, picture: Any) -> tuple[Encoding, int, int]:
    """The text with the picture's tokens in it, where they begin, and how many tokens there are more than before."""
    mark = mark_of(model.hf)
    if mark is None:
        raise InputError(f"To read a text with a picture a model must read both, but {model.name} does not; pass one.")
    marked = [at for at, number in enumerate(text.ids) if number == mark]
    if len(marked) > 1:
        raise InputError(f"A text must have one mark for its picture, but this one has {len(marked)}; leave one.")
    at = marked[0] if marked else next((n for n, special in enumerate(text.special) if not special), len(text))
    shape = picture_shape(model.hf)
    pixels = pixels_of(picture, (shape[2], shape[3]), model.reading).to(model.hf.device, model.hf.dtype)
    names, places = patches_of(model.hf, shape)
    whole = spliced(text, at, len(marked), names, places, mark)
    ids = torch.tensor([whole.ids], device=model.hf.device)
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values": pixels}
    return Encoding(**{**vars(whole), "given": given}), at, len(names) - len(marked)


def patches_of(hf: PreTrainedModel, shape: tuple[int, ...]) -> tuple[list[str], list[tuple[float, ...]]]:
    """Names and places of the tokens that a picture becomes: [CLS] where it is kept, then the patches row by row."""
    rows, columns = (side // patch for side, patch in zip(shape[2:], patch_size(hf, shape), strict=True))
    pooled = getattr(hf.config, "mm_tokens_per_image", None)  # Gemma 3 puts patches together
    rows, columns = (isqrt(pooled), isqrt(pooled)) if isinstance(pooled, int) else (rows, columns)
    before = int(getattr(hf.config, "vision_feature_select_strategy", None) == "full")
    names = ["[CLS]"] * before + [f"{row},{column}" for row in range(rows) for column in range(columns)]
    return names, [()] * before + grid_places(rows, columns)


def spliced(
    text: Encoding, at: int, gone: int, names: list[str], places: list[tuple[float, ...]], mark: int
) -> Encoding:
    """The text with tokens put in at `at`, in the place of the `gone` tokens there; each is a unit of its own."""
    count = len(names)
    start = text.offsets[at][0] if at < len(text) else (text.offsets[-1][1] if text.offsets else 0)

    def put(old: tuple[Any, ...], new: list[Any]) -> tuple[Any, ...]:
        return (*old[:at], *new, *old[at + gone :])

    keys = put(text.unit, [("patch", number) for number in range(count)])
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    words = {key: names[key[1]] if isinstance(key, tuple) else text.words[key] for key in numbers}
    return Encoding(
        tokens=put(text.tokens, names), ids=put(text.ids, [mark] * count), special=put(text.special, [False] * count),
        segment=put(text.segment, [0] * count), offsets=put(text.offsets, [(start, start)] * count),
        unit=tuple(numbers[key] for key in keys), words=tuple(words[key] for key in numbers),
        places=put(((),) * len(text), places),
    )  # fmt: skip
