"""A picture as tokens: what the model reads of it, and where each patch stands.

A picture is a PNG file, anything else that Pillow opens where Pillow is installed, or an array [height width channel]
of 0 … 255. It is made the model's size, its numbers 0 … 1, and mean and deviation taken off, as the checkpoint's
preprocessor_config.json says. A float tensor [channel height width] of the model's size is taken as it is.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from headwise.errors import InputError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}  # by PNG's colour type


def pixels_of(picture: Any, size: tuple[int, int], settings: Mapping[str, Any]) -> Float[Tensor, "1 channel y x"]:
    """What the model is given of a picture. `settings` is the checkpoint's preprocessor_config.json."""
    if isinstance(picture, Tensor) and picture.is_floating_point():
        if tuple(picture.shape[-2:]) != size or picture.ndim != 3:
            raise InputError(
                f"A picture given as a float tensor must have the model's own size, [3, {size[0]}, {size[1]}], but "
                f"this one has {list(picture.shape)}; pass the picture itself, as a file or an array of 0 … 255."
            )
        return picture[None]
    array = torch.from_numpy(as_array(picture).copy()).permute(2, 0, 1)[None].float() / 255
    array = torch.nn.functional.interpolate(array, size, mode="bilinear", antialias=True, align_corners=False)
    mean, deviation = (
        torch.tensor(settings.get(name) or [0.5] * 3)[:, None, None] for name in ("image_mean", "image_std")
    )
    return (array - mean) / deviation if settings.get("do_normalize", True) else array


def as_array(picture: Any) -> UInt8[np.ndarray, "y x 3"]:
    """A file, a Pillow picture or an array as red, green and blue of 0 … 255."""
    if isinstance(picture, str | Path):
        picture = _opened(Path(picture))
    array = np.asarray(picture.convert("RGB") if hasattr(picture, "convert") else picture)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 2, 3, 4) or array.dtype != np.uint8 or 0 in array.shape:
        raise InputError(
            "A picture must be a file or an array [height width channel] of whole numbers 0 … 255, but this one has "
            f"the shape {list(array.shape)} and the type {array.dtype}."
        )
    return array[:, :, :3] if array.shape[2] > 2 else array[:, :, :1].repeat(3, axis=2)


def grid_places(rows: int, columns: int) -> list[tuple[float, ...]]:
    """(top, left, bottom, right) of every patch, row by row, in shares of the picture.

    >>> grid_places(1, 2)
    [(0.0, 0.0, 1.0, 0.5), (0.0, 0.5, 1.0, 1.0)]
    """
    return [
        (row / rows, column / columns, (row + 1) / rows, (column + 1) / columns)
        for row in range(rows)
        for column in range(columns)
    ]


def _opened(path: Path) -> Any:
    try:
        whole = path.read_bytes()
    except OSError as error:
        raise InputError(f"A picture must be a file that can be read, but {path} cannot ({error.strerror}).") from None
    if whole.startswith(SIGNATURE) and (array := read_png(whole)) is not None:
        return array
    try:
        from PIL import Image  # pyright: ignore[reportMissingImports] - an extra of the user's own
    except ImportError:
        raise InputError(
            f"Without Pillow a picture must be a PNG of 8 bits without interlacing, but {path} is none; "
            "`pip install pillow`, or pass an array."
        ) from None
    return Image.open(path)


def read_png(whole: bytes) -> UInt8[np.ndarray, "y x channel"] | None:
    """The pixels of a PNG of 8 bits a channel without interlacing or palette; None for any other."""
    chunks = list(_chunks(whole))
    width, height, bits, colour, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    if bits != 8 or interlaced or colour not in CHANNELS:
        return None
    channels = CHANNELS[colour]
    lines = np.frombuffer(zlib.decompress(b"".join(data for kind, data in chunks if kind == b"IDAT")), np.uint8)
    lines = lines.reshape(height, 1 + width * channels)
    above = np.zeros(width * channels, np.uint8)
    picture = np.empty((height, width * channels), np.uint8)
    for y, line in enumerate(lines):
        above = picture[y] = _unfiltered(int(line[0]), line[1:], above, channels)
    return picture.reshape(height, width, channels)


def write_png(picture: UInt8[np.ndarray, "y x 3"]) -> bytes:
    """A PNG of red, green and blue."""
    height, width, _ = picture.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), picture.reshape(height, -1)], axis=1)
    chunks = {b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0), b"IDAT": zlib.compress(lines.tobytes()),
              b"IEND": b""}  # fmt: skip
    parts = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks.items()
    ]
    return SIGNATURE + b"".join(parts)


def _chunks(whole: bytes) -> list[tuple[bytes, bytes]]:
    found, at = [], len(SIGNATURE)
    while at + 8 <= len(whole):
        (size,) = struct.unpack(">I", whole[at : at + 4])
        found.append((whole[at + 4 : at + 8], whole[at + 8 : at + 8 + size]))
        at += 12 + size
    return found


def _unfiltered(kind: int, line: np.ndarray, above: np.ndarray, step: int) -> np.ndarray:
    """A line with PNG's filter (left, above, mean of both, Paeth) taken off."""
    if kind in (0, 2):
        return line + above if kind == 2 else line
    out = [0] * len(line)
    for x, (value, up) in enumerate(zip(line.tolist(), above.tolist(), strict=True)):
        left, corner = (out[x - step], int(above[x - step])) if x >= step else (0, 0)
        guess = {1: left, 3: (left + up) // 2, 4: _paeth(left, up, corner)}[kind]
        out[x] = (value + guess) & 255
    return np.array(out, np.uint8)


def _paeth(left: int, up: int, corner: int) -> int:
    """Whichever of the three is nearest to left + up − corner, in this order."""
    guess = left + up - corner
    return min((left, up, corner), key=lambda near: abs(guess - near))
