"""A run that is killed within a shard goes on after its last batch, to the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import headwise as hw
from headwise.engine import fold as module
from headwise.engine import kept
from headwise.engine.fold import Begun, Folded
from headwise.engine.kept import Due, Kept
from headwise.stats import Sums
from headwise.studies.study import State

STUDIES = ["surface", "norms", "nullspace", "lamps", "strongest", "mixing"]
TEXTS = [f"the river of a city {'was in it ' * (at % 5)}and {'that ' * (at % 3)}." for at in range(13)]


class StoppedError(Exception):
    """As a kill would."""


def bits(folder: Path) -> dict[str, bytes]:
    names = ("state.safetensors", "table.parquet")
    return {f"{study}/{name}": (folder / study / name).read_bytes() for study in STUDIES for name in names}


def test_what_is_resumed_within_a_shard_gives_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.txt").write_text("\n".join(TEXTS), "utf-8")
    model, observe, seen, stop = hw.load("tiny:bert"), module._observe, [], [99]

    def observed(*given: Any) -> Any:
        if len(seen) == stop[0]:
            raise StoppedError
        seen.append([item.number for item in given[2]])
        return observe(*given)

    def run(out: Path) -> None:
        hw.run(STUDIES, model, corpus=tmp_path / "c.txt", kind="lines", out=out, figures=False, shard_documents=8,
               batch_tokens=40, settings={"mixing": {"texts": 3}})  # fmt: skip

    monkeypatch.setattr(module, "_observe", observed)
    monkeypatch.setattr(kept, "SECONDS", 0.0)
    run(tmp_path / "whole")
    batches, seen[:], stop[0] = len(seen), [], 3
    assert batches > 5
    with pytest.raises(StoppedError):
        run(tmp_path / "out")
    stop[0] = 99
    run(tmp_path / "out")
    assert len(seen) == batches, "no batch was read twice"
    assert sorted(number for batch in seen for number in batch) == list(range(len(TEXTS)))
    assert bits(tmp_path / "out") == bits(tmp_path / "whole")
    assert not (tmp_path / "out" / ".run").exists()


def folded(value: float) -> Folded:
    return Folded({"a": State({"n": Sums.of(torch.tensor([value]), torch.ones(1))})}, {}, "plan")


def test_it_is_written_once_a_minute_and_belongs_to_one_plan(tmp_path: Path) -> None:
    now, one = [0.0], Kept(tmp_path, 2, "plan")
    due = Due(60.0, clock=lambda: now[0])
    for later, batches in ((59, 1), (60, 2), (119, 3)):
        now[0] = later
        if due():
            one.write(Begun(batches, folded(float(batches))))
    found = one.read()
    assert found is not None
    assert found.batches == 2
    assert float(found.folded.states["a"]["n"].total) == 2.0  # type: ignore[attr-defined]
    assert Kept(tmp_path, 2, "other").read() is None
    assert Kept(tmp_path, 3, "plan").read() is None
    one.forget()
    assert one.read() is None
    assert list((tmp_path / kept.BEGUN).iterdir()) == []
