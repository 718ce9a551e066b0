"""`headwise view`: the viewer's page of one text, in one file that needs no network."""

from __future__ import annotations

import re
import sys
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.changes import STACKS
from headwise.cli import options
from headwise.cli.lean import lasting, lean
from headwise.errors import InputError

if TYPE_CHECKING:
    from headwise.models.model import Model
    from headwise.traces import Trace
    from headwise.viewer.payload import Page

HELP = """One offline HTML page of a text: every head, and when not to believe its map.

It has what is quick to compute (weights, norms, rollout); --with names others beside it, --everything takes all.

  headwise view "The trophy does not fit in the suitcase because it is too big." --out out.html
  headwise view "Der Hund bellt." "The dog barks." --model my-marian --task translation --open
  headwise view "Once upon a time" --model demo-llm --with hidden-token,globenc --matters
  headwise view "Once upon a time" --model demo-llm --off L5.H3,L2.H1
  headwise view "She saw the dog." --model demo-base --syntax out/syntax
  headwise view --image cat.png --model google/vit-base-patch16-224
  headwise view --audio said.wav --model demo-whisper --task transcription
  headwise view - --model demo-llm --keep top < chapter.txt
  headwise view --from trace.safetensors --out out.html
"""

Text = Annotated[str | None, typer.Argument(help="The text; - reads it from standard input.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="The page to write.")]
Output = Annotated[Path | None, typer.Option("--output", hidden=True)]
Quantities = Annotated[
    str | None,
    typer.Option(help="Only these, with commas between; see `headwise list quantities`.", show_default=False),
]
With = Annotated[
    str | None, typer.Option("--with", help="Further quantities, with commas between.", show_default=False)
]
Everything = Annotated[bool, typer.Option("--everything", help="Every quantity, and what matters; takes longer.")]
Matters = Annotated[
    bool,
    typer.Option("--matters", help="Ask what the model loses without each head; switch off those that move it most."),
]
Exact = Annotated[
    bool, typer.Option("--exact", help="The same by taking every head away, however long: a pass for two heads.")
]
Off = Annotated[
    str | None, typer.Option(help="Heads that the page can switch off, e.g. L5.H3,L2.H1.", show_default=False)
]
Syntax = Annotated[
    Path | None,
    typer.Option(help="A run of `syntax` on this model; its best heads join the strip.", show_default=False),
]
Open = Annotated[bool, typer.Option("--open", help="Open it in the browser.")]
From = Annotated[Path | None, typer.Option("--from", help="A trace saved by trace.save or `inspect --save`.")]

LARGE = 20 * 2**20  # bytes of a page, above which the way to a smaller one is told


def view(
    text: Text = None,
    pair: options.Pair = None,
    image: options.Image = None,
    audio: options.Audio = None,
    out: Out = Path("headwise.html"),
    output: Output = None,
    quantities: Quantities = None,
    with_: With = None,
    everything: Everything = False,
    matters: Matters = False,
    exact: Exact = False,
    off: Off = None,
    syntax: Syntax = None,
    open_: Open = False,
    from_: From = None,
    model: options.Model = "demo",
    task: options.Task = None,
    truncate: options.Truncate = False,
    keep: options.Keep = "all",
    device: options.Device = "cpu",
) -> None:
    out = options.renamed(out, output, was="--output", now="--out")
    options.check_target(out)
    options.check_first(models=[model] if from_ is None else [])
    senses = image is not None or audio is not None
    if (text is None and not senses) == (from_ is None):
        raise InputError("A page shows either a text or a saved trace; pass one TEXT, or --from FILE, and not both.")
    if senses and (with_ is not None or everything or matters or exact or off is not None or syntax is not None):
        raise InputError("A page of a picture or a sound has attention alone; pass --quantities, or none of the rest.")
    if quantities is not None and (with_ is not None or everything):
        raise InputError(
            "--quantities names all that the page has, so --with and --everything do not apply; leave one out."
        )
    heads, _ = named_heads(off), choices_of(quantities, with_, everything=everything)  # before a model is loaded
    with lasting():
        lean()
        from headwise.models.heads import own_task
        from headwise.models.load import load
        from headwise.traces import LongTrace

    if from_ is not None:
        from headwise.traces.saved import open_trace

        trace = open_trace(from_)
    else:
        print(f"loading {model}, then tracing what it reads …", file=sys.stderr, flush=True)
        with options.phase(f"loading {model}"), lasting():
            loaded = load(model, task=own_task(model) if task is None else task, device=device)
        check_heads(loaded, heads)
        trace = options.read_by(loaded, text, pair, image, audio, truncate=truncate, keep=keep)
    long = isinstance(trace, LongTrace)
    if long and (with_ is not None or everything or matters or exact or off is not None or syntax is not None):
        raise InputError("A page of a long text has what its trace keeps; pass --quantities, or none of the rest.")
    chosen: dict[str, Any] = choices_of(quantities, with_, everything=everything or senses or long)
    if not (senses or long):
        chosen |= {"matters": "exact" if exact else matters or everything, "off": heads, "syntax": syntax}
    with options.phase(f"computing what the page shows ({dear(chosen)})"):
        path = trace.save_html(out, **chosen) if senses or long else saved(trace, out, chosen)
    print(written(path, path.stat().st_size))
    if open_:
        webbrowser.open(path.resolve().as_uri())


def dear(chosen: Mapping[str, Any]) -> str:
    """What was asked for of a page, by name.

    >>> dear({"quantities": ["raw", "hidden-token"], "off": ["L0.H1"], "matters": "exact"})
    'raw, hidden-token, what each head matters, the model without L0.H1'
    """
    named = chosen.get("quantities") or chosen.get("besides") or []
    matters = ["what each head matters"] if chosen.get("matters") else []
    off = [f"the model without {', '.join(chosen['off'])}"] if chosen.get("off") else []
    every = [] if {"quantities", "besides"} & set(chosen) else ["every quantity"]
    return ", ".join([*named, *every, *matters, *off]) or "its maps"


def saved(trace: Trace, out: Path, chosen: Mapping[str, Any]) -> Path:
    """The page of a text as a file; what it was asked for and does not have is told on the terminal."""
    from headwise.viewer.view import view_of

    made = view_of(trace, **chosen)
    for line in lacking(made.page, chosen.get("quantities", chosen.get("besides"))):
        print(line, file=sys.stderr)
    return made.save(out)


def written(path: Path, size: int) -> str:
    """Where the page is and how large; what to leave out where a browser will take long to open it."""
    large = "" if size <= LARGE else "; it is large: --keep top, fewer --quantities or a shorter text makes it smaller"
    return f"wrote {path} ({size / 2**20:.1f} MB); open it in any browser, it needs no network{large}"


def lacking(page: Page, asked: Sequence[str] | None) -> list[str]:
    """Of what was asked for (None: everything), a line for each that the page does not have, with the reason.

    A page that would have nothing at all is an error.
    """
    there = {maps.name for stack in page.stacks for maps in stack.quantities}
    reasons = {name: reason for name, reason in page.missing if name not in there}
    if not there:
        raise InputError("; ".join(reasons.values()) or "This text has nothing to show; pass a longer one.")
    told = {name: reason for name, reason in reasons.items() if asked is None or name in asked}
    return [f"not on the page: {why if why.startswith(name) else f'{name}. {why}'}" for name, why in told.items()]


def choices_of(quantities: str | None, with_: str | None, *, everything: bool) -> dict[str, list[str]]:
    """What is asked of the page: named quantities alone, everything, or what is quick and some besides."""
    if quantities is not None:
        return {"quantities": names_of(quantities)}
    return {} if everything else {"besides": names_of(with_) if with_ else []}


def named_heads(off: str | None) -> list[str] | None:
    """The heads named, each spelled as a head is; whether the model has them, `check_heads` asks.

    >>> named_heads("L5.H3, cross L1.H2")
    ['L5.H3', 'cross L1.H2']
    """
    names = None if off is None else [name.strip() for name in off.split(",")]
    for name in names or ():
        stack, _, head = name.rpartition(" ")
        if stack not in ("", *STACKS) or re.fullmatch(r"L\d{1,6}\.H\d{1,6}", head) is None:
            raise InputError(f"A head is named L5.H3, or cross L1.H2 where there are several stacks, but got {name!r}.")
    return names


def check_heads(model: Model, names: Sequence[str] | None) -> None:
    """Refuse heads that the model does not have, before it reads anything."""
    from headwise.interventions.off import head_named

    for name in names or ():
        head_named(model, name)


def names_of(quantities: str) -> list[str]:
    """The quantities named, each known to be there."""
    from headwise.registry import unknown
    from headwise.viewer.of_trace import shown

    there, names = [each.name for each in shown()], [name.strip() for name in quantities.split(",")]
    for name in names:
        if name not in there:
            raise unknown("quantity", name, there)
    return names
