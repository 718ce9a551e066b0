"""`headwise reproduce`: a paper's figures and tables by name, on any model, with a verdict for each claim."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from headwise.cli import options, run
from headwise.cli.remembered import listed
from headwise.errors import InputError
from headwise.registry import unknown

HELP = """The figures and tables of a paper by their names, on any model: the paper's value, ours, and whether it holds.

Papers: clark2019, brunner2019, brunner2020, kobayashi2020, yang. What cannot be run says what it takes.

  headwise reproduce --list
  headwise reproduce clark2019 --item fig2-top --data DATA --out out
  headwise reproduce kobayashi2020 --data DATA --model bert-base-uncased --out out
  headwise reproduce brunner2020 --item fig12 --model TUNED --against bert-base-uncased --data DATA --out out
  headwise reproduce yang --item table1 --set lambdas=0.2,0.5,1,2,3 --data DATA --out out
"""
Name = Annotated[str | None, typer.Argument(help="The paper, as clark2019.", show_default=False)]
ItemName = Annotated[list[str] | None, typer.Option("--item", help="An item by its name; all otherwise. Repeatable.")]
ROOM = 150  # columns of a terminal from which the claims stand in a table
Data = Annotated[Path | None, typer.Option(help="Folder of the data; --list says what it must hold.")]
List = Annotated[bool, typer.Option("--list", help="Every item and what it needs.")]
Controls = Annotated[int, typer.Option(min=0, help="Untrained networks of each kind that read the same texts.")]
Against = Annotated[
    str | None,
    typer.Option(help="The model that --model was fine-tuned from, for items that draw both (brunner2020 fig12–13)."),
]
ControlTexts = Annotated[int, typer.Option(min=2, help="Documents that each of these networks reads.")]
Out = Annotated[Path, typer.Option(help="Folder for results, figures and verdicts.csv.")]


def reproduce(
    paper: Name = None,
    item: ItemName = None,
    data: Data = None,
    out: Out = Path("out"),
    list_: List = False,
    model: options.Model = "demo",
    task: options.Task = None,
    device: options.Device = "cpu",
    first: run.First = None,
    controls: Controls = 3,
    control_texts: ControlTexts = 64,
    against: Against = None,
    set_: run.Set = None,
    engine: run.EngineName = "local",
    workers: run.Workers = None,
    threads: run.Threads = None,
    json_: options.Json = None,
) -> None:
    if list_:
        _print_items(paper)
        return
    given = "A paper and --data FOLDER must be given; `headwise reproduce --list` shows what there is."
    if paper is None:
        raise InputError(given)
    options.check_first(models=[model] if against is None else [model, against], out=out)
    _of(paper, listed("reproduce", _items))
    from headwise.papers import Job
    from headwise.papers.items import chosen_items
    from headwise.papers.reproduce import reproduce as make

    chosen = [one.job for one in chosen_items(paper, item or [])]
    if data is None:
        raise InputError(given)
    studies = list(dict.fromkeys(job.study for job in chosen if isinstance(job, Job)))
    if chosen and not studies and model != "demo":
        raise InputError(f"{paper} trains taggers of its own, so --model does not apply; leave it out.")
    with options.telling(f"loading {model}" if studies else f"running {paper}") as say:
        table = make(
            paper, data=data, out=out, model=model, task=task, device=device, items=item or [],
            first=first, controls=controls, control_texts=control_texts, against=against,
            settings=_settings(paper, studies, set_), engine=engine, workers=workers,
            threads=threads, say=say,
        )  # fmt: skip
    if json_ is not None:
        of = model if studies else None
        document = {"schema": "headwise-reproduce-1", "paper": paper, "model": of, "claims": table.to_dicts()}
        options.write_json(json_, document)
    if json_ != "-":
        _print_verdicts(table, model if studies else "here")
        drawn = f", {out}/figures" if (out / "figures").is_dir() else ""
        print(f"wrote {out}/verdicts.csv{drawn}")


def _settings(paper: str, studies: list[str], assignments: list[str] | None) -> dict[str, dict[str, Any]] | None:
    """What --set says to the studies of a paper, or to the plan of one that trains models of its own."""
    if not assignments:
        return None
    from headwise.cli.settings import plan_of, settings_of

    if studies:
        return settings_of(",".join(studies), None, assignments)
    from headwise.papers.chunking import Plan

    return {paper: plan_of(Plan, assignments, whose=f"the plan of {paper}")}


def _print_items(paper: str | None) -> None:
    """The items of a paper, or of all; without importing what they are made of, once that was done."""
    rows = listed("reproduce", _items)
    for name, items in groupby(rows if paper is None else _of(paper, rows), lambda row: row[0]):
        _print_paper(name, list(items))


def _of(paper: str, rows: list[list[str]]) -> list[list[str]]:
    """The rows of a paper, which must be there."""
    found = [row for row in rows if row[0] == paper]
    if not found:
        raise unknown("paper", paper, list(dict.fromkeys(row[0] for row in rows)))
    return found


def _print_paper(name: str, rows: list[list[str]]) -> None:
    """Its items, one a line, and what they need, each said once."""
    from headwise.cli.printed import say, terminal

    width = terminal()
    print(name)
    wide = max(len(item) for _, item, *_ in rows)
    for _, item, shows, study, _ in rows:
        say(f"{item:<{wide}}  {shows} [{study}]", width)
    needs: dict[str, list[str]] = {}
    for _, item, _, _, need in rows:
        needs.setdefault(need, []).append(item.partition(",")[0])
    for need, items in needs.items():
        say(f"{', '.join(items)} need{'s' if len(items) == 1 else ''} {need}" if need else "", width, indent="    ")


def _items() -> list[list[str]]:
    from headwise.papers import PAPERS, Job

    rows = []
    for one in PAPERS.values():
        for item in one.items:
            job = item.job
            needs = ", ".join(filter(None, [job.get, getattr(job, "model", "")]))
            study = job.study if isinstance(job, Job) else "(trains)"
            rows.append([one.name, ", ".join((item.id, *item.also)), item.shows, study, needs])
    return rows


def _print_verdicts(table: Any, here: str) -> None:
    """One row a claim; why it is undecided stands under the verdict."""
    verdicts = [f"{row['verdict']}: {row['why']}" if row["why"] else row["verdict"] for row in table.to_dicts()]
    told = table.select("item", "claim", "theirs", "ours", "n", "control", "rule").rows()
    rows = [(*row[:6], verdict, row[6]) for row, verdict in zip(told, verdicts, strict=True)]
    _print(rows, ["item", "claim", "paper", here, "n", "control", "verdict", "rule"])


def _print(rows: list[tuple[str, ...]], columns: list[str]) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from headwise.cli.printed import say, terminal

    width = terminal()
    if width is not None and width < ROOM:  # a cell would be a word wide
        for first, second, *rest in rows:
            say(f"{first}: {second}", width, indent="")
            for column, cell in zip(columns[2:], rest, strict=True):
                say(f"{column}: {cell}" if cell else "", width)
        return
    table = Table(*columns, box=SIMPLE, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console(width=width or 200).print(table)
