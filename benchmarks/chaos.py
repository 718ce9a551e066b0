"""`make chaos`: what docs/reliability.md promises, tried at random for some minutes; exit code 1 where one is broken.

    python benchmarks/chaos.py --minutes 10          every part gets its share of the time
    python benchmarks/chaos.py --minutes 2 --only kills,damage,disk

kills     a run killed (SIGKILL) at random moments until it is done: the same bits as undisturbed
damage    its files damaged at random (bytes, lengths, JSON, folders, links) between two runs: same bits, or one line
disk      a run into a file system that fills up: one line, nothing half-written, the same bits once there is room
ray       workers, the raylet or the run itself killed, or terminated, on Ray: one line, nothing left, the same bits
texts     texts of a fuzzer through the viewer, each page in Chromium: no script, no dialog, no request, no NaN
clients   fifty clients of one server, well-behaved and not: every answer is right or one sentence; memory levels off

Every part says how often it tried, and the seed with which to try the same again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_worker_niceness", "0")  # 15 else: on a busy machine workers would never be done

from promises import BrokenPromiseError, must, until

import headwise as hw
from headwise.errors import HeadwiseError

WORDS = [
    "the",
    "old",
    "dog",
    "sat",
    "in",
    "sun",
    "of",
    "city",
    "and",
    "it",
    "was",
    "said",
    "again",
    "river",
    ",",
    ".",
    "!",
]
EVIL = [
    "<script>document.title='ran'</script>", "</script><img src=x onerror=alert(1)>", '"><svg onload=alert(2)>',
    "javascript:alert(3)", "\x1b]8;;http://x\x07", "\u202e", "\u2028", "\x00", "\ud7ff", "&lt;", "e\u0301" * 20,
    "[SEP]", "[MASK]", "</s>", "\ufeff", "‍", "a" * 300, "漢字", "{{7*7}}", "${x}", "%00", "../../etc/passwd",
]  # fmt: skip
SHARES = {"kills": 0.2, "damage": 0.15, "disk": 0.05, "ray": 0.2, "texts": 0.25, "clients": 0.15}
Told = dict[str, object]


class Run:
    """The same small run again and again: a tiny model that is loaded once, forked for each try.

    subtle: this process itself never runs before it forks, as the threads of polars and tokio, once there, are
    waited for without end in a fork.
    """

    def __init__(self, top: Path, rng: random.Random, documents: int = 96):
        self.top, self.model = top, hw.load("tiny:bert")
        self.corpus = top / "corpus.txt"
        lines = (" ".join(rng.choices(WORDS, k=rng.randint(3, 14))) for _ in range(documents))
        self.corpus.write_text("".join(f"{line}\n" for line in lines))
        began = time.monotonic()
        must(self.ended(top / "whole") == "", "an undisturbed run failed")
        self.whole = self.bits(top / "whole")
        self.seconds = time.monotonic() - began  # of an undisturbed run, on this machine as busy as it is

    def run(self, out: Path) -> Path:
        hw.run("surface", self.model, corpus=self.corpus, out=out, shard_documents=4, threads=1)
        return out

    @staticmethod
    def bits(out: Path) -> dict[str, bytes]:
        return {name: (out / name).read_bytes() for name in ("table.parquet", "state.safetensors")}

    def forked(self, out: Path) -> tuple[object, Path]:
        """A process that runs into `out`, and the file with what it said where it failed."""
        said = out.with_suffix(".said")
        said.unlink(missing_ok=True)
        process = get_context("fork").Process(target=self._child, args=(out, said))
        process.start()
        return process, said

    def _child(self, out: Path, said: Path) -> None:
        try:
            self.run(out)
        except HeadwiseError as error:
            said.write_text(str(error))
            os._exit(2)
        except BaseException as error:
            said.write_text(f"TRACEBACK {type(error).__name__}: {error}")
            os._exit(3)
        os._exit(0)

    def ended(self, out: Path) -> str:
        """Run to the end; what it said in one line, empty where it succeeded."""
        process, said = self.forked(out)
        process.join(300)  # type: ignore[attr-defined]
        told = said.read_text() if said.exists() else ""
        must(process.exitcode in (0, 2), f"{out}: ended with {process.exitcode}: {told}")  # type: ignore[attr-defined]
        must("\n" not in told, f"more than one line: {told}")
        return told


def kills(seconds: float, rng: random.Random, run: Run) -> Told:
    """SIGKILL after a random time, the same run again; after some kills it is left to end, as drawing begins anew."""
    killed = runs = 0
    for number in until(seconds):
        out, most = run.top / f"kill-{number}", killed + rng.randint(3, 9)
        while True:
            process, _ = run.forked(out)
            patience = rng.uniform(0.1, 0.8) * run.seconds if killed < most else None
            process.join(patience)  # type: ignore[attr-defined]
            if process.exitcode is not None:  # type: ignore[attr-defined]
                must(process.exitcode == 0, f"kill-{number} ended with {process.exitcode}")  # type: ignore[attr-defined]
                break
            os.kill(process.pid, signal.SIGKILL)  # type: ignore[attr-defined]
            process.join()  # type: ignore[attr-defined]
            killed += 1
        must(run.bits(out) == run.whole, f"{out}: other bits after a kill")
        left = [path.name for path in out.rglob("*") if path.name.endswith(".tmp") or path.name == ".run"]
        must(not left, f"{out}: left behind {left}")
        shutil.rmtree(out)
        runs += 1
    return {"runs": runs, "killed": killed}


def damage(seconds: float, rng: random.Random, run: Run) -> Told:
    """A run that was cut off, its files harmed, the same run again."""
    made_again = refused = 0
    for number in until(seconds):
        out = run.top / f"damage-{number}"
        process, _ = run.forked(out)
        while process.exitcode is None and len(list(out.glob(".run/shard-*.json"))) < rng.randint(3, 20):  # type: ignore[attr-defined]
            process.join(0.01)  # type: ignore[attr-defined]
        finished = process.exitcode == 0  # type: ignore[attr-defined]
        if not finished:
            os.kill(process.pid, signal.SIGKILL)  # type: ignore[attr-defined]
            process.join()  # type: ignore[attr-defined]
        files = [path for path in out.rglob("*") if path.is_file() and path.name != ".lock"]
        for path in rng.sample(files, min(len(files), rng.randint(1, 4))):
            harm(path, rng)
        told = run.ended(out)
        if told:
            refused += 1
        else:
            must(run.bits(out) == run.whole, f"{out}: damaged files were added up")
            made_again += 1
        shutil.rmtree(out)
    return {"same bits": made_again, "one line": refused}


def harm(path: Path, rng: random.Random) -> None:
    content, how = bytearray(path.read_bytes()), rng.randrange(7)
    if how == 0 and content:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif how == 1:
        del content[rng.randrange(len(content) + 1) :]
    elif how == 2:
        content = bytearray(rng.choice([b"", b"[]", b"{}", b"null", b"\0" * 99, b"[" * 10_000, b'{"files": 5}']))
    elif how == 3:
        path.unlink()
        return
    elif how == 4:
        path.unlink()
        path.mkdir()
        return
    elif how == 5:
        path.unlink()
        path.symlink_to(path.name)
        return
    else:
        content += rng.randbytes(rng.randint(1, 99))
    path.write_bytes(content)


def disk(seconds: float, rng: random.Random, run: Run) -> Told:
    """Into a tmpfs of some hundred kilobytes; then the same folder with room."""
    tried = 0
    for number in until(seconds):
        place = run.top / f"disk-{number}"
        place.mkdir()
        size = rng.randint(20, 600)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(place)], check=False).returncode:
            return {"tried": 0, "why": "a tmpfs must be mounted, which only root may"}
        try:
            told = run.ended(place / "out")
            must(not told or "room" in told, f"a full disk said: {told}")
            subprocess.run(["mount", "-o", "remount,size=64m", str(place)], check=True)
            must(run.ended(place / "out") == "", "no end with room")
            must(run.bits(place / "out") == run.whole, "other bits after a full disk")
        finally:
            subprocess.run(["umount", str(place)], check=False)
        tried += 1
    return {"tried": tried}


HARMS = ("workers", "raylet", "driver", "SIGTERM")


def ray(seconds: float, rng: random.Random, run: Run) -> Told:
    """In turn, from any: a worker killed, the raylet, the run itself, the run terminated; then the same run again."""
    try:
        from on_ray import OnRay
        from ray import init as _
    except ImportError as error:
        return {"tried": 0, "why": f"{error.name} is not installed"}
    counts, slowest = dict.fromkeys(HARMS, 0), 0.0
    first = rng.randrange(len(HARMS))
    for number in until(seconds):
        out, harm_ = run.top / f"ray-{number}", HARMS[(first + number) % len(HARMS)]
        process = OnRay(run.corpus, out)
        process.wait_for_a_shard()
        time.sleep(rng.uniform(0.0, 0.5))
        counts[harm_] += process.harm(harm_, rng)
        # Of a run that is killed itself, Ray's agents must notice on their own that they are alone.
        code, said, took = process.end(120 if harm_ == "driver" else 30)
        slowest = max(slowest, took)
        if harm_ != "workers" and process.was_harmed:
            wanted = {"raylet": 2, "driver": -signal.SIGKILL, "SIGTERM": 143}[harm_]
            must(code in (wanted, 0), f"{harm_}: ended with {code}: {said[-500:]}")
            must(harm_ != "raylet" or code == 0 or len(said.strip().splitlines()) == 1, f"raylet: {said[-500:]}")
            must(harm_ == "driver" or not (out / ".lock").exists(), f"{harm_}: a lock was left")
            code, said, _ = OnRay(run.corpus, out).end()
        must(code == 0, f"a run on Ray after {harm_} ended with {code}: {said[-500:]}")
        must(run.bits(out) == run.whole, f"other bits after {harm_}")
        shutil.rmtree(out)
    return {**{f"{name} harmed": count for name, count in counts.items()}, "the slowest end": f"{slowest:.0f} s"}


def fuzzed(rng: random.Random) -> str:
    return " ".join(rng.choice(EVIL if rng.random() < 0.4 else WORDS) for _ in range(rng.choice([1, 2, 5, 12])))


def texts(seconds: float, rng: random.Random, run: Run) -> Told:
    """Each page is opened and must stay silent."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("HEADWISE_CHROMIUM") or shutil.which("chromium")
    if path is None:
        return {"tried": 0, "why": "there is no chromium"}
    shown = refused = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        for number in until(seconds):
            text, pair = fuzzed(rng), fuzzed(rng) if rng.random() < 0.3 else None
            try:
                trace = run.model.trace(text, pair)
            except HeadwiseError as error:
                must("\n" not in str(error), f"more than one line for {text!r}: {error}")
                refused += 1
                continue
            file = trace.save_html(run.top / f"text-{number}.html", quantities=("raw", "effective", "norm"))
            _silent(browser, Path(file or run.top / f"text-{number}.html"), text)
            shown += 1
        browser.close()
    return {"pages": shown, "refused in a line": refused}


def _silent(browser: object, file: Path, text: str) -> None:
    page, trouble = browser.new_page(), []  # type: ignore[attr-defined]
    page.on("dialog", lambda dialog: (trouble.append("dialog"), dialog.dismiss()))
    page.on("pageerror", lambda error: trouble.append(f"error {error}"))
    page.on("request", lambda asked: asked.url.startswith(("file:", "data:", "blob:")) or trouble.append(asked.url))
    page.goto(file.as_uri())
    page.wait_for_selector('#view[aria-busy="false"]', timeout=120_000)
    page.click(".badge-line")
    words = page.inner_text("body")
    page.close()
    must(page_is_fine(trouble, words), f"{trouble or 'NaN shown'} for {text!r}")
    file.unlink()


def page_is_fine(trouble: list[str], words: str) -> bool:
    return not trouble and "NaN" not in words and "undefined %" not in words


def clients(seconds: float, rng: random.Random, run: Run, *, count: int = 50) -> Told:
    """Well-behaved ones, wrong tokens, huge and broken bodies, at once; the process's memory at both ends."""
    with served(run) as (port, token):
        counts: dict[str, int] = {}
        lock, end, before = threading.Lock(), time.monotonic() + seconds, memory()

        def visit(seed: int) -> None:
            mine = random.Random(seed)
            while time.monotonic() < end:
                what = ask(port, token, mine)
                with lock:
                    counts[what] = counts.get(what, 0) + 1

        crowd = [threading.Thread(target=visit, args=(rng.random(),)) for _ in range(count)]
        for each in crowd:
            each.start()
        for each in crowd:
            each.join(seconds + 120)
        must(not any(each.is_alive() for each in crowd), "a client was never answered")
        must(ask(port, token, random.Random(1), kind="about") == "200", "the server no longer answers")
    must("500" not in counts and "garbage" not in counts, f"answers were {counts}")
    return {"clients": count, "answers": dict(sorted(counts.items())), "MB": f"{before:.0f} to {memory():.0f}"}


def memory() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextmanager
def served(run: Run) -> Iterator[tuple[int, str]]:
    import uvicorn

    from headwise.server.app import application
    from headwise.server.run import listening

    with listening(0) as listener:
        port, token = listener.getsockname()[1], "chaos-token"
        app = application({"tiny:bert": run.model}, port=port, results=run.top, max_tokens=64, max_jobs=8, token=token)
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", ws="none", lifespan="on"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield port, token
        finally:
            server.should_exit = True
            thread.join(30)


def ask(port: int, token: str, rng: random.Random, kind: str | None = None) -> str:
    """One request; its status, or `garbage` where the answer is no HTTP with JSON or HTML."""
    kind = kind or rng.choice(["about", "text", "text", "text", "token", "host", "huge", "broken", "cut", "climb"])
    body, path, key, host = b"", "/api/about", token, f"127.0.0.1:{port}"
    if kind in ("text", "huge", "broken", "cut"):
        path, body = "/api/jobs", json.dumps({"text": fuzzed(rng), "quantity": "quick"}).encode()
    body = {"huge": b"x" * 300_000, "broken": b'{"text": '}.get(kind, body)
    key, host = {"token": ("wrong", host), "host": (token, "evil.example")}.get(kind, (key, host))
    path = "/files/..%2f..%2fetc/passwd" if kind == "climb" else path
    head = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n"
    head += "Connection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as link:
            link.sendall(head.encode() + (body[: len(body) // 2] if kind == "cut" else body))
            if kind == "cut":
                return "cut"
            answer = b"".join(iter(lambda: link.recv(65536), b""))
    except (ConnectionError, BrokenPipeError):
        return "closed"
    except TimeoutError:
        return "late"
    return answer[9:12].decode() if answer.startswith(b"HTTP/1.1 ") else "garbage"


PARTS: dict[str, Callable[[float, random.Random, Run], Told]] = {
    "kills": kills, "damage": damage, "disk": disk, "ray": ray, "texts": texts, "clients": clients,
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    names = [name for name in given.only.split(",") if name in PARTS]
    seconds = 60 * given.minutes * 0.9 / sum(SHARES[name] for name in names)
    broken = 0
    with tempfile.TemporaryDirectory(prefix="headwise-chaos-") as top:
        run = Run(Path(top), random.Random(seed))
        for name in names:
            began = time.monotonic()
            try:
                told = PARTS[name](seconds * SHARES[name], random.Random(f"{seed} {name}"), run)
                line = ", ".join(f"{key} {value}" for key, value in told.items())
            except BrokenPromiseError as error:
                line, broken = f"BROKEN: {error}", broken + 1
            print(f"{name:<8} {time.monotonic() - began:4.0f} s  {line}", flush=True)
    print(f"seed {seed}: {'every promise held' if not broken else f'{broken} broken'}")
    return broken > 0


if __name__ == "__main__":
    sys.exit(main())
