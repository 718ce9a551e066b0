"""What every study says of itself: a title, what it needs and the sentence where that is not so, captions."""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass
from pathlib import Path

import polars as pl
import pytest
import torch

import headwise as hw
from headwise.errors import InputError
from headwise.studies import STUDIES
from headwise.studies.answers import FEWEST
from headwise.studies.needs import Means, Needs, brought, kind_of
from headwise.studies.study import Setting, Study, asked_of
from headwise.text.corpus import CorpusSpec, open_corpus

every_study = pytest.mark.parametrize("name", list(STUDIES))


@every_study
def test_a_study_says_what_it_is_in_plain_words(name: str) -> None:
    study = STUDIES[name]
    assert study.name == name
    assert is_dataclass(study)
    assert study.heading()[0].isupper()
    assert study.heading() != name
    assert study.captions
    assert all(caption and caption[-1] != "." for caption in study.captions.values())


def test_the_name_comes_from_the_registration_and_can_be_taken_back() -> None:
    @STUDIES.add("named-here", "a study of this test")
    @dataclass(frozen=True)
    class Here(Study):
        def table(self, *_):
            return pl.DataFrame()

        def figures(self, *_):
            return {}

    try:
        assert Here.name == "named-here"
        assert Here().heading() == "named-here"
        assert list(STUDIES)[-1] == "named-here"
    finally:
        STUDIES.remove("named-here")
    assert "named-here" not in STUDIES


def test_studies_stand_in_the_order_of_the_page() -> None:
    names = list(STUDIES)
    assert names[:4] == ["surface", "norms", "nullspace", "distances"]
    assert names.index("profile") > names.index("alignment")
    assert [entry.name for entry in STUDIES.entries()] == names


@pytest.mark.parametrize(("family", "kind"), [("bert", "encoder"), ("gpt2", "decoder"), ("t5", "encoder–decoder")])
def test_the_kind_of_a_model_is_told(family: str, kind: str, load) -> None:
    assert kind_of(load(f"tiny:{family}")) == kind


@pytest.mark.parametrize(
    ("study", "family", "said"),
    [
        (
            "syntax",
            "t5",
            "Study syntax takes an encoder or a decoder, but tiny:t5 is an encoder–decoder; take its encoder",
        ),
        (
            "coref",
            "t5",
            "Study coref takes an encoder or a decoder, but tiny:t5 is an encoder–decoder; take its encoder",
        ),
        (
            "probe",
            "t5",
            "Study probe takes an encoder or a decoder, but tiny:t5 is an encoder–decoder; take its encoder",
        ),
        ("alignment", "bert", "Study alignment takes an encoder–decoder, but tiny:bert is an encoder; take another"),
        ("alignment", "gpt2", "Study alignment takes an encoder–decoder, but tiny:gpt2 is a decoder; take another"),
    ],
)
def test_a_model_of_another_kind_is_refused_with_the_kinds_that_will_do(study: str, family: str, said: str, load):
    with pytest.raises(InputError, match=said):
        STUDIES[study]().check(load(f"tiny:{family}"))


def test_an_encoder_alone_is_taken_and_attends_as_it_does_in_the_whole(tmp_path: Path) -> None:
    whole, alone = hw.load("tiny:marian"), hw.load("tiny:marian", task="encoder")
    assert kind_of(alone) == "encoder"
    STUDIES["syntax"]().check(alone)
    text = "The cat sat on the mat."
    inside = whole.trace(text, "Die Katze.").attention("raw", stack="encoder")
    assert torch.equal(alone.trace(text).attention("raw"), inside)
    with pytest.raises(InputError, match="takes the encoder of an encoder–decoder, but bert is none; leave it out"):
        hw.load("tiny:bert", task="encoder")
    plain = tmp_path / "plain.txt"
    plain.write_text("The cat sat.\nA dog ran.\n")
    said = r"none was \(2 without a pair: an encoder–decoder reads source and target; give pairs, or take its encoder"
    with pytest.raises(InputError, match=said):
        hw.run("surface", whole, corpus=plain, out=tmp_path / "out", progress=False)


def spec(kind: str, label: str | None = None) -> CorpusSpec:
    return CorpusSpec("corpus", "", kind, None, None, "", label)


@pytest.mark.parametrize(
    ("study", "kind", "label", "said"),
    [
        ("syntax", "conllu", None, None),
        ("syntax", "blocks", None, "parsed sentences: give a CoNLL-U file (--corpus FILE.conllu)"),
        ("coref", "conllu", None, "coreference: give a .conll file with its CoNLL-U (--corpus FILE.conll)"),
        ("coref", "conll", None, None),
        ("alignment", "pairs", None, None),
        ("alignment", "tsv", None, "sentences and their translations: give FILE.pairs, or a source and a target with "
         "--kind pairs"),
        ("faithfulness", "tsv", "label", None),
        ("faithfulness", "tsv", None, None),
        ("adversary", "jsonl", None, None),
        ("surface", "blocks", None, None),
    ],
)  # fmt: skip
def test_what_a_corpus_lacks_is_a_sentence(study: str, kind: str, label: str | None, said: str | None) -> None:
    found = STUDIES[study].needs.lacks_corpus(study, spec(kind, label))
    assert found == (None if said is None else f"Study {study} reads {said}.")


def test_a_corpus_brings_what_its_kind_and_its_label_say() -> None:
    assert brought(spec("conllu", "x")) == {"parse", "label"}
    assert brought(open_corpus("sample")) == set()


def test_needs_in_a_few_words() -> None:
    assert Needs().told() == ""
    assert Needs(("encoder–decoder",), "pairs").told() == "an encoder–decoder; pairs"
    assert Needs(task=("masked-lm", "causal-lm")).told() == "--task masked-lm or causal-lm"


@pytest.mark.parametrize(
    ("study", "means", "settings"),
    [
        ("mixing", Means(), {"texts": 4}),
        ("mixing", Means(None, 60.0, 0.01, 30.0), {"texts": 100}),  # 60 s / (2 tangents · 30 tokens · 0.01 s)
        ("mixing", Means(None, 0.01, 1.0, 30.0), {"texts": 1}),
        ("identity", Means(), {"folds": 5, "sentences": 1000}),
        ("identity", Means(4), {"folds": 3, "sentences": 1000}),
        ("identity", Means(None, 60.0, 0.01, 30.0), {"folds": 5, "sentences": 40}),
        ("identity", Means(None, 1e9, 0.01, 30.0), {"folds": 5, "sentences": 2000}),
        ("faithfulness", Means(), {"texts": 24}),
        ("faithfulness", Means(None, 57.0, 0.01, 30.0), {"texts": 20}),  # 57 s / ((250 + 30) passes · 0.01 s)
        ("reasons", Means(), {"texts": 6}),
        ("reasons", Means(None, 57.0, 0.01, 30.0), {"texts": 20}),
        ("adversary", Means(), {"texts": 12}),
        ("adversary", Means(None, 57.0, 0.01, 30.0), {"texts": 20}),
        ("surface", Means(None, 60.0, 0.01, 30.0), {}),
    ],
)
def test_a_report_gives_each_study_what_it_can_afford(study: str, means: Means, settings: dict) -> None:
    assert STUDIES[study].for_report(means) == settings


@pytest.mark.parametrize("name", STUDIES)
def test_a_report_without_a_budget_reads_as_many_texts_as_a_vote_takes(name: str) -> None:
    """mixing read three, so that every report's front page said "undecided: mixing"."""
    assert STUDIES[name].for_report(Means()).get("texts", FEWEST) >= FEWEST


def test_a_caption_is_found_for_stacks_and_quantities() -> None:
    assert STUDIES["surface"].caption("fig2-bottom-decoder") == STUDIES["surface"].captions["fig2-bottom"]
    assert STUDIES["surface"].caption("fig2-decoder") == STUDIES["surface"].captions["fig2"]
    assert STUDIES["syntax"].caption("heads-raw") == STUDIES["syntax"].captions["heads"]
    assert STUDIES["surface"].caption("fig23") == ""


def test_as_many_texts_as_were_asked_and_no_more_than_were_read() -> None:
    read = Setting("m", {}, False, {"documents": 7, "tokens": 70})
    assert [asked_of(read, texts) for texts in (3, 7, 9, 0)] == [3, 7, 7, 7]
