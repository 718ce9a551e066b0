"""How long `headwise serve` takes for one text, and whether it holds many clients at once; loopback only.

    python benchmarks/serve.py [--clients 20] [--seconds 60] [--model demo] [--json FILE]

Starts the server as a user does, on a free port. First one client asks for texts of 64 tokens, one after another, each
another text: the time from the question to the whole page, and the processor time that the server spent on it, which a
busy machine does not change. Then all clients at once ask, wait, and read their page, again and again for the given
seconds. Any answer that is not the page counts as an error.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from importlib import resources
from pathlib import Path
from typing import Any

TOKENS, ALONE = 64, 12  # of a text, and texts that one client asks for
LIMIT = 1.5  # seconds for one text


def texts(model: str) -> list[str]:
    """Texts of 64 tokens, cut from the packaged sample one word further each."""
    import headwise as hw

    loaded = hw.load(model)
    words = resources.files("headwise.text").joinpath("sample.txt").read_text("utf-8").split()
    found = []
    for first in range(0, 400, 4):
        count = next(
            n for n in range(TOKENS, 0, -1) if len(loaded.encode(" ".join(words[first : first + n]))) <= TOKENS
        )
        found.append(" ".join(words[first : first + count]))
    return found


def read(address: str, body: object = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return answer.read()


def one_text(address: str, text: str) -> tuple[float, int]:
    """Seconds from the question to the whole page, and its bytes."""
    start, wait = time.perf_counter(), 0.05
    job = json.loads(read(f"{address}/api/jobs", {"text": text}))
    while job["state"] in ("waiting", "running"):
        time.sleep(wait)
        wait = min(wait * 1.3, 0.5)
        job = json.loads(read(f"{address}/api/jobs/{job['id']}"))
    if job["state"] != "done":
        raise RuntimeError(f"{job['state']}: {job['error']}")
    page = read(f"{address}/api/jobs/{job['id']}/page")
    if b'id="header"' not in page:
        raise RuntimeError("what came is no page")
    return time.perf_counter() - start, len(page)


def processor_seconds(process: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load_test(address: str, asked: list[str], clients: int, seconds: float) -> dict[str, Any]:
    times: list[float] = []
    errors: list[str] = []
    end = time.monotonic() + seconds

    def client(number: int) -> None:
        turn = 0
        while time.monotonic() < end:
            try:
                times.append(one_text(address, asked[(number * 7 + turn) % len(asked)])[0])
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}")
            turn += 1

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {
        "clients": clients, "seconds": round(time.monotonic() - start, 1), "pages": len(times), "errors": len(errors),
        "first error": errors[0] if errors else None, "median wait (s)": round(statistics.median(times), 2),
        "longest wait (s)": round(max(times), 2),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    asked = texts(options.model)
    command = [sys.executable, "-c", "from headwise.cli import main; main()", "serve", "--port", "0"]
    start = time.perf_counter()
    server = subprocess.Popen(
        [*command, "--model", options.model],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        line = server.stdout.readline() if server.stdout else ""
        address = next(word for word in line.split() if word.startswith("http://127.0.0.1:"))
        ready = time.perf_counter() - start
        spent = processor_seconds(server.pid)
        alone = [one_text(address, text) for text in asked[:ALONE]]
        spent = (processor_seconds(server.pid) - spent) / ALONE
        seconds = [each for each, _ in alone]
        numbers = {
            "ready after (s)": round(ready, 1), "one text, median (s)": round(statistics.median(seconds), 2),
            "one text, longest (s)": round(max(seconds), 2), "one text, processor (s)": round(spent, 2),
            "limit (s)": LIMIT, "page (bytes)": alone[0][1],
            "at once": load_test(address, asked[ALONE:], options.clients, options.seconds),
        }  # fmt: skip
    finally:
        server.send_signal(signal.SIGINT)
        code = server.wait(60)
    numbers["exit code"] = code
    print(json.dumps(numbers, indent=1))
    if options.json:
        options.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
