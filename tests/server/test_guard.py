"""Who is let in: the token of the address, its cookie, bodies that come slowly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("starlette")
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient

from headwise.server import guard
from headwise.server.guard import Guard
from references.patience import patience

PORT, HERE, TOKEN = 8124, "http://127.0.0.1:8124", "s3cret-token"


async def echo(request: Request) -> Response:
    return Response(await request.body())


@pytest.fixture
def client() -> Iterator[TestClient]:
    routes = [Route("/", echo), Route("/api", echo, methods=["GET", "POST"])]
    with TestClient(Guard(Starlette(routes=routes), PORT, TOKEN), base_url=HERE, follow_redirects=False) as client:
        yield client


@pytest.mark.parametrize(
    "address", ["/", "/api", "/?token=", "/?token=wrong", f"/api?token={TOKEN}", f"/?Token={TOKEN}"]
)
def test_nobody_without_the_token(client: TestClient, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 403
    assert answer.json() == {"error": guard.NO_TOKEN}
    assert "set-cookie" not in answer.headers


def test_the_address_of_the_terminal_gives_a_cookie_and_goes_on_without_the_token(client: TestClient) -> None:
    answer = client.get(f"/?token={TOKEN}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"headwise-{PORT}={TOKEN};")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.replace("; ", ";").split(";"))
    assert client.get("/").status_code == 200
    assert client.post("/api", content=b"x").content == b"x"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"authorization": f"Bearer {TOKEN}"}, 200),
        ({"authorization": "Bearer wrong"}, 403),
        ({"authorization": "Bearer ü".encode("latin-1")}, 403),
        ({"cookie": f"headwise-{PORT}={TOKEN}"}, 200),
        ({"cookie": f"other=1; headwise-{PORT}={TOKEN}"}, 200),
        ({"cookie": f"headwise-{PORT + 1}={TOKEN}"}, 403),
        ({"cookie": ';;=\x7f==;"'}, 403),
        ({"authorization": f"Bearer {TOKEN}", "origin": "http://evil.example"}, 403),
        ({"authorization": f"Bearer {TOKEN}", "host": "evil.example"}, 403),
    ],
)
def test_headers(client: TestClient, headers: dict, status: int) -> None:
    assert client.get("/api", headers=headers).status_code == status


def finished(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run in a thread of its own: the loop of a browser may be running in this one, left by another test."""
    with ThreadPoolExecutor(1) as one:
        one.submit(lambda: asyncio.run(asyncio.wait_for(work(), patience()))).result()


def test_a_body_that_comes_slowly_is_given_up(monkeypatch) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.05)

    async def try_it() -> None:
        parts = iter([{"type": "http.request", "body": b"a", "more_body": True}])

        async def receive() -> dict:
            part = next(parts, None)
            return part if part is not None else await asyncio.Event().wait()  # type: ignore[return-value]

        limited = guard._limited(receive)
        assert (await limited())["body"] == b"a"
        with pytest.raises(HTTPException) as told:
            await limited()
        assert told.value.status_code == 408

    finished(try_it)


def test_the_end_of_a_connection_may_come_late(monkeypatch) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.01)

    async def try_it() -> None:
        async def receive() -> dict:
            if not seen:
                seen.append(1)
                return {"type": "http.request", "body": b"a"}
            await asyncio.sleep(0.05)
            return {"type": "http.disconnect"}

        seen: list[int] = []
        limited = guard._limited(receive)
        assert (await limited())["body"] == b"a"
        assert (await limited())["type"] == "http.disconnect"

    finished(try_it)
