"""The table that `show` prints: chosen rows, the telling ones first, units, and text that stays text."""

from __future__ import annotations

from types import SimpleNamespace

import polars as pl
import pytest

from headwise.cli.reproduce import _print_verdicts
from headwise.cli.tables import chosen, print_table
from headwise.errors import InputError

TABLE = pl.DataFrame(
    {"name": ["L0.H0", "L0.H1", "L1.H0", "L1.H1"], "layer": [0, 0, 1, 1], "pattern": ["next", "Sink", "next", "sink"],
     "entropy": [0.5, None, 2.0, 1.0], "text": ["a", "[red]b[/red]", "c", "d"]}
)  # fmt: skip


def names(*args: object, **more: object) -> list[str]:
    return chosen(TABLE, *args, **more)["name"].to_list()  # type: ignore[arg-type]


def test_rows_are_chosen_and_sorted() -> None:
    assert names(None, None) == TABLE["name"].to_list()
    assert names("layer=1,pattern=next", None) == ["L1.H0"]
    assert names("pattern=sink", None) == ["L0.H1", "L1.H1"]
    assert names(None, "entropy") == ["L0.H0", "L1.H1", "L1.H0", "L0.H1"]
    assert names(None, "-entropy") == ["L1.H0", "L1.H1", "L0.H0", "L0.H1"], "what is not known is last either way"
    assert names(None, None, ("-layer", "entropy")) == ["L1.H1", "L1.H0", "L0.H0", "L0.H1"]
    assert names(None, "name", ("-entropy",)) == TABLE["name"].to_list(), "what is asked for comes first"
    assert names(None, None, ("-gone",)) == TABLE["name"].to_list()


@pytest.mark.parametrize(
    ("where", "sort", "said"),
    [
        ("layer", None, r"chosen by COLUMN=VALUE, but 'layer' was given"),
        ("layer=two", None, r"Column layer has numbers, but 'two' was asked for"),
        ("lyer=2", None, r"no column 'lyer'; it has: name, layer, pattern, entropy, text\."),
        (None, "-size", r"no column 'size'; it has: name"),
    ],
)
def test_what_is_not_there_is_said(where: str | None, sort: str | None, said: str) -> None:
    with pytest.raises(InputError, match=said):
        chosen(TABLE, where, sort)


def test_the_table_in_print(capsys: pytest.CaptureFixture[str]) -> None:
    result = SimpleNamespace(table=TABLE, folder="out")
    print_table(result, whole=False, where="layer=0", first_by=("-entropy",))  # type: ignore[arg-type]
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "  in every row: layer 0"
    assert out[1].split("  ")[0] == "name"
    assert "entropy (nats)" in out[1]
    assert [line.split()[0] for line in out[2:4]] == ["L0.H0", "L0.H1"]
    assert "[red]b[/red]" in out[3], "a corpus cannot colour the terminal"
    assert " – " in out[3]


def test_the_verdicts_in_print(capsys: pytest.CaptureFixture[str]) -> None:
    """Each column under its name; why a claim is open stands with its verdict."""
    row = {
        "item": "fig1",
        "claim": "it-falls",
        "theirs": "0.9",
        "ours": "0.8",
        "n": "40",
        "control": "0.1",
        "rule": ">0.5",
    }
    table = pl.DataFrame([{**row, "verdict": "holds", "why": ""}, {**row, "verdict": "undecided", "why": "few"}])
    _print_verdicts(table, "tiny:bert")
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.split() and "─" not in line]
    assert lines == [
        ["item", "claim", "paper", "tiny:bert", "n", "control", "verdict", "rule"],
        ["fig1", "it-falls", "0.9", "0.8", "40", "0.1", "holds", ">0.5"],
        ["fig1", "it-falls", "0.9", "0.8", "40", "0.1", "undecided:", "few", ">0.5"],
    ]
