"""`headwise reproduce`: what is not there is named before what is missing."""

from __future__ import annotations

import sys

import pytest

from headwise.cli import main

PAPERS = "clark2019, brunner2019, brunner2020, kobayashi2020, yang"
NO_PAPER = f"There is no paper 'clark2020'; there are {PAPERS}. Did you mean 'clark2019'?"
NEITHER = "A paper and --data FOLDER must be given; `headwise reproduce --list` shows what there is."


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["clark2020", "--item", "fig1"], NO_PAPER),
        (["clark2020", "--list"], NO_PAPER),
        (["clark2019", "--item", "fig99"], "clark2019 has no item 'fig99'; it has fig1, rel-pos, "),
        (["clark2019", "--item", "fig1"], NEITHER),
        (["--data", "."], NEITHER),
    ],
)
def test_a_paper_or_an_item_that_is_not_there_is_named_though_there_is_no_data(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["headwise", "reproduce", *words])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith(f"headwise: {said}")
