"""`headwise run` and `headwise show`: studies over a corpus, and their results again."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli import options
from headwise.errors import InputError

if TYPE_CHECKING:
    from headwise.results import Result

RUN_HELP = """Run studies over a corpus, in one pass: a table and figures each, resumable.

The same command again goes on after a crash, and opens the results once they are there.

  headwise run surface,norms,nullspace --out out
  headwise run surface --model demo-llm --corpus wiki.txt.gz --max-tokens 256 --truncate --out out
  headwise run distances --corpus wiki.test.raw --segments 128 --out out --engine ray --workers 8
  headwise run mixing --quantities rollout --corpus dev.tsv --out out
  headwise run adversary --model DIR --task classification --corpus dev.tsv --head-only --out out
"""
SHOW_HELP = """Show a result again: what was run, its table, its figures.

Of a table it prints the columns that decide, the rows that matter first; --all prints the rest.

  headwise show out
  headwise show out/surface --figure fig2 --save fig2.pdf
  headwise show out/surface --where quantity=raw,layer=3 --sort -entropy
  headwise show out/surface --json -
  headwise show out/surface --figure fig2 --save fig2.pdf --width 3.3in --font serif --no-title
  headwise show out/surface --figure fig2 --save fig2.tikz --width 3.3in --no-title
"""

Studies = Annotated[
    str, typer.Argument(help="Names, with commas between; see `headwise list studies`.", show_default=False)
]
Out = Annotated[
    str,
    typer.Option(
        help="Folder (or s3://…) for the results; one folder a study where there are several.", show_default=False
    ),
]
Dtype = Annotated[str, typer.Option(help="float32, float16, bfloat16 or float64.")]
Corpus = Annotated[
    str, typer.Option(help="File (text, jsonl, parquet, tsv, csv; .gz, .zst), - for stdin, sample, hf:NAME:SPLIT.")
]
Kind = Annotated[
    str | None, typer.Option(help="blocks, lines, wikitext, jsonl, parquet, tsv or csv, where the name does not tell.")
]
Columns = Annotated[
    str | None,
    typer.Option(
        help="Columns of the text and its pair, with a comma between; numbers, from 0, of a tsv or csv without names."
    ),
]
Label = Annotated[
    str | None, typer.Option(help="Column of a text's label, by name or number, for studies that compare with it.")
]
First = Annotated[int | None, typer.Option(help="Read only so many documents from the start of the corpus.")]
Segments = Annotated[int | None, typer.Option(help="Pair consecutive paragraphs into texts of up to this many tokens.")]
Quantities = Annotated[
    str | None, typer.Option(help="Quantities to look at, with commas between, for studies that take them.")
]
OldQuantity = Annotated[str | None, typer.Option("--quantity", hidden=True)]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="A study's own setting, KEY=VALUE or STUDY.KEY=VALUE; see `headwise list studies`.",
        metavar="KEY=VALUE",
    ),
]
HeadOnly = Annotated[
    bool,
    typer.Option("--head-only", help="adversary: only the heads' weights change, nothing is trained (its one way)."),
]
Truncate = Annotated[bool, typer.Option("--truncate", help="Cut texts that are too long, instead of skipping them.")]
MaxTokens = Annotated[int | None, typer.Option(help="Longest text; the model's own limit otherwise.")]
EngineName = Annotated[str, typer.Option("--engine", help="local, or ray for many processes.")]
Address = Annotated[str | None, typer.Option(help="Address of a Ray cluster; RAY_ADDRESS, or one is started here.")]
Workers = Annotated[int | None, typer.Option(help="Ray: number of workers; all cores otherwise.")]
Threads = Annotated[int | None, typer.Option(help="Threads a worker; equal threads give equal bits.")]
Shard = Annotated[
    int, typer.Option("--shard", help="Documents a shard: what is lost at most in a crash on Ray; else a minute.")
]
BatchTokens = Annotated[int, typer.Option(help="Padded tokens of a batch.")]
Seed = Annotated[int, typer.Option(help="For what is sampled.")]
Width = Annotated[str | None, typer.Option(help="For a paper: the figure's width, as 3.3in, 84mm or 240pt.")]
Font = Annotated[str | None, typer.Option(help="For a paper: serif, sans, or the name of a font.")]
NoTitle = Annotated[bool, typer.Option("--no-title", help="For a paper: the title goes to a file for the caption.")]
All = Annotated[bool, typer.Option("--all", help="Every row and column of the table.")]
Where = Annotated[str | None, typer.Option(help="Only these rows of the table: COLUMN=VALUE, several with commas.")]
Sort = Annotated[str | None, typer.Option(help="Sort the table by COLUMN; -COLUMN: the largest first.")]
FigureName = Annotated[str | None, typer.Option("--figure", help="One figure of the result.")]
Save = Annotated[Path | None, typer.Option(help="Where to write it: .svg, .png, .pdf, .html, or .tikz for LaTeX.")]
Json = Annotated[str | None, typer.Option("--json", help="Write facts and table as JSON; - for standard output.")]
Folder = Annotated[Path, typer.Argument(help="A result, or a folder of results.", show_default=False)]


def run(
    studies: Studies,
    out: Out,
    model: options.Model = "demo",
    task: options.Task = None,
    dtype: Dtype = "float32",
    device: options.Device = "cpu",
    corpus: Corpus = "sample",
    kind: Kind = None,
    columns: Columns = None,
    segments: Segments = None,
    label: Label = None,
    first: First = None,
    quantities: Quantities = None,
    quantity: OldQuantity = None,
    set_: Set = None,
    head_only: HeadOnly = False,
    truncate: Truncate = False,
    max_tokens: MaxTokens = None,
    engine: EngineName = "local",
    address: Address = None,
    workers: Workers = None,
    threads: Threads = None,
    shard: Shard = 64,
    batch_tokens: BatchTokens = 2048,
    seed: Seed = 0,
    json_: Json = None,
) -> None:
    options.check_first(models=[model], corpora=[corpus], out=out)
    from headwise.cli.settings import settings_of
    from headwise.engine.run import run as run_studies

    wanted = options.renamed(quantities, quantity, was="--quantity", now="--quantities")
    results = run_studies(
        studies, model, corpus=corpus, out=out, task=task, dtype=dtype, device=device,
        **reading(kind=kind, columns=columns, segments=segments, label=label, first=first),
        settings=settings_of(studies, wanted, [*(set_ or []), *["head_only=true"] * head_only]),
        engine=engine, address=address, workers=workers, threads=threads, shard_documents=shard,
        batch_tokens=batch_tokens, truncate=truncate, max_tokens=max_tokens, seed=seed, progress="lines",
    )  # fmt: skip
    if json_ is not None:
        documents = [_document(result) for result in results.values()]
        options.write_json(json_, {"schema": "headwise-run-1", "results": documents})
    if json_ != "-":
        for result in results.values():
            _summary(result)


def show(
    folder: Folder,
    figure: FigureName = None,
    save: Save = None,
    json_: Json = None,
    width: Width = None,
    font: Font = None,
    no_title: NoTitle = False,
    all_: All = False,
    where: Where = None,
    sort: Sort = None,
) -> None:
    from headwise.cli.tables import print_table
    from headwise.results import STUDY, open_result

    if json_ is not None:
        options.write_json(json_, _document(open_result(folder, STUDY)))
        return
    if not (folder / "manifest.json").is_file() and folder.is_dir():
        inside = sorted(path.parent for path in folder.glob("*/manifest.json"))
        if inside and figure is None:
            for path in inside:
                _summary(open_result(path, STUDY))
            return
        if inside:
            raise InputError(f"A figure is of one result, but {folder} has several: {', '.join(map(str, inside))}.")
    result = open_result(folder, STUDY)
    if figure is None:
        _summary(result)
        print_table(result, whole=all_, where=where, sort=sort, first_by=_first_by(result))
        return
    path = save or Path(f"{figure}.svg")
    if width is not None or font is not None or no_title:
        from headwise.plots.paper import Paper, inches, save_paper, too_small

        asked = Paper(None if width is None else inches(width), font, not no_title)
        spec = result.spec(figure)
        written = save_paper(spec, path, asked, of=_of(result))
        print(f"wrote {', '.join(map(str, written))}")
        if small := too_small(spec, asked):
            print(f"{path.name}: {small}", file=sys.stderr)
        return
    from headwise.plots.theme import save_chart

    print(f"wrote {save_chart(result.figure(figure), path)}")


def _first_by(result: Result) -> tuple[str, ...]:
    """By what the study sorts its table for people; a plug-in's study may be gone."""
    from headwise.cli.remembered import remembered  # studies import transformers, which takes seconds

    rows = remembered("first-by", _every_first_by)
    return next((tuple(by) for name, *by in rows if name == result.manifest["study"]), ())


def _every_first_by() -> list[list[str]]:
    from headwise.studies import STUDIES

    return [[name, *STUDIES[name].first_by] for name in STUDIES]


def _of(result: Result) -> str:
    """What a result is of, for a caption: the checkpoint's own name."""
    from headwise.models.packaged import shown_name

    manifest = result.manifest
    if sides := _sides(manifest):
        names = [side["model"]["name"] for side in sides]
        short = [shown_name(name) for name in names]
        return _beside(sides, short if len({*short}) == len({*names}) else names)
    return f"{shown_name(manifest['model']['name'])} on {manifest['plan']['corpus']['name']}, {texts_of(manifest)}"


def _sides(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The two of a comparison, each with the study that it is a result of; of any other result none."""
    study = manifest["settings"].get("study")
    return [{**side, "study": study} for side in manifest.get("sides", {}).values()]


def _beside(sides: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Both sides with what was read: once, where it is the same of both."""
    read = [f"{side['corpus']['name']}, {texts_of(side)}" for side in sides]
    if read[0] == read[1] and sides[0]["corpus"] == sides[1]["corpus"]:
        return f"{' → '.join(names)} on {read[0]}"
    return " → ".join(f"{name} on {what}" for name, what in zip(names, read, strict=True))


def reading(
    *, kind: str | None, columns: str | None, segments: int | None, label: str | None, first: int | None
) -> dict[str, Any]:
    """How a corpus is read, from the words of the shell to the options of Python."""
    from headwise.text.corpus import column_of

    named = None if label is None else column_of(label)
    return {"kind": kind, "columns": columns, "segments": segments, "label": named, "first": first}


def texts_of(manifest: Mapping[str, Any]) -> str:
    """How many texts a result is of: those that its study asked, where it asks the first of those that were read."""
    from headwise.cli.remembered import remembered  # studies import transformers, which takes seconds

    documents, most = manifest["documents"], manifest["settings"].get("texts") or 0
    read = f"{documents:,} text{'s' if documents != 1 else ''}"
    if 0 < most < documents and [manifest["study"]] in remembered("asks-first", _that_ask_the_first):
        return f"the first {most:,} of {read}"
    return read


def _that_ask_the_first() -> list[list[str]]:
    """Studies with passes of their own, whose setting `texts` is how many texts are asked."""
    from headwise.studies import STUDIES

    return [[name] for name in STUDIES if STUDIES[name].cost == "passes"]


def _summary(result: Result) -> None:
    """A few lines: what was read, what was skipped and why, where it is."""
    from headwise.cli.printed import say, terminal

    manifest = result.manifest
    if sides := _sides(manifest):
        of = _beside(sides, [side["model"]["name"] for side in sides])
        tokens = " and ".join(f"{side['tokens']:,}" for side in sides)
        both = [skipped(side["skipped"] or {}) for side in sides]
        left = both[0] if both[0] == both[1] else f"a: {both[0]}; b: {both[1]}"
    else:
        of = f"{manifest['model']['name']} on {manifest['plan']['corpus']['name']}, {texts_of(manifest)}"
        tokens, left = f"{manifest['tokens']:,}", skipped(manifest["skipped"])
    what = f"{manifest['study']}: {of}, {tokens} tokens read; {left}"
    files = f"{result.folder}/table.parquet ({len(result.table)} rows); figures: {', '.join(result.figures)}"
    say(what, terminal(), indent="")
    say(files, terminal())
    if result.figures:
        print(
            f"  headwise show {result.folder} --figure {result.figures[0]} --save {result.figures[0]}.svg",
            file=sys.stderr,
        )


def skipped(counts: Mapping[str, int]) -> str:
    """What was not read, in words.

    >>> skipped({}), skipped({"empty": 1}), skipped({"empty": 2, "too many tokens": 1})
    ('no text was skipped', '1 text was skipped (1 empty)', '3 texts were skipped (2 empty, 1 too many tokens)')
    """
    if not (total := sum(counts.values())):
        return "no text was skipped"
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in counts.items() if count)
    return f"{total:,} {'texts were' if total > 1 else 'text was'} skipped ({reasons})"


def tell_skipped(corpus: str, counts: Mapping[str, int]) -> None:
    """On the terminal, where texts of a corpus were not read."""
    if any(counts.values()):
        print(f"{corpus}: {skipped(counts)}", file=sys.stderr)


def _document(result: Result) -> dict[str, Any]:
    """A result as JSON (docs/schemas/show.json)."""
    from headwise.results import STUDY
    from headwise.results.shown import shown

    return {
        "schema": "headwise-show-1",
        **{name: result.manifest[name] for name in STUDY},
        "figures": list(result.figures),
        "table": shown(result.table).to_dicts(),
    }
