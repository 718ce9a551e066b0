"""The addresses of the application. Every error is JSON with one sentence."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from headwise.errors import InputError
from headwise.models.model import Model
from headwise.models.packaged import called
from headwise.server import stored
from headwise.server.answer import MOST_CHARACTERS, SETS, asked, examples, mask_of, page_for, quantity_labels
from headwise.server.guard import Guard, refused
from headwise.server.jobs import FullError, Job, Jobs
from headwise.viewer.build import bundle, policy, small_bundle

INDEX = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>headwise</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/static/serve.css">
</head>
<body>
<div id="app"><p class="loading">Opening…</p></div>
<noscript>This page asks its server with JavaScript, which is switched off here.</noscript>
<script src="/static/serve.js"></script>
</body>
</html>
"""
STATIC = {"serve.js": "text/javascript; charset=utf-8", "serve.css": "text/css; charset=utf-8"}
# A page of a result may be anyone's: no origin of its own, no connection, nothing from elsewhere.
APART = "sandbox allow-scripts allow-downloads; frame-ancestors 'self'"
REPORT = (
    f"{APART}; base-uri 'none'; form-action 'none'; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval';"
    " style-src 'unsafe-inline'; img-src data: blob:; font-src data:"
)


@dataclass(frozen=True)
class Shop:
    """What the handlers share."""

    models: Mapping[str, Model]
    results: Path
    jobs: Jobs
    max_tokens: int

    def about(self, _request: Request) -> Response:
        names = [{"name": name, "label": label} for name, label in quantity_labels().items()]
        limits = {"characters": MOST_CHARACTERS, "tokens": self.max_tokens}
        return JSONResponse(
            {"models": list(self.models), "sets": list(SETS), "quantities": names, "limits": limits,
             "results": str(self.results), "called": {name: called(name) for name in self.models},
             "examples": {name: examples(model) for name, model in self.models.items()},
             "masks": {name: mask_of(model) for name, model in self.models.items()}}
        )  # fmt: skip

    async def ask(self, request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return refused(415, "A question must be JSON (Content-Type: application/json); send it so.")
        try:
            body = json.loads(await request.body())
        except (ValueError, RecursionError):
            return refused(400, "A question must be JSON in UTF-8, but this cannot be read as such; send an object.")
        ask = asked(body, list(self.models))
        if len(ask.text) + len(ask.pair or "") > MOST_CHARACTERS:
            return refused(
                413, f"A text may have {MOST_CHARACTERS:,} characters, but this has more; send a shorter one."
            )
        return JSONResponse(self._told(self.jobs.put(ask)), status_code=202)

    def job(self, request: Request) -> Response:
        return JSONResponse(self._told(self._found(request)))

    def cancel(self, request: Request) -> Response:
        job = self._found(request)
        self.jobs.cancel(job)
        return JSONResponse(self._told(job))

    def page(self, request: Request) -> Response:
        job = self._found(request)
        if job.state != "done":
            return refused(
                409, f"A page is there once its job is done, but this one is {job.state}; ask for its state."
            )
        if job.ask.kind == "why":
            return Response(job.page, media_type="application/json")
        maps = job.ask.kind == "maps"
        script, style = (bundle("viewer.js"), bundle("viewer.css")) if maps else small_bundle("explained")
        headers = {"content-security-policy": f"{policy(script, style)}; {APART}"}
        return HTMLResponse(job.page, headers=headers)

    def stored(self, _request: Request) -> Response:
        return JSONResponse(stored.listed(self.results))

    def result(self, request: Request) -> Response:
        at, head = (request.query_params.get(key, "") for key in ("at", "head"))
        return JSONResponse(stored.described(self.results, at, head))

    def table(self, request: Request) -> Response:
        content = stored.csv_of(self.results, request.query_params.get("at", ""))
        return Response(
            content, headers={"content-disposition": 'attachment; filename="table.csv"'}, media_type="text/csv"
        )

    def figure(self, request: Request) -> Response:
        at, name, room = (request.query_params.get(key, "") for key in ("at", "name", "room"))
        room = int(room) if room.isascii() and room.isdigit() and len(room) < 6 else None
        headers = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
        return Response(stored.svg_of(self.results, at, name, room=room), headers=headers, media_type="image/svg+xml")

    def file(self, request: Request) -> Response:
        path, kind = stored.served(self.results, request.path_params["path"])
        return FileResponse(path, media_type=kind, headers={"content-security-policy": REPORT})

    def _found(self, request: Request) -> Job:
        job = self.jobs.find(request.path_params["id"])
        if job is None:
            raise stored.MissingError("There is no such job, or it is no longer kept; ask again.")
        return job

    def _told(self, job: Job) -> dict[str, Any]:
        return {"id": job.id, "state": job.state, "step": job.step, "share": job.share, "error": job.error,
                "ahead": self.jobs.ahead(job)}  # fmt: skip


def application(
    models: Mapping[str, Model],
    *,
    port: int,
    results: Path,
    max_tokens: int,
    max_jobs: int,
    max_seconds: float = math.inf,
    token: str | None = None,
    ready: Callable[[], None] = lambda: None,
) -> Guard:
    """The application for a server at `port`, for who has the token; `ready` is called once it can answer."""
    jobs = Jobs(lambda job: page_for(job, models, max_tokens=max_tokens), most=max_jobs, seconds=max_seconds)
    shop = Shop(models, results, jobs, max_tokens)

    @asynccontextmanager
    async def life(_app: Starlette) -> AsyncIterator[None]:
        ready()
        yield
        await run_in_threadpool(jobs.close)

    routes = [
        Route("/", lambda _request: HTMLResponse(INDEX)),
        Route("/static/{name}", _static),
        Route("/api/about", shop.about),
        Route("/api/jobs", shop.ask, methods=["POST"]),
        Route("/api/jobs/{id}", shop.job, methods=["GET"]),
        Route("/api/jobs/{id}", shop.cancel, methods=["DELETE"]),
        Route("/api/jobs/{id}/page", shop.page),
        Route("/api/stored", shop.stored),
        Route("/api/result", shop.result),
        Route("/api/table", shop.table),
        Route("/api/figure", shop.figure),
        Route("/files/{path:path}", shop.file),
    ]
    errors: Any = {
        HTTPException: _http_error, InputError: _input_error, FullError: _full, ClientDisconnect: _gone,
        Exception: _defect,
    }  # fmt: skip
    return Guard(Starlette(routes=routes, exception_handlers=errors, lifespan=life), port, token)


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in STATIC:
        raise HTTPException(404)
    return Response(bundle(name), headers={"content-type": STATIC[name]})


def _http_error(_request: Request, error: HTTPException) -> Response:
    sentences = {
        404: "There is nothing at this address; begin at /.",
        405: "This address does not take that method; docs/serve.md lists them.",
    }
    return refused(error.status_code, sentences.get(error.status_code, error.detail))


def _input_error(_request: Request, error: InputError) -> Response:
    return refused(404 if isinstance(error, stored.MissingError) else 400, str(error))


def _full(_request: Request, error: FullError) -> Response:
    return refused(429, str(error), **{"retry-after": str(error.seconds)})


def _gone(_request: Request, _error: ClientDisconnect) -> Response:
    return refused(400, "The request ended before all of it was there; send it again.")


def _defect(_request: Request, error: Exception) -> Response:
    return refused(500, f"Something in headwise went wrong ({type(error).__name__}); its terminal has the details.")
