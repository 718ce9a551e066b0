"""`headwise report`: the main job in one command."""

from __future__ import annotations

import json
import shlex
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from headwise.cli import options, run

HELP = """Run every study that applies to a model and a corpus, and write one page that answers in plain words.

May attention of this model be read as an explanation? Which heads do what? Where does information mix? What is noise?
The page needs no network; the results are beside it. The same command again goes on after a crash.

  headwise report --out out
  headwise report --model bert-base-uncased --task masked-lm --corpus wiki.txt --segments 128 --budget 10 --out out
  headwise report --corpus en_ewt-ud-test.conllu --studies surface,syntax --out out
"""
Out = Annotated[Path, typer.Option(help="Folder for the page and the results.")]
Studies = Annotated[str | None, typer.Option(help="Names with commas between; all that apply otherwise.")]
Budget = Annotated[float | None, typer.Option(help="Minutes, about: bounds how many texts are read.")]
Controls = Annotated[
    int,
    typer.Option(min=0, help="Untrained networks of each kind that read 64 texts too, for the claims of the papers."),
]
Card = Annotated[bool, typer.Option("--card", help="Print the section for a model card, and nothing else.")]
Open = Annotated[bool, typer.Option("--open", help="Open it in the browser.")]


def report(
    out: Out = Path("out"),
    model: options.Model = "demo",
    task: options.Task = None,
    device: options.Device = "cpu",
    corpus: run.Corpus = "sample",
    studies: Studies = None,
    budget: Budget = None,
    kind: run.Kind = None,
    columns: run.Columns = None,
    segments: run.Segments = None,
    label: run.Label = None,
    first: run.First = None,
    set_: run.Set = None,
    truncate: run.Truncate = False,
    max_tokens: run.MaxTokens = None,
    engine: run.EngineName = "local",
    address: run.Address = None,
    workers: run.Workers = None,
    threads: run.Threads = None,
    seed: run.Seed = 0,
    controls: Controls = 0,
    card: Card = False,
    open_: Open = False,
) -> None:
    options.check_first(models=[model], corpora=[corpus], out=out)
    with options.telling(f"loading {model}") as say:
        from headwise.cli.settings import settings_of
        from headwise.reports import report as make
        from headwise.studies import STUDIES

        names = [name.strip() for name in studies.split(",")] if studies else None
        path = make(
            model, corpus=corpus, out=out, studies=names, budget=budget, task=task, device=device,
            **run.reading(kind=kind, columns=columns, segments=segments, label=label, first=first),
            settings=settings_of(",".join(names or STUDIES), None, set_ or []), truncate=truncate,
            max_tokens=max_tokens, engine=engine, address=address, workers=workers, threads=threads, seed=seed,
            progress="lines", controls=controls, command=shlex.join(["headwise", *sys.argv[1:]]), say=say,
        )  # fmt: skip
    facts = json.loads((out / "verdict.json").read_text("utf-8"))["facts"]
    run.tell_skipped(facts["corpus"], facts["skipped"])
    if card:
        print((out / "card.md").read_text("utf-8"))
        return
    print(f"wrote {path} ({path.stat().st_size / 2**20:.1f} MB); open it in any browser, it needs no network")
    if open_:
        webbrowser.open(path.resolve().as_uri())
