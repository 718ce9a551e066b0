"""SVG paths as straight lines and curves, and SVG transforms as matrices; points are complex numbers, y goes down.

Of an arc one needs the centre: where its ellipse is the unit circle, half the chord is h, and the centre lies off the
middle of the chord by i h sqrt(1/|h|² − 1), to one side or the other (SVG 1.1, appendix F.6.5). A quarter turn at most
is a Bézier curve, whose handles are 4/3 tan(angle / 4) long.

>>> list(segments("M1,2h3v4Z"))
[('M', [(1+2j)]), ('L', [(4+2j)]), ('L', [(4+6j)]), ('Z', [])]
"""

from __future__ import annotations

import cmath
import math
import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from headwise.errors import InputError

Matrix = tuple[complex, complex, complex]  # where a step to the right, a step down, and the corner come to be
WHOLE: Matrix = (1 + 0j, 1j, 0j)
Segment = tuple[str, list[complex]]
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
TAKES = {"M": 2, "L": 2, "H": 1, "V": 1, "C": 6, "Q": 4, "A": 7, "Z": 0}


def numbers(text: str) -> list[float]:
    """
    >>> numbers("0,-1.5e1 .5")
    [0.0, -15.0, 0.5]
    """
    return [float(found) for found in NUMBER.findall(text)]


def outline(node: Element) -> str:
    """A path, a line or a rectangle as a path."""
    x, y, x1, y1, x2, y2, w, h = (node.get(key, "0") for key in ("x", "y", "x1", "y1", "x2", "y2", "width", "height"))
    shapes = {"line": f"M{x1},{y1}L{x2},{y2}", "rect": f"M{x},{y}h{w}v{h}h-{w}Z"}
    return shapes.get(node.tag) or node.get("d", "")


def segments(d: str) -> Iterator[Segment]:
    """A path as M, L, C and Z with absolute points: relative steps, h, v, q and arcs are worked out."""
    at = start = 0j
    for letter, rest in re.findall(r"([A-DF-Za-df-z])([^A-DF-Za-df-z]*)", d):
        kind, given = letter.upper(), numbers(rest)
        takes = TAKES.get(kind, -1)
        if takes < 0 or (len(given) % takes if takes else given):
            raise InputError(
                f"A path in TikZ must be of M L H V C Q A Z, but this has {letter}{rest}; save it as .pdf."
            )
        for first in range(0, max(len(given), 1), takes or 1):
            origin = at if letter.islower() else 0j
            for made, points in _step(kind, at, origin, given[first : first + takes]):
                if made == "M" and first:  # further points after a move are lines
                    made = "L"
                yield made, points
                at = points[-1] if points else start
                start = at if made == "M" else start


def _step(kind: str, at: complex, origin: complex, given: list[float]) -> Iterator[Segment]:
    if kind == "Z":
        yield "Z", []
    elif kind == "H":
        yield "L", [complex(origin.real + given[0], at.imag)]
    elif kind == "V":
        yield "L", [complex(at.real, origin.imag + given[0])]
    elif kind == "A":
        yield from _arc(at, origin + complex(*given[-2:]), *given[:5])
    else:
        points = [origin + complex(x, y) for x, y in zip(given[::2], given[1::2], strict=True)]
        if kind == "Q":
            points = [(at + 2 * points[0]) / 3, (points[1] + 2 * points[0]) / 3, points[1]]
        yield "C" if kind == "Q" else kind, points


def _arc(
    start: complex, end: complex, rx: float, ry: float, turn: float, large: float, sweep: float
) -> Iterator[Segment]:
    if start == end:
        return
    if not rx or not ry:
        yield "L", [end]
        return
    spin = cmath.rect(1, math.radians(turn))
    half = (start - end) / 2 / spin
    half = complex(half.real / rx, half.imag / ry)
    # subtle: an ellipse that does not reach has its centre in the middle, and is as large as the chord
    centre = half * 1j * math.sqrt(max(0.0, 1 / abs(half) ** 2 - 1)) * (1 if bool(large) == bool(sweep) else -1)
    first = half - centre
    angle = cmath.phase((-half - centre) / first) % (2 * math.pi) - (0 if sweep else 2 * math.pi)

    def placed(point: complex) -> complex:
        point += centre
        return complex(point.real * rx, point.imag * ry) * spin + (start + end) / 2

    pieces = math.ceil(abs(angle) / (math.pi / 2) - 1e-6)
    step = angle / pieces
    handle = 4j / 3 * math.tan(step / 4)
    for piece in range(pieces):
        begin, stop = (first * cmath.rect(1, step * at) for at in (piece, piece + 1))
        yield (
            "C",
            [placed(begin * (1 + handle)), placed(stop * (1 - handle)), end if piece + 1 == pieces else placed(stop)],
        )


def moved(matrix: Matrix, point: complex) -> complex:
    right, down, corner = matrix
    return right * point.real + down * point.imag + corner


def growth(matrix: Matrix) -> float:
    """How much longer lines become."""
    right, down, _ = matrix
    return math.sqrt(abs((right.conjugate() * down).imag))


def inside(matrix: Matrix, transform: str) -> Matrix:
    """The matrix within an element that has a transform: translate, scale, rotate and matrix, one after the other.

    >>> inside(WHOLE, "translate(2,3) scale(2)")
    ((2+0j), 2j, (2+3j))
    """
    for name, said in re.findall(r"(\w+)\s*\(([^)]*)\)", transform):
        given = numbers(said)
        if name == "rotate" and len(given) == 3:
            x, y = given[1:]
            matrix = inside(matrix, f"translate({x},{y}) rotate({given[0]}) translate({-x},{-y})")
        else:
            corner = matrix[2]
            right, down, to = (moved(matrix, point) for point in _alone(name, given))
            matrix = (right - corner, down - corner, to)
    return matrix


def _alone(name: str, given: list[float]) -> Matrix:
    if name == "translate":
        return (*WHOLE[:2], complex(*given))
    if name == "scale":
        return (complex(given[0]), given[-1] * 1j, 0j)
    if name == "rotate":
        turn = cmath.rect(1, math.radians(given[0]))
        return (turn, turn * 1j, 0j)
    if name == "matrix":
        a, b, c, d, e, f = given
        return (complex(a, b), complex(c, d), complex(e, f))
    raise InputError(
        f"A transform in TikZ must be translate, scale, rotate or matrix, but the figure has {name}; save it as .pdf."
    )
