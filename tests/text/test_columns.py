"""Which columns of a table are offered where those that were asked for are not there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from headwise.errors import InputError
from headwise.text.corpus import open_corpus


@pytest.mark.parametrize(
    ("content", "asked", "said"),
    [
        ("", {"label": "label"}, "a.csv must have columns label, but it is empty"),
        ("ID no.,review,stars\n1,good,5\n", {"label": "label"},
         "must have columns label; it has: ID no., review, stars; pass --columns review --label stars (in Python"),
        ("idx,body\n1,good\n", {"label": "label"}, "it has: idx, body; pass --columns body (in Python"),
        ("id,review,stars\n1,good,5\n", {"label": "stars"},
         "it has: id, review, stars; pass --columns review --label stars ("),
        ("stars,review,lang\n5,good,en\n", {"label": "STARS"}, "pass --columns review --label stars ("),
        ("review_id,stars,review\n1,5,good\n", {"label": "stars"}, "pass --columns review --label stars ("),
        ("id,review,stars\n1,good,5\n", {"columns": "review", "label": "star"},
         "pass --columns review --label stars ("),
        ("Satz A,Satz B,Urteil\na,b,1\n", {"columns": "Satz A,Satz B", "label": "x"},
         "pass --columns 'Satz A,Satz B' --label Urteil ("),
        ("id,user_id\n1,2\n", {"label": "user_id"}, "pass --columns id --label user_id ("),
        ("id,Was the novel worth its price?,stars\n1,yes,5\n", {"label": "label"}, "it has: id, Was the novel worth"),
        ("review;label of a text.\ngood;1\n", {"label": "label"}, "seem to be separated by ';'"),
        (f"{'how long a name can be ' * 4},stars\nyes,5\n", {"columns": "review", "label": "Stars"},
         "it has: how long"),
    ],
)  # fmt: skip
def test_what_was_named_rightly_stays_and_no_number_of_the_row_is_offered(
    tmp_path: Path, content: str, asked: dict[str, str], said: str
) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(InputError) as error:
        list(open_corpus(tmp_path / "a.csv", **asked).documents())  # type: ignore[arg-type]
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("first", "columns", "label", "offered"),
    [
        ('"My sister gave me the novel: awful, I must say, and far too long for a summer.",1', (0,), 1,
         "'My sister gave me the novel: awful, I must say, and far too…'; it seems to have none: name columns by "
         "number, from 0, as in --columns 0 --label 1 (in Python columns=[0], label=1)."),
        ("7,It rains all day.,wet", (1,), 2, "as in --columns 1 --label 2 (in Python columns=[1], label=2)."),
        ("It rains all day.", (0,), None, "as in --columns 0 (in Python columns=[0])."),
    ],
)  # fmt: skip
def test_a_file_without_names_is_told_to_number_its_columns(
    tmp_path: Path, first: str, columns: tuple[int, ...], label: int | None, offered: str
) -> None:
    """And what it is told to pass works."""
    path = tmp_path / "a.csv"
    path.write_text(f"{first}\n{first}\n")
    for asked in ({"label": "label"}, {"columns": "review"}, {}):
        with pytest.raises(InputError) as error:
            open_corpus(path, **asked)  # type: ignore[arg-type]
        assert offered in str(error.value)
    documents = list(open_corpus(path, columns=columns, label=label).documents())
    assert len(documents) == 2
    assert documents[0].text in first
    assert documents[0].notes == (None if label is None else first.split(",")[-1])


@pytest.mark.parametrize(("name", "mark"), [("a.csv", ","), ("a.tsv", "\t")])
def test_a_line_with_too_many_fields_is_counted_and_no_text(tmp_path: Path, name: str, mark: str) -> None:
    lines = ["id,review,stars", "1,good,5", "900,too,many,columns,here", "2,bad,1,", "3,short", "4,fine,4"]
    (tmp_path / name).write_text("\n".join(lines).replace(",", mark))
    skipped: Counter[str] = Counter()
    documents = list(open_corpus(tmp_path / name, columns="review", label="stars").documents(skipped))
    assert [(each.text, each.notes) for each in documents] == [("good", "5"), ("bad", "1"), ("fine", "4")]
    assert skipped == {"with too many fields": 1, "missing column": 1}
    numbered = open_corpus(tmp_path / name, columns=(1,)).documents()
    assert "too" in [each.text for each in numbered], "without names nobody says how many there are"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('review,stars\n"good film,1\nbad film,0\nanother nice film,1\n', 2),
        ('review,stars\n"a film\nof two lines",1\n\n"bad ""film"",0\n', 5),
        ('"review,stars\ngood,1\n', 1),
        ('review,stars\ngood,1\nbad,"', 3),
    ],
)
def test_a_quote_that_is_never_closed_is_named(tmp_path: Path, content: str, line: int) -> None:
    """All that followed was one text: "1 text, 15 tokens read; no text was skipped"."""
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(InputError, match=rf"must close every quote, but one that opens in the row of line {line} is"):
        list(open_corpus(tmp_path / "a.csv", columns="review").documents())


def test_a_field_too_long_for_csv_may_be_such_a_quote(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('review,stars\ngood,1\n"bad' + "\nfilm after film after film" * 9000)
    with pytest.raises(InputError, match=r"row of line 3 cannot be read \(field larger .*; is a quote never closed"):
        list(open_corpus(tmp_path / "a.csv", columns="review").documents())


def test_quotes_that_are_closed_are_no_matter(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('review,stars\n"a, ""b""\nc",1\n5" wide,0\n"d"')
    spec = open_corpus(tmp_path / "a.csv", columns="review")
    assert [document.text for document in spec.documents()] == ['a, "b"\nc', '5" wide', "d"]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
@pytest.mark.parametrize("content", [bytes(range(256)) * 40, "Kritik,Größe\ngut,1\n".encode("latin-1"),
                                     "review\n".encode("utf-16")])  # fmt: skip
def test_a_table_that_is_no_utf_8_is_not_called_empty(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name} must be UTF-8 text, but its first lines are not"):
        open_corpus(tmp_path / name, columns="review")
