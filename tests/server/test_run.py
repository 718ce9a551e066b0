"""The command: says its address, answers there, ends cleanly; and its mistakes are one line."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")
from headwise.errors import InputError
from headwise.server.run import listening, serve
from references.patience import patience

COMMAND = [
    sys.executable,
    "-c",
    "from headwise.cli import main; main()",
    "serve",
    "--port",
    "0",
    "--model",
    "tiny:bert",
]


def read(address: str, body: object = None, *, token: str) -> dict:
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
    request = urllib.request.Request(address, data, headers)
    with urllib.request.urlopen(request, timeout=patience()) as answer:
        return json.load(answer)


def test_it_says_its_address_answers_and_ends_with_a_signal(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--results", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        shown = next(word for word in line.split() if word.startswith("http://127.0.0.1:"))
        address, token = shown.split("/?token=")
        assert len(token) >= 32
        with pytest.raises(urllib.error.HTTPError, match="403"):
            read(f"{address}/api/about", token="another")
        assert read(f"{address}/api/about", token=token)["models"] == ["tiny:bert"]
        body = {"text": "the river of the city", "quantity": "all"}
        read(f"{address}/api/jobs", body, token=token)  # ended by the signal
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=patience())
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, errors
    assert "Traceback" not in errors


def test_a_port_that_is_taken_is_told() -> None:
    with listening(0) as taken:
        port = taken.getsockname()[1]
        assert taken.getsockname()[0] == "127.0.0.1"
        with pytest.raises(InputError, match="taken"):
            listening(port)
    for port in (-1, 70000):
        with pytest.raises(InputError, match="65535"):
            listening(port)


@pytest.mark.parametrize("limits", [{"max_tokens": 0}, {"max_jobs": 0}])
def test_limits_must_let_something_through(limits: dict, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least 1"):
        serve(["tiny:bert"], port=0, results=tmp_path, **limits)


def test_only_this_machine_is_listened_to() -> None:
    with listening(0) as listener:
        assert listener.family == socket.AF_INET
        assert listener.getsockname()[0] == "127.0.0.1"
