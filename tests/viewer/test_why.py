"""Why a head looks there, on a page: which cells, and that what is told of one adds up to its score."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import headwise as hw
from headwise.explanations.why import SCHEMA, Cell, Why, whys
from headwise.text.written import pretty
from headwise.viewer.of_trace import page_of_trace
from headwise.viewer.payload import Telling, header_of, numbered, ordinal, rounded
from headwise.viewer.why import PARTS, cell_told, strongest, told, with_whys
from viewer.samples import full_page

TEXT = "the river of the city runs north"


def test_the_strongest_cells_between_words_of_telling_heads() -> None:
    stack = full_page().stacks[0]
    raw = stack.quantities[0]
    values = np.zeros_like(raw.values)
    values[1, 2, 1, 5], values[1, 2, 2, 3], values[1, 2, 5, 1] = 0.7, 0.9, 0.8
    values[1, 2, 0, 4] = 1.0  # between special tokens
    stack = replace(stack, quantities=(replace(raw, values=values),), telling=(Telling("far words", 1, 2, 0.9),))
    assert list(strongest(stack)) == [Cell("self", 1, 2, *at) for at in ((2, 3), (5, 1), (1, 5))]
    values[1, 2, 1, 5] = 0.0
    assert len(list(strongest(stack))) == 2, "a cell without weight has no reasons"
    assert list(strongest(replace(stack, telling=()))) == []


def test_the_largest_parts_are_told_and_the_others_summed() -> None:
    rows = [{"side": side, "component": f"L0.H{n}", "place": n, "token": "Ġcat", "part": float(sign * (n + 1))}
            for side, sign in (("query", 1), ("key", -1)) for n in range(PARTS + 2)]  # fmt: skip
    rows.append({"side": "query", "component": "bias", "part": 100.0})
    table = pl.DataFrame([{name: None} | row for row in rows for name in ["stack"]], schema=SCHEMA)
    found = told(Why(Cell("self", 1, 2, 3, 4), ("a", "b"), 1.5, 0.25, table, 0.0))
    assert found["at"] == [1, 2, 3, 4]
    assert (found["score"], found["weight"]) == (1.5, 0.25)
    query, key = found["sides"]
    assert query["parts"][:2] == [["bias", None, 100.0], ["L0.H7", "cat", 8.0]]
    assert len(query["parts"]) == PARTS
    assert (query["others"], query["rest"]) == (3, 1.0 + 2.0 + 3.0)
    assert (key["others"], key["rest"]) == (2, -1.0 - 2.0)


@pytest.mark.parametrize(("name", "pair"), [("tiny:bert", None), ("tiny:marian", "the city")])
def test_a_page_has_reasons_that_add_up(load, name: str, pair: str | None) -> None:
    trace: hw.Trace = load(name).trace(TEXT, pair)
    page = page_of_trace(trace, besides=())
    told_of = [(stack.name, one) for stack in page.stacks for one in stack.why]
    assert told_of
    for stack, one in told_of:
        layer, head, query, key = one["at"]
        alpha = trace.attention("raw", stack=stack)[layer, head, query, key]
        assert one["weight"] == pytest.approx(float(alpha), abs=1e-5)
        for side in one["sides"]:
            total = sum(part for _, _, part in side["parts"]) + side["rest"]
            assert total == pytest.approx(one["score"], rel=1e-3, abs=1e-4)
        dot, times, added, parts = (one["product"][name] for name in ("dot", "times", "added", "parts"))
        assert sum(part for *_, part in parts) == pytest.approx(dot, rel=1e-3, abs=1e-4)
        assert times * dot + added == pytest.approx(one["score"], rel=1e-3, abs=1e-4)
        for _, q, k, part in parts:
            assert sum(a * b for a, b in zip(q, k, strict=True)) == pytest.approx(part, rel=1e-3, abs=1e-4)
    assert header_of(page, 3)["stacks"][0]["why"] == list(page.stacks[0].why)


@pytest.mark.parametrize(("name", "pair", "stack"), [("tiny:bert", None, "self"), ("tiny:marian", TEXT, "cross")])
def test_parts_of_words_that_are_there_twice_are_told_apart(
    load, name: str, pair: str | None, stack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwise.viewer.why.PARTS", 10**6)
    trace = load(name).trace(TEXT, pair)
    queries, keys = (numbered([pretty(token) for token in side(stack).tokens]) for side in (trace.queries, trace.keys))
    query, key = (next(at for at, name in enumerate(side) if name == "the (2nd)") for side in (queries, keys))
    found = trace.why(1, 0, query, key, stack=stack)
    for side, told_side in zip(("query", "key"), cell_told(trace, stack, 1, 0, query, key)["sides"], strict=True):
        rows = found.table.filter(side=side).sort(pl.col("part").abs(), descending=True, maintain_order=True).to_dicts()
        for row, (component, token, _) in zip(rows, told_side["parts"], strict=False):
            if row["token"] is None:
                assert token is None
            elif row["head"] is None:
                assert (component, token) == (row["component"], "the (2nd)"), "of the query or the key itself"
            else:
                read = trace.keys(row["stack"]).tokens
                which = read[: row["place"] + 1].count(row["token"]) if read.count(row["token"]) > 1 else 0
                assert token == pretty(row["token"]) + (f" ({ordinal(which)})" if which else "")


def test_cells_share_their_passes_and_change_nothing(load) -> None:
    trace = load("tiny:gpt2").trace(TEXT)
    cells = [Cell("self", 1, 0, 5, 2), Cell("self", 0, 1, 4, 4), Cell("self", 1, 2, 3, 1)]
    for cell, found in zip(cells, whys(trace, cells), strict=True):
        alone = trace.why(cell.layer, cell.head, cell.query, cell.key)
        assert found.cell == cell
        assert found.score == alone.score
        assert found.table.equals(alone.table)


def test_no_reasons_where_there_is_no_model_to_run(load) -> None:
    trace = load("tiny:bert").trace(TEXT)
    asked = page_of_trace(trace, quantities=["raw"])
    assert asked.stacks[0].why == (), "who names quantities waits for no others"
    bare = with_whys(asked, object())
    assert bare is asked
    assert rounded(0.1234567) == 0.123457
