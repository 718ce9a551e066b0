"""Edges cut one by one: the draw, the ranks, and the words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

import headwise as hw
from headwise.changes import cut
from headwise.errors import InputError
from headwise.interventions.outcomes import ask
from headwise.stats import Pieces
from headwise.studies.edges import OF_LAYERS, SCHEMA, STRATA, EdgesStudy, drawn_edges, maps_of
from headwise.studies.study import Setting, State
from references.compare import assert_close

TEXT = "It is said that the sea is big, and so it was, and the old dog sat in the sun."
SETTING = Setting("m", {"self": (3, 4, 6)}, True, {"documents": 4, "tokens": 40})


def test_edges_come_from_every_stratum_and_can_be_cut() -> None:
    weights = torch.rand(2, 3, 9, 9, generator=torch.Generator().manual_seed(0)).tril().square()
    weights = weights / weights.sum(-1, keepdim=True)
    seen = torch.ones(2, 9, 9, dtype=torch.bool).tril()
    edges = drawn_edges(weights, seen, 8, seed=1)
    layer, head, query, key = edges.T
    assert (key <= query).all()
    assert (query > 0).all(), "the first query sees one key, and nothing would be left"
    strata = torch.bucketize(weights[layer, head, query, key], torch.tensor(STRATA), right=True)
    for one in range(2):
        assert [int((strata[layer == one] == at).sum()) for at in (1, 2, 3, 4)] == [2, 2, 2, 2]
    assert torch.equal(edges, drawn_edges(weights, seen, 8, seed=1))
    assert not torch.equal(edges, drawn_edges(weights, seen, 8, seed=2))


def test_what_moves_is_what_plain_passes_move(load, tmp_path: Path) -> None:
    model, file = load("tiny:bert"), tmp_path / "x.txt"
    file.write_text(TEXT)
    study = EdgesStudy(edges=4, texts=1)
    question = ask(model, model.encode(TEXT))
    maps, seen = maps_of(model, model.batch([model.encode(TEXT)]), "self")
    assert question is not None
    assert set(maps) == set(OF_LAYERS)
    rows = study._cut(model, question, "head", maps, seen, 0, stack="self")
    edges = drawn_edges(maps["raw"], seen, 4, 0)
    with torch.no_grad():
        clean = question.read(model.hf(**question.inputs))
        for row, (layer, head, query, key) in zip(rows, edges.tolist(), strict=True):
            with model.changed(cut((query, key), heads=f"L{layer}.H{head}")):
                moved = question.moved(clean, question.read(model.hf(**question.inputs)))[0, 0]
            assert_close(row[1], moved, 1e-6)
            assert row[2] == pytest.approx(float(maps["raw"][layer, head, query, key]))


def test_a_run_has_every_quantity(load, tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    file.write_text("\n".join([TEXT, TEXT[:40], TEXT[10:], TEXT[:30], TEXT[5:35], TEXT[20:]]))
    result = hw.run("edges", load("tiny:llama", "causal-lm"), corpus=file, out=tmp_path / "out")
    table = result.table
    assert set(table.filter(part="layer")["quantity"]) == set(OF_LAYERS)
    assert table["value"].is_not_nan().all()
    assert table["low"].is_not_null().all()
    assert set(result.figures) == {"edges"}


def test_edges_of_every_stack_are_cut_and_what_moves_is_what_plain_passes_move(load, tmp_path: Path) -> None:
    model, file = load("tiny:marian", "translation"), tmp_path / "x.pairs"
    pairs = [(TEXT, "the old dog was so big"), (TEXT[:30], "it is in the sea"), (TEXT[20:], "and so they say")]
    file.write_text("\n".join(f"{one} ||| {other}" for one, other in pairs))
    settings = {"edges": {"edges": 4}}
    result = hw.run("edges", model, corpus=file, out=tmp_path / "out", settings=settings)
    table = result.table.filter(over="all")
    assert list(dict.fromkeys(table["stack"])) == ["encoder", "decoder", "cross"]
    assert set(result.figures) == {"edges", "edges-decoder", "edges-cross"}
    text = {name: (tmp_path / "out" / "figures" / f"{name}.json").read_text() for name in result.figures}
    assert "value-zeroing" in text["edges"]
    assert "value-zeroing" not in text["edges-cross"], "no empty line for what a stack does not have"
    assert table.filter(quantity="raw")["value"].is_not_nan().all()
    passes = table.filter(quantity="value-zeroing")
    assert passes.filter(pl.col("value").is_not_nan())["stack"].to_list() == ["encoder"], (
        "passes are of the first stack"
    )
    source, target = model.encode(pairs[0][0]), model.encode_target(pairs[0][1])
    question, batch = ask(model, source, target), model.batch([source], [target])
    assert question is not None
    for stack, keys in (("decoder", target), ("cross", source)):
        maps, seen = maps_of(model, batch, stack)
        assert seen.shape[1:] == (len(target), len(keys))
        rows = EdgesStudy(edges=4)._cut(model, question, "head", maps, seen, 0, stack=stack)
        edges = drawn_edges(maps["raw"], seen, 4, 0)
        with torch.no_grad():
            clean = question.read(model.hf(**question.inputs))
            for row, (layer, head, query, key) in zip(rows, edges.tolist(), strict=True):
                with model.changed(cut((query, key), heads=f"L{layer}.H{head}", stack=stack)):
                    moved = question.moved(clean, question.read(model.hf(**question.inputs)))[0, 0]
                assert_close(row[1], moved, 1e-6)
        assert float(rows[:, 1].max()) > 1e-4, "cuts of this stack move something"


def test_few_edges_are_not_ranked_within_layers_and_have_no_panel_for_it(load, tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    file.write_text(TEXT)
    settings = {"edges": {"edges": 4, "texts": 1}}
    result = hw.run("edges", load("tiny:bert"), corpus=file, out=tmp_path / "out", settings=settings)
    assert result.table.filter(over="layers")["value"].is_nan().all()
    assert len(json.loads((tmp_path / "out" / "figures" / "edges.json").read_text())["hconcat"]) == 2


def test_parallel_blocks_have_no_globenc(load, tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    file.write_text(TEXT)
    table = hw.run("edges", load("tiny:gpt-neox", "causal-lm"), corpus=file, out=tmp_path / "out").table
    assert table.filter(quantity="globenc")["value"].is_nan().all()
    assert table.filter(quantity="raw")["value"].is_not_nan().all()


def test_ranks_by_hand() -> None:
    """Two texts of two layers: raw is right within layers and wrong between them."""
    text = np.array([[layer, 10 * layer + at, at - 10 * layer, at, -at] for layer in (0, 1) for at in range(6)], float)
    state = State({"head@self": Pieces.of({0: torch.tensor(text), 1: torch.tensor(text)})})
    table = EdgesStudy().table(state, SETTING)
    value = {(row["quantity"], row["over"]): row["value"] for row in table.to_dicts()}
    assert value["raw", "layers"] == pytest.approx(1)
    assert value["norm", "layers"] == pytest.approx(-1)
    assert value["raw", "all"] < 0 < value["effective", "all"]
    gain = table.filter(quantity="effective", over="all")["gain"][0]
    assert gain == pytest.approx(value["effective", "all"] - value["raw", "all"])


def rows(stack: str = "self", **quantities: tuple[float, float]) -> pl.DataFrame:
    return pl.DataFrame(
        [{"stack": stack, "part": "head", "quantity": name, "over": "all", "value": value, "gain_low": low, "texts": 9}
         for name, (value, low) in quantities.items()], schema=SCHEMA,
    )  # fmt: skip


def test_the_words() -> None:
    study = EdgesStudy()
    (one,) = study.answers(rows(raw=(0.5, 0.0), effective=(0.7, 0.1), norm=(0.8, -0.01)), SETTING)
    assert one.says == (
        "Which edges of a head matter, raw weights tell with ρ = 0.50; better for sure: effective 0.70 (9 texts)."
    )
    setting = Setting("m", {"encoder": (1, 2, 3), "decoder": (1, 2, 3), "cross": (1, 2, 3)}, True, {"documents": 4})
    (one,) = study.answers(rows("cross", raw=(0.5, 0.0), effective=(0.7, 0.1)), setting)
    assert one.says.startswith("Which edges of a head of the cross-attention matter, raw weights tell with ρ = 0.50;")
    (one,) = study.answers(rows(raw=(0.5, 0.0), effective=(0.7, 0.0)), SETTING)
    assert one.says == (
        "Which edges of a head matter, raw weights tell with ρ = 0.50; no quantity tells it better for sure (9 texts)."
    )


def test_bad_settings_are_one_line() -> None:
    with pytest.raises(InputError) as error:
        EdgesStudy(edges=3)
    assert str(error.value) == ("edges of study edges must be a whole number, 4 or more, but 3 was given.")
    with pytest.raises(InputError, match="but 'joy' was asked for"):
        EdgesStudy(outcome="joy")
