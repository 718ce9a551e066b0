"""`headwise inspect`: one text, every head, and whether to believe it."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli import options
from headwise.cli.lean import lasting, lean
from headwise.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from headwise.explanations.query_key import QueryKey
    from headwise.interventions.answered import Answered
    from headwise.models.model import Model
    from headwise.traces import LongTrace, Trace

HELP = """One text, or a pair, through a model: a table of its heads, and whether their weights can be believed.

Three lamps a head: are its weights unique, do they carry anything, does the model need it (asked by --matters)?
Columns: entropy of the rows in nats; mean attention to special tokens and to the previous, the same and the next \
token; the share of the map that lies in the null space and changes nothing; how far a weight may go to tokens that \
send nearly the same; the share of what is sent that follows the weights; the share of the weight that is parked on no \
word, or on one token, whoever looks, and the share of what is sent from there; and where, if half of the weight or \
more is parked (a sink).

  headwise inspect "The quick brown fox jumps over the lazy dog." --figure out.svg
  headwise inspect "He went to the bank." "It was closed." --layer 3 --quantity effective
  headwise inspect "Once upon a time" --model demo-llm --matters
  headwise inspect "Once upon a time" --model demo-llm --exact --layer 3
  headwise inspect "Once upon a time" --model demo-llm --json -
  headwise inspect "Once upon a time" --model demo-llm --head L3.H1 --query 3 --key 0
  headwise inspect - --model demo-llm --keep top < chapter.txt
  headwise inspect --image cat.png --model google/vit-base-patch16-224
"""

Text = Annotated[str | None, typer.Argument(help="The text; - reads it from standard input.", show_default=False)]
Quantity = Annotated[str, typer.Option(help="Which map the columns are about; see `headwise list quantities`.")]
LayerOption = Annotated[int | None, typer.Option(help="Only this layer (from 0).")]
HeadOption = Annotated[str | None, typer.Option(help="Only this head: its number (from 0), or its name, as L3.H1.")]
Stack = Annotated[str | None, typer.Option(help="encoder, decoder or cross, for encoder–decoder models.")]
Words = Annotated[bool, typer.Option("--words", help="Maps between words, not tokens, in the figure.")]
Query = Annotated[int | None, typer.Option(help="The token (its number, from 0) whose intervals the figure shows.")]
Key = Annotated[
    int | None,
    typer.Option(
        help="A token (from 0) that --query looks at, with --head L3.H1: query times key, dimension by dimension."
    ),
]
Figure = Annotated[Path | None, typer.Option(help="Draw a head's maps: .svg, .png, .pdf or .html.")]
Json = Annotated[str | None, typer.Option("--json", help="Write tokens and table as JSON; - for standard output.")]
Csv = Annotated[Path | None, typer.Option("--csv", help="Write the table as CSV.")]
Parquet = Annotated[Path | None, typer.Option("--parquet", help="Write the table as parquet.")]
Matters = Annotated[
    bool,
    typer.Option(
        "--matters", help="Add how far what the model says moves without each head; roughly where that takes long."
    ),
]
Exact = Annotated[
    bool, typer.Option("--exact", help="The same by taking every head away, however long: a pass for two heads.")
]
Save = Annotated[Path | None, typer.Option(help="Save the whole trace, for hw.open and `headwise view --from`.")]


def inspect(
    text: Text = None,
    pair: options.Pair = None,
    image: options.Image = None,
    audio: options.Audio = None,
    model: options.Model = "demo",
    task: options.Task = None,
    quantity: Quantity = "raw",
    layer: LayerOption = None,
    head: HeadOption = None,
    stack: Stack = None,
    words: Words = False,
    query: Query = None,
    key: Key = None,
    matters: Matters = False,
    exact: Exact = False,
    truncate: options.Truncate = False,
    keep: options.Keep = "all",
    device: options.Device = "cpu",
    figure: Figure = None,
    json_: Json = None,
    csv: Csv = None,
    parquet: Parquet = None,
    save: Save = None,
) -> None:
    for target in (figure, csv, parquet, save):
        options.check_target(target)
    options.check_first(models=[model])
    with lasting():
        lean()
        from headwise.interventions.answered import answered
        from headwise.interventions.matters import quick
        from headwise.models.heads import own_task
        from headwise.models.load import load

    options.waiting(f"loading {model}, then tracing what it reads …")
    with options.phase(f"loading {model}"), lasting():
        loaded = load(model, task=own_task(model) if task is None else task, device=device)
    layer, number, stack = place_of(loaded, layer, head, stack)
    trace = options.read_by(loaded, text, pair, image, audio, truncate=truncate, keep=keep)
    if keep != "all":
        if figure is not None or matters or exact or json_ is not None or key is not None:
            raise InputError("Of a long text inspect has the table (--csv, --parquet, --save); leave out the rest.")
        _inspect_long(trace, _chosen(trace.heads(stack=stack), layer, number), csv=csv, parquet=parquet, save=save)
        return
    exact = exact or (matters and quick(trace.model, trace.text, trace.target))
    with options.phase(f"computing {quantity}{' and what each head matters' if matters or exact else ''}"):
        heads = trace.heads(quantity, stack=stack)
        if matters or exact:
            heads = with_matters(heads, trace, stack, exact=exact, only=(layer, number))
        table = _chosen(heads, layer, number)
    answer = answered(trace.model, trace.text, trace.target)
    product = None if key is None else _product(trace, layer, number, query, key, stack)
    written = _write(trace, table, answer, product, json_=json_, csv=csv, parquet=parquet, save=save)
    if figure is not None:
        written.append(_draw(trace, table, figure, words=words, query=query, stack=stack))
    if json_ != "-":
        _print(trace, table, quantity, stack, answer, exact=exact)
        if product is not None:
            print(product)
        for path in written:
            print(f"wrote {path}", file=sys.stderr)


def place_of(
    model: Model, layer: int | None, head: str | None, stack: str | None
) -> tuple[int | None, int | None, str | None]:
    """Layer, head and stack, of a head's number or of the name that tables and pages give it: L3.H1, cross L3.H1."""
    from headwise.interventions.off import head_named

    if head is None or head.isdecimal():
        return layer, None if head is None else int(head), stack
    named = head_named(model, head if " " in head or stack is None else f"{stack} {head}")
    if layer not in (None, named[1]) or stack not in (None, named[0]):
        raise InputError(
            f"--head {head} names its layer and stack, but another was given; leave --layer and --stack out."
        )
    return named[1], named[2], named[0]


def _product(
    trace: Trace, layer: int | None, head: int | None, query: int | None, key: int, stack: str | None
) -> QueryKey:
    if layer is None or head is None or query is None:
        raise InputError("--key asks about one cell of one head; pass --head, as L3.H1, and --query beside it.")
    return trace.query_key(layer, head, query, key, stack=stack)


def _by_dimension(product: QueryKey | None) -> dict[str, Any] | None:
    """score = times · dot + added, dot the sum of the products of the dimensions."""
    if product is None:
        return None
    facts = {name: getattr(product, name) for name in ("where", "tokens", "score", "times", "dot", "added")}
    return {**facts, "dimensions": product.table.to_dicts()}


def _inspect_long(
    trace: LongTrace, table: pl.DataFrame, *, csv: Path | None, parquet: Path | None, save: Path | None
) -> None:
    """The table of a long text: no lamps, which need whole maps."""
    from rich.console import Console
    from rich.text import Text as RichText

    from headwise.models.packaged import called
    from headwise.results.shown import number
    from headwise.viewer.of_trace import answer_of

    written = _write_tables(trace, table, csv=csv, parquet=parquet, save=save)
    console = Console(highlight=False, soft_wrap=True)
    if said := answer_of(trace):
        console.print(RichText(said, style="bold"))
    _print_table(table, f"{called(trace.model_name)}: raw attention in {len(trace.text)} tokens, mean over rows")
    proof = f"Captured numbers reproduce the model to {number(trace.proof_error, '.0e')} (relative)."
    console.print(RichText(f"kept: the share of a row that its strongest entries hold. {proof}", style="dim"))
    for path in written:
        print(f"wrote {path}", file=sys.stderr)


def with_matters(
    heads: pl.DataFrame, trace: Trace, stack: str | None, *, exact: bool, only: tuple[int | None, int | None]
) -> pl.DataFrame:
    """The table with `matters`, in the unit of what the model does (nats of a loss, or 1 − cos), and its lamp."""
    from dataclasses import replace

    import polars as pl

    from headwise.interventions.matters import matters_of
    from headwise.interventions.outcomes import FAR, IN_WORDS, kind_of
    from headwise.traces.heads import with_lamps
    from headwise.traces.lamps import readings

    if heads["head"].null_count():
        raise InputError("Heads matter, but mixing and origins have none; choose raw, effective, null or norm.")
    asked = matters_of(trace.model, trace.text, trace.target, stack=stack, exact=exact, only=only)
    found, kind = asked.flatten().tolist(), kind_of(trace.model)
    read = [head for row in readings(trace, stack=stack) for head in row]
    known = [replace(head, matters=moved, what=FAR[kind], unit=IN_WORDS[kind], exact=exact)
             for head, moved in zip(read, found, strict=True)]  # fmt: skip
    return with_lamps(heads, known).with_columns(matters=pl.Series(found))


def _chosen(table: pl.DataFrame, layer: int | None, head: int | None) -> pl.DataFrame:
    for name, wanted in (("layer", layer), ("head", head)):
        if wanted is not None:
            there = table[name].drop_nulls().unique().sort()
            if wanted not in there:
                raise InputError(f"A {name} of this model is one of {there.to_list()}, but {wanted} was asked for.")
            table = table.filter(table[name] == wanted)
    return table


def _write(
    trace: Trace,
    table: pl.DataFrame,
    answer: Answered | None,
    product: QueryKey | None,
    *,
    json_: str | None,
    csv: Path | None,
    parquet: Path | None,
    save: Path | None,
) -> list[Path]:
    written: list[Path] = []
    if json_ is not None:
        facts = {"schema": "headwise-inspect-1", "model": trace.model_name, "proof_error": trace.proof_error,
                 "output_error": trace.output_error,
                 "answer": None if answer is None else {"kind": answer.kind, "choices": [*map(list, answer.choices)]},
                 "tokens": trace.tokens, "heads": _plain(table), "query_key": _by_dimension(product)}  # fmt: skip
        options.write_json(json_, facts)
        written += [] if json_ == "-" else [Path(json_)]
    return written + _write_tables(trace, table, csv=csv, parquet=parquet, save=save)


def _write_tables(
    trace: Trace | LongTrace, table: pl.DataFrame, *, csv: Path | None, parquet: Path | None, save: Path | None
) -> list[Path]:
    from headwise.results.shown import shown

    if csv is not None:
        _write_file(csv, shown(table).write_csv().encode())
    if parquet is not None:
        table.write_parquet(buffer := io.BytesIO())
        _write_file(parquet, buffer.getvalue())
    if save is not None:
        trace.save(save)
    return [path for path in (csv, parquet, save) if path is not None]


def _write_file(path: Path, content: bytes) -> None:
    from headwise.results.files import write_files

    write_files(path.parent, {path.name: content})


def _plain(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows for JSON, which knows no NaN."""
    from headwise.results.shown import shown

    return shown(table).to_dicts()


def _draw(trace: Trace, table: pl.DataFrame, path: Path, *, words: bool, query: int | None, stack: str | None) -> Path:
    from headwise.plots.theme import save_chart

    layer, head = telling_head(trace, table, stack)
    return save_chart(trace.figure(layer, head, query=query, words=words, stack=stack), path)


def telling_head(trace: Trace, table: pl.DataFrame, stack: str | None) -> tuple[int, int]:
    """Among the heads of the table the one with most in the null space; where none has, where norms disagree most.

    Sinks, and heads that no lamp allows to be shown, only where there are no others.
    """
    import polars as pl
    import torch

    if table["head"].null_count():
        raise InputError(
            "A figure shows one head, but mixing and origins have none; choose raw, effective, null or norm."
        )
    for better in (pl.col("sink").is_null(), pl.col("show") != "no"):
        table = table.filter(better) if len(table.filter(better)) else table
    places = table.select("layer", "head").rows()
    if float(table["null_share"].max() or 0) > 1e-6:  # type: ignore[arg-type]
        return places[int(table["null_share"].arg_max() or 0)]
    index = {layer.index: row for row, layer in enumerate(trace.of(stack))}
    raw, norm = trace.attention("raw", stack=stack), trace.attention("norm", stack=stack)
    if raw.shape[-1] == 1:  # of one number nothing is correlated
        return places[0]
    agree = [torch.corrcoef(torch.stack([m[index[la], he].flatten() for m in (raw, norm)]))[0, 1] for la, he in places]
    return places[int(torch.stack(agree).nan_to_num(1.0).argmin())]


def _print(
    trace: Trace, table: pl.DataFrame, quantity: str, stack: str | None, answer: Answered | None, *, exact: bool
) -> None:
    from rich.console import Console
    from rich.text import Text as RichText

    from headwise.interventions.answered import unanswered
    from headwise.interventions.outcomes import kind_of
    from headwise.models.packaged import called
    from headwise.text.written import in_a_line

    console = Console(highlight=False, soft_wrap=True)
    console.print(RichText(in_a_line(trace.queries(stack).tokens)))
    said = unanswered(trace.model) if answer is None else answer.says
    if said:
        console.print(RichText(said, style="bold"))
    _print_table(table, f"{called(trace.model_name)}: {_named(quantity)}, mean over rows")
    if LAMPS[0] in table.columns:
        console.print(RichText(LEGEND, style="dim"))
    if "matters" in table.columns:
        console.print(RichText(_matters_legend(kind_of(trace.model), exact=exact), style="dim"))
    console.print(RichText(_verdict(trace, table, stack)))


def _print_table(table: pl.DataFrame, title: str) -> None:
    """The table, the units of its columns, and which were left out where the terminal is too narrow for all."""
    from rich.console import Console
    from rich.text import Text as RichText

    from headwise.cli.printed import terminal

    printed, left = fitting(table, title, terminal())
    Console(highlight=False, width=max(80, _wide(printed))).print(printed)
    console = Console(highlight=False, soft_wrap=True)
    console.print(RichText(_units([name for name in table.columns if name not in left]), style="dim"))
    if left:
        named = ", ".join(LABELS.get(name, name) for name in left)
        console.print(
            f"left out: column{'s' if len(left) > 1 else ''} {named}; a wider terminal or --csv FILE has them",
            style="dim",
        )


def fitting(table: pl.DataFrame, title: str, width: int | None) -> tuple[Any, list[str]]:
    """The table as it is printed on so wide a terminal (None: in a file or a pipe), and the columns that it lacks."""
    import polars as pl

    from headwise.cli.tables import shortened

    left: list[str] = []
    printed = _rich_table(table, title)
    if width is not None and _wide(printed) > width and "sink" in table.columns:
        short = [None if sink is None else shortened(sink, SINK) for sink in table["sink"]]
        table = table.with_columns(sink=pl.Series(short, dtype=pl.String))
        printed = _rich_table(table, title)
    for name in LEFT_OUT:
        if width is not None and _wide(printed) > width and name in table.columns:
            left.append(name)
            printed = _rich_table(table.drop(left), title)
    return printed, left


def _wide(printed: Any) -> int:
    from rich.console import Console

    return Console(width=10_000).measure(printed).maximum


def _units(columns: Sequence[str]) -> str:
    """
    >>> _units(["entropy"])
    'columns: entropy in nats'
    """
    return "columns: " + "; ".join(said for name, said in UNITS.items() if name in columns)


def _matters_legend(kind: str, *, exact: bool) -> str:
    """
    >>> _matters_legend("sentence", exact=True)
    'matters: how far the sentence vector moves (1 − cos) with the head at zero (ablation of a report: at its mean)'
    """
    from headwise.interventions.outcomes import DISTANCES, FAR, UNITS

    how = "" if exact else ", to first order"
    signs = "" if kind in DISTANCES else ", and the mean loss"
    moved = f"how far the {FAR[kind]} moves ({UNITS[kind]}) with the head at zero{how}"
    return f"matters: {moved} (ablation of a report: at its mean{signs})"


def _named(quantity: str) -> str:
    from headwise.measures import ATTENTION

    return f"{quantity} attention" if quantity in ATTENTION else quantity


LABELS = {"name": "", "previous": "prev", "current": "same", "null_share": "null"}
LAMPS = ("lamp_unique", "lamp_carries", "lamp_matters")
UNSHOWN = (
    "layer",
    "head",
    "rank",
    "null_dim",
    "simplex_dim",
    "identifiable",
    "smallest_kept",
    "largest_dropped",
    "pearson",
    "first",
    "show",
    "held",
    *LAMPS,
)
LEFT_OUT = ("next", "current", "previous", "special", "null_share", "loose", "entropy")  # in this order
SINK = 8  # columns of the terminal that a sink has there
MARKS = {"green": "✓", "amber": "~", "red": "✗", "dark": "·"}
UNITS = {  # of the columns, in the order of the table
    "entropy": "entropy in nats",
    "special": "special, prev, same, next: what goes to special tokens, the token before, itself and the one after",
    "null_share": "null: share of the squared weights that changes nothing",
    "loose": "loose: how far a weight may go within its row, to tokens that send nearly the same",
    "carried": "carried: share of what is sent that follows the weights; "
    "parked: share of the weight on no word, or on one token, whoever looks; sent: share of what is sent from there",
}
COLOURS = {"green": "green", "amber": "yellow", "red": "red", "dark": "bright_black"}
LEGEND = (
    "lamps: unique? carries anything? matters?  ✓ yes  ~ with care  ✗ no  · not known (--matters asks)  "
    "○ yes, but held back: the map is of a sink, or another lamp is ✗"
)


def _rich_table(table: pl.DataFrame, title: str) -> Any:
    from rich.table import Table

    shown = Table(
        title=title, title_justify="left", header_style="bold", box=None, pad_edge=False, padding=(0, 1, 0, 0)
    )
    columns = [name for name in table.columns if name not in UNSHOWN]
    lit = LAMPS[0] in table.columns
    for name in columns[:1] + ["lamps"] * lit + columns[1:]:
        shown.add_column(LABELS.get(name, name), justify="right", no_wrap=True)
    for row in table.iter_rows(named=True):
        cells = [
            f"{row[name]:.4f}" if name == "matters" and row[name] == row[name] else _cell(row[name]) for name in columns
        ]
        shown.add_row(cells[0], *([_lamps(row)] if lit else []), *cells[1:])
    return shown


def _lamps(row: dict[str, Any]) -> Any:
    """Three marks, told apart by their shape where there is no colour."""
    from rich.text import Text as RichText

    held = (row.get("held") or "").split(", ")
    marks = {name: "○" if name.removeprefix("lamp_") in held else MARKS[row[name]] for name in LAMPS}
    return RichText.assemble(*((mark, COLOURS[row[name]]) for name, mark in marks.items()))


def _cell(value: Any) -> str:
    from headwise.results.shown import number

    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else number(value) if isinstance(value, float) else str(value)


def _verdict(trace: Trace, table: pl.DataFrame, stack: str | None) -> str:
    """Plain words on what the table allows one to say: its lamps, summed up, and what to look at instead."""
    from headwise.lamps import ALONE, WIDTH_SMALL, summed_up_of
    from headwise.results.shown import number
    from headwise.studies.tables import counted

    facts = trace.nullspace(stack=stack)
    proof = f"Captured numbers reproduce the model to {number(trace.proof_error, '.0e')} (relative)."
    size = f"{counted(facts.n, 'token')}, head size {facts.d_head}."
    if "show" not in table.columns:
        return f"{size} {proof}"
    if facts.n == 1:
        return f"{size} {ALONE} {proof}"
    asks = "" if "matters" in table.columns else "--matters"
    untold = 0 if asks else int((table["lamp_matters"] == "dark").sum())
    told = summed_up_of(table["show"].to_list(), sinks=int(table["sink"].is_not_null().sum()), asks=asks, untold=untold)
    other = " Read `--quantity effective` or `norm` beside raw where a lamp is not ✓."
    loose = table["loose"].max()
    if isinstance(loose, float) and loose >= WIDTH_SMALL:
        other += " Where `loose` is large, tell what tokens that send nearly the same get together."
    return f"{size} {told}{'' if (table['show'] == 'yes').all() else other} {proof}"
