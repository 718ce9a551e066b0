"""`headwise view`: the viewer's page of one text, in one file that needs no network."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from headwise.cli import options
from headwise.errors import InputError

HELP = """One offline HTML page of a text: every quantity, every head, and when not to believe a map.

  headwise view "The trophy does not fit in the suitcase because it is too big." -o out.html
  headwise view "Der Hund bellt." "The dog barks." --model my-marian --task translation --open
  headwise view --from trace.safetensors -o out.html
"""

Text = Annotated[str | None, typer.Argument(help="The text; - reads it from standard input.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="The page to write.")]
Open = Annotated[bool, typer.Option("--open", help="Open it in the browser.")]
From = Annotated[Path | None, typer.Option("--from", help="A trace saved by trace.save or `inspect --save`.")]


def view(
    text: Text = None,
    pair: options.Pair = None,
    output: Output = Path("headwise.html"),
    open_: Open = False,
    from_: From = None,
    model: options.Model = "demo",
    task: options.Task = None,
    truncate: options.Truncate = False,
) -> None:
    options.check_target(output)
    if (text is None) == (from_ is None):
        raise InputError("A page shows either a text or a saved trace; pass one TEXT, or --from FILE, and not both.")
    if from_ is not None:
        from headwise.traces.saved import open_trace

        trace = open_trace(from_)
    else:
        from headwise.models.load import load

        trace = load(model, task=task).trace(options.read_text(str(text)), pair, truncate=truncate)
    path = trace.save_html(output)
    print(f"wrote {path} ({path.stat().st_size / 2**20:.1f} MB); open it in any browser, it needs no network")
    if open_:
        webbrowser.open(path.resolve().as_uri())
