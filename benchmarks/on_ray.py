"""A run on Ray by the command line, all the processes that it started, and ways to harm them; a part of chaos.py."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from promises import BrokenPromiseError, must, until


class OnRay:
    """The same run by the command line on a Ray of its own, and all the processes that it started."""

    def __init__(self, corpus: Path, out: Path):
        options = {"model": "tiny:bert", "corpus": corpus, "out": out, "shard": 4, "threads": 1, "workers": 1}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        command = [sys.executable, "-m", "headwise", "run", "surface", *words, "--engine", "ray"]
        self.out, self.was_harmed = out, False
        self.seen: dict[int, psutil.Process] = {}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)

    def below(self, word: str = "") -> list[Any]:
        """Its processes with a word in their command; all that were ever seen are remembered."""
        with suppress(psutil.Error):
            self.seen |= {each.pid: each for each in psutil.Process(self.process.pid).children(recursive=True)}
        return [each for each in self.seen.values() if each.is_running() and word in " ".join(self._words(each))]

    def _words(self, process: Any) -> list[str]:
        try:
            return process.cmdline() if process.status() != psutil.STATUS_ZOMBIE else []
        except psutil.Error:
            return []

    def wait_for_a_shard(self) -> None:
        for _ in until(240):
            if self.process.poll() is not None or list(self.out.glob(".run/shard-*.json")):
                return
            self.below()
            time.sleep(0.1)

    def harm(self, how: str, rng: random.Random) -> int:
        """How many were harmed; none where the run was over before."""
        if self.process.poll() is not None:
            return 0
        self.was_harmed = True
        if how in ("driver", "SIGTERM"):
            self.below()
            self.process.send_signal(signal.SIGKILL if how == "driver" else signal.SIGTERM)
            return 1
        victims = self.below({"workers": "ray::", "raylet": "raylet/raylet"}[how])
        for victim in rng.sample(victims, min(1, len(victims))):
            victim.kill()
        return min(1, len(victims))

    def end(self, patience: float = 30) -> tuple[int, str, float]:
        """Exit code, what it said, and the seconds until it and, `patience` later, all that it started were gone."""
        began = time.monotonic()
        try:
            _, said = self.process.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise BrokenPromiseError("a run on Ray did not end in 300 s") from None
        for _ in until(patience):
            if not [each for each in self.below() if self._words(each)]:
                break
            time.sleep(0.2)
        left = [" ".join(self._words(each))[:80] for each in self.below() if self._words(each)]
        for each in self.below():
            each.kill()
        must(not left, f"{patience:.0f} s after its end there were still {left}")
        return self.process.returncode, said, time.monotonic() - began
