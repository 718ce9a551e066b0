"""Which columns of a table are offered where those that were asked for are not there."""

from __future__ import annotations

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
    ],
)  # fmt: skip
def test_what_was_named_rightly_stays_and_no_number_of_the_row_is_offered(
    tmp_path: Path, content: str, asked: dict[str, str], said: str
) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(InputError) as error:
        list(open_corpus(tmp_path / "a.csv", **asked).documents())  # type: ignore[arg-type]
    assert said in str(error.value)
