"""`headwise verdict`: one page for whoever must decide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from headwise.cli import options, run
from headwise.cli.fail_if import FailIf, end, failures, parsed, read
from headwise.cli.remembered import listed
from headwise.errors import InputError

HELP = """May a heatmap of this model's attention be shown as an explanation? Yes, with care, or no, on one page.

Undecided where every test has fewer than four texts. With it the numbers that decided, with n and interval, what may
be written and what not, the model's name and hash. Of a classifier what attention names is tested against its answer
too; labels (--label) tell its accuracy. --fail-if is for pipelines.

  headwise verdict demo --corpus texts.jsonl --out out/verdict
  headwise verdict ./my-model --task classification --corpus dev.tsv --label label --out out/verdict
  headwise verdict demo --fail-if "verdict<with care" --fail-if "sink_share>0.5" --out out/verdict
"""
Name = Annotated[str, typer.Argument(help="Hub id, folder, demo, demo-llm, demo-base, demo-nmt or tiny:NAME.")]
Out = Annotated[Path, typer.Option(help="Folder for verdict.html, .md, .json, the card and the results.")]
Studies = Annotated[str, typer.Option(help="What is run, where it applies; ablation, mixing, adversary cost more.")]
Card = Annotated[bool, typer.Option("--card", help="Print the section for a model card, and nothing else.")]
Json = Annotated[bool, typer.Option("--json", help="Print the verdict as JSON, and nothing else.")]
USUAL = "lamps,nullspace,norms,faithfulness"


def verdict(
    name: Name = "demo",
    corpus: run.Corpus = "sample",
    out: Out = Path("verdict"),
    studies: Studies = USUAL,
    fail_if: FailIf = None,
    card: Card = False,
    json_: Json = False,
    task: options.Task = None,
    device: options.Device = "cpu",
    kind: run.Kind = None,
    columns: run.Columns = None,
    segments: run.Segments = None,
    label: run.Label = None,
    first: run.First = None,
    set_: run.Set = None,
    truncate: run.Truncate = False,
    max_tokens: run.MaxTokens = None,
    seed: run.Seed = 0,
) -> None:
    options.check_first(models=[name], corpora=[corpus], out=out)
    read(fail_if or [])  # before the names are asked for, which may import torch
    asks = dict.fromkeys(row[0] for row in listed("fail-if", _may_ask)) if fail_if else {}
    scales = {"verdict": [row[1] for row in listed("fail-if", _may_ask) if len(row) > 1]} if fail_if else {}
    conditions = parsed(fail_if or [], asks, scales=scales)
    if label is None and any("accuracy" in condition for condition in fail_if or []):
        raise InputError("accuracy is that of labelled texts, but no column of labels is named; give --label COLUMN.")
    with options.telling(f"loading {name}") as say:
        from headwise.cli.settings import settings_of
        from headwise.reports.make import verdict as make
        from headwise.reports.onepage import card as card_of
        from headwise.reports.verdict import plain

        names = [one.strip() for one in studies.split(",")]
        found = make(
            name, corpus=corpus, out=out, studies=names, task=task, device=device,
            **run.reading(kind=kind, columns=columns, segments=segments, label=label, first=first),
            settings=settings_of(",".join(names), None, set_ or []), truncate=truncate, max_tokens=max_tokens,
            seed=seed, progress="lines", say=say,
        )  # fmt: skip
    run.tell_skipped(found.facts["corpus"], found.facts["skipped"])
    if json_:
        print(json.dumps(plain(found.to_json()), ensure_ascii=False, indent=1))
    elif card:
        print(card_of(found))
    else:
        print(found.short)
        print(f"wrote {out}/verdict.html, verdict.md, verdict.json and card.md")
    end(failures(conditions, found.found(), scales=scales))


def _may_ask() -> list[list[str]]:
    """What --fail-if may ask: every name, and each word of the verdict, the worst first."""
    from headwise.reports.verdict import DECISIONS, NAMES

    return [*([name] for name in NAMES), *(["verdict", word] for word in DECISIONS)]
