"""What a trace, a model or a page is asked for by mistake: one line that says what was got and what to ask instead."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headwise as hw
from headwise.errors import InputError, ModelError, UnknownNameError
from headwise.models.load import _unreadable
from headwise.traces.long import WHOLE
from headwise.viewer.view import View

TEXT = "The cat sat down because it was tired."


@pytest.fixture(scope="module")
def model() -> hw.Model:
    return hw.load("tiny:bert")


@pytest.fixture(scope="module")
def trace(model: hw.Model) -> hw.Trace:
    return model.trace(TEXT)


def test_a_trace_of_the_strongest_entries_says_that_it_keeps_no_whole_maps(model: hw.Model) -> None:
    long: Any = model.trace(TEXT, keep="top")
    for name in WHOLE:
        with pytest.raises(InputError, match=rf'^{name} needs whole maps.*\.top, \.row or \.blocks.*keep="all"\.$'):
            getattr(long, name)
        assert not hasattr(long, name)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = long.nothing
    with pytest.raises(InputError, match=r"use trace.show\(\) or .save_html"):
        hw.view(long)
    assert copy.copy(long).tokens == long.tokens
    assert set(WHOLE) - {"lamps"} <= set(dir(model.trace(TEXT))), "each is there where the maps are whole"


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        (
            (2, 1, "cat", "sat"),
            "Queries are numbers from 0 to 18, but 'cat' was asked for; trace.tokens has",
        ),
        ((2, 1, 5, "sat"), "Keys are numbers from 0 to 18, but 'sat' was asked for; trace.tokens has the tokens"),
        ((2, "1", 5, 3), "Heads are numbers from 0 to 3, but '1' was asked for.$"),
        ((2, 1, 5, 40), "Keys go from 0 to 18, but 40 was asked for"),
    ],
)
def test_a_cell_is_four_numbers(trace: hw.Trace, cell: tuple[Any, ...], says: str) -> None:
    with pytest.raises(InputError, match=says):
        trace.query_key(*cell)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda t: t.mixing("raw"), r"'raw' is an attention quantity, and no mixing one; ask trace.attention\('raw'\)"),
        (lambda t: t.attention("rollout"), r"'rollout' is an origins quantity, .* ask trace.origins\('rollout'\)"),
        (lambda t: t.origins("alti"), r"'alti' is a mixing quantity, and no origins one; ask trace.mixing\('alti'\)"),
        (lambda t: t.mixing("value-zero"), r"There is no mixing quantity .*Did you mean 'value-zeroing'\?"),
        (lambda t: t.attention("row"), r"There is no attention quantity 'row'; there are raw, .*Did you mean 'raw'\?"),
    ],
)
def test_a_name_of_another_kind_is_told_where_it_belongs(trace: hw.Trace, ask: Callable[..., Any], says: str) -> None:
    with pytest.raises(UnknownNameError, match=says):
        ask(trace)


def test_a_folder_that_is_not_there_is_called_a_folder(tmp_path: Path) -> None:
    for name in ("./nofolder", str(tmp_path / "none"), "../none/at/all"):
        with pytest.raises(ModelError, match=f"A model's folder must exist, but {name} does not"):
            hw.load(name)


@pytest.mark.parametrize(("name", "meant"), [("demo-lm", "demo-llm"), ("demo-mnt", "demo-nmt"), ("bert-base", None)])
def test_an_unknown_model_is_told_what_there_is_and_what_was_meant(name: str, meant: str | None) -> None:
    said = str(_unreadable(name, None, OSError("not there")))
    assert "demo, demo-llm, demo-base, demo-whisper, demo-nmt, tiny:bert)" in said
    assert (f"hub; did you mean '{meant}'? The" if meant else "hub; check the name and the network. The") in said


def test_the_folder_of_a_page_is_looked_for_before_the_page_is_made(
    trace: hw.Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules[View.__module__]  # `headwise.viewer.view` is the function of that name
    monkeypatch.setattr(module, "page_of_trace", lambda *_given, **_more: pytest.fail("the page was made"))
    with pytest.raises(InputError, match="The folder of a page must exist"):
        trace.save_html(tmp_path / "no" / "view.html")


def test_a_figure_and_a_page_name_what_they_take(trace: hw.Trace) -> None:
    drawn: Any = trace.figure
    for given, got in (({"head": 3}, "no layer"), ({"layer": 3}, "no head"), ({"colour": 1}, "colour")):
        with pytest.raises(InputError, match=rf"besides, but got {got}; write trace.figure\(layer, head\)"):
            drawn(**given)
    with pytest.raises(InputError, match=r"A page of a trace takes quantities, layers, .*, but 'colour' was passed"):
        trace.show(colour="red")
    with pytest.raises(InputError, match=r"A page of a trace takes quantities, .*, but 'quantity' was passed"):
        trace.save_html("x.html", quantity="raw")


def test_a_trace_is_shown_with_the_quantities_named(trace: hw.Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["headwise.viewer.view"], "in_notebook", lambda: True)
    (stack,) = trace.show(quantities=["norm"]).page.stacks
    assert [maps.name for maps in stack.quantities] == ["norm"]


@pytest.mark.parametrize("change", ["L9.H99", ["L9.H99"]])
def test_a_heads_name_is_no_change(model: hw.Model, change: Any) -> None:
    with pytest.raises(InputError, match=r'but got .L9.H99.; pass zero\("L9.H99"\) or another of headwise.changes'):
        model.trace(TEXT, change=change)
    with pytest.raises(InputError, match=r'but got None; pass zero\("L5.H3"\)'):
        model.trace(TEXT, change=None)  # pyright: ignore[reportArgumentType]
