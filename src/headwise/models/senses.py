"""What a model reads besides text: pictures and sound, as tokens that have a place.

How many tokens a picture or a sound becomes is not looked up: the model is run once, and its first attention call says
it. Patches stand row by row after the tokens that the model puts before them ([CLS], registers) and before those that
it puts after (YOLOS); frames follow each other at equal distances.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headwise.errors import InputError, ModelError
from headwise.models.capture import Call, evaluating, quiet, watching
from headwise.models.pictures import grid_places, pixels_of
from headwise.models.sounds import COLUMN, features_of, frame_places, groups, patch_places
from headwise.types import Encoding

if TYPE_CHECKING:
    from headwise.models.model import Model

READS = {"pixel_values": "image", "input_features": "audio", "input_values": "audio", "input_ids": "text"}
ASK = {"image": "pictures: pass image=FILE or an array", "audio": "sound: pass audio=FILE.wav or samples",
       "text": "text: pass a string"}  # fmt: skip
WIDTHS = ("num_mel_bins", "feature_projection_input_dim", "input_feat_per_channel", "n_mels")
RATE = 16_000  # samples a second, where nobody says
SAMPLES, FRAMES = 4000, 96  # of a probe of sound: a quarter of a second of samples, or this many rows of a spectrogram


def sense_of(model: PreTrainedModel) -> str:
    """ "text", "image" or "audio": what the model is mainly given."""
    return READS[input_name(model)]


def input_name(model: PreTrainedModel) -> str:
    """The argument that the model is mainly given.

    subtle: `main_input_name` of some classes is that of their parent (Whisper's decoder says input_ids).
    """
    main, known = str(getattr(model, "main_input_name", "input_ids")), inspect.signature(model.forward).parameters
    name = next((name for name in (main, *READS) if name in known), main)
    if name not in READS:
        raise ModelError(
            f"A model must read token ids, one picture or sound, but {model.config.model_type} reads {name}; it cannot "
            "be analysed yet."
        )
    return name


def probe_of(model: PreTrainedModel) -> dict[str, Tensor]:
    """Noise of the shape that the model reads, and for a decoder nothing: its tokens are ids."""
    shape = picture_shape(model) if sense_of(model) == "image" else _sound_shape(model)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(shape, generator=generator).to(model.device, model.dtype)
    return {input_name(model): noise}


def read_picture(model: Model, picture: Any) -> Encoding:
    """The patches of a picture, with the model's own tokens around them."""
    _check(model, "image")
    shape = picture_shape(model.hf)
    pixels = pixels_of(picture, (shape[2], shape[3]), model.reading).to(model.hf.device, model.hf.dtype)
    given = {"pixel_values": pixels}
    count = tokens_of(model.hf, given)
    rows, columns = (side // patch for side, patch in zip(shape[2:], patch_size(model.hf, shape), strict=True))
    after = int(getattr(model.hf.config, "num_detection_tokens", 0) or 0)
    before = count - rows * columns - after
    if before < 0:
        rows, columns, before, after = 0, 0, 0, 0
    names = _opening(before)
    names += [f"{row},{column}" for row in range(rows) for column in range(columns)]
    names += [f"[DET{n}]" for n in range(after)]
    names += [f"#{n}" for n in range(count - len(names))]
    places: list[tuple[float, ...]] = [()] * before + grid_places(rows, columns)
    return _encoding(names, places + [()] * (count - len(places)), given)


def read_sound(model: Model, sound: Any) -> Encoding:
    """The frames of a sound."""
    _check(model, "audio")
    if isinstance(sound, Tensor) and (sound.ndim == 2 or model.extractor is None):
        inputs = {input_name(model.hf): sound[None].to(model.hf.device, model.hf.dtype)}
        seconds = COLUMN * max(sound.shape) if sound.ndim == 2 else len(sound) / RATE
        return _frames(model, inputs, seconds, seconds)
    if model.extractor is None:
        raise InputError(
            f"Sound must go through the feature extractor of {model.name}, but none came with it; put its "
            "preprocessor_config.json into the folder."
        )
    name = input_name(model.hf)
    given, spans, seconds = features_of(sound, model.extractor, name)
    return _frames(model, {name: given.to(model.hf.device, model.hf.dtype)}, spans, seconds)


def _frames(model: Model, inputs: Mapping[str, Tensor], spans: float, seconds: float) -> Encoding:
    count = tokens_of(model.hf, inputs)
    places = patch_places(model.hf.config, count) if hasattr(model.hf.config, "time_stride") else None
    places = frame_places(count, spans) if places is None else places
    names = _opening(sum(not place for place in places)) + [f"{place[0]:.2f}" for place in places if place]
    coded = _encoding(names, places, inputs)
    unit, words = groups(places, names, seconds)
    return Encoding(**{**vars(coded), "unit": tuple(unit), "words": tuple(words)})


def _opening(count: int) -> list[str]:
    """Names of the tokens that a model puts before its patches."""
    return ["[CLS]" if n == 0 else f"[REG{n}]" for n in range(count)]


def batched(texts: Sequence[Encoding]) -> dict[str, Tensor]:
    """The inputs of encodings that hold pictures or sound; these must be of one length."""
    if len({len(text) for text in texts}) > 1:
        raise InputError("Pictures or sounds of a batch must be of one length, but these are not; read one by one.")
    return {name: torch.cat([text.given[name] for text in texts]) for name in texts[0].given}


def tokens_of(model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> int:
    """How many tokens the first attention call of the model has."""
    lengths: list[int] = []

    def attend(call: Call) -> tuple[Tensor, Tensor]:
        lengths.append(call.length)
        return call.rows(0, call.length)

    with torch.no_grad(), evaluating(model), quiet(), watching(model, attend):
        model(**inputs, **starting(model))
    return lengths[0]


def starting(model: PreTrainedModel, tokens: int = 1) -> dict[str, Tensor]:
    """What the decoder of an encoder–decoder is given on a probe."""
    if not getattr(model.config, "is_encoder_decoder", False):
        return {}
    start = getattr(model.config, "decoder_start_token_id", None)
    first = torch.full((1, 1), start if isinstance(start, int) else 0, device=model.device)
    return {"decoder_input_ids": torch.cat([first, torch.arange(3, 2 + tokens, device=model.device)[None]], dim=1)}


def unread(name: str, sense: str, asked: str) -> InputError:
    return InputError(f"{name} reads {ASK[sense]}; but {asked} was given.")


def textless(model: PreTrainedModel, task: str | None = None) -> bool:
    """Whether nothing of the model reads or writes tokens of a text."""
    decodes = bool(getattr(model.config, "is_encoder_decoder", False))
    return task in ("image", "audio") or (sense_of(model) != "text" and not decodes)


class NoTokenizer(PreTrainedTokenizerBase):
    """In the place of the tokenizer of a model that reads no text: whoever asks it anything is told so."""

    _told: tuple[str, str]

    def __init__(self, name: str, sense: str):
        object.__setattr__(self, "_told", (name, sense))

    def __getattribute__(self, asked: str) -> Any:
        if asked.startswith("_"):
            return object.__getattribute__(self, asked)
        raise unread(*self._told, "text")

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise unread(*self._told, "text")

    def __repr__(self) -> str:
        return "NoTokenizer()"


def _check(model: Model, asked: str) -> None:
    if model.sense != asked:
        raise unread(model.name, model.sense, {"image": "a picture", "audio": "sound"}[asked])


def _encoding(names: list[str], places: list[tuple[float, ...]], given: Mapping[str, Tensor]) -> Encoding:
    count = len(names)
    return Encoding(
        tokens=tuple(names), ids=tuple(range(count)), special=tuple(name.startswith("[") for name in names),
        segment=(0,) * count, offsets=((0, 0),) * count, unit=tuple(range(count)), words=tuple(names),
        places=tuple(places), given=given,
    )  # fmt: skip


def picture_shape(model: PreTrainedModel) -> tuple[int, int, int, int]:
    config = getattr(model.config, "vision_config", model.config)
    size = getattr(config, "image_size", None)
    if size is None:
        raise ModelError(
            f"A model of pictures must say how large they are (image_size), but {model.config.model_type} does not; it "
            "reads pictures of any size and cannot be analysed yet."
        )
    height, width = size if isinstance(size, list | tuple) else (size, size)
    return 1, int(getattr(config, "num_channels", 3)), int(height), int(width)


def patch_size(model: PreTrainedModel, shape: tuple[int, ...]) -> tuple[int, int]:
    patch = getattr(getattr(model.config, "vision_config", model.config), "patch_size", None)
    patch = shape[2:] if patch is None else patch
    return (int(patch[0]), int(patch[1])) if isinstance(patch, list | tuple) else (int(patch), int(patch))


def _sound_shape(model: PreTrainedModel) -> tuple[int, ...]:
    config = model.config
    width = next((int(getattr(config, name)) for name in WIDTHS if getattr(config, name, None)), None)
    if width is None:
        return 1, SAMPLES
    if input_name(model) == "input_values":  # a spectrogram of fixed length, as a picture (AST)
        return 1, int(getattr(config, "max_length", FRAMES)), width
    if "whisper" in config.model_type:
        return 1, width, 2 * int(config.max_source_positions)
    return 1, FRAMES, width
