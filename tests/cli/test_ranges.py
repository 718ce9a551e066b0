"""Every number of every verb and every setting of every study, with wrong types and out of range: one line, exit code 2."""

# ruff: noqa: E501 - sentences are compared whole

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, get_args, get_type_hints

import pytest

from headwise.allowed import ANY, Allowed, allowed, check
from headwise.cli import app, main
from headwise.cli.ranges import RANGES
from headwise.cli.settings import settings_of
from headwise.errors import HeadwiseError, InputError
from headwise.studies import STUDIES

NUMBERS = (int, float)
REQUIRED = {
    "run": ["surface"],
    "inspect": ["text"],
    "explain": ["text"],
    "cite": ["--context", "x", "--question", "y"],
    "align": ["--model", "m", "--source", "x", "--target", "y"],
    "compare": ["a", "b"],
    "reproduce": ["clark2019"],
}


def kinds(hint: Any) -> set[Any]:
    """The plain types in a hint."""
    inner = [arg for arg in get_args(hint) if arg is not Ellipsis]
    return set().union(*map(kinds, inner)) if inner else {hint}


def outside(may: Allowed, hint: Any) -> Iterator[str]:
    """Numbers that are not allowed, as they are typed."""
    if not kinds(hint) & set(NUMBERS) or may.one_of:
        return
    step = 1 if float not in kinds(hint) else 1e-6
    yield from (f"{end:.10g}" for end in (may.above, may.below) if end is not None)
    yield from (f"{end:.10g}" for end in [None if may.least is None else may.least - step] if end is not None)
    if may.most is not None and may.most < 2**53:
        yield f"{may.most + step:.10g}"
    if str not in kinds(hint):
        yield from ("nan", "inf")


def misfits(hint: Any, may: Allowed) -> Iterator[str]:
    """What is of another type, as it is typed."""
    plain = kinds(hint)
    many = "tuple" in str(hint)
    if str not in plain or may.one_of or may.of is not None:
        yield "x y"
    if not plain & {str, bool}:
        yield "true"
    if not many and str not in plain:
        yield "1,2"
    if int in plain and not plain & {str, float}:
        yield "1.5"
    if bool in plain:
        yield "2"


def settings() -> Iterator[tuple[str, str, str]]:
    for name in STUDIES:
        hints = get_type_hints(STUDIES[name])
        for field in fields(STUDIES[name]):
            hint, may = hints[field.name], allowed(field)
            yield from ((name, field.name, bad) for bad in dict.fromkeys([*misfits(hint, may), *outside(may, hint)]))


def refused(arguments: list[str], monkeypatch, capsys) -> str:
    """The one line that a command ends with."""
    monkeypatch.setattr("sys.argv", ["headwise", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert ended.value.code == 2, said
    lines = said.strip().splitlines()
    assert len(lines) == 1, said
    assert lines[0].startswith("headwise: ")
    return lines[0]


@pytest.mark.parametrize("study", list(STUDIES))
def test_a_setting_that_cannot_be_is_one_line(study: str) -> None:
    """As `--set` is read, which is before a model is loaded or a folder made."""
    for key, bad in [(key, bad) for name, key, bad in settings() if name == study]:
        with pytest.raises(HeadwiseError) as refused:
            settings_of(study, None, [f"{key}={bad}"])
        said = str(refused.value)
        assert "\n" not in said
        assert key in said or said.startswith("There is no"), f"{study} {key}={bad}: {said}"


@pytest.mark.parametrize("name", list(STUDIES))
def test_every_number_of_a_study_has_its_range_and_the_default_is_in_it(name: str) -> None:
    hints = get_type_hints(STUDIES[name])
    for field in fields(STUDIES[name]):
        if kinds(hints[field.name]) & set(NUMBERS):
            assert allowed(field) != ANY, f"{name}.{field.name} must declare its range: setting(default, least=…)"
    STUDIES[name]()


@pytest.mark.parametrize(
    ("study", "assignment", "line"),
    [
        ("identity", "fraction=0.5,0.8",
         "headwise: fraction of study identity must be a number above 0 and up to 1, but '0.5,0.8' was given."),
        ("alignment", "threshold=x",
         "headwise: threshold of study alignment must be a number above 0 and up to 1, but 'x' was given."),
        ("syntax", "reach=-1",
         "headwise: reach of study syntax must be a whole number, 1 or more and up to 10000, but -1 was given."),
        ("nullspace", "bucket=0", "headwise: bucket of study nullspace must be a whole number, 1 or more, but 0 was given."),
        ("distances", "clusters=0",
         "headwise: clusters of study distances must be a whole number, 1 or more or none, but 0 was given."),
        ("faithfulness", "fractions=0.5,2",
         "headwise: fractions of study faithfulness must be of parts that are each a number above 0 and up to 1, but 0.5,2 "
         "was given."),
        ("identity", "solver=best",
         "headwise: solver of study identity must be one of closed-form, newton, adam, but 'best' was given."),
        ("syntax", "clitic=2", "headwise: clitic of study syntax must be true or false, but 2 was given."),
        ("norms", "norm_parts=3",
         "headwise: norm_parts of study norms must be one of 1, 2, 4, 8, 16, 32, 64, 128, but 3 was given."),
    ],
)  # fmt: skip
def test_the_line_says_what_must_hold(study: str, assignment: str, line: str, monkeypatch, capsys) -> None:
    assert refused(["run", study, "--out", "out", "--set", assignment], monkeypatch, capsys) == line


def test_split_has_three_shares(monkeypatch, capsys) -> None:
    for split in ("70,30", "0,50,50", "50,50,0"):
        assert "three numbers" in refused(
            ["run", "identity", "--out", "out", "--set", f"split={split}"], monkeypatch, capsys
        )


# --- options of verbs ---


def numbers() -> Iterator[tuple[str, str, str]]:
    for command in app.registered_commands:
        assert command.callback is not None
        for name, hint in get_type_hints(command.callback).items():
            if kinds(hint) & set(NUMBERS):
                assert name in RANGES, f"--{name} of {command.name} must have its range in headwise.cli.ranges"
                option = f"--{name.replace('_', '-')}"
                declared, may = RANGES[name]
                for bad in dict.fromkeys(["x", *(["2"] if may.one_of else []), *outside(may, declared)]):
                    yield str(command.name), option, bad


@pytest.mark.parametrize(("verb", "option", "bad"), list(numbers()))
def test_a_number_of_a_verb_out_of_its_range_is_one_line(verb: str, option: str, bad: str, monkeypatch, capsys) -> None:
    needed = ["--out", "out"] if verb in ("run", "report", "align", "compare", "reproduce") else []
    line = refused([verb, *REQUIRED.get(verb, []), *needed, option, bad], monkeypatch, capsys)
    assert option in line


@pytest.mark.parametrize(
    ("option", "given", "line"),
    [
        ("--threads", "0", "headwise: --threads must be a whole number, 1 or more and up to 1024, but 0 was given."),
        ("--shard", "-1", "headwise: --shard must be a whole number, 1 or more, but -1 was given."),
        ("--shard", "0", "headwise: --shard must be a whole number, 1 or more, but 0 was given."),
        ("--batch-tokens", "-5", "headwise: --batch-tokens must be a whole number, 1 or more, but -5 was given."),
    ],
)
def test_what_an_option_must_be_is_said(option: str, given: str, line: str, monkeypatch, capsys) -> None:
    assert refused(["run", "surface", "--out", "out", option, given], monkeypatch, capsys) == line


def test_python_refuses_the_same_numbers(tmp_path) -> None:
    import headwise as hw

    for option in ("threads", "shard_documents", "batch_tokens", "first", "max_tokens", "workers"):
        with pytest.raises(InputError, match=f"{option} must be a whole number, 1 or more"):
            hw.run("surface", "tiny:bert", out=tmp_path / "out", **{option: 0})


@pytest.mark.parametrize(
    ("value", "hint", "may", "said"),
    [
        (True, int, ANY, "a whole number"), (1.0, int, ANY, "a whole number"), ("1", int, ANY, "a whole number"),
        (math.nan, float, ANY, "a number"), (math.inf, float, Allowed(least=0), "a number, 0 or more"),
        ((1, "x"), tuple[int, ...], ANY, "of parts that are each a whole number"), (1, tuple[int, ...], ANY, "of parts"),
        (None, int, ANY, "a whole number"), (2, bool, ANY, "true or false"), (1, str, ANY, "a name"),
    ],
)  # fmt: skip
def test_types_are_checked_and_whole_numbers_pass_for_numbers(value: Any, hint: Any, may: Allowed, said: str) -> None:
    with pytest.raises(InputError, match=f"^x must be {said}"):
        check("x", value, hint, may)


@pytest.mark.parametrize(
    ("value", "hint"), [(1, float), (None, int | None), ("a", str | int), ((1, 2.5), tuple[float, ...])]
)
def test_what_fits_passes(value: Any, hint: Any) -> None:
    check("x", value, hint, ANY)
