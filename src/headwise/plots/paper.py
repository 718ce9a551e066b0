"""Figures for a paper: a given width and font, always light, with or without a title; caption and data beside it.

The whole drawing is scaled so that its width is the one asked for: as SVG at 96 pixels an inch, as PDF, PNG and TikZ by
points; TikZ has the document's own font. Panels that would be too small to read beside each other stand below each
other, as many a row as can be read, and the first of each row names what its axis has. The caption has the title, what
it says under it, the model and the corpus; the data is what was drawn, as CSV.

>>> inches("3.3in"), round(inches("84mm"), 3), inches("72pt")
(3.3, 3.307, 1.0)
"""

from __future__ import annotations

import copy
import json
import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from headwise.errors import InputError
from headwise.plots.tikz import tikz
from headwise.results.files import write_files

UNITS = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72, "px": 1 / 96}
FONTS = {"serif": "Times New Roman, Times, Nimbus Roman, DejaVu Serif, serif",
         "sans": "Helvetica Neue, Helvetica, Arial, DejaVu Sans, sans-serif"}  # fmt: skip
ENDINGS = (".svg", ".png", ".pdf", ".tikz")
PPI = 300  # of a PNG
READABLE = 6.0  # points of the smallest letters
LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*(in|cm|mm|pt|px)")


@dataclass(frozen=True)
class Paper:
    """How a figure is to look: `width` in inches, None as drawn; a font, None as drawn; with its title or without."""

    width: float | None = None
    font: str | None = None
    title: bool = True


def inches(text: str) -> float:
    """A length as people write it: 3.3in, 84mm, 8.4cm, 240pt, 320px."""
    match = LENGTH.fullmatch(text.strip())
    if match is None or not 0.2 <= float(match[1]) * UNITS[match[2]] <= 60:
        raise InputError(
            f"A width must be a length from 0.2 to 60 inches, as 3.3in, 84mm or 240pt, but {text!r} was given."
        )
    return float(match[1]) * UNITS[match[2]]


def styled(spec: Mapping[str, Any], paper: Paper) -> dict[str, Any]:
    """The specification in the paper's font, on white, with or without its title."""
    spec = copy.deepcopy(dict(spec))
    config = spec.setdefault("config", {})
    config["background"] = "white"
    if paper.font:
        config["font"] = FONTS.get(paper.font, paper.font)
    if not paper.title:
        spec.pop("title", None)
    return spec


def save_paper(spec: Mapping[str, Any], path: Path, paper: Paper, *, of: str = "") -> list[Path]:
    """Write the figure, its caption (`of`: model and corpus) and its data; returns the paths."""
    import vl_convert

    if path.suffix not in ENDINGS:
        raise InputError(
            f"A figure of a paper is written as {', '.join(ENDINGS)}, but {path.name} ends otherwise; rename it."
        )
    drawn = fitted(styled(spec, paper), paper)
    svg = vl_convert.vegalite_to_svg(drawn)
    per_inch = 96 if path.suffix == ".svg" else 72
    scale = 1.0 if paper.width is None else paper.width * per_inch / _width(svg)
    if path.suffix == ".svg":
        content = _scaled(svg, scale).encode("utf-8")
    elif path.suffix == ".pdf":
        content = vl_convert.svg_to_pdf(_scaled(svg, scale))
    elif path.suffix == ".tikz":
        content = tikz(_scaled(svg, scale)).encode("utf-8")
    else:
        content = vl_convert.vegalite_to_png(drawn, scale=scale, ppi=PPI)
    tables = data(spec)
    names = [f"{path.stem}.csv", *(f"{path.stem}-{at}.csv" for at in range(2, len(tables) + 1))]
    beside = {f"{path.stem}.caption.txt": caption(spec, of).encode("utf-8"), **dict(zip(names, tables, strict=False))}
    write_files(path.parent, {path.name: content, **beside})
    return [path, *(path.parent / name for name in beside)]


def fitted(spec: dict[str, Any], paper: Paper) -> dict[str, Any]:
    """The specification with so many panels a row that the smallest letters can be read, where that can be."""
    panels = spec.get("hconcat") or spec.get("concat") or []
    if paper.width is None:
        return spec
    if len(panels) < 2:
        return _titled(spec)
    rest = {key: value for key, value in spec.items() if key not in ("hconcat", "concat", "columns")}
    for columns in range(len(panels), 0, -1):
        rows = [labelled(panel) if at % columns == 0 else panel for at, panel in enumerate(panels)]
        spec = _titled({**rest, "concat": rows, "columns": columns})
        if letters(spec, paper.width) >= READABLE:
            break
    return spec


def _titled(spec: dict[str, Any]) -> dict[str, Any]:
    """Its title broken to the width of what is drawn: a longer one would make all of it smaller."""
    import vl_convert

    bare = {key: value for key, value in spec.items() if key != "title"}
    return titled(spec, _width(vl_convert.vegalite_to_svg(bare)))


def titled(spec: Mapping[str, Any], room: float) -> dict[str, Any]:
    """A figure whose title is broken where it would be wider than `room` pixels."""
    title = spec.get("title")
    if not isinstance(title, dict):
        return dict(spec)
    widths = {"text": 9.5, "subtitle": 6.5}  # pixels a letter, as in reports/static/report.js
    lines = {key: broken(title[key], room / width) for key, width in widths.items() if key in title}
    return {**spec, "title": {**title, **lines}}


def broken(text: str | list[str], most: float) -> list[str]:
    return textwrap.wrap(text if isinstance(text, str) else " ".join(text), max(12, int(most)))


def labelled(panel: Any) -> Any:
    """A panel with the labels that it had left to the one beside it.

    >>> labelled({"y": {"axis": {"labels": False, "ticks": False, "title": None}}, "x": {"axis": {"ticks": False}}})
    {'y': {'axis': {'title': None}}, 'x': {'axis': {'ticks': False}}}
    """
    if isinstance(panel, list):
        return [labelled(part) for part in panel]
    if not isinstance(panel, dict):
        return panel
    left = {"labels", "ticks"} if panel.get("labels") is False else set[str]()
    return {key: labelled(part) for key, part in panel.items() if key not in left}


def letters(spec: Mapping[str, Any], width: float) -> float:
    """How many points the smallest letters have in a figure of so many inches."""
    import vl_convert

    svg = vl_convert.vegalite_to_svg(dict(spec))
    sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)px"', svg)]
    return round(min(sizes, default=READABLE) * width * 72 / _width(svg), 1)


def too_small(spec: Mapping[str, Any], paper: Paper) -> str:
    """What to do about letters that are too small to be read however the panels stand; empty where they can be."""
    if paper.width is None:
        return ""
    size = letters(fitted(styled(spec, paper), paper), paper.width)
    if size >= READABLE:
        return ""
    enough = math.ceil(10 * paper.width * READABLE / size) / 10
    return f"its smallest letters are {size:.1f} points, and {READABLE:g} can be read: --width {enough:g}in is enough"


def caption(spec: Mapping[str, Any], of: str) -> str:
    """The title, what stands under it, and what it is of, as sentences; a line may end within one.

    >>> caption({"title": "bert: its lamps"}, "bert on wiki.txt, 6 texts")
    'bert: its lamps. On wiki.txt, 6 texts.\\n'
    """
    title = spec.get("title") or {}
    title = {"text": title} if isinstance(title, str) else title
    under = title.get("subtitle") or []
    below = [under] if isinstance(under, str) else under
    whole = [f"{line}{'' if after[:1].islower() else '.'}" for line, after in pairwise([*below, "."])]
    model, _, corpus = of.partition(" on ")
    if corpus and str(title.get("text", "")).startswith(f"{model}:"):  # it has been named
        of = f"On {corpus}"
    lines = [f"{title.get('text', '')}.", *whole, f"{of}."]
    return " ".join(re.sub(r"(?<=[.!?])\.$", "", line) for line in lines if line != ".") + "\n"


def data(spec: Mapping[str, Any]) -> list[bytes]:
    """The tables that were drawn, the longest first (the others are lines and labels), each as CSV.

    Those of panels that have the same columns are one, with the panel's title in front.
    """
    titles = dict(_panels(spec))
    tables: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for name, rows in (spec.get("datasets") or {}).items():
        panel = {"panel": titles[name]} if len(set(titles.values())) > 1 and name in titles else {}
        for row in rows:
            tables.setdefault((*panel, *row), []).append({**panel, **row})
    return [_csv(rows) for rows in sorted(map(distinct, tables.values()), key=len, reverse=True)]


def distinct(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Every row once: two parts of a figure may draw the same one.

    >>> distinct([{"name": "random"}, {"name": "raw"}, {"name": "random"}])
    [{'name': 'random'}, {'name': 'raw'}]
    """
    return list({json.dumps(row, sort_keys=True): row for row in rows}.values())


def _panels(part: Mapping[str, Any], title: str = "") -> Iterator[tuple[str, str]]:
    """Every table's name, and the title of the panel that draws it."""
    own = part.get("title") or title
    own = str(own.get("text", "")) if isinstance(own, Mapping) else str(own)
    if (name := (part.get("data") or {}).get("name")) is not None:
        yield name, own
    for key in ("layer", "hconcat", "vconcat", "concat"):
        for inner in part.get(key) or []:
            yield from _panels(inner, own)


def _csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    plain = [{key: json.dumps(v) if isinstance(v, (list, dict)) else v for key, v in row.items()} for row in rows]
    return pl.DataFrame(plain, infer_schema_length=None, strict=False).write_csv().encode("utf-8")


def _width(svg: str) -> float:
    match = re.search(r'<svg[^>]*?\bwidth="([\d.]+)"', svg)
    assert match is not None
    return float(match[1])


def _scaled(svg: str, scale: float) -> str:
    """The SVG drawn larger or smaller: its view box stays."""

    def grown(match: re.Match[str]) -> str:
        return re.sub(r'\b(width|height)="([\d.]+)"', lambda m: f'{m[1]}="{float(m[2]) * scale:.4g}"', match[0])

    return re.sub(r"<svg[^>]*>", grown, svg, count=1)
