"""A figure's specification, read: its views with their marks, which field lies on which channel, and the rows in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

PARTS = ("layer", "hconcat", "vconcat", "concat")
CHANNELS = (
    "x",
    "x2",
    "y",
    "y2",
    "color",
    "column",
    "row",
    "facet",
    "size",
    "shape",
    "opacity",
    "strokeDash",
    "text",
    "detail",
)


@dataclass(frozen=True)
class View:
    """One mark: `fields` by channel, its own rows (empty where they are made by Vega itself), and what a pointer is
    told."""

    mark: str
    fields: Mapping[str, str]
    rows: tuple[Mapping[str, Any], ...]
    told: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.mark}({' '.join(f'{channel}={name}' for channel, name in self.fields.items())})"


def views(spec: Mapping[str, Any]) -> list[View]:
    """Every mark of a figure, from the outside in; what a part does not say it has from the whole."""
    return list(_views(spec, spec.get("datasets", {}), (), {}, frozenset()))


def _views(
    spec: Mapping[str, Any],
    datasets: Mapping[str, Any],
    rows: tuple[Any, ...],
    above: Mapping[str, str],
    told: frozenset[str],
) -> Iterator[View]:
    rows, told = _rows(spec.get("data"), datasets, rows), _told(spec) or told
    fields = {**above, **_fields(spec)}
    if "mark" in spec:
        mark = spec["mark"]
        yield View(mark if isinstance(mark, str) else mark["type"], _ordered(fields), rows, told)
    inner = [part for key in PARTS for part in spec.get(key, ())] + ([spec["spec"]] if "spec" in spec else [])
    for part in inner:
        yield from _views(part, datasets, rows, fields, told)


def _told(spec: Mapping[str, Any]) -> frozenset[str]:
    """The fields of the tooltip."""
    said = spec.get("encoding", {}).get("tooltip", [])
    return frozenset(one["field"] for one in (said if isinstance(said, list) else [said]) if "field" in one)


def sizes(spec: Any) -> list[float]:
    """Every width and height that is a number."""
    if isinstance(spec, list):
        return [size for part in spec for size in sizes(part)]
    if not isinstance(spec, Mapping):
        return []
    own = [spec[name] for name in ("width", "height") if isinstance(spec.get(name), int | float)]
    return own + [size for key in (*PARTS, "spec") for size in sizes(spec.get(key))]


def _fields(spec: Mapping[str, Any]) -> dict[str, str]:
    found = {channel: coded["field"] for channel, coded in spec.get("encoding", {}).items()
             if isinstance(coded, Mapping) and isinstance(coded.get("field"), str)}  # fmt: skip
    faceted = spec.get("facet", {})
    if isinstance(faceted, Mapping):
        found |= {"facet": faceted["field"]} if "field" in faceted else {
            channel: coded["field"] for channel, coded in faceted.items() if isinstance(coded, Mapping)
        }  # fmt: skip
    return {channel: name for channel, name in found.items() if channel in CHANNELS}


def _rows(data: Any, datasets: Mapping[str, Any], above: tuple[Any, ...]) -> tuple[Any, ...]:
    if not isinstance(data, Mapping):
        return above
    rows = data.get("values", datasets.get(data.get("name", ""), ()))
    return tuple(rows) if isinstance(rows, list) else ()


def _ordered(fields: Mapping[str, str]) -> dict[str, str]:
    return {channel: fields[channel] for channel in CHANNELS if channel in fields}


def title(spec: Mapping[str, Any]) -> str:
    """The heading and the lines under it, as one text."""
    told = spec.get("title", "")
    if isinstance(told, str):
        return told
    under = told.get("subtitle", [])
    return " ".join([_flat(told.get("text", "")), _flat(under)])


def _flat(lines: Any) -> str:
    return lines if isinstance(lines, str) else " ".join(lines)


def signature(spec: Mapping[str, Any]) -> str:
    """All views in a line; the same view in several panels is told once, with how many."""
    counted: dict[str, int] = {}
    for view in views(spec):
        counted[str(view)] = counted.get(str(view), 0) + 1
    return " ".join(view if count == 1 else f"{count}×{view}" for view, count in counted.items())
