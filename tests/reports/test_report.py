"""The report of a tiny model: what is run, what is written, what is taken up again, what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

import headwise as hw
from headwise.errors import InputError
from headwise.reports.answers import Card
from headwise.reports.method import sentences
from headwise.reports.page import _answers, chart_library, columns_of
from headwise.reports.plan import Agenda, agenda
from headwise.results.result import finite
from headwise.studies.answers import BELIEVE
from headwise.text.corpus import open_corpus
from references.markup import stray, words

STUDIES = ["surface", "nullspace", "mixing"]


@pytest.fixture(scope="module")
def made(load, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report")
    corpus = out / "texts.jsonl"
    hostile = 'The cat </script><script>alert(1)</script> & "friends" <img src=x onerror=alert(2)> sat down.'
    corpus.write_text("".join(json.dumps({"text": f"{hostile} Number {n}."}) + "\n" for n in range(4)), "utf-8")
    return hw.report(
        load("tiny:bert"), corpus=corpus, out=out / "out", studies=STUDIES, settings={"mixing": {"texts": 2}},
        command="headwise report <b>", progress=False,
    )  # fmt: skip


def test_the_page_holds_answers_claims_every_study_and_the_method(made: Path) -> None:
    html = made.read_text("utf-8")
    sections = re.findall(r'<section id="([^"]+)"', html)
    assert sections == ["verdict", "answers", "claims", *STUDIES, "examples", "method"]
    assert "May attention of this model be read as an explanation?" in html
    assert "headwise report &lt;b&gt;" in html
    assert not stray(html)
    assert not stray((made.parent / "verdict.html").read_text("utf-8"))


@pytest.mark.parametrize(
    ("short", "said"),
    [("No, not the raw weights: most change nothing. Decided by nullspace.", "No, not the raw weights, as said above."),
     ("With care: r = 0.38 (a: b).", "With care, as said above.")],
)  # fmt: skip
def test_what_the_verdict_said_in_full_is_not_said_again(short: str, said: str) -> None:
    html = "".join(_answers([Card(BELIEVE, short, (("1 of 2 heads.", "surface"),))], {"surface": None}))  # type: ignore[dict-item]
    assert words(html)[:3] == [("h2", "In short"), ("h3", BELIEVE), ("p", said)]


def test_a_card_asks_answers_and_says_why() -> None:
    card = Card("Is it so?", "No.", (("1 of 2 heads.", "surface"),))
    html = "".join(_answers([card], {"surface": None}))  # type: ignore[dict-item] - only the name is asked for
    assert words(html) == [("h2", "In short"), ("h3", "Is it so?"), ("p", "No."), ("li", "1 of 2 heads."),
                           ("a", "surface")]  # fmt: skip
    assert 'href="#surface"' in html


def test_the_method_reads_as_sentences(made: Path) -> None:
    results = {name: hw.open(made.parent / "results" / name) for name in ("surface", "mixing")}
    left = {"ablation": "it takes more texts", "syntax": "The corpus has no parses."}
    model, corpus, asked, *rest = sentences(results, Agenda({}, left, None, note="Budget: one minute"))
    weights = results["surface"].manifest["model"]["weights"]
    assert model.startswith(f"The model is tiny:bert (bert, weights {weights}), in float32. Before anything was ")
    assert re.search(r"heads send is right to \d+e-\d\d, and the watched model gives its own output to \S+\.$", model)
    assert re.fullmatch(r"The corpus is texts\.jsonl \(fingerprint \w+\)\. 4 texts with \d+ tokens were read; none was "
                        r"left out\.", corpus)  # fmt: skip
    assert asked.startswith("These questions were asked, all of the same texts: “Where heads look” (surface), “What ")
    assert rest == ["Budget: one minute.", "Not run: ablation. It takes more texts.",
                    "Not run: syntax. The corpus has no parses."]  # fmt: skip


def test_nothing_from_the_corpus_becomes_markup(made: Path) -> None:
    html = made.read_text("utf-8").replace(chart_library(), "")
    assert "<img" not in html
    assert "alert(1)</script>" not in html
    assert html.count("<script>") == 2  # the charts' library and the page's own


def test_results_stand_beside_the_page_and_a_second_call_takes_them(load, made: Path) -> None:
    assert hw.open(made.parent / "results" / "surface").manifest["study"] == "surface"
    before = (made.parent / "results" / "surface" / "manifest.json").stat().st_mtime_ns
    again = hw.report(
        load("tiny:bert"), corpus=made.parents[1] / "texts.jsonl", out=made.parent, studies=STUDIES,
        settings={"mixing": {"texts": 2}}, command="headwise report <b>", progress=False,
    )  # fmt: skip
    assert again == made
    assert (made.parent / "results" / "surface" / "manifest.json").stat().st_mtime_ns == before


def test_another_report_in_the_same_folder_is_refused(load, made: Path) -> None:
    with pytest.raises(InputError, match="another --out"):
        hw.report(load("tiny:bert"), out=made.parent, studies=["surface"], progress=False)


def test_studies_that_do_not_apply_are_left_out_with_their_reason(load) -> None:
    decided = agenda(load("tiny:bert"), open_corpus("sample"))
    assert "importance" in decided.left_out
    assert set(decided.settings) == {
        "surface", "norms", "nullspace", "distances", "lamps", "strongest", "ablation", "roles", "mixing", "identity",
    }  # fmt: skip


def test_what_the_corpus_knows_is_asked_too(load, tmp_path: Path) -> None:
    file = tmp_path / "one.conllu"
    file.write_text("1\tDogs\tdog\tNOUN\tNNS\t_\t2\tnsubj\t_\t_\n2\tbark\tbark\tVERB\tVBP\t_\t0\troot\t_\t_\n\n")
    assert "syntax" in agenda(load("tiny:bert"), open_corpus(file)).settings


def test_a_budget_bounds_what_is_read_and_more_minutes_read_more(load) -> None:
    model, corpus = load("tiny:bert"), open_corpus("sample")
    small, large = (agenda(model, corpus, budget=minutes, truncate=True) for minutes in (0.001, 100.0))
    assert small.documents is not None
    assert large.documents is not None
    assert small.documents < large.documents
    assert "mixing" in large.settings
    assert "of the 0.001 minutes of --budget." in small.left_out["mixing"]
    assert "Budget" in small.note
    with pytest.raises(InputError, match="minutes above 0"):
        agenda(model, corpus, budget=0.0)


def test_tables_and_specifications_are_json_that_browsers_read() -> None:
    table = pl.DataFrame({"name": ["a", None], "value": [float("nan"), 1 / 3]})
    assert columns_of(table) == {"names": ["name", "value"], "columns": [["a", None], [None, 0.333333]]}
    assert finite({"a": [1.0, float("inf")], "b": "x"}) == {"a": [1.0, None], "b": "x"}


def test_labels_and_translations_bring_their_studies_and_their_sentences(tmp_path: Path) -> None:
    labelled = tmp_path / "dev.tsv"
    rows = "the river was old and the city was in the north\t1\nit was not\t0\n"
    labelled.write_text("text\tlabel\n" + rows * 3, "utf-8")
    path = hw.report(
        hw.load("tiny:bert", task="classification"), corpus=labelled, label="label", out=tmp_path / "labels", first=4,
        settings={"adversary": {"steps": 3}, "mixing": {"texts": 1}}, progress=False,
    )  # fmt: skip
    html = path.read_text("utf-8")
    assert {"faithfulness", "adversary"} <= set(re.findall(r'<section id="([^"]+)"', html))
    assert "without the tokens that an explanation names (mean over" in html
    assert "attention can be moved by" in html

    pairs = tmp_path / "dev.pairs"
    pairs.write_text("Das Haus ist alt . ||| The house is old . ||| 0-0 1-1 2-2 3-3 4-4\n" * 6, "utf-8")
    path = hw.report(
        hw.load("tiny:marian"), corpus=pairs, out=tmp_path / "pairs", studies=["surface", "alignment"], progress=False
    )
    assert "Words are aligned best by" in path.read_text("utf-8")
    assert "alignment" in agenda(hw.load("tiny:marian"), open_corpus(pairs)).settings


@pytest.mark.parametrize("texts", [1, 3, 4, 5])
def test_a_handful_of_texts_is_enough_for_a_report(texts: int, load, tmp_path: Path) -> None:
    corpus = tmp_path / "few.txt"
    corpus.write_text("\n\n".join(f"The city number {n} was in the north of it." for n in range(texts)), "utf-8")
    studies = agenda(load("tiny:bert"), open_corpus(corpus)).settings
    assert ("identity" in studies) == (texts >= 4)
    hw.report(load("tiny:bert"), corpus=corpus, out=tmp_path / "out", settings={"mixing": {"texts": 1}}, progress=False)
