"""Which columns of a table are offered where those that were asked for are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwise.errors import InputError
from headwise.text.corpus import open_corpus


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "a.csv must have columns label, but it is empty"),
        ("ID no.,review,stars\n1,good,5\n", "it has ID no., review, stars. Name what holds text and label, as in "
                                              "--columns review --label stars"),
        ("idx,body\n1,good\n", "as in --columns body --label idx"),
    ],
)  # fmt: skip
def test_the_column_that_is_offered_is_no_number_of_the_row(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(InputError) as error:
        list(open_corpus(tmp_path / "a.csv", label="label").documents())
    assert said in str(error.value)
