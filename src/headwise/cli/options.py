"""The options that several verbs share, said once."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from headwise.errors import InputError

T = TypeVar("T")
Pair = Annotated[str | None, typer.Argument(help="A second text; the target for translation models.")]
Model = Annotated[str, typer.Option(help="Hub id, folder, demo, demo-llm, demo-base, demo-nmt or tiny:NAME.")]
Task = Annotated[
    str | None,
    typer.Option(
        help="Load a head too: masked-lm, causal-lm, classification, token-classification, translation; "
        "or the encoder alone: encoder."
    ),
]
Device = Annotated[str, typer.Option(help="Where the model runs: cpu, cuda, cuda:1 or mps.")]
Truncate = Annotated[bool, typer.Option("--truncate", help="Cut a text that is too long for the model.")]


def renamed(new: T, old: T | None, *, was: str, now: str) -> T:
    """The value of an option that has another name now: the old one still works, and says so in one line."""
    if old is None:
        return new
    print(f"headwise: {was} is called {now} now; the old name works until the next release.", file=sys.stderr)
    return old


def read_text(text: str) -> str:
    """The argument, or standard input for `-`."""
    if text != "-":
        return text
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"Standard input must be UTF-8, but byte {error.start} is not; convert it first.") from None


def check_target(path: Path | None) -> None:
    """Before the work, not after it."""
    if path is not None and not path.parent.is_dir():
        raise InputError(f"The folder of {path} must exist, but {path.parent} does not; make it first.")


Json = Annotated[str | None, typer.Option("--json", help="Write the numbers as JSON; - for standard output.")]


def write_json(where: str, content: Mapping[str, Any]) -> None:
    """To standard output for -, else to a file; a number that is not finite is null."""
    import json

    from headwise.results.files import write_files
    from headwise.results.result import finite

    text = json.dumps(finite(content), ensure_ascii=False, indent=1, allow_nan=False)
    if where == "-":
        print(text)
        return
    write_files(Path(where).parent, {Path(where).name: (text + "\n").encode()})
