"""Who may ask, how much, and what the headers of every answer say.

A page of another site can make a browser send requests here, and a name that it owns can be made to point here (DNS
rebinding). So a request must name this server as its Host, and a request that a page makes must come from a page of
this server (Origin). Bodies are read only up to a limit, whatever Content-Length says.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

NAMES = ("127.0.0.1", "localhost", "[::1]")
MOST_BYTES = 200_000  # of a request's body: any text of the allowed characters, escaped
TOO_LARGE = f"A request may have {MOST_BYTES:,} bytes, but this one has more; send a shorter text."
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Lets through what is addressed to this server, by nobody else's page; adds the headers."""

    def __init__(self, app: ASGIApp, port: int):
        self.app, self.port = app, port
        self.hosts = {f"{name}:{port}" for name in NAMES} | (set(NAMES) if port == 80 else set())
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await (self._refusal(scope) or self.app)(scope, _limited(receive), sent)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        host, origin = _all(scope, b"host"), _all(scope, b"origin")
        if len(host) != 1 or host[0].lower() not in self.hosts:
            return refused(403, f"This server answers only at http://127.0.0.1:{self.port}; open that address.")
        if any(each.lower() not in self.origins for each in origin):
            return refused(403, "A page of another site asked, and only this server's own pages may; open its address.")
        length = _all(scope, b"content-length")
        if length and length[0].isdigit() and int(length[0][:12]) > MOST_BYTES:
            return refused(413, TOO_LARGE)
        return None


def refused(status: int, sentence: str) -> JSONResponse:
    """An error as every one is told: JSON with one sentence."""
    return JSONResponse({"error": sentence}, status_code=status)


def _all(scope: Scope, name: bytes) -> list[str]:
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    return [value.decode("latin-1") for key, value in headers if key == name]


def _limited(receive: Receive) -> Receive:
    """`receive`, which gives up once the body is larger than it may be (a chunked one does not say beforehand)."""
    seen = 0

    async def next_part() -> Any:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > MOST_BYTES:
            raise HTTPException(413, TOO_LARGE)
        return message

    return next_part
