"""Why a head looks there: the parts of a score add up, are those of a plain calculation, and name the right heads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch
import transformers

import headwise as hw
from headwise.errors import InputError, ModelError
from headwise.explanations import frozen
from headwise.explanations.why import SCHEMA, Cell, Why
from headwise.models.tiny import FAMILIES, tiny_tokenizer
from references.induction import loaded
from references.why import score_parts

TEXT = "The old dog and the cat."
# rotations, norms of queries, caps, sinks, relative biases, post-norm, weights outside the registry, experts
SOME = ("llama", "qwen3", "gemma2", "gpt-oss", "bert", "albert", "mpnet", "mixtral", "t5", "opt")


def traced(model: hw.Model) -> hw.Trace:
    return model.trace(TEXT, "the sea is old") if model.is_encoder_decoder else model.trace(TEXT)


@pytest.mark.parametrize("name", SOME)
def test_either_side_adds_up_to_what_the_softmax_reads(load, name: str) -> None:
    tasks = {"encoder": "masked-lm", "decoder": "causal-lm", "encoder-decoder": "translation"}
    trace = traced(load(f"tiny:{name}", tasks[FAMILIES[name].kind]))
    for stack in trace.stacks:
        layer = trace.of(stack)[-1]
        found = trace.why(layer.index, 1, 3, 2, stack=stack)
        for side in ("query", "key"):
            assert found.table.filter(side=side)["part"].sum() == pytest.approx(found.score, rel=1e-4, abs=1e-4)
        assert found.weight == pytest.approx(float(layer.alpha[0, 1, 3, 2]), abs=1e-5)
        other = trace.why(layer.index, 1, 3, 1, stack=stack)
        ratio = float(layer.alpha[0, 1, 3, 2] / layer.alpha[0, 1, 3, 1])
        assert np.exp(found.score - other.score) == pytest.approx(ratio, rel=1e-3), "weights are e^score, normalised"


@pytest.fixture(scope="module")
def two_layers() -> hw.Model:
    config = transformers.GPT2Config(
        n_embd=12, n_layer=2, n_head=3, n_positions=20, vocab_size=len(tiny_tokenizer("bytes"))
    )
    torch.manual_seed(5)
    hf = transformers.GPT2LMHeadModel(config).double()
    for parameter in hf.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.3)
    return hw.load((hf, tiny_tokenizer("bytes")))


@pytest.mark.parametrize("cell", [(0, 4, 2), (2, 5, 5)])
def test_every_part_is_that_of_a_plain_calculation(two_layers: hw.Model, cell: tuple[int, int, int]) -> None:
    trace = two_layers.trace(TEXT)
    own = {name.removeprefix("transformer."): p.detach().numpy() for name, p in two_layers.hf.named_parameters()}
    weights = {**own, "wte": own["wte.weight"], "wpe": own["wpe.weight"]}
    score, *sides = score_parts(weights, list(trace.text.ids), 3, cell)
    found = trace.why(1, *cell)
    assert found.score == pytest.approx(score, rel=1e-10)
    for side, parts in zip(("query", "key"), sides, strict=True):
        rows = found.table.filter(side=side).to_dicts()
        assert {(row["component"], row["place"]) for row in rows} == set(parts)
        for row in rows:
            assert row["part"] == pytest.approx(parts[row["component"], row["place"]], rel=1e-8, abs=1e-10)


def test_an_induction_head_looks_where_the_head_before_it_wrote() -> None:
    """Its query is the token itself; its key is what layer 0 brought from the token before the key."""
    found = loaded().trace("w3 w11 w7 w5 w11").why(1, 1, 4, 2)
    best = {row["side"]: row for row in found.top(1).to_dicts()}
    assert (best["query"]["component"], best["query"]["place"]) == ("embedding", 4)
    assert (best["key"]["component"], best["key"]["place"]) == ("L0.H0", 1)


def test_nothing_comes_from_later_tokens(load) -> None:
    found = traced(load("tiny:llama", "causal-lm")).why(2, 0, 4, 2)
    assert found.table.filter(side="query")["place"].max() == 4
    assert found.table.filter(side="key")["place"].max() == 2


def test_what_there_is_no_score_of_is_refused(load, tmp_path) -> None:
    trace = traced(load("tiny:llama", "causal-lm"))
    for cell, said in (
        ((9, 0, 1, 1), "Layers of this trace"), ((0, 9, 1, 1), "Heads go from 0"), ((0, 0, 99, 1), "Queries go from 0"),
        ((0, 0, 1, 99), "Keys go from 0"), ((0, 0, 1, 3), "1 does not see 3"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said):
            trace.why(*cell)
    trace.save(tmp_path / "trace")
    with pytest.raises(InputError, match="opened from a file"):
        hw.open(tmp_path / "trace").why(0, 0, 1, 1)


def test_parts_that_do_not_add_up_are_an_error(load, monkeypatch) -> None:
    trace = traced(load("tiny:gpt2", "causal-lm"))
    monkeypatch.setitem(frozen.RULES, "layer_norm", lambda _m, func, args, kwargs: func(*args, **kwargs))
    with pytest.raises(ModelError, match=r"must add up to it to 0\.0001"):
        trace.why(1, 0, 3, 2)


def test_the_words() -> None:
    rows = [("query", "embedding", 4, "Ġdog", 2.0), ("query", "L0.H1", 1, "old", -0.5), ("key", "L0.H1", 0, "the", 1.6),
            ("query", "bias", None, None, 0.1), ("query", "feed-forward 0", 4, "dog", 0.0)]  # fmt: skip
    table = pl.DataFrame(
        [dict(zip(("side", "component", "place", "token", "part"), row, strict=True)) for row in rows], schema=SCHEMA
    )
    found = Why(Cell("self", 1, 2, 4, 1), ("Ġdog", "▁old"), 1.6, 0.427, table, 0.0)
    assert (
        repr(found)
        == str(found)
        == (
            "L1.H2 gives 0.43 of the attention of 'dog' to 'old' (score 1.60).\n"
            "Of what 'dog' is made of (query): +2.00 embedding from 'dog', -0.50 L0.H1 from 'old', +0.10 bias.\n"
            "Of what 'old' is made of (key): +1.60 L0.H1 from 'the'."
        )
    )
    assert str(replace(found, cell=Cell("cross", 1, 2, 4, 1))).startswith("cross L1.H2 gives 0.43")


def test_heads_of_an_encoder_and_a_decoder_are_told_apart(load) -> None:
    """What brought a query of cross-attention is the decoder, and a key the encoder: never a bare L0.H0."""
    trace = load("tiny:bart", "translation").trace("the old city", "the dog was old")
    rows = trace.why(1, 0, 2, 1, stack="cross").table
    heads = {row["component"].split()[0] for row in rows.filter(pl.col("head").is_not_null()).to_dicts()}
    assert heads == {"encoder", "decoder", "cross"}
