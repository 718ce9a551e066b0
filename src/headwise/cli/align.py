"""`headwise align`: which words of a source and its translation belong together, by a translation model."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli import options

if TYPE_CHECKING:
    from headwise.results import Result
    from headwise.text.alignments import Pair

HELP = """Word alignment by a translation model: links from its cross-attention, and their error rate where gold is.

Line n of --source is translated by line n of --target; words are what stands between blanks. The target is read, not
written anew. Links go to OUT/links.txt in Pharaoh format (0-0 1-2, source first, counted from 0), a line a pair. With
--gold the layer is chosen by AER on a fifth of the pairs and scored on the rest; without, by how well the links from
either side agree. Everything else is in the result of the study `alignment`: table, fig7, fig8, table3.

  headwise align --model Helsinki-NLP/opus-mt-de-en --source de.txt --target en.txt --out out
  headwise align --model MODEL --source de --target en --gold gold.talp --out out --pages 3
  headwise align --model MODEL --source de --target en --gold gold.talp --beside eflomal=eflomal.txt --out out
  headwise align --model MODEL --source de --target en --set extractions=argmax,mutual --set rule=union --out out
"""

Model = Annotated[
    str, typer.Option(help="An encoder–decoder: hub id, folder, or demo-nmt (German–English).", show_default=False)
]
Source = Annotated[Path, typer.Option(help="Sentences, a line each; UTF-8, else Latin-1.", show_default=False)]
Target = Annotated[Path, typer.Option(help="Their translations.", show_default=False)]
Out = Annotated[Path, typer.Option(help="Folder for links, table and figures.", show_default=False)]
Gold = Annotated[Path | None, typer.Option(help="Gold links: talp (1-2 3p4) or Pharaoh (0-1 2-3).")]
Base = Annotated[int | None, typer.Option(help="Gold links count words from 0 or 1; seen from the file otherwise.")]
Encoding = Annotated[str | None, typer.Option(help="Of source and target, where neither UTF-8 nor Latin-1.")]
Beside = Annotated[
    list[str] | None,
    typer.Option(help="Links of another aligner to score too, counted from 0.", metavar="NAME=FILE"),
]
Gradients = Annotated[bool, typer.Option("--gradients", help="Gradient baselines too: a pass a word, slow.")]
Pages = Annotated[int, typer.Option(help="Viewer pages of so many pairs, to OUT/pages.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="A setting of the study; see `headwise list studies`.", metavar="KEY=VALUE"),
]

SHOWN = 3  # pairs whose links are printed as words


def align(
    model: Model,
    source: Source,
    target: Target,
    out: Out,
    gold: Gold = None,
    base: Base = None,
    encoding: Encoding = None,
    beside: Beside = None,
    gradients: Gradients = False,
    pages: Pages = 0,
    set_: Set = None,
    truncate: options.Truncate = False,
    device: options.Device = "cpu",
    json_: options.Json = None,
) -> None:
    from headwise.text.alignments import read_pairs  # which imports no torch

    options.check_first(models=[model], out=out)
    named = [path for path in (source, target, gold) if path is not None]
    if not any(os.path.exists(path) and not os.path.isfile(path) for path in named):  # a pipe is read but once
        read_pairs(source, target, gold, encoding=encoding, base=base)
    options.check_json(json_)
    with options.telling(f"reading the pairs and loading {model}") as say:
        from headwise.cli.settings import settings_of
        from headwise.engine.align import align as align_words
        from headwise.engine.align import aligned_pairs

        result = align_words(
            model, source, target, out=out, gold=gold, base=base, encoding=encoding, beside=beside or (),
            gradients=gradients, settings=settings_of("alignment", None, set_ or [])["alignment"], truncate=truncate,
            device=device, say=say,
        )  # fmt: skip
    pairs = aligned_pairs(out)
    if json_ is not None:
        options.write_json(json_, document(pairs, result))
    if json_ != "-":
        _tell(result, len(pairs))
        for line in words_of(pairs, result):
            print(f"  {line}")
    if pages:
        _write_pages(model, pairs[:pages], out / "pages", truncate=truncate)


def _tell(result: Result, count: int) -> None:
    """What was chosen, what it scores, what was skipped, where it is."""
    import polars as pl

    from headwise.engine.align import LINKS
    from headwise.models.packaged import called
    from headwise.results.shown import number
    from headwise.studies.alignment import choice

    best = choice(result.state)
    how = "AER on the choosing part" if best["by"] == "chosen_aer" else "the agreement of both sides"
    print(
        f"{count} pairs, {called(result.manifest['model']['name'])}: {best['quantity']} of layer {best['layer']}, "
        f"{best['position']} position, {best['extraction']}; chosen by {how}"
    )
    table = result.table.filter(pl.col("aer").is_not_null() & pl.col("head").is_null())
    for row in table.filter(pl.col("best") | pl.col("layer").is_null()).sort("aer").iter_rows(named=True):
        where = "" if row["layer"] is None else f"L{row['layer']}, {row['position']}, {row['extraction']}"
        ends = [number(row[name], ".3f") for name in ("aer", "low", "high")]
        print(f"  AER {ends[0]} ({ends[1]} to {ends[2]})  {row['quantity']:<16} {where}")
    skipped = ", ".join(f"{number} {reason}" for reason, number in result.manifest["skipped"].items())
    if skipped:
        print(f"  skipped, and left without links: {skipped}", file=sys.stderr)
    print(f"  wrote {result.folder / LINKS}; figures: {', '.join(result.figures)}")


def document(pairs: Sequence[Pair], result: Result) -> dict[str, Any]:
    """What was chosen, its scores and all links, as JSON (docs/schemas/align.json)."""
    import polars as pl

    from headwise.studies.alignment import choice, chosen_links

    scored = result.table.filter(pl.col("aer").is_not_null())
    columns = ["quantity", "layer", "head", "position", "extraction", "aer", "low", "high", "best"]
    return {
        "schema": "headwise-align-1", "model": result.manifest["model"]["name"], "pairs": len(pairs),
        "skipped": result.manifest["skipped"], "chosen": choice(result.state),
        "scores": scored.select(columns).to_dicts(),
        "links": [sorted(map(list, links)) for links in chosen_links(result.state, len(pairs))],
    }  # fmt: skip


def words_of(pairs: Sequence[Pair], result: Result) -> list[str]:
    """The first pairs as words: Hund–dog bellt–barks."""
    from headwise.studies.alignment import chosen_links

    return [
        linked(pair, links) for pair, links in zip(pairs[:SHOWN], chosen_links(result.state, len(pairs)), strict=False)
    ]


def linked(pair: Pair, links: Iterable[tuple[int, int]]) -> str:
    """The words that are linked, in the order of the source; words are what stands between blanks."""
    source, target = pair.source.split(), pair.target.split()
    return "  ".join(f"{source[s]}–{target[t]}" for s, t in sorted(links)) or "(no links)"


def _write_pages(model: str, pairs: list[Pair], folder: Path, *, truncate: bool) -> None:
    from headwise.models.heads import own_task
    from headwise.models.load import load

    loaded = load(model, task=own_task(model))  # its head says what it makes of the target
    folder.mkdir(parents=True, exist_ok=True)
    for number, pair in enumerate(pairs, start=1):
        trace = loaded.trace(pair.source, pair.target, truncate=truncate)
        print(f"  wrote {trace.save_html(folder / f'{number:04d}.html')}", file=sys.stderr)
