"""The study of head distances against a twin that keeps all maps, and what it draws."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
import torch

import headwise as hw
from headwise.engine.fold import Folded, fold
from headwise.engine.plan import Plan
from headwise.errors import InputError, UnknownNameError
from headwise.studies import STUDIES
from headwise.studies.distances import AllDistances, behaviours, heads_of, matrix
from headwise.studies.study import Reading, Setting, State, plus
from headwise.text.corpus import Document, Shard, open_corpus
from references import studies_distances as twin
from references.captures import captured

TEXTS = (
    ("The old dog and the young cat sat in the sun, and so it was.", "They all came to it in the end."),
    ("It is said that the sea is big.", "the sea"),
    ("the sea", "It was so."),
    ("One day, the young man went to see the old house.", "They say, it is not there."),
)


def folded(model: hw.Model, studies: list, *, tokens: int = 2048, texts=TEXTS, seed: int = 0) -> Folded:
    plan = Plan({}, {}, open_corpus("sample"), batch_tokens=tokens, seed=seed)
    documents = tuple(Document(number, *text) for number, text in enumerate(texts))
    return fold(model, studies, Shard(0, documents), plan)


def setting(model: hw.Model) -> Setting:
    stacks = {stack: (model.layers(stack), model.heads(stack), model.head_size(stack)) for stack in model.stacks}
    return Setting(model.name, stacks, model.causal, {"documents": 4, "tokens": 60})


@pytest.mark.parametrize("family", ["bert", "llama", "gemma3", "modernbert", "bart"])
def test_equal_to_its_twin(load, family: str) -> None:
    model = load(f"tiny:{family}")
    state = folded(model, [AllDistances()]).states["distances"]
    for stack in model.stacks:
        expected, rows = twin.distances(model, TEXTS, stack)
        got = matrix(state, stack)
        np.testing.assert_allclose(got.total.numpy(), expected, rtol=1e-5, atol=1e-5)
        assert bool((got.weight == rows).all())
        assert torch.equal(got.total, got.total.mT)
        assert not got.total.diagonal().any()
        assert bool((got.mean <= math.log(2)).all())


def test_batches_and_shards_change_nothing() -> None:
    model = hw.load("tiny:bert", dtype="float64")
    whole = matrix(folded(model, [AllDistances()]).states["distances"], "self")
    for tokens in (1, 40):
        other = matrix(folded(model, [AllDistances()], tokens=tokens).states["distances"], "self")
        np.testing.assert_allclose(other.total.numpy(), whole.total.numpy(), rtol=1e-9)
    halves = [folded(model, [AllDistances()], texts=texts) for texts in (TEXTS[:1], TEXTS[1:])]
    for merged in (halves[0] + halves[1], halves[1] + halves[0]):
        total = matrix(merged.states["distances"], "self").total
        np.testing.assert_allclose(total.numpy(), whole.total.numpy(), rtol=1e-9)


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_blocks_of_rows_make_the_whole(family: str) -> None:
    capture = captured(family)
    states: list[State] = []
    for layers in (capture.layers, capture.blocks):
        reading = Reading(capture.batch, torch.arange(3), capture.model.causal)
        state = State()
        for layer in layers:
            state = plus(state, AllDistances().observe(layer, reading))
        states.append(state)
    whole, blocks = (matrix(state, "self") for state in states)
    assert torch.equal(whole.weight, blocks.weight)
    np.testing.assert_allclose(blocks.total.numpy(), whole.total.numpy(), rtol=1e-5)


def test_norms_are_compared_as_shares(load) -> None:
    model = load("tiny:bert")
    raw, norm = (
        matrix(folded(model, [AllDistances(quantities=(quantity,))]).states["distances"], "self").mean
        for quantity in ("raw", "norm")
    )
    assert bool((norm <= math.log(2)).all())
    assert not torch.allclose(raw, norm, rtol=1e-2)


def test_what_is_no_distribution_is_refused() -> None:
    for quantity in ("effective", "null"):
        with pytest.raises(InputError, match=f"{quantity} attention is signed.*choose raw or norm"):
            AllDistances(quantities=(quantity,))
    with pytest.raises(UnknownNameError, match=r"There is no attention quantity 'row'.*Did you mean 'raw'"):
        AllDistances(quantities=("row",))
    with pytest.raises(InputError, match="clusters of study distances must be a whole number, 1 or more"):
        AllDistances(clusters=0)


def test_table_and_figures(load) -> None:
    model = load("tiny:bart")
    study, about = STUDIES["distances"](clusters=3), setting(model)
    state = folded(model, [study]).states["distances"]
    table = study.table(state, about)
    assert table.shape == (3 * 12 * 12, 13)
    assert table.null_count().sum_horizontal().item() == 0
    one = table.filter((pl.col("stack") == "cross") & (pl.col("a") == "L2.H1") & (pl.col("b") == "L0.H3"))
    sums = matrix(state, "cross")
    assert one["js"].item() == pytest.approx(float(sums.mean[9, 3]))
    assert one["js_sum"].item() == pytest.approx(float(sums.total[9, 3]))
    assert table.filter(pl.col("stack") == "encoder")["cluster_a"].n_unique() == 3
    figures = study.figures(state, about)
    assert list(figures) == ["fig6", "fig6-decoder", "fig6-cross"]
    spec = figures["fig6-cross"].to_dict()
    assert [panel["encoding"]["color"]["field"] for panel in spec["hconcat"]] == ["layer", "behaviour", "cluster"]
    axes = spec["hconcat"][0]["encoding"]
    assert axes["x"]["scale"]["domain"] == axes["y"]["scale"]["domain"], "one scale, as distances are what is drawn"
    heads = next(iter(spec["datasets"].values()))
    drawn = table.filter((pl.col("stack") == "cross") & (pl.col("b") == "L0.H0"))
    assert [head["name"] for head in heads] == drawn["a"].to_list()
    assert [head["x"] for head in heads] == pytest.approx(drawn["x_a"].to_list())
    assert "stress" in spec["title"]["subtitle"][0]


def test_behaviours_by_hand() -> None:
    heads = pl.DataFrame(
        {
            "to_first": [0.1, 0.6, 0.3, 0.0, 0.0, 0.0, 0.0],
            "to_separator": [0.0, 0.0, 0.0, 0.9, 0.0, 0.0, 0.0],
            "to_punctuation": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5],
            "to_other": [0.9, 0.4, 0.7, 0.1, 1.0, 1.0, 0.5],
            "previous": [0.7, 0.5, 0.0, 0.0, None, 0.0, 0.0],
            "next": [0.0, 0.0, 0.4, 0.0, math.nan, 0.41, 0.0],
            "entropy": [1.0, 1.0, 3.5, 1.0, 3.7, 3.9, 1.0],
            "uniform": [4.0] * 7,
        }
    )
    assert behaviours(heads) == [
        "previous token", "first token", "other", "separator", "broad", "next token", "punctuation",
    ]  # fmt: skip


def test_behaviours_are_read_off_the_surface(load) -> None:
    model = load("tiny:llama")
    study, surface, about = AllDistances(), STUDIES["surface"](quantities=("raw",)), setting(model)
    result = folded(model, [study, surface])
    heads = heads_of(result.states["distances"], "self", about)
    alone = surface.table(result.states["surface"], about)
    assert heads.select(alone.columns).equals(alone, null_equal=True)
    lengths = [len(model.encode(*text)) for text in TEXTS]
    even = np.mean([np.mean(np.log(np.arange(1, length + 1))) for length in lengths])
    np.testing.assert_allclose(heads["uniform"].to_numpy(), even, rtol=1e-9)
