"""Results and reports in one folder, and nothing outside it.

A path from a visitor is taken apart first (no `..`, no hidden names, no absolute ones) and then followed to its end:
there may be no symbolic link on the way, wherever it leads.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from headwise.errors import InputError
from headwise.models.packaged import called
from headwise.plots.paper import labelled, titled
from headwise.results import Result, open_result
from headwise.results.result import MANIFEST, STATE, TABLE, figure_file, read_manifest
from headwise.results.shown import TELLING, shown
from headwise.studies.strongest import PATTERNS

if TYPE_CHECKING:
    import polars as pl

SERVED = {
    ".html": "text/html; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png",
    ".csv": "text/csv; charset=utf-8", ".pdf": "application/pdf",
}  # fmt: skip
DEPTH, MOST = 5, 500  # folders below the root, and entries that are listed
ROWS = 1000  # of a table that are shown; the CSV has all
NARROWEST = 120.0  # pixels of a panel
READABLE, EASY = 0.65, 0.85  # of its own size, below which a figure is not read, or not with ease: as in report.js
FEW = 12  # columns of a table that are shown unasked
ENDS = ("_low", "_high")  # of an interval, which stands in the cell of its number
PLACES = ("stack", "layer", "head")  # which a head's name tells, but for a stack of several
SENTENCE = 24  # letters of a column's texts, in the mean, from where they are read and not looked up
FOUND = {"stack", "name", "pattern", "place", "value", "text"}  # columns of `strongest`: where a head does what
FIGURE = re.compile(r"[\w.-]+")


class MissingError(InputError):
    """Nothing of that name inside the folder; also where it lies outside, so that one cannot tell what is there."""


def inside(root: Path, path: str) -> Path:
    """The file or folder that `path` names below `root`; an error for everything else."""
    pure = PurePosixPath(path)
    hidden = any(part.startswith((".", "/")) for part in pure.parts)
    if path == pure.as_posix() and not hidden and not {"\\", "\0"} & set(path):
        try:
            found, home = (root / path).resolve(strict=True), root.resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            pass
        else:
            if found == home / path and (found.is_file() or found.is_dir()):  # else there is a link on the way
                return found
    raise MissingError("The folder of results has nothing of that name; choose from the list.")


def listed(root: Path) -> dict[str, list[dict[str, Any]]]:
    """Results (folders with a manifest) and reports (HTML pages), newest first."""
    results, reports = [], []
    for folder, files in _walk(root):
        at = folder.relative_to(root).as_posix()
        if MANIFEST in files and (facts := _listed_result(folder)) is not None:
            results.append({"at": at, **facts})
        reports += [_listed_report(root, folder / name) for name in files if name.endswith(".html")]
        if len(results) + len(reports) >= MOST:
            break
    newest = {"key": lambda entry: entry["time"], "reverse": True}
    return {"results": sorted(results, **newest)[:MOST], "reports": sorted(reports, **newest)[:MOST]}


def _walk(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """Folders and their files, neither hidden ones nor links."""
    for path, folders, files in os.walk(root, followlinks=False):
        folder = Path(path)
        deep = len(folder.relative_to(root).parts) >= DEPTH
        folders[:] = [] if deep else sorted(name for name in folders if not name.startswith("."))
        yield folder, sorted(f for f in files if not f.startswith(".") and not (folder / f).is_symlink())


def _listed_result(folder: Path) -> dict[str, Any] | None:
    """What the list says of a result; None of a folder whose manifest is another program's."""
    try:
        manifest = read_manifest(folder)
        return {"study": str(manifest["study"]), "model": called(str(manifest["model"]["name"])),
                "corpus": str(manifest["plan"]["corpus"]["name"]), "time": str(manifest.get("time", ""))}  # fmt: skip
    except (InputError, KeyError, TypeError):
        return None


def _listed_report(root: Path, path: Path) -> dict[str, Any]:
    from datetime import UTC, datetime

    stat = path.stat()
    time = datetime.fromtimestamp(stat.st_mtime, UTC).isoformat(timespec="seconds")
    return {"at": path.relative_to(root).as_posix(), "bytes": stat.st_size, "time": time}


def opened(root: Path, at: str) -> Result:
    """The result at a path, none of whose files leads outside."""
    folder = inside(root, at)
    for name in (MANIFEST, TABLE, STATE):  # first, as the manifest's own check would name the path
        inside(root, f"{at}/{name}")
    for name in read_manifest(folder)["files"]:
        inside(root, f"{at}/{name}")
    return open_result(folder)


def described(root: Path, at: str, head: str = "") -> dict[str, Any]:
    """What was run, and the first rows of its table, for JSON; of texts for each head those of `head` alone."""
    result = opened(root, at)
    manifest, table = result.manifest, read_first(result.table)
    heads = heads_of(table)
    if heads:
        head, table = texts_of(table, heads, head)
    table, few = (table, len(table.columns)) if heads else telling_first(table)
    return {
        "at": at,
        "study": manifest.get("study"),
        "model": called(str((manifest.get("model") or {}).get("name"))),
        "corpus": ((manifest.get("plan") or {}).get("corpus") or {}).get("name"),
        "documents": manifest.get("documents"),
        "tokens": manifest.get("tokens"),
        "skipped": manifest.get("skipped"),
        "time": manifest.get("time"),
        "figures": [name for name in result.figures if FIGURE.fullmatch(name)],
        "heads": heads,
        "head": head if heads else "",
        "columns": table.columns,
        "few": few,
        "rows": [[_plain(value) for value in row] for row in table.head(ROWS).rows()],
        "total": len(table),
    }


def heads_of(table: pl.DataFrame) -> list[str]:
    """The heads of a table of `strongest`, each with its stack where there are several; of any other table none."""
    if FOUND - {*table.columns}:
        return []
    rows = table.select("stack", "name").unique(maintain_order=True).rows()
    several = len({stack for stack, _ in rows}) > 1
    return [f"{stack} {name}" if several else name for stack, name in rows]


def texts_of(table: pl.DataFrame, heads: Sequence[str], head: str) -> tuple[str, pl.DataFrame]:
    """The rows of a head (of the first stack unless it is named), or of all (""); each pattern's strongest first."""
    import polars as pl

    if head:
        found = next((one for one in heads if one == head or one.endswith(f" {head}")), None)
        if found is None:
            raise MissingError("The result has no head of that name; choose from the list.")
        stack, _, name = found.rpartition(" ")
        head, table = found, table.filter(pl.col("name") == name, (pl.col("stack") == stack) | pl.lit(not stack))
    patterns = table["pattern"].unique(maintain_order=True).to_list()
    parts = [
        table.filter(pattern=one).sort("value", descending=PATTERNS.get(one, ("", 1))[1] > 0, maintain_order=True)
        for one in patterns
    ]
    return head, pl.concat(parts) if parts else table


def read_first(table: pl.DataFrame) -> pl.DataFrame:
    """The columns in the order in which people read them: what it is about, its texts, then all numbers."""
    import polars as pl

    texts = [
        name
        for name, kind in table.schema.items()
        if kind == pl.String and (table[name].head(ROWS).str.len_chars().mean() or 0) >= SENTENCE  # pyright: ignore[reportOperatorIssue]
    ]
    if not texts:
        return table
    named = [name for name, kind in table.schema.items() if kind == pl.String and name not in texts and name != "stack"]
    return table.select(*named, *texts, *(name for name in table.columns if name not in {*named, *texts}))


def telling_first(table: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """What tells rows apart, what says most (as `headwise show` has it), the rest; and how many are shown unasked.

    Ends of intervals, places that a name tells and what is empty come last.
    """
    names = table.columns
    ends = {name for name in names for end in ENDS if name.endswith(end) and name.removesuffix(end) in names}
    if len(names) <= FEW and not ends:
        return table, len(names)
    last = {name for name in PLACES if name in names and "name" in names}
    if "stack" in last and table["stack"].n_unique() > 1:
        last -= {"stack"}
    last |= ends | {name for name in names if table[name].null_count() == len(table)}
    first = next((at for at, name in enumerate(names) if table[name].dtype.is_float()), len(names))
    order = [name for name in dict.fromkeys([*names[:first], *TELLING, *names]) if name in names and name not in last]
    return table.select(*order, *(name for name in names if name in last)), min(len(order), FEW)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int | bool) else str(value)


def csv_of(root: Path, at: str) -> bytes:
    """The whole table; lists, which CSV has not, as JSON."""
    import polars as pl

    table = shown(opened(root, at).table)
    nested = [name for name, kind in table.schema.items() if kind.is_nested()]
    written = [
        pl.Series(name, [json.dumps(row[name], default=str) for row in table.select(name).to_dicts()])
        for name in nested
    ]
    return table.with_columns(written).write_csv().encode("utf-8")


def svg_of(root: Path, at: str, name: str, *, room: int | None = None) -> bytes:
    """A figure drawn here, so that the page needs no drawing library, and from its own data only.

    Where its panels would be small in `room` pixels, fewer stand in a row, and where they would be too small to read,
    they stand below each other, as in a report.
    """
    result = opened(root, at)
    if not FIGURE.fullmatch(name) or name not in result.figures:
        raise MissingError("The result has no figure of that name; choose from the list.")
    inside(root, f"{at}/{figure_file(name)}")
    spec = result.spec(name)
    import vl_convert

    drawn = vl_convert.vegalite_to_svg(spec)
    return (drawn if room is None else fitted(spec, drawn, room)).encode("utf-8")


def fitted(spec: dict[str, Any], drawn: str, room: int) -> str:
    """The figure for so many pixels, `drawn` as it is; as in report.js, which says why."""
    import vl_convert

    panels, now = len(spec.get("hconcat", ())), spec
    if 1 < (columns := fitting(panels, width_of(drawn), room)) < panels:
        now = titled(rows(spec, columns), room)
    elif width_of(drawn) > room:
        now = titled(spec, room)
    drawn = drawn if now is spec else vl_convert.vegalite_to_svg(now)
    if READABLE * width_of(drawn) > room:
        now = titled(below(spec), room)
        drawn = vl_convert.vegalite_to_svg(now)
    if width_of(drawn) > room and not {"hconcat", "concat"} & set(now):
        drawn = vl_convert.vegalite_to_svg(narrower(now, width_of(drawn) - room))
    return drawn


def width_of(svg: str) -> float:
    found = re.search(r'<svg\b[^>]*?\swidth="([\d.]+)', svg)
    return float(found[1]) if found else 0.0


def fitting(panels: int, width: float, room: int) -> int:
    """As many panels in a row as can be read with ease, in rows of one length.

    >>> [fitting(n, 400.0 * n, room) for n, room in ((4, 1100), (4, 1400), (5, 1100), (3, 200), (1, 900))]
    [2, 4, 3, 0, 1]
    """
    most = int(room * panels / (EASY * width))
    return math.ceil(panels / math.ceil(panels / most)) if most > 1 else most


def rows(spec: Mapping[str, Any], columns: int) -> dict[str, Any]:
    """A figure with so many of its panels beside each other.

    >>> rows({"hconcat": [{"mark": "bar"}, {"mark": "rule"}, {"mark": "area"}], "spacing": 9}, 2)
    {'spacing': 9, 'columns': 2, 'concat': [{'mark': 'bar'}, {'mark': 'rule'}, {'mark': 'area'}]}
    """
    rest = {key: value for key, value in spec.items() if key != "hconcat"}
    panels = [part if at % columns else labelled(part) for at, part in enumerate(spec["hconcat"])]
    return {**rest, "columns": columns, "concat": panels}


def narrower(spec: Mapping[str, Any], by: float) -> dict[str, Any]:
    """A panel, or panels below each other, narrower by so many pixels.

    >>> narrower({"vconcat": [{"width": 300, "mark": "bar"}, {"width": 130}]}, 50.0)
    {'vconcat': [{'width': 250.0, 'mark': 'bar'}, {'width': 120.0}]}
    """
    width, parts = spec.get("width"), spec.get("vconcat")
    own = {"width": max(NARROWEST, width - by)} if isinstance(width, (int, float)) else {}
    return {**spec, **own, **({} if parts is None else {"vconcat": [narrower(part, by) for part in parts]})}


def below(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A figure with the panels that stood beside each other below each other.

    >>> below({"hconcat": [{"mark": "bar"}, {"vconcat": [{"hconcat": []}]}], "title": "T"})
    {'title': 'T', 'vconcat': [{'mark': 'bar'}, {'vconcat': [{'vconcat': []}]}]}
    """
    rest = {key: value for key, value in spec.items() if key not in ("hconcat", "vconcat")}
    parts = spec.get("hconcat", spec.get("vconcat"))
    return rest if parts is None else {**rest, "vconcat": [labelled(below(part)) for part in parts]}


def served(root: Path, path: str) -> tuple[Path, str]:
    """A report, or a file beside it, and its type."""
    found = inside(root, path)
    if not found.is_file() or found.suffix not in SERVED:
        raise MissingError("The folder of results has nothing of that name; choose from the list.")
    return found, SERVED[found.suffix]
