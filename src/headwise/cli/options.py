"""The options that several verbs share, said once."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from headwise.errors import InputError

if TYPE_CHECKING:
    from headwise.models.model import Model as Loaded

T = TypeVar("T")
Pair = Annotated[str | None, typer.Argument(help="A second text; the target for translation models.")]
Model = Annotated[str, typer.Option(help="Hub id, folder, demo, demo-llm, demo-base, demo-nmt or tiny:NAME.")]
Task = Annotated[
    str | None,
    typer.Option(
        help="Load a head too: masked-lm, causal-lm, classification, token-classification, question-answering, "
        "translation; or the encoder alone: encoder."
    ),
]
Device = Annotated[str, typer.Option(help="Where the model runs: cpu, cuda, cuda:1 or mps.")]
Image = Annotated[Path | None, typer.Option(help="A picture in place of the text: PNG, or what Pillow opens.")]
Audio = Annotated[Path | None, typer.Option(help="A WAV file in place of the text; TEXT is then what is said in it.")]
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


def read_by(
    model: Loaded,
    text: str | None,
    pair: str | None,
    image: Path | None,
    audio: Path | None,
    *,
    truncate: bool,
    keep: Any = "all",
) -> Any:
    """The text, the picture or the sound, through the model: a Trace, or with keep="top" a LongTrace."""
    said = None if text is None else read_text(text)
    if (image is not None and said is not None) or (image is None and audio is None and said is None):
        raise InputError("A model reads one of TEXT, --image FILE and --audio FILE; pass one of them.")
    with layers_told(model) if keep != "all" else phase("reading it"):
        if image is not None:
            return model.trace(image=image, keep=keep)
        if audio is not None:
            return model.trace(audio=audio, pair=said, keep=keep)
        return model.trace(said, pair, truncate=truncate, keep=keep)


def waiting(line: str) -> None:
    """For whoever waits; a script reads one line, and only of what went wrong."""
    if sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)


SOON, LATE = 3.0, 10.0  # seconds before a terminal, or a log, is told what takes so long


@contextmanager
def phase(doing: str, after: float | None = None) -> Iterator[None]:
    """Nothing of a short one; of a long one a line when it has taken `after` seconds, and 4, 16, … times as many."""
    over, began = threading.Event(), time.monotonic()
    first = after if after is not None else SOON if sys.stderr.isatty() else LATE

    def tell() -> None:
        due = first
        while not over.wait(max(0.0, began + due - time.monotonic())):
            print(f"still {doing}, for {due:.0f} s …", file=sys.stderr, flush=True)
            due *= 4

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


@contextmanager
def layers_told(model: Loaded, every: float = 5.0) -> Iterator[None]:
    """Of passes that take long, every few seconds how many layers were read; a trace passes twice, to prove itself."""
    done, said, total = 0, time.monotonic(), 2 * len(model.proof.sites)

    def tell(*_: Any) -> None:
        nonlocal done, said
        done += 1
        if time.monotonic() - said >= every:
            said = time.monotonic()
            waiting(f"read {min(done, total)} of {total} layers (each twice) …")

    hooks = [module.register_forward_hook(tell) for module in {site.projection for site in model.proof.sites}]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def check_target(path: Path | None) -> None:
    """Before the work, not after it."""
    if path is not None and not path.parent.is_dir():
        raise InputError(f"The folder of {path} must exist, but {path.parent} does not; make it first.")


Keep = Annotated[
    str,
    typer.Option(help="top: of a long text the 16 strongest entries of every row, and sums over blocks of tokens."),
]
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
