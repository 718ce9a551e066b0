"""Items of a paper by name: shared passes, verdicts, and what cannot be run says what it takes."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from headwise.errors import UnknownNameError
from headwise.papers import PAPERS, Job
from headwise.papers.reproduce import chosen_items, passes, reproduce


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "wikitext2"
    folder.mkdir(parents=True)
    lines = [f" The cat number {n} sat on the mat , and it purred . \n" for n in range(8)]
    (folder / "wiki.test.raw").write_text(" = Cats = \n" + "".join(lines), "utf-8")
    return tmp_path / "data"


def test_an_item_is_run_drawn_and_judged(data: Path, tmp_path: Path) -> None:
    table = reproduce(
        "clark2019", items=["rel-pos", "fig6"], data=data, out=tmp_path / "out", model="tiny:bert", progress=False
    )
    assert table["item"].to_list() == ["rel-pos", "fig6"]
    assert set(table["verdict"]) <= {"holds", "holds in part", "does not hold", "not comparable"}
    assert (tmp_path / "out" / "figures" / "rel-pos-rel-pos.svg").is_file()
    assert pl.read_csv(tmp_path / "out" / "verdicts.csv")["item"].to_list() == ["rel-pos", "fig6"]


def test_what_is_missing_is_told(data: Path, tmp_path: Path) -> None:
    table = reproduce(
        "clark2019",
        items=["table2", "fig3", "fig1"],
        data=data,
        out=tmp_path / "out",
        model="tiny:bert",
        progress=False,
    )
    no_data, no_loss, by_hand = table["ours"].to_list()
    assert "OntoGUM" in no_data
    assert "--task masked-lm or causal-lm" in no_loss
    assert by_hand.startswith("headwise view")
    assert set(table["verdict"]) == {""}


def test_jobs_on_one_corpus_share_a_pass_unless_a_study_comes_twice() -> None:
    jobs = [item.job for item in PAPERS["brunner2020"].items if isinstance(item.job, Job)]
    groups = passes(jobs, Path("data"))
    for _, group in groups:
        assert len({job.study for job in group}) == len(group)
    assert {job for _, group in groups for job in group} == set(jobs)
    assert max(len(group) for _, group in groups) >= 2


def test_items_have_several_names_and_unknown_ones_are_listed() -> None:
    assert chosen_items("clark2019", ["fig2"]) == chosen_items("clark2019", ["fig2-top"])
    with pytest.raises(UnknownNameError, match="rel-pos"):
        chosen_items("clark2019", ["fig99"])
    with pytest.raises(UnknownNameError, match="kobayashi2020"):
        chosen_items("vaswani2017", [])


def test_alignment_is_run_from_two_texts_and_gold_links(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "align-de-en"
    folder.mkdir(parents=True)
    (folder / "de").write_text("Das Haus ist alt .\nEr läuft .\n" * 4, "latin-1")
    (folder / "en").write_text("The house is old .\nHe runs .\n" * 4, "latin-1")
    (folder / "alignmentDeEn.talp").write_text("1-1 2-2 3-3 4p4 5-5\n1-1 2-2 3-3\n" * 4)
    asked = {"items": ["table3", "fig8"], "data": tmp_path / "data", "progress": False}
    table = reproduce("kobayashi2020", out=tmp_path / "out", model="tiny:marian", **asked)
    assert table["item"].to_list() == ["fig7"] * 3 + ["fig8"]
    assert set(table["verdict"][:3]) <= {"holds", "holds in part", "does not hold"}
    assert (tmp_path / "out" / "figures" / "fig7-table3.svg").is_file()
    refused = reproduce("kobayashi2020", out=tmp_path / "other", model="tiny:bert", **asked)
    assert "a German–English translation model" in refused["ours"][0]
