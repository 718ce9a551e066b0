"""The public surface: ten verbs in Python, the same words for the same thing in Python and in the shell."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import typer.main

import headwise as hw
from headwise.cli import app, options
from headwise.errors import InputError
from headwise.results import Result, Results

VERBS = ("load", "trace", "run", "report", "view", "compare", "reproduce", "align", "open", "explain")
IN_BOTH = ("run", "report", "compare", "reproduce", "align")
OF_THE_SHELL = {  # options that only a shell needs, or that a function takes as another's argument
    *("help", "open", "list", "pages", "head_only", "quantities", "quantity", "set", "item", "shard"),
    *("fail_if", "json", "card"),
}


def test_every_name_is_there() -> None:
    for name in hw.__all__:
        assert getattr(hw, name) is not None
    assert {*VERBS, "ATTENTION", "MIXING", "PASSES", "ORIGINS", "EXPLANATIONS", "STUDIES"} <= set(hw.__all__)
    assert set(hw.__all__) <= set(dir(hw))
    assert all(callable(getattr(hw, verb)) for verb in VERBS)
    with pytest.raises(AttributeError, match="has no attribute 'magic'"):
        hw.magic  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_the_verbs_stay_functions_when_their_modules_are_imported() -> None:
    """A package called as a verb would take its place: headwise.compare was one."""
    modules = {module.name for module in pkgutil.iter_modules(hw.__path__)}
    assert not modules & set(hw.__all__)


def test_types_are_shipped() -> None:
    assert files("headwise").joinpath("py.typed").is_file()


@pytest.mark.parametrize("verb", IN_BOTH)
def test_an_option_of_the_shell_is_called_as_in_python(verb: str) -> None:
    command = typer.main.get_command(app).commands[verb]  # pyright: ignore[reportAttributeAccessIssue]
    given = {parameter.name.rstrip("_") for parameter in command.params if not getattr(parameter, "hidden", False)}
    python = inspect.signature(getattr(hw, verb))
    further = {"engine", "address", "workers", "threads", "seed", "batch_tokens", "dtype", "task", "kind", "segments"}
    further |= {
        "truncate",
        "max_tokens",
        "device",
        "first",
        "columns",
        "label",
    }  # of hw.run, which compare, report and reproduce hand on
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in python.parameters.values())
    known = set(python.parameters) | (further if open_ended else set())
    assert given - known - OF_THE_SHELL == set()
    assert {"out", "device"} <= given


@pytest.mark.parametrize("verb", ["run", "report", "compare", "reproduce", "align", "view"])
def test_what_is_written_goes_to_out(verb: str) -> None:
    command = typer.main.get_command(app).commands[verb]  # pyright: ignore[reportAttributeAccessIssue]
    shown = [name for parameter in command.params if not getattr(parameter, "hidden", False) for name in parameter.opts]
    assert "--out" in shown
    assert "--output" not in shown


def test_an_old_name_works_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert options.renamed("new", None, was="--output", now="--out") == "new"
    assert capsys.readouterr().err == ""
    assert options.renamed("new", "old", was="--output", now="--out") == "old"
    said = "headwise: --output is called --out now; the old name works until the next release.\n"
    assert capsys.readouterr().err == said


def test_results_are_a_mapping_and_one_alone_answers_for_itself(tmp_path: Path) -> None:
    one, other = (Result(tmp_path / name, {"study": name, "files": {}}) for name in ("a", "b"))
    alone = Results({"a": one})
    assert (alone["a"], alone.only, alone.folder, alone.manifest["study"]) == (one, one, tmp_path / "a", "a")
    assert alone.figures == ()
    both: Any = Results({"a": one, "b": other})
    assert list(both) == ["a", "b"]
    with pytest.raises(InputError, match=r"one result to ask, but there are a, b; name one: results\[…\]"):
        both.table  # noqa: B018


def test_a_text_in_one_call(load: Callable[..., hw.Model]) -> None:
    trace = hw.trace("the sea", model=load("tiny:bert"))
    assert trace.tokens == load("tiny:bert").trace("the sea").tokens
    page = hw.view(trace, quantities=["raw", "norm"], alternatives=0).page
    assert [maps.name for maps in page.stacks[0].quantities] == ["raw", "norm"]
