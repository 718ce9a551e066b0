r"""A figure as TikZ: an SVG that Vega drew, in the words of LaTeX, so that its texts are in the document's own font.

Every element goes through its transforms to big points of the finished figure (a unit of the SVG's width is one, y
goes up) and becomes one command: `\path` for paths, lines and rectangles, `\node` for a line of text at its baseline.
Opacities multiply. The document needs `\usepackage{tikz}` and nothing else.

>>> print(tikz('<svg width="9" height="5"><line x2="4" y2="2" fill="none" stroke="red"/></svg>'))
% needs \usepackage{tikz}
\begin{tikzpicture}[x=1bp,y=1bp]
\definecolor{hwFF0000}{HTML}{FF0000}
\path[use as bounding box] (0,0) rectangle (9,5);
\path[draw=hwFF0000,line width=1bp] (0,5)--(4,3);
\end{tikzpicture}
<BLANKLINE>
"""

from __future__ import annotations

import cmath
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.etree import ElementTree

from headwise.errors import InputError
from headwise.plots.latex import escaped, strange
from headwise.plots.paths import WHOLE, Matrix, growth, inside, moved, numbers, outline, segments

Style = Mapping[str, str]
GRAPHIC = ("svg", "g", "a", "path", "line", "rect", "text")
SILENT = ("defs", "clipPath", "linearGradient", "title", "desc", "metadata", "style")
UNSEEN = {"none", "transparent"}
CIRCLE = re.compile(r"M([\d.]+),0A\1,\1,0,1,1,-\1,0A\1,\1,0,1,1,\1,0Z?")  # as Vega draws one
INHERITED = ("fill", "stroke", "font-", "text-anchor")
COLOURS = {"black": "#000000", "white": "#ffffff", "gray": "#808080", "grey": "#808080", "lightgray": "#d3d3d3",
           "red": "#ff0000", "green": "#008000", "blue": "#0000ff", "orange": "#ffa500", "purple": "#800080",
           "firebrick": "#b22222", "steelblue": "#4682b4", "crimson": "#dc143c", "teal": "#008080"}  # fmt: skip
ILL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # XML may not have them; a token may


@dataclass
class Picture:
    """What has been written so far, what it needs before, and what the SVG calls by an id."""

    height: float
    named: Mapping[str, ElementTree.Element]
    lines: list[str] = field(default_factory=list)
    needs: dict[str, str] = field(default_factory=dict)  # name → its definition

    def at(self, matrix: Matrix, point: complex) -> str:
        point = moved(matrix, point)
        return f"({number(point.real)},{number(self.height - point.imag)})"

    def path(self, matrix: Matrix, d: str) -> str:
        """A path in the words of TikZ."""
        if match := CIRCLE.fullmatch(d):
            return f"{self.at(matrix, 0j)} circle[radius={number(float(match[1]) * growth(matrix))}bp]"
        words = {"M": " {}", "L": "--{}", "C": "..controls {} and {}..{}", "Z": "--cycle"}
        told = (words[kind].format(*(self.at(matrix, point) for point in points)) for kind, points in segments(d))
        return "".join(told).strip()

    def colour(self, said: str) -> str:
        """The name of a colour, which is defined on top."""
        code = COLOURS.get(said.lower(), said).removeprefix("#").upper()
        if said.startswith("rgb"):
            code = "".join(f"{round(n):02X}" for n in numbers(said)[:3])
        code = "".join(2 * digit for digit in code) if len(code) == 3 else code
        if re.fullmatch("[0-9A-F]{6}", code) is None:
            raise InputError(f"A colour in TikZ must be #rrggbb or rgb(r,g,b), not {said}; save it as .pdf.")
        self.needs[f"hw{code}"] = rf"\definecolor{{hw{code}}}{{HTML}}{{{code}}}"
        return f"hw{code}"

    def shading(self, name: str) -> str:
        """The name of a gradient along an axis. subtle: of what is declared, pgf shows the middle half."""
        mark = self.named[name]
        upright = mark.get("x1") == mark.get("x2")
        begin, end = (mark.get(f"{'y' if upright else 'x'}{at}", "0") for at in (1, 2))
        stops = [(float(stop.get("offset", 0)), self.colour(stop.get("stop-color", "black"))) for stop in mark]
        if upright == (begin < end):  # TikZ goes from below and from the left
            stops = [(1 - at, colour) for at, colour in reversed(stops)]
        whole = [(-0.5, stops[0][1]), *stops, (1.5, stops[-1][1])]
        parts = "; ".join(f"color({number(25 + 50 * at)}bp)=({colour})" for at, colour in whole)
        key, way = f"hwshade{len(self.needs)}", "vertical" if upright else "horizontal"
        self.needs[key] = rf"\pgfdeclare{way}shading{{{key}}}{{100bp}}{{{parts}}}"
        return key


def tikz(svg: str) -> str:
    """The tikzpicture of an SVG, as wide as the SVG has units: of 1/72 inch."""
    root = ElementTree.fromstring(ILL.sub(" ", svg))
    for node in root.iter():
        node.tag = node.tag.rpartition("}")[2]
    width, height = float(root.attrib.pop("width")), float(root.attrib.pop("height"))
    x, y, wide, high = numbers(root.get("viewBox", f"0 0 {width} {height}"))
    picture = Picture(height, {name: node for node in root.iter() if (name := node.get("id"))})
    grown = inside(WHOLE, f"scale({width / wide},{height / high}) translate({-x},{-y})")
    _draw(root, grown, {"fill": "black", "opacity": "1"}, picture)
    others = strange("".join(text for node in root.iter("text") for text in node.itertext()))
    note = "% characters for lualatex or xelatex, with a font that has them: "
    return "\n".join([
        r"% needs \usepackage{tikz}", *([note + " ".join(f"U+{ord(c):04X}" for c in others)] if others else []),
        r"\begin{tikzpicture}[x=1bp,y=1bp]", *picture.needs.values(),
        rf"\path[use as bounding box] (0,0) rectangle ({number(width)},{number(height)});",
        *picture.lines, r"\end{tikzpicture}", "",
    ])  # fmt: skip


def _draw(node: ElementTree.Element, matrix: Matrix, above: Style, picture: Picture) -> None:
    """An element and what is in it."""
    if node.tag in SILENT or node.get("display") == "none":
        return
    if node.tag not in GRAPHIC:
        raise InputError(f"A figure in TikZ must be of paths and texts, but this has <{node.tag}>; save it as .pdf.")
    matrix = inside(matrix, node.get("transform", ""))
    opacity = float(above["opacity"]) * float(node.get("opacity", 1))
    said = {key: value for key, value in node.attrib.items() if key.startswith(INHERITED)}
    style = {**above, **said, "opacity": str(opacity)}
    clip = picture.named.get(node.get("clip-path", "")[5:-1])  # url(#…)
    if clip is not None:
        area = " ".join(picture.path(inside(matrix, part.get("transform", "")), outline(part)) for part in clip)
        picture.lines.append(rf"\begin{{scope}}\clip {area};")
    if node.tag == "text":
        _write(node, matrix, style, picture)
    elif node.tag in ("path", "line", "rect"):
        # subtle: a line covers half of its area's edge, and both are seen through as one
        both = 0 < opacity < 1 and not {style.get(kind, "none") for kind in ("fill", "stroke")} & UNSEEN
        options = _options({**style, "opacity": "1"} if both else style, matrix, picture)
        if options and (area := picture.path(matrix, outline(node))):
            path = rf"\path[{','.join(options)}] {area};"
            group = rf"\begin{{scope}}[transparency group,opacity={number(opacity)}]{path}\end{{scope}}"
            picture.lines.append(group if both else path)
    else:
        for child in node:
            _draw(child, matrix, style, picture)
    if clip is not None:
        picture.lines.append(r"\end{scope}")


def _write(node: ElementTree.Element, matrix: Matrix, style: Style, picture: Picture) -> None:
    """A node a line of text, at its baseline. subtle: LaTeX's own fonts have few sizes, wider ones below 10 pt."""
    size = float(style.get("font-size", "12px").removesuffix("px")) * growth(matrix) * 72.27 / 72
    shape = r"\bfseries" * (style.get("font-weight") in ("bold", "600", "700", "800", "900"))
    shape += r"\itshape" * (style.get("font-style") in ("italic", "oblique"))
    side = {"middle": "base", "end": "base east"}.get(style.get("text-anchor", "start"), "base west")
    turn = -math.degrees(cmath.phase(matrix[0]))
    options = [f"anchor={side}", "inner sep=0pt", "outer sep=0pt", *[f"rotate={number(turn)}"] * (number(turn) != "0"),
               f"scale={number(size / 10)}", rf"font=\fontsize{{10}}{{12}}\selectfont{shape}",
               f"text={picture.colour(style['fill'])}", *_seen("opacity", float(style["opacity"]))]  # fmt: skip
    at = 0j
    for part in node.iter():
        at = complex(float(part.get("x", at.real)), float(part.get("y", at.imag)))
        at += complex(float(part.get("dx", 0)), float(part.get("dy", 0)))
        if part.text and float(style["opacity"]) and style["fill"] != "none":
            where = picture.at(matrix, at)
            picture.lines.append(rf"\node[{','.join(options)}] at {where} {{{escaped(part.text)}}};")


def _options(style: Style, matrix: Matrix, picture: Picture) -> list[str]:
    """How a path is filled and drawn; nothing where it would not be seen."""
    found: list[str] = []
    for kind, key in (("fill", "fill"), ("stroke", "draw")):
        said, seen = style.get(kind, "none"), float(style["opacity"]) * float(style.get(f"{kind}-opacity", 1))
        if said in UNSEEN or not seen or (key == "draw" and not float(style.get("stroke-width", 1))):
            continue
        shaded = kind == "fill" and said.startswith("url(#")
        paint = f"shading={picture.shading(said[5:-1])}" if shaded else f"{key}={picture.colour(said)}"
        found += [paint, *_seen(f"{key} opacity", seen)]
        if key == "draw":
            found.append(f"line width={number(float(style.get('stroke-width', 1)) * growth(matrix))}bp")
            found += [f"line {k}={style[f'stroke-line{k}']}" for k in ("cap", "join") if f"stroke-line{k}" in style]
            dashes = [n * growth(matrix) for n in numbers(style.get("stroke-dasharray", ""))]
            dashes *= 1 + len(dashes) % 2  # an odd list is said twice
            pairs = zip(dashes[::2], dashes[1::2], strict=True)
            pattern = " ".join(f"on {number(on)}bp off {number(off)}bp" for on, off in pairs)
            found += [f"dash pattern={pattern}"] * any(dashes[1::2])
    return found


def _seen(name: str, opacity: float) -> list[str]:
    return [] if opacity >= 1 else [f"{name}={number(opacity)}"]


def number(value: float) -> str:
    """At most three places: a thousandth of a point is not seen.

    >>> number(2.50), number(-0.0001), number(120.0)
    ('2.5', '0', '120')
    """
    return f"{round(value, 3) + 0.0:.3f}".rstrip("0").rstrip(".")
