"""Sound as tokens: what the model reads of it, and the seconds of each frame.

A sound is a WAV file, or (samples, rate), or samples of −1 … 1 at the model's own rate. The checkpoint's feature
extractor makes of it what the model reads: the samples themselves (wav2vec2), or a spectrogram (Whisper). A float
tensor of two axes is taken as that spectrogram, in steps of 10 ms.
"""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headwise.errors import InputError

COLUMN = 0.01  # seconds a column of a spectrogram
GROUP = 0.1  # seconds that are a word: what is summed where frames are put together


def samples_of(sound: Any, rate: int) -> Float[np.ndarray, " sample"]:
    """A sound as samples at `rate` a second, one channel."""
    if isinstance(sound, str | Path):
        sound = read_wav(Path(sound))
    samples, given = sound if isinstance(sound, tuple) else (sound, rate)
    samples = np.asarray(samples, dtype=np.float32)
    samples = samples.mean(-1) if samples.ndim == 2 else samples
    if samples.ndim != 1 or len(samples) < rate // 50 or not np.isfinite(samples).all():
        raise InputError(
            "A sound must be a WAV file, (samples, rate) or an array of at least 20 ms of finite numbers, but this one "
            f"has the shape {list(np.shape(samples))}."
        )
    return samples if given == rate else resampled(samples, int(given), rate)


def resampled(samples: Float[np.ndarray, " sample"], given: int, rate: int) -> Float[np.ndarray, " other"]:
    """At another rate, through the spectrum: what lies above the lower of both half-rates is cut off."""
    count = round(len(samples) * rate / given)
    spectrum = np.fft.rfft(samples)
    return (np.fft.irfft(spectrum[: count // 2 + 1], count) * (count / len(samples))).astype(np.float32)


def read_wav(path: Path) -> tuple[Float[np.ndarray, " sample"], int]:
    """Samples of −1 … 1, channels averaged, and the rate."""
    try:
        with wave.open(str(path), "rb") as file:
            width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            # subtle: espeak-ng writes to a pipe and cannot know the length; what is there is read
            raw = file.readframes(file.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        raise InputError(f"A sound must be a WAV file that can be read, but {path} cannot ({error}).") from None
    if width not in (1, 2, 4):
        raise InputError(f"A WAV file must have 8, 16 or 32 bits a sample, but {path} has {8 * width}.")
    raw = raw[: len(raw) // (width * channels) * width * channels]
    whole = np.frombuffer(raw, {1: "u1", 2: "<i2", 4: "<i4"}[width]).reshape(-1, channels).astype(np.float64)
    whole = whole - 128 if width == 1 else whole
    return (whole / 2 ** (8 * width - 1)).mean(-1).astype(np.float32), rate


def features_of(sound: Any, extractor: Any, name: str) -> tuple[Float[Tensor, "1 ..."], float, float]:
    """What the model is given, the seconds that it spans, and the seconds of the sound itself."""
    rate = int(extractor.sampling_rate)
    samples = samples_of(sound, rate)
    whole = extractor(samples, sampling_rate=rate, return_tensors="pt")
    given = torch.as_tensor(whole[name]).float()
    seconds = len(samples) / rate
    longest = getattr(extractor, "chunk_length", None) if getattr(extractor, "n_samples", None) else None
    if longest is not None and seconds > longest:
        raise InputError(f"A sound may have {longest} seconds for this model, but this one has {seconds:.1f}; cut it.")
    return given, float(longest or seconds), seconds


def frame_places(count: int, spans: float) -> list[tuple[float, ...]]:
    """(start, stop) of frames of equal length.

    >>> frame_places(2, 0.5)
    [(0.0, 0.25), (0.25, 0.5)]
    """
    return [(spans * n / count, spans * (n + 1) / count) for n in range(count)]


def patch_places(config: Any, count: int) -> list[tuple[float, ...]]:
    """(start, stop) of patches of a spectrogram, frequency by frequency, after the model's own tokens (AST)."""
    patch, step = int(config.patch_size), int(config.time_stride)
    rows = (int(config.num_mel_bins) - patch) // int(config.frequency_stride) + 1
    columns = (int(config.max_length) - patch) // step + 1
    times = [(COLUMN * step * n, COLUMN * (step * n + patch)) for n in range(columns)]
    return [()] * (count - rows * columns) + times * rows


def groups(places: list[tuple[float, ...]], tokens: list[str], seconds: float) -> tuple[list[int], list[str]]:
    """Frames put together to tenths of a second; all after the sound's end are one, and a token without a place is."""
    names: dict[str, int] = {}
    unit = []
    for place, token in zip(places, tokens, strict=True):
        start = place[0] if place else 0.0
        name = f"{int(start / GROUP + 1e-6) * GROUP:.1f} s" if start < seconds else "silence"
        unit.append(names.setdefault(name if place else token, len(names)))
    return unit, list(names)
