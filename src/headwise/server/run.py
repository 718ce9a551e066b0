"""The server itself: a socket on 127.0.0.1, an address that is said, an end that is clean."""

from __future__ import annotations

import errno
import secrets
import signal
import socket
import sys
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headwise.errors import InputError, ModelError

if TYPE_CHECKING:
    from headwise.models.model import Model

HOST = "127.0.0.1"
SECONDS = 5  # that open connections get to end
CONNECTIONS = 256  # at once; more get 503
WARM = "The quick brown fox jumps over the lazy dog."


def serve(
    models: Sequence[str],
    *,
    port: int,
    results: Path,
    task: str | None = None,
    device: str = "cpu",
    max_tokens: int = 256,
    max_jobs: int = 32,
    max_seconds: int = 300,
    token: bool = True,
    open_browser: bool = False,
    say: Callable[[str], None] = print,
) -> None:
    """Load the models, listen, and answer until SIGINT or SIGTERM; then end the jobs and return.

    With `token`, the address that is said has a secret of this server in it, and nobody is answered without.
    """
    try:
        import uvicorn

        from headwise.server.app import application
    except ImportError as error:
        raise InputError(
            f"The server needs starlette and uvicorn, but {error.name} is not installed: pip install 'headwise[serve]'."
        ) from None
    from headwise.models.heads import own_task
    from headwise.models.load import load

    for name, least, value in (("--max-tokens", 1, max_tokens), ("--max-jobs", 1, max_jobs)):
        if value < least:
            raise InputError(f"{name} must be at least {least}, but {value} was given.")
    listener = listening(port)
    with listener:
        number = listener.getsockname()[1]
        secret = secrets.token_urlsafe(24) if token else None
        address = f"http://{HOST}:{number}" + (f"/?token={secret}" if secret else "")
        loaded = {}
        for name, asked in named(models, task).items():
            print(f"loading {name} …", file=sys.stderr, flush=True)
            loaded[name] = load(name, task=own_task(name) if asked is None else asked, device=device)
            _warm(loaded[name])

        def ready() -> None:
            say(f"headwise is at {address} (Ctrl-C ends it)")
            if open_browser:
                webbrowser.open(address)

        app = application(
            loaded, port=number, results=results.absolute(), max_tokens=max_tokens, max_jobs=max_jobs,
            max_seconds=max_seconds, token=secret, ready=ready,
        )  # fmt: skip
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, ws="none", server_header=False, lifespan="on",
            timeout_graceful_shutdown=SECONDS, proxy_headers=False, limit_concurrency=CONNECTIONS,
        )  # fmt: skip
        # subtle: after its clean end uvicorn raises the signal again for whoever handled it before; nobody needs to.
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, lambda *_: None)
        uvicorn.Server(config).run(sockets=[listener])


def named(models: Sequence[str], task: str | None) -> dict[str, str | None]:
    """Each model with its task: NAME=TASK has its own, the others the one of all.

    >>> named(["demo", "./mine=classification"], None)
    {'demo': None, './mine': 'classification'}
    """
    from headwise.models.tasks import TASKS

    found: dict[str, str | None] = {}
    for spec in models:
        name, _, own = spec.rpartition("=")
        found |= {name: own} if own in (*TASKS, "encoder") and name else {spec: task}
    return found


def listening(port: int) -> socket.socket:
    """A socket that listens at 127.0.0.1, on a free port for 0."""
    if not 0 <= port <= 65535:
        raise InputError(f"A port is a number from 0 to 65535, but {port} was given; 0 takes a free one.")
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        reason = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be had ({error.strerror})"
        raise InputError(f"Port {port} must be free, but it {reason}; choose another, or --port 0 for any.") from None
    return listener


def _warm(model: Model) -> None:
    """One answer before the first visitor, so that nobody waits for what is imported and built at the first use."""
    from headwise.server.answer import Ask, page_for
    from headwise.server.jobs import Job

    name = "warm"
    with suppress(InputError, ModelError):  # a model that cannot read this sentence says so to whoever asks
        page_for(Job(Ask(WARM, name, WARM if model.is_encoder_decoder else None)), {name: model}, max_tokens=64)
