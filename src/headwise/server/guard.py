"""Who may ask, how much, and what the headers of every answer say.

A page of another site can make a browser send requests here, and a name that it owns can be made to point here (DNS
rebinding). So a request must name this server as its Host, and a request that a page makes must come from a page of
this server (Origin). Bodies are read only up to a limit, whatever Content-Length says, and only so long.

Other users of the machine can connect to 127.0.0.1, too. So the address that the terminal shows has a token; who opens
it gets a cookie of this server (its port is in its name, as cookies do not tell ports apart) and is sent on to the
address without it. Programs send it as `Authorization: Bearer TOKEN`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

NAMES = ("127.0.0.1", "localhost", "[::1]")
MOST_BYTES = 200_000  # of a request's body: any text of the allowed characters, escaped
TOO_LARGE = f"A request may have {MOST_BYTES:,} bytes, but this one has more; send a shorter text."
BODY_SECONDS = 10.0  # that a whole body may take
TOO_SLOW = f"A request must be here within {BODY_SECONDS:g} seconds, but this one was not; send it again."
NO_TOKEN = "This server answers only who has its token; open the address, with the token, that its terminal shows."
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
    """Lets through what is addressed to this server, by nobody else's page or user; adds the headers."""

    def __init__(self, app: ASGIApp, port: int, token: str | None = None):
        self.app, self.port, self.token = app, port, token
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

    def _refusal(self, scope: Scope) -> Response | None:
        host, origin = _all(scope, b"host"), _all(scope, b"origin")
        if len(host) != 1 or host[0].lower() not in self.hosts:
            return refused(403, f"This server answers only at http://127.0.0.1:{self.port}; open that address.")
        if any(each.lower() not in self.origins for each in origin):
            return refused(403, "A page of another site asked, and only this server's own pages may; open its address.")
        length = _all(scope, b"content-length")
        if length and length[0].isdigit() and int(length[0][:12]) > MOST_BYTES:
            return refused(413, TOO_LARGE)
        return None if self.token is None else self._door(scope, self.token)

    def _door(self, scope: Scope, token: str) -> Response | None:
        """Nothing for who has the token; a cookie for who brings it in the address."""
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and scope["method"] == "GET" and _same(asked, token):
            answer = RedirectResponse("/", status_code=303)
            answer.set_cookie(self.cookie, token, httponly=True, samesite="strict", path="/")
            return answer
        bearer = [value.removeprefix("Bearer ") for value in _all(scope, b"authorization")]
        if any(_same(given, token) for given in (*bearer, *_cookies(scope, self.cookie))):
            return None
        return refused(403, NO_TOKEN)

    @property
    def cookie(self) -> str:
        return f"headwise-{self.port}"


def refused(status: int, sentence: str, **headers: str) -> JSONResponse:
    """An error as every one is told: JSON with one sentence."""
    return JSONResponse({"error": sentence}, status_code=status, headers=headers)


def _same(given: str, token: str) -> bool:
    """In a time that does not tell how much of it is right."""
    return secrets.compare_digest(given.encode(), token.encode())


def _cookies(scope: Scope, name: str) -> list[str]:
    found = []
    for header in _all(scope, b"cookie"):
        try:
            found += [morsel.value for key, morsel in SimpleCookie(header).items() if key == name]
        except CookieError:
            continue
    return found


def _all(scope: Scope, name: bytes) -> list[str]:
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    return [value.decode("latin-1") for key, value in headers if key == name]


def _limited(receive: Receive) -> Receive:
    """`receive`, which gives up once the body is late, or too large (a chunked one does not say beforehand)."""
    seen, whole, began = 0, False, asyncio.get_running_loop().time()

    async def next_part() -> Any:
        nonlocal seen, whole
        if whole:  # what comes now is the end of the connection, whenever that is
            return await receive()
        left = began + BODY_SECONDS - asyncio.get_running_loop().time()
        try:
            message = await asyncio.wait_for(receive(), max(left, 0.0))
        except TimeoutError:
            raise HTTPException(408, TOO_SLOW) from None
        seen += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if seen > MOST_BYTES:
            raise HTTPException(413, TOO_LARGE)
        return message

    return next_part
