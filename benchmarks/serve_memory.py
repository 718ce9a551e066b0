"""The memory of `headwise serve` over many requests: does it level off?

    python benchmarks/serve_memory.py --requests 2000 --model tiny:bert

Each request is a text of a fuzzer (chaos.py), asked as a page does: put, looked after until it is done, its page
fetched. Prints the process's memory twenty times on the way; exit code 1 where the last half of the requests made it
grow by more than a tenth.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

from chaos import fuzzed, memory, served

import headwise as hw


def ask(port: int, token: str, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    link.request(method, path, None if body is None else json.dumps(body), headers)
    answer = link.getresponse()
    status, content = answer.status, answer.read()
    link.close()
    return status, content


def page_of(port: int, token: str, text: str) -> int:
    """The bytes of the page of a text; 0 where it is refused in a sentence."""
    status, content = ask(port, token, "POST", "/api/jobs", {"text": text})
    if status != 202:
        return 0
    job = json.loads(content)["id"]
    while (state := json.loads(ask(port, token, "GET", f"/api/jobs/{job}")[1])["state"]) in ("waiting", "running"):
        time.sleep(0.02)
    return len(ask(port, token, "GET", f"/api/jobs/{job}/page")[1]) if state == "done" else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--model", default="tiny:bert")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng, seen = random.Random(given.seed), []
    with tempfile.TemporaryDirectory(prefix="headwise-memory-") as top:
        run = SimpleNamespace(model=hw.load(given.model), top=Path(top))
        with served(run) as (port, token):  # type: ignore[arg-type]
            pages = size = 0
            for number in range(given.requests + 1):
                if number % max(1, given.requests // 20) == 0:
                    seen.append(memory())
                    print(
                        f"{number:>6} requests, {pages} pages of {size / 2**20:.0f} MB: {seen[-1]:.0f} MB", flush=True
                    )
                got = page_of(port, token, fuzzed(rng))
                pages, size = pages + (got > 0), size + got
    grown = seen[-1] - seen[len(seen) // 2]
    print(f"the last half grew by {grown:.0f} MB of {seen[-1]:.0f}")
    return grown > seen[-1] / 10


if __name__ == "__main__":
    sys.exit(main())
