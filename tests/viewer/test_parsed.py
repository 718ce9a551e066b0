"""Syntax in the strip: by hand on both sides of each threshold, and from a run that may be of another model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import headwise as hw
from headwise.errors import InputError
from headwise.viewer.of_trace import page_of_trace
from headwise.viewer.parsed import ENOUGH, told
from headwise.viewer.payload import Telling

PARSED = """1	The	the	DET	DT	_	2	det	_	_
2	dog	dog	NOUN	NN	_	3	nsubj	_	_
3	saw	see	VERB	VBD	_	0	root	_	_
4	him	he	PRON	PRP	_	3	obj	_	_

1	She	she	PRON	PRP	_	2	nsubj	_	_
2	ran	run	VERB	VBD	_	0	root	_	_

"""


def row(relation: str, quantity: str, place: tuple[int, int] | None, accuracy: float, **changes: Any) -> dict[str, Any]:
    layer, head = place or (None, None)
    usual = {"relation": relation, "quantity": quantity, "layer": layer, "head": head, "accuracy": accuracy,
             "low": accuracy - 0.1, "count": ENOUGH, "best": True}  # fmt: skip
    return {**usual, **changes}


def table(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema_overrides={"layer": pl.Int64, "head": pl.Int64})


def test_a_head_is_told_where_it_clearly_beats_the_best_offset_and_the_clearest_comes_first() -> None:
    found = told(table(
        row("obj", "raw", (1, 2), 0.7), row("obj", "offset", None, 0.3),
        row("det", "raw", (0, 3), 0.9), row("det", "offset", None, 0.2), row("det", "raw", (5, 5), 1.0, best=False),
        row("amod", "raw", (0, 3), 0.9), row("amod", "offset", None, 0.5),  # the head is told for det
        row("mark", "raw", (0, 1), 0.8, low=0.7), row("mark", "offset", None, 0.7),  # begins at the offset's
        row("case", "raw", (0, 2), 0.9, count=ENOUGH - 1), row("case", "offset", None, 0.1),
        row("all", "raw", (0, 4), 0.9), row("all", "offset", None, 0.1),
        row("cc", "norm", (0, 5), 0.9), row("cc", "offset", None, 0.1),
    ))  # fmt: skip
    assert list(found) == [Telling("syntax: det", 0, 3, 0.9), Telling("syntax: obj", 1, 2, 0.7)]


def test_three_relations_are_told_at_most() -> None:
    rows = [one for at in range(4) for one in (row(f"r{at}", "raw", (0, at), 0.9), row(f"r{at}", "offset", None, 0.1))]
    assert len(list(told(table(*rows)))) == 3


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("syntax")
    (folder / "c.conllu").write_text(PARSED * 3, "utf-8")
    hw.run(["syntax", "surface"], hw.load("tiny:bert"), corpus=folder / "c.conllu", out=folder / "out", figures=False)
    return folder / "out"


def test_the_strip_takes_the_heads_of_a_run_on_the_same_model_alone(
    run: Path, load: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = load("tiny:bert").trace("the old dog")
    plain = page_of_trace(trace, besides=()).stacks[0].telling
    free = next(
        (la, he) for la in range(2) for he in range(4) if (la, he) not in {(one.layer, one.head) for one in plain}
    )
    known = [
        Telling("syntax: det", *free, 0.9),
        *(Telling("syntax: obj", one.layer, one.head, 0.8) for one in plain[:1]),
    ]
    monkeypatch.setattr("headwise.viewer.parsed.told", lambda table: iter(known if len(table) else []))
    assert page_of_trace(trace, besides=(), syntax=run / "syntax").stacks[0].telling == (*plain, known[0])
    with pytest.raises(InputError, match="is of another; run it"):
        page_of_trace(load("tiny:gpt2").trace("the old dog"), besides=(), syntax=run / "syntax")
    with pytest.raises(InputError, match=r"but .*surface is of surface"):
        page_of_trace(trace, besides=(), syntax=run / "surface")
