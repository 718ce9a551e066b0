"""Numbers as a reader sees them: three significant digits, in sixteen bits, deflated.

A value is rounded to three significant decimal digits, or to the floor 10^floor where that is coarser, and the rounded
number is counted off: codes 0 … 999 are multiples of the floor, and every decade above adds 900 codes (100 … 999 of the
next step). With u = |v| / 10^floor, e = max(0, ⌊log10 u⌋ − 2) and m = round(u / 10^e),

    code = sign(v) · (m if e = 0 else 1000 + 900 (e − 1) + (m − 100))

It is a decimal floating-point number with gradual underflow. What the page shows on hover is the stored number itself,
never a re-rounded one. Every map has a floor of its own, at least two decades under the decade of its largest value;
then half a step is at most 1/300 of the scale that `nice_ceiling` gives the map.
"""

from __future__ import annotations

import base64
import math
import zlib

import numpy as np
from jaxtyping import Float, Int, Int16

UNDEFINED = -32768  # the code of NaN and of infinities
FINEST = 34  # decades from a map's largest value down to its floor where nothing need be given up; more do not fit
STEPS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)  # tops of colour scales, times a power of ten


def decades(peaks: Float[np.ndarray, "*axes"]) -> Int[np.ndarray, "*axes"]:
    """The exponent e of each peak with peak in (10^e, 10^(e+1)] once rounded to three digits; 0 for no peak.

    Closed above, so that weights up to 1 belong to the tenths and get their steps.

    >>> decades(np.array([0.05, 1.0, 1.01, 0.99999, 0.0])).tolist()
    [-2, -1, 0, -1, 0]
    """
    flat = [float(f"{peak:.2e}") for peak in peaks.reshape(-1)]
    exponents = [math.ceil(round(math.log10(peak), 9)) - 1 if peak > 0 else 0 for peak in flat]
    return np.array(exponents, np.int64).reshape(peaks.shape)


def encode(values: Float[np.ndarray, "*axes"], floor: int | Int[np.ndarray, "..."]) -> Int16[np.ndarray, "*axes"]:
    """Codes of `values` with steps no finer than 10^floor; floors of several maps are broadcast.

    >>> encode(np.array([0.0, 0.12345, -2.0, np.nan]), -4).tolist()
    [0, 1023, -2000, -32768]
    """
    wide = values.astype(np.float64)
    units = np.abs(wide) * np.float_power(10.0, -np.asarray(floor))
    defined = np.isfinite(units)
    units = np.where(defined, units, 0.0)
    exponent = np.maximum(np.floor(np.log10(np.maximum(units, 1.0))).astype(np.int64) - 2, 0)
    mantissa = np.rint(units / 10.0**exponent)
    # subtle: 999.6 rounds to 1000, which is 100 of the next decade
    carried = mantissa >= 1000
    exponent, mantissa = exponent + carried, np.where(carried, 100, mantissa)
    code = np.where(exponent == 0, mantissa, 900 * exponent + mantissa)
    return np.where(defined, np.copysign(code, wide), UNDEFINED).astype(np.int16)


def decode(codes: Int16[np.ndarray, "*axes"], floor: int | Int[np.ndarray, "..."]) -> Float[np.ndarray, "*axes"]:
    """The numbers that the page shows, float64: the inverse of `encode` up to its rounding."""
    count = np.abs(codes.astype(np.int64))
    exponent = np.where(count < 1000, 0, (count - 100) // 900)
    shown = np.sign(codes) * (count - 900 * exponent) * np.float_power(10.0, exponent + np.asarray(floor))
    return np.where(codes == UNDEFINED, np.nan, shown)


def pack(codes: Int16[np.ndarray, "*axes"]) -> str:
    """Low bytes, then high bytes, deflated, in base64.

    Run-length matching (Z_RLE) is smaller and eight times faster here than the default search: attention repeats
    nothing but zeros.
    """
    planes = codes.astype("<i2").reshape(-1).view(np.uint8).reshape(-1, 2).T
    deflate = zlib.compressobj(6, zlib.DEFLATED, zlib.MAX_WBITS, 9, zlib.Z_RLE)
    return base64.b64encode(deflate.compress(planes.tobytes()) + deflate.flush()).decode("ascii")


def unpack(block: str, shape: tuple[int, ...]) -> Int16[np.ndarray, "*axes"]:
    """The codes of a packed block: what the browser does, for tests and for reading a page back."""
    planes = np.frombuffer(zlib.decompress(base64.b64decode(block)), np.uint8).reshape(2, -1)
    return np.ascontiguousarray(planes.T).reshape(-1).view("<i2").astype(np.int16).reshape(shape)


def peaks(values: Float[np.ndarray, "*axes query key"]) -> Float[np.ndarray, "*axes"]:
    """The largest finite magnitude of every map, 0 where it has none."""
    finite = np.where(np.isfinite(values), np.abs(values), 0.0)
    return finite.max(axis=(-2, -1), initial=0.0).astype(np.float64)


def nice_ceiling(peak: float) -> float:
    """The top of a colour scale for values up to `peak`: 1, 1.5, 2, 3, 4, 5, 6 or 8 times a power of ten.

    subtle: no step between 1 and 1.5, since values just above 1 are stored with half-steps of 0.005.
    """
    if not peak > 0:
        return 1.0
    base = 10.0 ** math.floor(math.log10(peak))
    return next((step * base for step in STEPS if peak <= step * base), 10.0 * base)
