"""The page of a picture or a sound: a patch is a query whose weights lie over the picture; sound is a map over seconds.

As the page of an explanation (explained.py): one ASCII file, script and style named by their hashes, data as JSON.
Frames of sound are put together to tenths of a second (what keys get is summed, what queries give is averaged), and
what comes after the sound's end is one column. Weights travel as a byte each, a share of the largest of their map.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float

from headwise.errors import HeadwiseError, InputError
from headwise.models.packaged import called
from headwise.models.pictures import write_png
from headwise.quantities import ATTENTION, find
from headwise.text.written import pretty
from headwise.viewer.build import small_page

MOST = 24_000_000  # numbers of a page


def has_places(trace: Any) -> bool:
    """Whether a trace is of a picture or a sound."""
    return bool(getattr(trace.queries(trace.stacks[0]), "places", ()))


def page(trace: Any, *, quantities: Any = None) -> str:
    """The whole page, in ASCII."""
    return small_page(
        "senses", f"{called(trace.model_name)} - headwise", payload(trace, quantities), does="draws its maps"
    )


def payload(trace: Any, quantities: Any = None) -> dict[str, Any]:
    """What the page shows, as plain numbers and text."""
    kind = "image" if "pixel_values" in trace.text.given else "audio"
    stacks = [dict(_stack(trace, name, kind, tuple(quantities or ATTENTION))) for name in trace.stacks]
    return {
        "model": f"{called(trace.model_name)}{trace.changed_by}", "kind": kind, "picture": _picture(trace, kind),
        "stacks": stacks, "error": f"{max(trace.proof_error, trace.output_error):.0e}",
    }  # fmt: skip


def _stack(trace: Any, name: str, kind: str, quantities: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    yield "name", name
    yield "queries", _side(trace.queries(name), kind)
    yield "keys", _side(trace.keys(name), kind)
    maps = {}
    for quantity in quantities:
        try:
            whole = trace.quantity(quantity, stack=name) if kind == "image" else trace.words(quantity, stack=name)
        except HeadwiseError:
            continue  # what cannot be said of this model is not offered
        if (size := whole.numel()) > MOST:
            raise InputError(
                f"A page may hold {MOST / 1e6:.0f} million weights, but this trace has {size / 1e6:.0f}; trace some of "
                "its layers (layers=[…])."
            )
        maps[quantity] = _packed(whole.detach().cpu().float().numpy(), quantity)
    yield "maps", maps


def _side(text: Any, kind: str) -> dict[str, Any]:
    """Tokens with their places; of sound, the groups of frames, and of a text the words."""
    if not text.places:
        return {"tokens": [pretty(token) for token in (text.tokens if kind == "image" else text.words)], "places": []}
    if kind == "image":
        return {
            "tokens": [pretty(token) for token in text.tokens],
            "places": [[round(x, 5) for x in place] for place in text.places],
        }
    spans = [[place for place, unit in zip(text.places, text.unit, strict=True) if unit == n]
             for n in range(len(text.words))]  # fmt: skip
    places = [[round(span[0][0], 3), round(span[-1][1], 3)] if span[0] else [0.0, 0.0] for span in spans]
    return {"tokens": list(text.words), "places": places}


def _packed(maps: Float[np.ndarray, "layer head query key"], quantity: str) -> dict[str, Any]:
    """Bytes of |weight| over the largest of its map, and that largest."""
    tops = np.abs(maps).max((2, 3), keepdims=True)
    shares = np.round(255 * np.abs(maps) / np.where(tops > 0, tops, 1)).astype(np.uint8)
    return {
        "shape": list(maps.shape), "tops": [[float(f"{x:.4g}") for x in row] for row in tops[:, :, 0, 0].tolist()],
        "bytes": base64.b64encode(shares.tobytes()).decode("ascii"), "label": find(quantity).label,
        "about": find(quantity).about,
    }  # fmt: skip


def _picture(trace: Any, kind: str) -> dict[str, Any]:
    """The picture that the model read, or the spectrogram up to the sound's end, as a PNG; and the seconds of it."""
    read = trace.text.given
    given = (read["pixel_values"] if kind == "image" else next(iter(read.values())))[0].detach().cpu().float().numpy()
    if kind == "image":
        return {"png": _png(given.transpose(1, 2, 0)[:, :, :3]), "seconds": 0}
    real = [place for place, unit in zip(trace.text.places, trace.text.unit, strict=True)
            if trace.text.words[unit] != "silence"]  # fmt: skip
    seconds = real[-1][1]
    share = seconds / trace.text.places[-1][1]
    image = _spectrogram(given) if given.ndim == 1 else given if given.shape[0] < given.shape[1] else given.T
    return {"png": _png(image[::-1, : max(1, round(share * image.shape[1])), None]), "seconds": round(seconds, 3)}


def _spectrogram(samples: Float[np.ndarray, " sample"]) -> Float[np.ndarray, "frequency time"]:
    """log(1 + |spectrum|) of windows of 25 ms, every 10 ms, at 16 kHz."""
    padded = np.pad(samples, (0, max(0, 400 - len(samples))))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 400)[::160] * np.hanning(400)
    return np.log1p(np.abs(np.fft.rfft(windows)).T)[:100]


def _png(image: Float[np.ndarray, "y x channel"]) -> str:
    low, high = float(image.min()), float(image.max())
    grey = np.round(255 * (image - low) / max(high - low, 1e-9)).astype(np.uint8)
    grey = grey if grey.shape[2] == 3 else grey[:, :, :1].repeat(3, axis=2)
    return "data:image/png;base64," + base64.b64encode(write_png(np.ascontiguousarray(grey))).decode("ascii")
