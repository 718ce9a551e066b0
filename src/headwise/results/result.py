"""A finished result: a folder that is read again without the model.

    manifest.json       what was run, on what, with what; the SHA-256 of every other file
    table.parquet       one row a fact
    parts.parquet       the same of all texts but a part of them, for intervals; where they were asked for
    state.safetensors   the merged sufficient statistics, from which table and figures were made
    figures/NAME.json   Vega-Lite specifications, their data inside

The manifest is written last: a folder with a manifest is finished. Opening checks every checksum.
"""

# pyright: strict, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# Unknown: what torch, polars and transformers leave so.

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import polars as pl
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from headwise.errors import InputError, UnknownNameError
from headwise.results.files import digest, digest_of, write_files
from headwise.results.inline import inline
from headwise.results.records import EVERY, DamagedError, Shape, fits, inside, parse_record, read_record
from headwise.results.shown import shown
from headwise.text.terminal import visible

if TYPE_CHECKING:
    import altair as alt

FORMAT = 1
ROWS, WIDE = 5, 60  # of a table that a notebook shows, and letters of a cell
NEAR = 4  # results that are named where one is not there
COMPOSED = {  # which class of altair a figure is, by its own key
    "layer": "LayerChart", "hconcat": "HConcatChart", "vconcat": "VConcatChart", "concat": "ConcatChart",
    "facet": "FacetChart", "repeat": "RepeatChart",
}  # fmt: skip
FILES = {"files": {EVERY: {"sha256": str, "bytes": int}}}
STUDY = {  # what the manifest of a study, or of a comparison of two, says
    "study": str, "settings": dict, "model": {"name": str}, "plan": {"corpus": {"name": str}},
    "documents": int, "tokens": int, "skipped": dict,
}  # fmt: skip
RUN = {**STUDY, "plan_digest": str, "stacks": dict, "proof": dict, "causal": bool}  # and of a run over a corpus
MANIFEST, TABLE, PARTS, STATE, FIGURES = (
    "manifest.json", "table.parquet", "parts.parquet", "state.safetensors", "figures",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Result:
    """A result on disk; table, state and figures are read when asked for."""

    folder: Path
    manifest: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"<headwise.Result {self._line()}: .table, .figure(name)>"

    def _repr_html_(self) -> str:
        """For a notebook: the line, and the first rows of the table."""
        try:
            table = shown(self.table.head(ROWS))
        except InputError as error:
            return f"<p>{escape(self._line())}</p><p>{escape(str(error))}</p>"
        heads = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
        rows = "".join(f"<tr>{''.join(f'<td>{escape(_cell(one))}</td>' for one in row)}</tr>" for row in table.rows())
        more = f"<p>… {len(self.table):,} rows in all: .table</p>" if len(self.table) > ROWS else ""
        return f"<p>{escape(self._line())}</p><table><tr>{heads}</tr>{rows}</table>{more}"

    def _line(self) -> str:
        """Study, model, corpus, texts, rows, figures; also of a folder that was altered since."""
        of = self.manifest
        model, corpus = of.get("model") or {}, (of.get("plan") or {}).get("corpus") or {}
        try:
            rows = f"{len(self.table):,} rows"
        except InputError:
            rows = "a table that cannot be read"
        figures = f"figures {', '.join(self.figures)}" if self.figures else "no figure"
        texts = f", {of['documents']:,} texts" if isinstance(of.get("documents"), int) else ""
        what = f"{of.get('study')} of {model.get('name')} on {corpus.get('name')}"
        return visible(f"{what}{texts}, {rows}, {figures}, in {self.folder}")

    @cached_property
    def table(self) -> pl.DataFrame:
        return self._frame(TABLE)

    @cached_property
    def parts(self) -> list[pl.DataFrame]:
        """The table of all texts but each part of them; none where they were not asked for, or the study has none."""
        if PARTS not in self.manifest["files"]:
            return []
        return self._frame(PARTS).partition_by("part", include_key=False)

    @cached_property
    def state(self) -> dict[str, Tensor]:
        try:
            return load(self._bytes(STATE))
        except SafetensorError as error:
            raise InputError(altered(self.folder / STATE, error)) from None

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the figures, in the order in which they were written."""
        return tuple(Path(name).stem for name in self.manifest["files"] if Path(name).parent == Path(FIGURES))

    def spec(self, name: str) -> dict[str, Any]:
        """The Vega-Lite specification of a figure."""
        if name not in self.figures:
            there = ", ".join(self.figures) or "none"
            raise UnknownNameError(f"There is no figure {name!r} in {self.folder}; there are {there}.")
        try:
            spec = parse_record(self._bytes(figure_file(name)), {})
        except DamagedError as error:
            raise InputError(altered(self.folder / figure_file(name), error)) from None
        if has_address(spec):
            raise InputError(
                f"A figure must carry its data, but {name} of {self.folder} points to an address; run its study again."
            )
        return spec

    def figure(self, name: str) -> alt.TopLevelMixin:
        """The figure as an altair chart, to be shown or saved."""
        import altair as alt
        from jsonschema.exceptions import ValidationError

        try:
            spec = self.spec(name)
            # subtle: alt.Chart would try one class after the other, each on the whole figure
            kind = next((kind for key, kind in COMPOSED.items() if key in spec), "Chart")
            return inline(getattr(alt, kind).from_dict(spec))
        except (ValidationError, LookupError, TypeError, ValueError) as error:
            raise InputError(altered(self.folder / figure_file(name), error)) from None

    def _frame(self, name: str) -> pl.DataFrame:
        try:
            return pl.read_parquet(self._bytes(name))
        except pl.exceptions.PolarsError as error:
            raise InputError(altered(self.folder / name, error)) from None

    def _bytes(self, name: str) -> bytes:
        """A file that the manifest names; no other is opened, as only those were found to lie inside."""
        if name not in self.manifest["files"]:
            raise InputError(f"The result in {self.folder} must have {name}, but it names none. Run the study again.")
        try:
            content = (self.folder / name).read_bytes()
        except OSError as error:
            raise InputError(f"{self.folder / name} must be there; got: {error.strerror}. Open it again.") from None
        if digest(content) != self.manifest["files"][name]["sha256"]:
            raise InputError(f"{self.folder / name} was written anew after the result was opened; open it again.")
        return content


def _cell(value: Any) -> str:
    """A cell as people read it: four digits, and no more of a text than a line."""
    if value is None:
        return "–"
    told = f"{value:.4g}" if isinstance(value, float) else visible(str(value))
    return told if len(told) <= WIDE else f"{told[: WIDE - 1]}…"


class Results(dict[str, Result]):
    """Results by the name of their study. Of a single one, `folder`, `manifest`, `table` … can be asked at once."""

    @property
    def only(self) -> Result:
        """The one result, where there is one."""
        if len(self) != 1:
            raise InputError(f"There must be one result to ask, but there are {', '.join(self)}; name one: results[…].")
        return next(iter(self.values()))

    @property
    def folder(self) -> Path:
        return self.only.folder

    @property
    def manifest(self) -> Mapping[str, Any]:
        return self.only.manifest

    @property
    def table(self) -> pl.DataFrame:
        return self.only.table

    @property
    def state(self) -> dict[str, Tensor]:
        return self.only.state

    @property
    def figures(self) -> tuple[str, ...]:
        return self.only.figures

    def spec(self, name: str) -> dict[str, Any]:
        return self.only.spec(name)

    def figure(self, name: str) -> alt.TopLevelMixin:
        return self.only.figure(name)


def write_result(
    folder: str | Path,
    manifest: Mapping[str, Any],
    table: pl.DataFrame,
    state: Mapping[str, Tensor],
    figures: Mapping[str, Mapping[str, Any]],
    *,
    parts: pl.DataFrame | None = None,
) -> Result:
    """Write a result, whole or not at all, and open it. `manifest` gains the fields `format` and `files`."""
    folder = Path(folder)
    contents = {TABLE: parquet_bytes(table), STATE: save({k: v.contiguous() for k, v in state.items()})}
    contents |= {PARTS: parquet_bytes(parts)} if parts is not None else {}
    contents |= {figure_file(name): json_bytes(finite(spec)) for name, spec in figures.items()}
    files = {name: {"sha256": digest(content), "bytes": len(content)} for name, content in contents.items()}
    manifest = {**manifest, "format": FORMAT, "files": files}
    write_files(folder, {**contents, MANIFEST: json_bytes(manifest)})
    forget_other_figures(folder, files)
    return open_result(folder)


def finite(value: Any) -> Any:
    """The same JSON with null where a number is not finite, as JSON needs it: an interval of one fold, say."""
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def open_result(folder: str | Path, shape: Shape = MappingProxyType({})) -> Result:
    """The result in a folder, after every file was found to be as it was written.

    `shape` is what its manifest must say for the caller (`STUDY`, `RUN`), checked before a file is opened.
    """
    folder = Path(folder)
    manifest = read_manifest(folder, shape)
    for name, file in manifest["files"].items():
        check(folder / name, file["sha256"])
    return Result(folder, manifest)


def read_manifest(folder: Path, shape: Shape = MappingProxyType({})) -> dict[str, Any]:
    """What a folder says of its result: every file that it names is below the folder, none has been opened."""
    try:
        manifest = read_record(folder / MANIFEST, {})
        if manifest.get("format") != FORMAT:
            raise InputError(
                f"{folder / MANIFEST} must be of format {FORMAT}; got another. Use the headwise that wrote it."
            )
        fits(manifest, FILES | {name: kind for name, kind in RUN.items() if name in manifest} | dict(shape))
        for name in manifest["files"]:
            inside(folder, name)
    except FileNotFoundError:
        raise InputError(_missing(folder)) from None
    except DamagedError as error:
        raise InputError(f"{folder / MANIFEST} must be as it was written; {error}. Run the study again.") from None
    return manifest


def _missing(folder: Path) -> str:
    """Why there is no result: no such folder, a run that was not finished, or another folder; and which are near."""
    if (folder / ".run").is_dir() or (folder / TABLE).exists():
        return f"A result must be whole, but the run in {folder} was not finished; the same command again goes on."
    if not folder.exists():
        return f"A result must be a folder with a {MANIFEST}, but there is no {folder}; {_nearby(folder.parent)}."
    return f"A result must be a folder with a {MANIFEST}, but {folder} has none; {_nearby(folder)}."


def _nearby(folder: Path) -> str:
    """The results in and below a folder, three levels deep, the newest first. Of one study the folder is its result."""
    found = [path for depth in ("", "*/", "*/*/", "*/*/*/") for path in folder.glob(f"{depth}{MANIFEST}")]
    found = [path.parent for path in sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)]
    if not found:
        return "`headwise run` and `headwise report` make results"
    more = f" and {len(found) - NEAR:,} more" if len(found) > NEAR else ""
    return f"nearby {'are' if len(found) > 1 else 'is'} {', '.join(map(str, found[:NEAR]))}{more}"


def check(path: Path, sha256: str) -> None:
    """Refuse a file that is not the one that was written."""
    try:
        now = digest_of(path)
    except OSError as error:
        raise InputError(f"{path} must be there; got: {error.strerror}. Run the study again.") from None
    if now != sha256:
        raise InputError(f"{path} must be as it was written; its checksum differs. Run the study again.")


def altered(path: Path, error: Exception) -> str:
    reason = visible(str(error).strip()).partition("\n")[0] or type(error).__name__
    return f"{path} must be as it was written; got: {reason[:200]}. Run the study again."


def has_address(spec: Any) -> bool:
    """Whether anything but a schema in a figure's specification would be fetched."""
    if isinstance(spec, dict):
        return "url" in spec or any(has_address(value) for value in spec.values())
    return isinstance(spec, list) and any(has_address(value) for value in spec)


def forget_other_figures(folder: Path, files: Mapping[str, Any]) -> None:
    """Remove figures of an earlier result in the same folder."""
    for path in (folder / FIGURES).glob("*.json"):
        if figure_file(path.stem) not in files:
            path.unlink()


def figure_file(name: str) -> str:
    return f"{FIGURES}/{name}.json"


def parquet_bytes(table: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    return buffer.getvalue()


def json_bytes(value: Mapping[str, Any]) -> bytes:
    """subtle: JSON has no NaN, and readers other than Python's refuse it."""
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
