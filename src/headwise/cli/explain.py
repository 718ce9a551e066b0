"""`headwise explain`: what a model's answer rests on, tested on the very text."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli import options
from headwise.cli.lean import lasting, lean

if TYPE_CHECKING:
    from headwise.explanations.explanation import Explanation
    from headwise.models.model import Model as Loaded

HELP = """What an answer of a model rests on, and whether to believe it: a table, or a page with -o.

What is explained: what the model itself says, unless --target names a label, a word, a continuation or a target
sentence. The words of the text are scored, then tried: those that the explanation names are removed, and the model is
asked again.

  headwise explain "The capital of France is" -o out.html
  headwise explain "The capital of France is" --target Paris --rather London
  headwise explain "Who wrote Faust?" --generate 24 --units words --json -
  headwise explain "Der Hund bellt." "The dog barks." --model demo-nmt
  headwise explain "He fell." "He did not fall." --model my-mrpc-model --target paraphrase
"""

Text = Annotated[str, typer.Argument(help="The text; - reads it from standard input.", show_default=False)]
Model = Annotated[str, typer.Option(help="Hub id, folder, demo-llm, demo-nmt or tiny:NAME; it must have a head.")]
TargetOption = Annotated[str | None, typer.Option("--target", help="Label, word, continuation or target sentence.")]
Rather = Annotated[str | None, typer.Option(help="Explain the target rather than this one.")]
Of = Annotated[str | None, typer.Option(help="logit, log-probability or log-odds.")]
At = Annotated[str | None, typer.Option(help="The word that a token classifier is asked about.")]
Generate = Annotated[int | None, typer.Option(help="Explain an answer of up to so many tokens that the model writes.")]
Method = Annotated[
    str | None, typer.Option(help="leave-one-out (default up to 40 units), paths, integrated-gradients …")
]
Units = Annotated[str, typer.Option(help="tokens, words, sentences, passages or heads.")]
Removal = Annotated[
    str | None,
    typer.Option(help="How leave-one-out and the tests remove a word: mask, delete or block."),
]
Tests = Annotated[bool, typer.Option("--tests/--no-tests", help="Try the explanation on the text.")]
Seed = Annotated[int, typer.Option(help="Of the random orders.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="A page (.html) or a figure (.svg .png .pdf).")]
Open = Annotated[bool, typer.Option("--open", help="Open the page in the browser.")]


def explain(
    text: Text,
    pair: options.Pair = None,
    model: Model = "demo-llm",
    task: options.Task = None,
    target: TargetOption = None,
    rather: Rather = None,
    of: Of = None,
    at: At = None,
    generate: Generate = None,
    method: Method = None,
    units: Units = "words",
    removal: Removal = None,
    tests: Tests = True,
    seed: Seed = 0,
    truncate: options.Truncate = False,
    device: options.Device = "cpu",
    output: Output = None,
    json_: options.Json = None,
    open_: Open = False,
) -> None:
    options.check_target(output)
    options.check_first(models=[model])
    options.check_json(json_)
    said = options.read_text(text)
    asked: list[int] = []
    with options.telling(f"loading {model}"), lasting():
        lean()
        from headwise.explanations.explain import explain_text, load_predictor

        loaded = load_predictor(model, task, device=device)
    doing = f"asking {model} without some {units} of {_many(loaded, said, pair, truncate=truncate)}"
    print(f"{doing}, again and again …", file=sys.stderr, flush=True)
    hook = loaded.hf.register_forward_hook(lambda *_: asked.append(1))
    with options.phase(doing, far=lambda: f"{len(asked):,} pass{'es' * (len(asked) != 1)} so far"):
        found = explain_text(
            said, pair, model=loaded, target=target, rather=rather, of=of, at=at, generate=generate, method=method,
            units=units, removal=removal, tests=tests, seed=seed, truncate=truncate,
        )  # fmt: skip
    hook.remove()
    if json_ is not None:
        options.write_json(json_, _document(found))
    if output is None:
        if json_ != "-":
            _print(found)
        return
    if output.suffix in (".svg", ".png", ".pdf"):
        from headwise.plots.theme import save_chart

        save_chart(found.figure(), output)
    else:
        found.save_html(output)
    if json_ != "-":
        lines = (found.says, found.verdict.sentence if found.verdict else str(found.targets[0]))
        print("\n".join(line for line in lines if line))
    print(f"wrote {output}", file=sys.stderr)
    if open_:
        webbrowser.open(output.resolve().as_uri())


def _many(model: Loaded, text: str, pair: str | None, *, truncate: bool) -> str:
    """How long the text is, as the page counts: a sign stands alone, as a word does."""
    read = model.encode(text, None if model.is_encoder_decoder else pair, truncate=truncate)
    count = len({unit for unit, special in zip(read.unit, read.special, strict=True) if not special})
    return f"{count:,} words and signs"


def _document(found: Explanation) -> dict[str, Any]:
    """An explanation as JSON (docs/schemas/explain.json)."""
    targets = zip(found.targets, found.value.tolist(), found.log_probability.tolist(), strict=True)
    adds = None if found.adds is None else {name: parts.tolist() for name, parts in found.adds.items()}
    return {
        "schema": "headwise-explain-1", "model": found.model_name, "method": found.method, "unit": found.unit,
        "passes": found.passes, "says": found.says, "note": found.note,
        "belief": found.verdict.belief if found.verdict else None,
        "verdict": found.verdict.sentence if found.verdict else None,
        "targets": [
            {"target": str(target), "value": value, "log_probability": log, "units": found.table_of(at).to_dicts()}
            for at, (target, value, log) in enumerate(targets)
        ],
        "adds": adds,
    }  # fmt: skip


def _print(found: Explanation) -> None:
    """The verdict, the strongest units, what they add up to."""
    import math

    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from headwise.models.packaged import called
    from headwise.results.shown import number

    console = Console(highlight=False, soft_wrap=True)
    p, value = math.exp(float(found.log_probability[0])), number(float(found.value[0]), ".4g")
    first = found.targets[0]
    console.print(escape(f"{called(found.model_name)}: {first}, {value}, probability {number(p, '.3g')}{first.among}"))
    for line in (found.says, found.note):
        if line:
            console.print(escape(line))
    if found.verdict is not None:
        console.print(escape(found.verdict.sentence), style="bold")
    table = found.table
    sheet = Table(box=None, pad_edge=False, header_style="dim")
    names = [name for name in table.columns if name != "removable"]
    for name in names:
        sheet.add_column(
            found.unit.removesuffix("s") if name == "unit" else found.method if name == "score" else name,
            justify="left" if name == "unit" else "right",
        )
    for row in table.head(20).select(names).iter_rows():
        sheet.add_row(escape(str(row[0])), *("" if x is None else number(x, ".4g") for x in row[1:]))
    console.print(sheet)
    if found.adds is not None:
        parts = " + ".join(f"{name} {number(float(x[0]), '.4g')}" for name, x in found.adds.items())
        total = float(found.scores[0].nansum())
        console.print(escape(f"{found.unit} {number(total, '.4g')} + {parts} = {value}"), style="dim")
