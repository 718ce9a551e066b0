"""The options that several verbs share, said once."""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from headwise.errors import InputError, writing_to
from headwise.models.folders import check_name
from headwise.text.remote import is_address
from headwise.text.streams import readable

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
GROWING = (1, 4, 12, 30)  # and again when it has taken so many times as long; then each time the last of these later


@contextmanager
def phase(doing: str, after: float | None = None, far: Callable[[], str] = str) -> Iterator[None]:
    """Nothing of a short one; of a long one a line after 10, 40, 120, 300 s and every 300 s, with how `far` it is."""
    over, began = threading.Event(), time.monotonic()
    first = after if after is not None else SOON if sys.stderr.isatty() else LATE

    def tell() -> None:
        for times in chain(GROWING, count(2 * GROWING[-1], GROWING[-1])):
            if over.wait(max(0.0, began + first * times - time.monotonic())):
                return
            known = f", {said}" if (said := far()) else ""
            print(f"still {doing}, for {first * times:.0f} s{known} …", file=sys.stderr, flush=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


RUNNING = "running "  # begins the line after which a run itself tells how far it is


@contextmanager
def telling(doing: str) -> Iterator[Callable[[str], None]]:
    """Says at once what is done, and now and then that it still is, until the next line is told; then so of that."""
    with ExitStack() as still:

        def say(line: str) -> None:
            still.close()
            print(line, file=sys.stderr, flush=True)
            if not line.startswith(RUNNING):
                still.enter_context(phase(line.removesuffix(" …")))

        say(f"{doing} …")
        yield say


def check_first(
    *, models: Iterable[str] = (), corpora: Iterable[str | None] = (), out: str | Path | None = None
) -> None:
    """What a slip of the pen costs nothing to find, before torch is imported: paths that are not there, or no folder.

    Names of the hub, addresses and standard input are left to whoever opens them; a model may be the folder of a
    stored result.
    """
    for name in corpora:
        if name is not None and name not in ("sample", "-") and not name.startswith("hf:") and not is_address(name):
            _check_file(name)
    for name in models:
        if not os.path.isfile(os.path.join(name, "manifest.json")):
            check_name(name)
    if out is not None and not is_address(str(out)):
        check_folder(Path(out))


def _check_file(name: str) -> None:
    try:
        plain = stat.S_ISREG(os.stat(name).st_mode)
    except FileNotFoundError:
        plain = True
    except (OSError, ValueError):  # too long, a NUL in it: told where it is opened
        return
    if plain:
        with readable(name, Path(name)):
            return


def check_folder(folder: Path) -> None:
    """Whether results can be written to it, as far as that can be seen without making it."""
    with writing_to(folder):
        if folder.exists() and not folder.is_dir():
            raise OSError(errno.EEXIST, "")
        there = next(up for up in (folder, *folder.absolute().parents) if up.exists())
        if not there.is_dir():
            raise OSError(errno.ENOTDIR, "")
        if not os.access(there, os.W_OK | os.X_OK):
            raise OSError(errno.EACCES, "")


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


def check_json(where: str | None) -> None:
    if where not in (None, "-"):
        check_folder(Path(where).parent)


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
