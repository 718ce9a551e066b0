"""Conditions for pipelines: each operator on both sides of its limit, and everything that must not pass in silence."""

import math
import sys

import pytest
import typer

from headwise.cli import main
from headwise.cli.fail_if import end, failures, parsed
from headwise.errors import InputError
from headwise.reports.verdict import DECISIONS

SCALES = {"verdict": DECISIONS}


@pytest.mark.parametrize(
    ("text", "value", "holds"),
    [("x>0.5", 0.5, False), ("x>0.5", 0.51, True), ("x>=0.5", 0.5, True), ("x>=0.5", 0.49, False),
     ("x<0.5", 0.5, False), ("x<0.5", 0.49, True), ("x<=0.5", 0.5, True), ("x<=0.5", 0.51, False),
     ("x==3", 3, True), ("x=3", 4, False), ("x!=3", 3, False), ("x!=3", 4, True),
     ("x > 5%", 0.05, False), ("x > 5 %", 0.051, True), ("x<-1e-3", -0.002, True), ("x<-1e-3", 0.0, False)],
)  # fmt: skip
def test_an_operator_holds_on_one_side_of_its_limit(text: str, value: float, holds: bool) -> None:
    assert bool(failures(parsed([text]), {"x": value})) is holds


@pytest.mark.parametrize(
    ("text", "holds"),
    [("verdict<yes", True), ("verdict<with care", False), ("verdict=with care", True), ("verdict!=with care", False),
     ("verdict<=no", False)],
)  # fmt: skip
def test_words_have_the_order_of_their_scale(text: str, holds: bool) -> None:
    assert bool(failures(parsed([text], scales=SCALES), {"verdict": "with care"}, scales=SCALES)) is holds


@pytest.mark.parametrize(
    ("text", "holds"), [("verdict<with care", True), ("verdict==undecided", True), ("verdict<=no", False)]
)
def test_undecided_is_less_than_with_care_and_more_than_no(text: str, holds: bool) -> None:
    assert bool(failures(parsed([text], scales=SCALES), {"verdict": "undecided"}, scales=SCALES)) is holds


def test_every_term_must_hold_and_one_condition_is_enough() -> None:
    found = {"x": 1.0, "y": 2.0}
    assert failures(parsed(["x>0 and y>2"]), found) == []
    assert failures(parsed(["x>0 and y>1.5", "x>9"]), found) == ['x is 1 and y is 2 (--fail-if "x>0 and y>1.5")']


def test_one_head_is_enough_and_the_worst_is_named() -> None:
    found = {"sink": {"L0.H0": 0.1, "L0.H1": 0.6, "L1.H0": 0.9}}
    assert failures(parsed(["sink>0.5"]), found) == ['sink is 0.9 in L1.H0 and in 1 more of 3 (--fail-if "sink>0.5")']
    assert failures(parsed(["sink>0.8"]), found) == ['sink is 0.9 in L1.H0, of 3 (--fail-if "sink>0.8")']
    assert failures(parsed(["sink>0.95"]), found) == []


@pytest.mark.parametrize(
    "text", ["", "x", "x>", ">3", "x 3", "x>1 and", "x><3 or", "carried<<3", "x=<3", "1x>3", "x>1 and y"]
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--fail-if"):
        failures(parsed([text]), {"x": 1.0})


def test_what_is_not_there_or_was_not_measured_never_passes() -> None:
    with pytest.raises(InputError, match="sink_share"):
        parsed(["sink_shar>0.5"], names=["sink_share"])
    with pytest.raises(InputError, match="sink_share"):
        failures(parsed(["sink_shar>0.5"]), {"sink_share": 1.0})
    for nothing in (None, math.nan, {}):
        with pytest.raises(InputError, match="not measured"):
            failures(parsed(["x>0.5"]), {"x": nothing})
    with pytest.raises(InputError, match="no, undecided, with care, yes"):
        parsed(["verdict<maybe"], scales=SCALES)
    with pytest.raises(InputError, match=r'compared with a number, as "carried<0\.5"'):
        parsed(["carried<few"], names=["carried"])


def test_a_reason_ends_with_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    end([])
    with pytest.raises(typer.Exit) as left:
        end(["x is 1"])
    assert left.value.exit_code == 1
    assert capsys.readouterr().err == "headwise: failed: x is 1\n"


def test_accuracy_is_refused_before_anything_is_run_where_no_label_is_named(monkeypatch, capsys, tmp_path) -> None:
    words = ["verdict", "tiny:bert", "--fail-if", "accuracy<0.8", "--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["headwise", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert capsys.readouterr().err.strip().endswith("no column of labels is named; give --label COLUMN.")
    assert not (tmp_path / "out").exists()
