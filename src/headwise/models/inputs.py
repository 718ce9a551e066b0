"""What a person has, as tokens: a text or a pair, ids, a chat, a text with a picture, a question to be answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from headwise.errors import InputError
from headwise.models.both import with_picture
from headwise.models.capture import evaluating, quiet
from headwise.models.probe import vocabulary
from headwise.models.senses import read_picture, read_sound, unread
from headwise.text.tokens import encode, encode_ids
from headwise.types import Encoding

if TYPE_CHECKING:
    from headwise.models.model import Model

WAYS = ("text", "ids", "messages", "image", "audio")
Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Asked:
    """What `model.trace` was given: one of `text`, `ids`, `messages`, `image`, `audio`, or text with a picture."""

    text: str | None = None
    pair: str | None = None
    ids: Sequence[int] | None = None
    messages: Messages | None = None
    image: Any = None
    audio: Any = None
    add_special_tokens: bool = True
    generate: int = 0  # tokens that the model shall write first
    truncate: bool = False


def read(model: Model, asked: Asked) -> tuple[Encoding, int | None]:
    """The source's tokens, and the place of the first one that is an answer, where one was given or written."""
    given = [name for name in WAYS if getattr(asked, name) is not None]
    if len(given) == 2 and given[1] == "image" and model.sense == "text":
        return _pictured(model, asked)
    if len(given) != 1:
        got = " and ".join(given) or "none"
        raise InputError(
            f"One of text (a string), ids, messages, image and audio must be given, but {got} was; pass one of them."
        )
    if asked.image is not None:
        return read_picture(model, asked.image), None
    if asked.audio is not None:
        return read_sound(model, asked.audio), None
    if model.sense != "text":
        raise unread(model.name, model.sense, "text")
    if asked.ids is not None:
        source, answer = from_ids(model, asked.ids), None
    elif asked.messages is not None:
        source, answer = _chat(model, asked)
    else:
        source, answer = _text(model, asked), None
    return written(model, source, asked.generate) if asked.generate else (source, answer)


def _pictured(model: Model, asked: Asked) -> tuple[Encoding, int | None]:
    """A text, ids or a chat with a picture in it."""
    if asked.generate:
        raise InputError("An answer cannot be written to a text with a picture yet; leave generate out.")
    source, answer = read(model, replace(asked, image=None))
    whole, at, more = with_picture(model, source, asked.image)
    return whole, answer if answer is None or answer < at else answer + more


def from_ids(model: Model, ids: Sequence[int]) -> Encoding:
    return encode_ids(model.tokenizer, ids, limit=model.limit, vocabulary=vocabulary(model.hf))


def written(model: Model, source: Encoding, count: int) -> tuple[Encoding, int]:
    """The source and up to `count` tokens that the model writes after it, greedily; and where these begin."""
    if model.is_encoder_decoder or not model.hf.can_generate():
        raise InputError(
            f"To write an answer a model must be a decoder with a language-model head, but {model.name} is loaded "
            "without one; load it with task='causal-lm'."
        )
    batch, hf = model.batch([source]), model.hf
    inputs = {name: batch.inputs[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad(), quiet(), evaluating(hf):
        whole = hf.generate(**inputs, max_new_tokens=count, do_sample=False, num_beams=1)  # type: ignore[operator]
    return from_ids(model, whole[0].tolist()), len(source)


def _text(model: Model, asked: Asked) -> Encoding:
    pair = None if model.is_encoder_decoder and not model.reads_source_twice else asked.pair
    assert asked.text is not None
    return encode(
        model.tokenizer, asked.text, pair, limit=model.limit, truncate=asked.truncate,
        add_special_tokens=asked.add_special_tokens,
    )  # fmt: skip


def _chat(model: Model, asked: Asked) -> tuple[Encoding, int | None]:
    """The chat as its template writes it; where the last turn is the assistant's, its tokens are the answer."""
    messages = list(asked.messages or ())
    answered = bool(messages) and messages[-1].get("role") == "assistant"
    whole = _templated(model, messages, prompt=not answered)
    source = encode(model.tokenizer, whole, limit=model.limit, truncate=asked.truncate, add_special_tokens=False)
    if not answered:
        return source, None
    question = _templated(model, messages[:-1], prompt=True)
    if not whole.startswith(question):
        return source, None
    return source, next((at for at, (_, stop) in enumerate(source.offsets) if stop > len(question)), None)


def _templated(model: Model, messages: Messages, *, prompt: bool) -> str:
    if not model.tokenizer.chat_template:
        raise InputError(
            f"A chat needs a tokenizer with a chat template, but that of {model.name} has none; pass the text itself."
        )
    try:
        turns: Any = [dict(message) for message in messages]
        return str(model.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=prompt))
    except Exception as error:  # jinja's and the templates' own
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(
            f"Messages must be as the chat template of {model.name} has them, [{{'role': 'user', 'content': …}}], but "
            f"it refused these: {reason}."
        ) from None
