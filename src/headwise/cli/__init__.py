"""The command line: one file a verb. Heavy packages are imported inside the verbs, so `--help` answers at once."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn, TextIO, cast

import typer

from headwise.cli import (
    align,
    cite,
    compare,
    doctor,
    explain,
    inspect,
    list_,
    report,
    reproduce,
    run,
    serve,
    verdict,
    view,
)
from headwise.cli.ranges import in_range
from headwise.errors import HeadwiseError
from headwise.text.terminal import Guarded, visible

app = typer.Typer(
    name="headwise",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="What is this transformer attending to, and may I believe it?\n\nStart with: headwise report --out out",
)


def _version(wanted: bool) -> None:
    if wanted:
        import headwise

        print(f"headwise {headwise.__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", help="Say which version this is.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    pass


def flowing(help_: str) -> str:
    """The help of a verb as a terminal of any width wraps it: a paragraph is one line, an example as well.

    >>> flowing("What it does.\\n\\nA sentence that\\ngoes on.\\n\\n  headwise show out\\n  headwise show in\\n")
    'What it does.\\n\\nA sentence that goes on.\\n\\nExamples:\\n  headwise show out\\n  headwise show in'
    """
    # subtle: typer takes the indent of a first line away, so the examples have a line above them
    parts = help_.strip("\n").split("\n\n")
    return "\n\n".join(f"Examples:\n{part}" if part[0] == " " else part.replace("\n", " ") for part in parts)


app.command("report", help=flowing(report.HELP))(in_range(report.report))
app.command("verdict", help=flowing(verdict.HELP))(in_range(verdict.verdict))
app.command("inspect", help=flowing(inspect.HELP))(in_range(inspect.inspect))
app.command("explain", help=flowing(explain.HELP))(in_range(explain.explain))
app.command("cite", help=flowing(cite.HELP))(in_range(cite.cite))
app.command("view", help=flowing(view.HELP))(in_range(view.view))
app.command("run", help=flowing(run.RUN_HELP))(in_range(run.run))
app.command("show", help=flowing(run.SHOW_HELP))(in_range(run.show))
app.command("reproduce", help=flowing(reproduce.HELP))(in_range(reproduce.reproduce))
app.command("compare", help=flowing(compare.HELP))(in_range(compare.compare))
app.command("serve", help=flowing(serve.HELP))(in_range(serve.serve))
app.command("align", help=flowing(align.HELP))(in_range(align.align))
app.command("doctor", help=flowing(doctor.HELP))(in_range(doctor.doctor))
app.command("list", help=flowing(list_.HELP))(in_range(list_.list_))


CommandError: type[Exception] = typer.BadParameter.__mro__[2]  # pyright: ignore[reportAssignmentType] - what every mistake in the options is, wherever typer keeps it


STOPPED = 130  # as a shell says it of Ctrl-C
SELDOM = (50_000, 20, 20)  # of the garbage collector: importing transformers makes it look for nothing


def told(error: Any) -> NoReturn:
    """A mistake in the options is one line; without any, the help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        verb = error.ctx.command_path if getattr(error, "ctx", None) is not None else "headwise"
        print(f"headwise: {visible(error.format_message()).rstrip('.')}; see `{verb} --help`.", file=sys.stderr)
    sys.exit(error.exit_code)


def main() -> None:
    """Run the command line: a user's mistake is one line on standard error and exit code 2, never a traceback."""
    # subtle: read when torch is imported, which no verb has done yet. Threads that wait for work would spin, and of a
    # short text that is most of what a processor does.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    atexit.register(gc.freeze)  # else Python looks through all of torch and transformers once more before it ends
    with _careful():
        try:
            code = app(standalone_mode=False)
            if code == STOPPED:  # subtle: typer turns Ctrl-C into this code, without a word
                print("headwise: stopped.", file=sys.stderr)
            sys.exit(code if isinstance(code, int) else 0)
        except CommandError as error:
            told(error)
        except HeadwiseError as error:
            print(f"headwise: {visible(str(error))}", file=sys.stderr)
            sys.exit(2)
        except BrokenPipeError:  # the reader (`head`, a pager) has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        except KeyboardInterrupt:
            print("headwise: stopped.", file=sys.stderr)
            sys.exit(STOPPED)


@contextmanager
def _careful() -> Iterator[None]:
    """Texts, names and tokens are data: none may steer the terminal. SIGTERM is as Ctrl-C: locks and workers go."""
    stdout, stderr = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, Guarded(stream)) for stream in (stdout, stderr))
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    often = gc.get_threshold()
    gc.set_threshold(*SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*often)
        sys.stdout, sys.stderr = stdout, stderr
        signal.signal(signal.SIGTERM, before)
