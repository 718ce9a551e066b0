"""Whole comparisons of tiny models: what is equal stays equal, what was permuted is found, the rest is refused."""

from __future__ import annotations

import copy
import json
import re
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

import headwise as hw
from headwise.cli import main
from headwise.errors import InputError
from headwise.reports.comparison.distances import between
from headwise.reports.comparison.page import LIT, findings, lengths, otherwise_judged
from headwise.reports.comparison.run import compare
from headwise.results import open_result
from headwise.studies.profile import NUMBERS
from headwise.text.corpus import open_corpus
from references.markup import stray, words

LINES = [
    f"The {thing} of the {place}, old and {how}, was in the sea."
    for thing in ("dog", "cat", "river")
    for place in ("city", "north")
    for how in ("big", "young", "said")
]
OTHER = [f"It is said, again, that {line.lower()} So it was." for line in LINES]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "lines.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


@pytest.fixture(scope="module")
def other(corpus: Path) -> Path:
    path = corpus.with_name("other.txt")
    path.write_text("\n".join(OTHER) + "\n")
    return path


@pytest.fixture(autouse=True)
def _undrawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures take most of the time; they are drawn where a test is about them."""
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr("headwise.reports.comparison.run.figures_of", lambda *_: {})


@pytest.fixture
def drawn() -> None:
    """A test that asks for this has its figures."""


def permuted(model: hw.Model, order: dict[int, list[int]]) -> hw.Model:
    """The same function with the heads of some layers in another order."""
    network = copy.deepcopy(model.hf)
    for index, heads in order.items():
        attention = network.encoder.layer[index].attention
        size = attention.self.attention_head_size
        rows = torch.cat([torch.arange(head * size, (head + 1) * size) for head in heads])
        with torch.no_grad():
            for linear in (attention.self.query, attention.self.key, attention.self.value):
                linear.weight.copy_(linear.weight[rows])
                linear.bias.copy_(linear.bias[rows])
            attention.output.dense.weight.copy_(attention.output.dense.weight[:, rows])
    return hw.load((network, model.tokenizer))


def test_a_model_beside_itself_does_not_differ(load, corpus, tmp_path):
    table = compare(load("tiny:bert"), load("tiny:bert"), corpus=corpus, out=tmp_path / "out").table
    assert len(table) == 12 * len(NUMBERS)
    assert table["change"].abs().max() == 0
    assert not table["clear"].any()
    assert table["name"].to_list() == table["matched"].to_list()


def test_permuted_heads_are_found_by_their_attention(load, corpus, tmp_path):
    order = {0: [2, 0, 3, 1], 2: [1, 0, 2, 3]}
    model = load("tiny:bert")
    result = compare(model, permuted(model, order), corpus=corpus, out=tmp_path / "out", match="attention", texts=6)
    heads = result.table.unique("name", maintain_order=True)
    for row in heads.iter_rows(named=True):
        places = order.get(row["layer"], [0, 1, 2, 3])
        assert row["matched"] == f"L{row['layer']}.H{places.index(row['head'])}"
    assert heads["cost"].max() < 1e-5
    assert (heads["kept"] == 1).all()
    assert result.table["change"].abs().max() < 1e-5


def test_distances_between_models_against_plain_loops(load, corpus):
    a = load("tiny:bert")
    b = permuted(a, {1: [3, 2, 1, 0]})
    with torch.no_grad():
        b.hf.encoder.layer[0].attention.self.query.weight.mul_(1.7)
    found = between(a, b, open_corpus(corpus), texts=2, max_tokens=None, truncate=False)
    for document, text in enumerate(LINES[:2]):
        x, y = (model.trace(text).attention("raw").double().flatten(0, 1).numpy() for model in (a, b))
        n = x.shape[-1]
        x, y = (0.999 * rows / rows.sum(-1, keepdims=True) + 0.001 / n for rows in (x, y))
        naive = np.array([[_js(p, q) for q in y] for p in x])
        np.testing.assert_allclose(found.sums[document], naive, rtol=1e-3, atol=1e-5)
        assert found.tokens[document] == n


def _js(p: np.ndarray, q: np.ndarray) -> float:
    middle = (p + q) / 2
    return float((p * np.log(p / middle)).sum() / 2 + (q * np.log(q / middle)).sum() / 2)


def test_two_corpora_of_one_model_are_not_paired(load, corpus, other, tmp_path):
    result = compare(load("tiny:bert"), corpus=corpus, corpus_b=other, out=tmp_path / "out")
    assert result.manifest["settings"]["paired"] is False
    assert result.manifest["names"] == ["tiny:bert on lines.txt", "tiny:bert on other.txt"]
    sides = {side: open_result(tmp_path / "out" / side).table for side in "ab"}
    for row in result.table.iter_rows(named=True):
        means = [sides[side].filter(name=row["name"])[row["what"]][0] for side in "ab"]
        assert [row["a"], row["b"]] == pytest.approx(means, abs=1e-12)
        assert row["change"] == pytest.approx(means[1] - means[0], abs=1e-12)
        assert row["low"] <= row["change"] <= row["high"]
    assert "nor are their lengths" in (tmp_path / "out" / "page.html").read_text()


def test_stored_results_are_compared_again_and_give_the_same(load, corpus, tmp_path):
    model = load("tiny:bert")
    changed = permuted(model, {0: [3, 1, 2, 0]})
    live = compare(model, changed, corpus=corpus, out=tmp_path / "live")
    stored = compare(str(tmp_path / "live" / "a"), str(tmp_path / "live" / "b"), out=tmp_path / "stored")
    assert live.table.equals(stored.table)
    again = compare(model, changed, corpus=corpus, out=tmp_path / "live")
    assert again.table.equals(live.table)
    assert live.table.filter("clear")["layer"].unique().to_list() == [0]
    assert set(live.table.filter("clear")["head"]) <= {0, 3}


def test_other_studies_give_differences_without_intervals(load, corpus, tmp_path):
    model = load("tiny:bert")
    result = compare(
        model, permuted(model, {0: [3, 1, 2, 0]}), corpus=corpus, out=tmp_path / "out", study="surface",
        settings={"surface": {"quantities": ("raw",)}},
    )  # fmt: skip
    assert result.table["low"].null_count() == len(result.table)
    found = result.table.filter((pl.col("name") == "L0.H0") & (pl.col("what") == "raw entropy"))
    tables = [open_result(tmp_path / "out" / side).table.filter(name="L0.H0")["entropy"][0] for side in "ab"]
    assert found["change"][0] == pytest.approx(tables[1] - tables[0])
    page = " ".join(said for _, said in words((tmp_path / "out" / "page.html").read_text()))
    assert "no intervals" in page
    assert "clear" not in page.casefold(), "what nobody asked has no column, and no caution"


def test_lamps_are_compared_number_by_number_and_heads_whose_judgement_changes_are_named(load, corpus, other, tmp_path):
    """Colours and counts of texts were part of a number's name, and heads whose lamps had changed fell out."""
    found = compare(load("tiny:bert"), corpus=corpus, corpus_b=other, study="lamps", out=tmp_path / "out")
    assert found.table["what"].unique(maintain_order=True).to_list() == list(LIT)
    assert found.table["name"].n_unique() == 12
    sides = [dict(open_result(tmp_path / "out" / side).table.select("name", "show").iter_rows()) for side in "ab"]
    was, now = ({name: sides[at][name] for name in sides[0] if name != "all"} for at in (0, 1))
    changed = [f"{name} ({was[name]} → {now[name]})" for name in was if was[name] != now[name]]
    assert "nor are their lengths" in (tmp_path / "out" / "page.html").read_text()
    (said,) = otherwise_judged(found.table, "x", "y")
    assert said.startswith(
        f"By the lamps of the means, {len(changed)} of 12 maps may be shown otherwise in y than in x:"
    )
    assert otherwise_judged(found.table.filter(what="carried"), "x", "y") == []


def test_the_heads_that_are_judged_worse_and_better_are_told_apart():
    good = {"null_share": 0.0, "unique_rows": 1.0, "loose": 0.0, "carried": 0.9, "parked": 0.0, "sent": 0.0,
            "neighbour": 0.5}  # fmt: skip
    bad, worst = {"carried": 0.6}, {"carried": 0.4}
    heads = {"L0.H0": ({}, {}), "L0.H1": ({}, bad), "L0.H2": (bad, worst), "L0.H3": ({}, worst), "L0.H4": (worst, {})}
    rows = [{"stack": "self", "name": name, "what": what, "a": {**good, **a}[what], "b": {**good, **b}[what]}
            for name, (a, b) in heads.items() for what in good]  # fmt: skip
    assert otherwise_judged(pl.DataFrame(rows), "x", "y") == [
        "By the lamps of the means, 4 of 5 maps may be shown otherwise in y than in x: 3 with more care or not "
        "(L0.H3 (yes → no), L0.H1 (yes → with care), L0.H2 (with care → no)), 1 with less (L0.H4 (no → yes))."
    ]


def test_effects_of_taking_heads_away_are_compared_with_intervals(load, corpus, tmp_path):
    """Two heads that changed places: what the one lost the other has won, text by text."""
    model, settings = load("tiny:bert"), {"ablation": {"texts": 12, "ways": ("mean",), "curve": 0}}
    table = compare(
        model, permuted(model, {0: [3, 1, 2, 0]}), corpus=corpus, out=tmp_path / "out", study="ablation",
        settings=settings, resamples=200,
    ).table  # fmt: skip
    assert set(table["what"]) == {"effect"}
    assert table["low"].null_count() == 0
    change = dict(table.select("name", "change").iter_rows())
    own = dict(open_result(tmp_path / "out" / "a").table.filter(part="head").select("name", "value").iter_rows())
    assert change["L0.H0"] == pytest.approx(own["L0.H3"] - own["L0.H0"], abs=1e-6)
    assert change["L0.H3"] == pytest.approx(-change["L0.H0"], abs=1e-6)
    assert change["L1.H2"] == pytest.approx(0, abs=1e-6)


def test_an_encoder_decoder_has_three_stacks(load, tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{line}\t{line}\n" for line in LINES))
    result = compare(
        load("tiny:t5"), load("tiny:t5"), corpus=path, columns=[0, 1], out=tmp_path / "out", resamples=200
    )  # fmt: skip
    assert result.table["stack"].unique(maintain_order=True).to_list() == ["encoder", "decoder", "cross"]
    assert "previous" not in set(result.table.filter(stack="cross")["what"])


def test_models_of_different_sizes_are_matched_by_profile_and_refused_by_position(load, corpus, tmp_path):
    a, b = load("tiny:bert"), load("tiny:gpt2")
    small = hw.load((copy.deepcopy(b.hf), b.tokenizer))
    assert compare(a, small, corpus=corpus, out=tmp_path / "profile", match="profile").table["name"].n_unique() == 12
    with pytest.raises(InputError, match="causal"):
        compare(a, b, corpus=corpus, out=tmp_path / "rows", match="attention")


def test_what_cannot_be_compared_is_refused_before_anything_is_run(load, corpus, tmp_path, monkeypatch):
    """Both models read the whole corpus first."""
    monkeypatch.setattr("headwise.reports.comparison.run.run", lambda *_, **__: pytest.fail("it was run"))
    a, b = load("tiny:bert"), load("demo")
    says = f"but {a.name} has 3 layers of 4 heads and {b.name} 6 layers of 12 heads; use --match profile."
    with pytest.raises(InputError, match=f"{re.escape(says)}$"):
        compare(a, b, corpus=corpus, out=tmp_path / "places")
    with pytest.raises(InputError, match=f"stack 'encoder', but {a.name} has self"):
        compare(load("tiny:bart"), a, corpus=corpus, out=tmp_path / "stacks", match="profile")
    with pytest.raises(InputError, match="at least 10 documents, but there are 4"):
        compare(a, load("tiny:roberta"), corpus=corpus, first=4, out=tmp_path / "few")


def test_what_cannot_be_compared_is_refused_with_the_reason(load, corpus, other, tmp_path):
    a, b = load("tiny:bert"), load("tiny:roberta")
    with pytest.raises(InputError, match="same tokens, but text 0"):
        compare(a, b, corpus=corpus, out=tmp_path / "tokens", match="attention")
    with pytest.raises(InputError, match="two sides"):
        compare(a, out=tmp_path / "one")
    with pytest.raises(InputError, match="'nonsense'"):
        compare(a, b, out=tmp_path / "match", match="nonsense")
    with pytest.raises(InputError, match="two corpora"):
        compare(a, a, corpus=corpus, corpus_b=other, out=tmp_path / "texts", match="attention")
    hw.run("surface", a, corpus=corpus, out=tmp_path / "surface")
    hw.run("profile", a, corpus=corpus, out=tmp_path / "profile")
    with pytest.raises(InputError, match="second result"):
        compare(str(tmp_path / "profile"), corpus_b=other, out=tmp_path / "run")
    with pytest.raises(InputError, match="same study"):
        compare(str(tmp_path / "surface"), str(tmp_path / "profile"), out=tmp_path / "studies")
    with pytest.raises(InputError, match="stored result has none"):
        compare(str(tmp_path / "profile"), a, corpus=corpus, out=tmp_path / "rows", match="attention")
    says = f"Folder {tmp_path / 'surface'} holds another result; choose another --out, or remove it."
    with pytest.raises(InputError, match=f"^{re.escape(says)}$"):
        compare(str(tmp_path / "profile"), a, corpus=corpus, out=tmp_path / "surface")


@pytest.mark.usefixtures("drawn")
def test_the_command_says_what_it_found_and_the_page_needs_nothing(corpus, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    command = ["compare", "tiny:bert", "tiny:roberta", "--match", "profile", "--corpus", str(corpus),
               "--out", str(out), "--seed", "3", "--first", "11"]  # fmt: skip
    monkeypatch.setattr(sys, "argv", ["headwise", *command])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    said = capsys.readouterr().out
    assert "Of 96 differences (12 heads, 8 numbers each)" in said
    assert "11 documents, the same on both sides." in said
    page = (out / "page.html").read_text("ascii")
    assert "<script" not in page
    assert not stray(page)
    assert ("title", "tiny:bert and tiny:roberta compared") in words(page)
    assert (
        "clear asks for 95 % confidence about all 96 at once (Holm&#x27;s correction), so an interval may leave out 0 "
        "where clear says no." in page
    )
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "default-src 'none'" in page
    assert page.count("<img") == 3
    manifest = json.loads((out / "manifest.json").read_text())
    settings = manifest["settings"]
    assert (settings["seed"], settings["paired"], settings["match"]) == (3, True, "profile")
    assert manifest["seed"] == 3
    monkeypatch.setattr(sys, "argv", ["headwise", "compare", "tiny:bert", "--out", str(tmp_path / "x")])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert len(capsys.readouterr().err.strip().split("\n")) == 1


@pytest.mark.parametrize(
    ("paired", "means", "said"),
    [
        (True, (14.0, 28.0), []),
        (False, (14.1, 14.067), [
            "The texts are not the same; they are about as long, 14.1 and 14.1 tokens in the mean."
        ]),
        (False, (20.0, 20.9), [
            "The texts are not the same; they are about as long, 20.0 and 20.9 tokens in the mean."
        ]),
        (False, (21.1, 20.0), [
            "The texts are not the same, nor are their lengths: 21.1 and 20.0 tokens in the mean. Length alone changes "
            "entropy and shares; compare texts of one length before saying that a head behaves differently."
        ]),
    ],
)  # fmt: skip
def test_lengths_are_warned_of_where_they_differ_by_a_twentieth(
    paired: bool, means: tuple[float, float], said: list[str]
):
    """14.10 and 14.07 tokens were "nor are their lengths: 14 and 14"."""
    assert lengths({"paired": paired, "lengths": means}) == said
    assert lengths({"paired": paired, "lengths": means[::-1]})[:1] == [
        one.replace(f"{means[0]:.1f} and {means[1]:.1f}", f"{means[1]:.1f} and {means[0]:.1f}") for one in said
    ]


@pytest.mark.parametrize(
    ("clear", "said"),
    [(False, "all of them at once, none is shown to be more than an accident"),
     (True, "all of them at once, none of these is an accident of which")],
)  # fmt: skip
def test_what_is_not_clear_is_not_called_no_accident(clear: bool, said: str):
    row = {"stack": "self", "name": "L0.H0", "matched": "L0.H0", "what": "entropy", "a": 1.0, "b": 2.0, "change": 1.0,
           "low": 0.5, "high": 1.5, "clear": clear}  # fmt: skip
    chosen = {"intervals": True, "documents": 12, "paired": True, "match": "position"}
    assert said in findings(pl.DataFrame([row]), "x", "y", chosen)[0]
