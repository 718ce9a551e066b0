"""`headwise serve`: the viewer for texts that are typed into a page, and stored results, on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwise.cli import options

HELP = """A local web application: type a text or a pair, see its views, browse stored results and reports.

It listens at 127.0.0.1 only, for who has the token in the address that it shows, reads no file outside --results, and
runs no model but those named here. Ctrl-C ends it.

  headwise serve --open
  headwise serve --model demo --model demo-llm --port 8765
  headwise serve --model demo --model ./my-model=classification
  headwise serve --model ./my-model --task translation --results runs --port 0
"""

Models = Annotated[
    list[str] | None,
    typer.Option("--model", help="Hub id, folder, demo or tiny:NAME; more than once; NAME=TASK gives it a task."),
]
Port = Annotated[int, typer.Option(help="0 takes a free one.")]
Results = Annotated[Path, typer.Option(help="Folder whose results and reports can be browsed; nothing else is read.")]
Open = Annotated[bool, typer.Option("--open", help="Open it in the browser.")]
MaxTokens = Annotated[int, typer.Option(help="Longest text, in tokens.")]
MaxSeconds = Annotated[int, typer.Option(help="Longest time that one text may take; it is stopped then.")]
NoToken = Annotated[bool, typer.Option("--no-token", help="Answer every user of this machine, without a token.")]
MaxJobs = Annotated[int, typer.Option(help="Texts that may wait at once.")]


def serve(
    model: Models = None,
    task: options.Task = None,
    device: options.Device = "cpu",
    port: Port = 8000,
    results: Results = Path("out"),
    open_: Open = False,
    max_tokens: MaxTokens = 256,
    max_jobs: MaxJobs = 32,
    max_seconds: MaxSeconds = 300,
    no_token: NoToken = False,
) -> None:
    from headwise.server.run import serve as run_server

    run_server(
        model or ["demo"], port=port, results=results, task=task, device=device, max_tokens=max_tokens,
        max_jobs=max_jobs, max_seconds=max_seconds, token=not no_token, open_browser=open_,
    )  # fmt: skip
