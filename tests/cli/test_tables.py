"""The table that `show` prints: chosen rows, the telling ones first, units, and text that stays text."""

from __future__ import annotations

import re
from types import SimpleNamespace

import polars as pl
import pytest

from headwise.cli.printed import terminal
from headwise.cli.reproduce import _print_paper, _print_verdicts
from headwise.cli.tables import chosen, print_table
from headwise.errors import InputError
from headwise.results.shown import FIRST_BY
from headwise.studies import STUDIES

TABLE = pl.DataFrame(
    {"name": ["L0.H0", "L0.H1", "L1.H0", "L1.H1"], "layer": [0, 0, 1, 1], "pattern": ["next", "Sink", "next", "sink"],
     "entropy": [0.5, None, 2.0, 1.0], "text": ["a", "[red]b[/red]", "c", "d"]}
)  # fmt: skip


@pytest.fixture(autouse=True)
def piped(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a pipe, unless a test says how wide its terminal is: who runs tests may have said so."""
    monkeypatch.delenv("COLUMNS", raising=False)


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


def test_items_and_verdicts_fit_a_terminal_of_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells were cut, among them the name of the data that one has to fetch."""
    monkeypatch.setenv("COLUMNS", "80")
    rows = [["p", "fig1", "maps", "surface", "the raw test file of WikiText-2 (" + "x" * 30 + ")"],
            ["p", "fig2, §3.1", "means", "surface", "the raw test file of WikiText-2 (" + "x" * 30 + ")"],
            ["p", "fig3", "what needs nothing", "norms", ""]]  # fmt: skip
    _print_paper("p", rows)
    assert capsys.readouterr().out.splitlines() == [
        "p", "  fig1        maps [surface]", "  fig2, §3.1  means [surface]",
        "  fig3        what needs nothing [norms]", "    fig1, fig2 need the raw test file of WikiText-2",
        f"      ({'x' * 30})",
    ]  # fmt: skip
    row = {"item": "fig1", "claim": "it " + "falls " * 20, "theirs": "0.9", "ours": "0.8", "n": "", "control": "0.1",
           "rule": ">0.5", "verdict": "undecided", "why": "few"}  # fmt: skip
    _print_verdicts(pl.DataFrame([row]), "tiny:bert")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("fig1: it falls falls")
    assert [line.strip() for line in lines[-5:]] == [
        "paper: 0.9", "tiny:bert: 0.8", "control: 0.1", "verdict: undecided: few", "rule: >0.5",
    ]  # fmt: skip


def test_the_verdicts_in_print(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each column under its name; why a claim is open stands with its verdict."""
    monkeypatch.delenv("COLUMNS", raising=False)
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


LONG = "a text that is longer than the terminal is wide, of which the first words are shown and no word is broken"
WIDE = pl.DataFrame({
    "stack": ["self"] * 30, "layer": [at // 6 for at in range(30)], "head": [at % 6 for at in range(30)],
    "name": [f"L{at // 6}.H{at % 6}" for at in range(30)],
    "to_separator": [0.1234 + at for at in range(30)], "comprehensiveness": [0.25 * at for at in range(30)],
    "comprehensiveness_low": [-1.234] * 30, "comprehensiveness_high": [12.34] * 30, "entropy": [3.0] * 29 + [0.5],
    "empty": [None] * 28 + [1.0, None], "sufficiency_gain": [at / 7 for at in range(30)],
    "half@50\u00a0%": [at / 7 for at in range(30)],
    "show": ["with care", "no"] * 15, "text": [LONG] * 29 + ["short"],
})  # fmt: skip


def printed(capsys: pytest.CaptureFixture[str], table: pl.DataFrame, **how: object) -> list[str]:
    print_table(SimpleNamespace(table=table, folder="out"), **{"whole": False, **how})  # type: ignore[arg-type]
    return capsys.readouterr().out.splitlines()


def test_a_terminal_of_80_columns_has_whole_cells_and_is_told_what_is_left_out(monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = printed(capsys, WIDE, sort="entropy")
    assert max(map(len, lines)) <= 80
    assert lines[0] == "  in every row: stack self"
    assert [line.split()[0] for line in lines[3:27]] == ["L4.H5", *(f"L{at // 6}.H{at % 6}" for at in range(23))]
    assert [" ".join(line.split()) for line in lines[1:3]] == [
        "to entropy sufficiency",
        "name separator comprehensiveness (nats) gain half@50 % show",
    ]
    assert lines[4].split() == ["L0.H0", "0.123", "0", "[-1,", "12]", "3", "0", "0", "with", "care"]
    assert " ".join(" ".join(lines[27:]).split()) == (
        "left out: columns layer, head, empty, text; 6 more rows; --all shows them, out/table.parquet has them"
    )


def test_what_fits_is_shown_and_a_long_text_ends_between_words(monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = printed(capsys, WIDE.select("name", "layer", "text").head(3))
    assert lines == [
        "  in every row: layer 0, text a text that is longer than the",
        "    terminal is wide, of which the first words are shown and",
        "    no word is broken",
        "name ",
        "L0.H0",
        "L0.H1",
        "L0.H2",
    ]
    lines = [line.rstrip() for line in printed(capsys, WIDE.select("name", "text")[28:])]
    assert lines[1:3] == ["L4.H4  a text that is longer than the terminal is wide, of…", "L4.H5  short"]
    assert "left out: the ends of long texts; --all shows them" in lines[3]


def test_all_of_a_wide_table_is_in_parts_that_fit(monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = printed(capsys, WIDE.head(1), whole=True)
    assert max(map(len, lines)) <= 80
    for each in ("layer", "0.123", "0 [-1, 12]", "with care", "half@50\u00a0%"):
        assert each in "\n".join(lines)
    assert not any("left out" in line for line in lines)
    assert sum("L0.H0" in line for line in lines) == sum("name" in line for line in lines) > 1


def test_a_pipe_has_every_column_and_a_terminal_of_unknown_width_has_80(monkeypatch, capsys) -> None:
    assert terminal() is None
    lines = printed(capsys, WIDE)
    assert LONG.partition(" is shown")[0][:60] in lines[2]
    assert lines[-1] == "  left out: 6 more rows; the ends of long texts; --all shows them, out/table.parquet has them"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert terminal() == 80


def test_a_long_text_is_cut_in_a_pipe_too_and_that_is_said(capsys) -> None:
    """Rows of `show RUN strongest` had more than 250 characters."""
    text = "a word or\ntwo " * 20
    table = pl.DataFrame({"name": ["a", "b"], "text": [text, "half@50\u00a0%  of it"], "value": [0.25, 0.5]})
    lines = printed(capsys, table)
    assert lines[1].startswith("a     a word or two a word or two")
    assert max(map(len, lines)) <= 100
    assert lines[1].split("…")[1].split() == ["0.25"], "what stands behind it is whole"
    assert lines[3] == "  left out: the ends of long texts; --all shows them, out/table.parquet has them"
    assert "left out" not in printed(capsys, table[1:])[-1], "a blank that does not break is no end"
    assert " ".join(text.split()) in " ".join(" ".join(printed(capsys, table, whole=True)).split()).replace(" 0.25", "")


def test_a_heading_stands_in_one_line_where_there_is_room(monkeypatch, capsys) -> None:
    table = pl.DataFrame({"name": ["a", "b"], "null_share": [0.5, 0.25]})
    monkeypatch.setenv("COLUMNS", "24")
    assert printed(capsys, table)[0].split() == ["name", "null", "share", "(of", "1)"]
    monkeypatch.setenv("COLUMNS", "20")
    assert printed(capsys, table)[0].split() != ["name", "null", "share", "(of", "1)"]


def test_what_is_best_comes_first_in_every_table_that_has_one() -> None:
    rows = pl.DataFrame({"method": ["random", "bad", "good", "no"], "comprehensiveness_gain": [0.0, -0.1, 0.3, None],
                         "sufficiency_gain": [0.0] * 4, "kendall": [0.0] * 4})  # fmt: skip
    assert chosen(rows, None, None, STUDIES["faithfulness"].first_by)["method"].to_list() == [
        "good",
        "random",
        "bad",
        "no",
    ]
    rows = pl.DataFrame({"name": ["a", "b", "c"], "best": [False, True, True], "aer": [0.1, 0.4, 0.2]})
    assert chosen(rows, None, None, FIRST_BY)["name"].to_list() == ["c", "b", "a"]


def test_words_are_sorted_as_the_study_has_them() -> None:
    """raw before effective; but by the alphabet where a user asks for it."""
    rows = pl.DataFrame({"quantity": ["raw", "effective", "raw", None], "entropy": [2.0, None, 1.0, 0.0]})
    assert chosen(rows, None, None, ("quantity", "entropy"))["entropy"].to_list() == [1.0, 2.0, None, 0.0]
    assert chosen(rows, None, "quantity")["quantity"].to_list() == ["effective", "raw", "raw", None]


def first(study: str, table: pl.DataFrame) -> list[object]:
    """The column `is` of the rows as the study has them first."""
    return chosen(table, None, None, STUDIES[study].first_by)["is"].to_list()


def test_what_a_study_answers_from_comes_first() -> None:
    rows = pl.DataFrame({"paper": ["table1", "fig3", "table2", "table2"], "what": ["mean", "alpha", "pairs", "rho"],
                         "is": [2, 1, 3, 0]})  # fmt: skip
    assert first("norms", rows) == [0, 1, 2, 3], "rank correlations, then what goes to each kind"
    rows = pl.DataFrame({"what": ["rank", *["null_share"] * 4], "head": [None, None, 0, 1, 2],
                         "value": [9.0, 0.9, 0.1, None, 0.3], "is": [4, 3, 1, 2, 0]})  # fmt: skip
    assert first("nullspace", rows) == [0, 1, 2, 3, 4], "heads, largest first; then layers by length"
    rows = pl.DataFrame({"kind": ["own", "own", "not-own", "own", "rank"], "group": ["", "", "", "NN", ""],
                         "statistic": ["q05", "median", "share", "median", "median"],
                         "is": [4, 0, 3, 2, 1]})  # fmt: skip
    assert first("mixing", rows) == [0, 1, 2, 3, 4]
    rows = pl.DataFrame({"stack": ["self"] * 4 + ["cross"], "a": ["x", "x", "y", "x", "x"],
                         "b": ["x", "y", "x", "z", "y"], "js": [0.0, 0.2, 0.2, 0.1, 0.01],
                         "is": [2, 1, 3, 0, 4]})  # fmt: skip
    assert first("distances", rows) == [0, 1, 2, 3, 4], "the nearest pair of different heads, each pair once"


COMPARED = pl.DataFrame({
    "layer": [0, 0, 1, 1, 1], "name": ["L0.H0", "L0.H0", "L1.H1", "L1.H1", "L1.H2"],
    "what": ["entropy", "next"] * 2 + ["next"],
    "a": [1.0, 0.1, 2.0, 0.2, 0.15], "b": [2.0, 0.1, 2.2, 0.3, 0.05], "change": [1.0, 0.0, 0.2, 0.1, -0.1],
    "clear": [False, False, True, True, True],
})  # fmt: skip


def test_a_comparison_has_clear_changes_first_the_largest_for_its_number_on_top(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = [" ".join(line.split()[:3]) for line in printed(capsys, COMPARED)]
    assert lines[1:6] == [
        "L1.H1 to the", "L1.H2 to the", "L1.H1 entropy (nats)", "L0.H0 entropy (nats)", "L0.H0 to the",
    ]  # fmt: skip
    assert printed(capsys, COMPARED)[0].split() == ["name", "what", "a", "b", "change", "clear"]
    lines = printed(capsys, COMPARED, whole=True)
    assert [line.split()[1] for line in lines[1:6]] == COMPARED["name"].to_list(), "all of it is as it is stored"


MATCHED = COMPARED.with_columns(
    matched_layer=pl.lit(2), matched=pl.lit("L2.H11"), cost=pl.lit(2.91), kept=pl.lit(0.5),
    what=pl.Series(["entropy", "to_punctuation", "entropy", "to_other", "next"]),
    change=pl.col("change") * -0.513, low=pl.col("change") * -0.513 - 0.0031, high=pl.col("change") * -0.513 + 0.0032,
).select(
    "layer", "name", "matched_layer", "matched", "cost", "kept", "what", "a", "b", "change", "low", "high", "clear",
)  # fmt: skip


def test_a_matched_comparison_shows_the_change_and_whether_it_is_clear_at_80_columns(capsys, monkeypatch) -> None:
    """It had the cost of the match, and no change."""
    monkeypatch.setenv("COLUMNS", "80")
    table = MATCHED.with_columns(matched=pl.Series(["L2.H11", "L2.H1", "L2.H2", "L2.H3", "L2.H10"]))
    lines = printed(capsys, table.with_columns(cost=pl.col("a"), kept=pl.col("b")))
    head = next(line for line in lines if "name" in line)
    assert {"name", "matched", "what", "change", "clear"} <= {*head.split()}
    assert not {"a", "b"} & {*head.split()}, "one side alone says nothing"
    said = r"L1\.H1 +L2\.H3 .*to other tokens +-0\.0513 \[-0\.0544, -0\.0481\] +True *"
    assert any(re.fullmatch(said, line) for line in lines)
    assert all(len(line) <= 80 for line in lines)


def test_the_numbers_of_a_comparison_are_chosen_by_either_name(capsys) -> None:
    for asked in ("to_other", "to other tokens"):
        lines = printed(capsys, MATCHED, where=f"what={asked}")
        assert [line.split()[1] for line in lines if re.match(" *1 +L", line)] == ["L1.H1"], asked


def test_places_are_not_shown_where_a_name_tells_them(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    table = pl.DataFrame({"layer": [0, 1], "head": [3, 2], "name": ["L0.H3", "L1.H2"], "value": [0.1, 0.2]})
    lines = printed(capsys, table)
    assert lines[0].split() == ["name", "value"]
    assert lines[3] == "  left out: columns layer, head; --all shows them, out/table.parquet has them"
    assert printed(capsys, table, sort="-layer")[0].split() == ["layer", "name", "value"], "asked for"
    methods = table.with_columns(name=pl.lit("rollout"))
    assert printed(capsys, methods)[1].split() == ["layer", "head", "value"], "this name does not tell them"


LIT = pl.DataFrame({
    "stack": ["self"] * 3, "layer": [0, 0, 1], "head": [0, 1, 0], "name": ["L0.H0", "L0.H1", "L1.H0"],
    **{f"{name}{end}": [0.1234, 0.00677, 0.5 + 1e-4]
       for name in ("null_share", "loose", "carried", "parked", "sent", "neighbour") for end in ("", "_low", "_high")},
    "lamp_unique": ["green", "red", "amber"], "lamp_carries": ["amber", "green", "red"], "lamp_matters": ["dark"] * 3,
    "held": ["carries", None, None], "show": ["with care", "no", "no"], "sink": [True, False, False],
})  # fmt: skip


def test_what_decides_whether_a_map_may_be_shown_is_there_at_80_columns_and_in_words(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = printed(capsys, LIT, first_by=("stack", "-null_share"))
    assert max(map(len, lines)) <= 80
    assert lines[0] == "  in every row: stack self, matters? not known yet"
    assert " ".join(" ".join(lines[1:4]).split()) == (
        "null share loose carried parked sent carries name (of 1) (of 1) (of 1) (of 1) (of 1) unique? anything? show"
    )
    assert [line.split() for line in lines[4:7]] == [
        ["L1.H0", *["0.500"] * 5, "with", "care", "no", "no"],
        ["L0.H0", *["0.123"] * 5, "yes", "held", "back", "with", "care"],
        ["L0.H1", *["0.007"] * 5, "no", "yes", "no"],
    ]
    said = " ".join(" ".join(lines[7:]).split())
    assert "sent: of what is sent, what comes from there; held back: yes by itself, but" in said
    assert "the intervals of null_share, loose, carried, parked, sent; --all shows them" in said
    assert not {"lamp", "dark", "amber", "True"} & {*" ".join(lines).split()}


def test_a_lamp_is_chosen_by_the_word_that_is_shown() -> None:
    for said in ("unique=yes", "unique=green"):
        assert chosen(LIT, f"lamp_{said}", None)["name"].to_list() == ["L0.H0"]
    assert chosen(LIT, "lamp_carries=with care", None)["name"].to_list() == ["L0.H0"]


def test_the_numbers_that_a_verdict_rests_on_stand_side_by_side_a_row_a_head(capsys, monkeypatch) -> None:
    """The mean of r is what nullspace votes by, and r was in none of the rows that were shown."""
    rows = [("fig1a", None, "L0", None, 9.0, "pearson", 0.7), ("fig1b", 0, "L0.H0", "first", None, "raw", 0.2)]
    for head, r, share in ((0, 0.95, 0.02), (1, 0.25, 0.875), (2, None, 0.5)):
        name = f"L0.H{head}"
        rows += [
            ("rank", head, name, None, None, "null_dim", 12.0),
            ("mass", head, name, None, None, "null_share", share),
        ]
        rows += [] if r is None else [("fig1a", head, name, None, None, "pearson", r)]
    table = pl.DataFrame(
        [("self", 0, *row) for row in rows],
        schema=["stack", "layer", "paper", "head", "name", "category", "length", "what", "value"], orient="row",
    )  # fmt: skip
    monkeypatch.setenv("COLUMNS", "80")
    by = STUDIES["nullspace"].first_by
    lines = printed(capsys, table, first_by=by)
    assert max(map(len, lines)) <= 80
    assert lines[0] == "  in every row: stack self, layer 0"
    assert " ".join(lines[1].split()) == "name r, raw and effective null share (of 1) free directions"
    assert [line.split() for line in lines[2:5]] == [
        ["L0.H1", "0.25", "0.875", "12"], ["L0.H0", "0.95", "0.020", "12"], ["L0.H2", "–", "0.500", "12"],
    ]  # fmt: skip
    said = " ".join(" ".join(lines[5:]).split())
    assert "r, raw and effective: Pearson's r of raw and effective weights, mean over texts (the verdict" in said
    assert "left out: column head; 2 other numbers; --all shows them" in said
    one = printed(capsys, table, first_by=by, where="name=L0.H1")
    assert one[1].split() == ["self", "L0.H1", "0.25", "0.875", "12"]
    lines = printed(capsys, table, first_by=by, where="what=pearson")
    assert lines[0] == "  in every row: stack self, layer 0, paper fig1a, what pearson"
    assert [line.split()[0] for line in lines[2:5]] == ["L0.H0", "L0.H1", "L0"], "as it is stored, where asked for"
    assert lines[5].startswith("  pearson: Pearson's r of raw and effective weights")


def test_numbers_of_a_long_table_are_told_with_words_and_units(capsys) -> None:
    rows = pl.DataFrame(
        {"paper": ["table2", "fig3"], "name": ["L0", "L1"], "what": ["rho", "norm"], "value": [0.1, 2.0]}
    )
    lines = printed(capsys, rows)
    assert lines[3] == (
        "  rho: Spearman's ρ of weight α and length ‖f(x)‖ of the vector that it weighs (no unit); norm: ‖α f(x)‖, the "
        "length of what is sent, a sum over such tokens (units of the residual stream)"
    )


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ((0.0161, 5.93e-10, 0.0323), "0.016 [0.000, 0.032]"),
        ((0.615, 0.6071, 0.6239), "0.615 [0.607, 0.624]"),
        ((0.5, -0.0001, 1.0), "0.5 [-0.0, 1.0]"),
        ((0.13, 0.004, 0.26), "0.130 [0.004, 0.260]"),
        ((0.13, -0.004, 0.26), "0.130 [-0.004, 0.260]"),
        ((12.0, 3.25, 104.4), "12 [3, 104]"),
        ((1.0, 1.0, 1.0), "1 [1, 1]"),
        ((2e-6, 1e-6, 3e-6), "2e-06 [1e-06, 3e-06]"),
        ((None, 0.1, 0.2), "– [0.10, 0.20]"),
    ],
)
def test_both_ends_of_an_interval_are_rounded_at_one_place(numbers, said: str, capsys) -> None:
    table = pl.DataFrame([("a", *numbers)], schema=["name", "r", "r_low", "r_high"], orient="row")
    assert printed(capsys, table)[1].split(maxsplit=1)[1].strip() == said


def test_a_lamp_is_shown_with_its_numbers_even_without_their_intervals(capsys, monkeypatch) -> None:
    names = ("null_share", "loose", "carried", "parked")
    wide = {f"{name}{end}": [0.1234, 0.2345] for name in names for end in ("", "_low", "_high")}
    table = pl.DataFrame({"name": ["L0.H0", "L0.H1"], **wide, "show": ["with care", "no"]})
    monkeypatch.setenv("COLUMNS", "72")
    lines = printed(capsys, table, first_by=("-null_share",))
    assert lines[3].split() == ["L0.H1", "0.234", "0.234", "0.234", "0.234", "no"]
    said = " ".join(" ".join(lines).split())
    assert "left out: the intervals of null_share, loose, carried, parked; --all shows them" in said
    monkeypatch.setenv("COLUMNS", "140")
    assert "left out" not in " ".join(printed(capsys, table, first_by=("-null_share",)))
