"""Query · key by dimension: plain loops give the same numbers, the sum is the score, pairs are those that turn."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
import torch

import headwise as hw
from headwise.errors import InputError, ModelError
from headwise.explanations.frozen import Scored
from headwise.explanations.query_key import SCHEMA, QueryKey, factors
from headwise.explanations.rotations import partners
from headwise.models.tiny import FAMILIES, OUTSIDE
from references.query_key import gpt2_first_layer, llama_first_layer

TEXT = "The old dog and the cat."
TASKS = {"encoder": "masked-lm", "decoder": "causal-lm", "encoder-decoder": "translation"}
# halves, interleaved, some dimensions alone; what is added: nothing, a relative bias, ALiBi, a shift of the row
HALVES, BESIDE, ALONE = "0+3 1+4 2+5", "0+1 2+3 4+5", "0 1 2 3 4 5"
SOME = {"llama": (HALVES, False), "cohere": (BESIDE, False), "gpt-j": ("0+1 2+3 4 5", False), "bert": (ALONE, False),
        "falcon": (HALVES, False), "mpnet": (ALONE, True), "bloom": (ALONE, True), "deberta": (ALONE, True),
        "gpt-oss": ("0+5 1+6 2+7 3+8 4+9", True), "t5": (ALONE, True)}  # fmt: skip


def traced(load, name: str) -> hw.Trace:
    model = load(f"tiny:{name}", TASKS[{**FAMILIES, **OUTSIDE}[name].kind])
    return model.trace(TEXT, "the sea is old") if model.is_encoder_decoder else model.trace(TEXT)


@pytest.mark.parametrize("name", SOME)
def test_the_products_add_up_to_what_the_softmax_reads(load, name: str) -> None:
    trace, (pairs, biased) = traced(load, name), SOME[name]
    layer = trace.of()[-1]
    found, other = (trace.query_key(layer.index, 1, 3, key) for key in (2, 1))
    assert " ".join(found.joined()["dimensions"]) == pairs
    assert found.joined()["product"].sum() == pytest.approx(found.dot)
    assert found.times * found.dot + found.added == pytest.approx(found.score, abs=1e-5)
    assert (found.added != 0) == biased
    ratio = float(layer.alpha[0, 1, 3, 2] / layer.alpha[0, 1, 3, 1])
    assert np.exp(found.score - other.score) == pytest.approx(ratio, rel=1e-3), "weights are e^score, normalised"
    if name != "deberta":  # whose positions are multiplied in, so that it has no reasons
        assert found.score == pytest.approx(trace.why(layer.index, 1, 3, 2).score, rel=1e-5)


def test_what_is_added_is_the_bias_of_positions(load) -> None:
    t5, bloom = traced(load, "t5"), traced(load, "bloom")
    bias = t5.model.hf.encoder.block[0].layer[0].SelfAttention.compute_bias(len(t5.tokens), len(t5.tokens))
    assert t5.query_key(0, 1, 3, 2).added == pytest.approx(float(bias.detach()[0, 1, 3, 2]), rel=1e-4)
    heads = bloom.model.hf.config.n_head
    for head, key in ((0, 1), (2, 3)):
        slope = 2 ** (-8 * (head + 1) / heads)
        assert bloom.query_key(1, head, 4, key).added == pytest.approx(slope * key, rel=1e-4)


def test_every_dimension_is_that_of_a_plain_calculation(load) -> None:
    gpt2, llama = traced(load, "gpt2"), traced(load, "llama")
    config = llama.model.hf.config
    rope = {"group": config.num_attention_heads // config.num_key_value_heads, "size": config.head_dim,
            "eps": config.rms_norm_eps, "base": config.rope_parameters["rope_theta"]}  # fmt: skip
    for trace, head, query, key in ((gpt2, 2, 5, 3), (llama, 3, 6, 2)):
        own = {name.split(".", 1)[1]: p.detach().double().numpy() for name, p in trace.model.hf.named_parameters()}
        for name, place, side in (("query", query, 0), ("key", key, 1)):
            token = trace.text.ids[place]
            if trace is gpt2:
                plain = gpt2_first_layer(own, token, place, head, gpt2.model.hf.config.n_head)[side]
            else:
                plain = llama_first_layer(own, token, place, head=head, **rope)[side]
            np.testing.assert_allclose(trace.query_key(0, head, query, key).table[name], plain, atol=1e-4)


def test_a_pair_depends_on_the_distance_alone(load) -> None:
    model = load("tiny:llama", "causal-lm")
    here, moved = model.trace("the old dog and the cat"), model.trace("a b c d e f g the old dog and the cat")
    shift = len(moved.tokens) - len(here.tokens)
    query, key = len(here.tokens) - 1, len(here.tokens) - 4
    first, second = here.query_key(0, 1, query, key), moved.query_key(0, 1, query + shift, key + shift)
    assert first.tokens == second.tokens
    np.testing.assert_allclose(first.joined()["product"], second.joined()["product"], atol=1e-4)
    assert not np.allclose(first.table["product"], second.table["product"], atol=1e-2)


def rotated(places: int, pairs: list[tuple[int, int]], size: int) -> torch.Tensor:
    """One random key a head, turned by its place, the first pair fastest."""
    flat = torch.randn(3, size, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    made = flat[:, None].repeat(1, places, 1)
    for number, (a, b) in enumerate(pairs):
        for place in range(places):
            c, s = math.cos(place / 5**number), math.sin(place / 5**number)
            made[:, place, a], made[:, place, b] = flat[:, a] * c - flat[:, b] * s, flat[:, b] * c + flat[:, a] * s
    return made


@pytest.mark.parametrize("pairs", [[(0, 5), (1, 6), (2, 7), (3, 8), (4, 9)], [(0, 1), (2, 3), (4, 5)], [(6, 8), (7, 9)],
                                   [(0, 2), (1, 3)]])  # fmt: skip
def test_pairs_are_found_by_how_they_turn(pairs: list[tuple[int, int]]) -> None:
    assert partners(rotated(8, pairs, 10)) == tuple(pairs)


def test_where_nothing_turns_there_are_no_pairs() -> None:
    still = rotated(8, [], 10)
    assert partners(still) == ()
    added = still + torch.randn(3, 8, 10, generator=torch.Generator().manual_seed(1))
    assert partners(added) is None, "positions that are added"
    grown = rotated(8, [(0, 5), (1, 6)], 10) * torch.linspace(1, 2, 8)[:, None]
    assert partners(grown) is None, "keys of other lengths"


def test_scores_that_are_no_single_product_are_refused(load) -> None:
    scores = torch.zeros(1, 2, 3, 3)
    one = (torch.zeros(1, 2, 3, 5), torch.zeros(1, 2, 5, 3), torch.zeros(1, 2, 3, 3))
    assert factors(Scored(scores, [one]), "a model")[1].shape == (2, 3, 5)
    for products, said in (([], "of no such products"), ([one, one], "of 2 such products")):
        with pytest.raises(ModelError, match=f"one product of a query and a key, but a model makes it {said}"):
            factors(Scored(scores, products), "a model")
    with pytest.raises(InputError, match="1 does not see 3"):
        traced(load, "llama").query_key(0, 0, 1, 3)


def test_the_words_and_the_figure() -> None:
    rows = [(0, 0, 1.0, 2.0, 2.0), (1, 0, 1.0, -0.5, -0.5), (2, None, 2.0, -1.0, -2.0)]
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    found = QueryKey("L1.H2", ("Ġdog", "▁old"), 0.25, 0.5, table)
    assert found.dot == -0.5
    assert found.joined().rows() == [("0+1", 1.5), ("2", -2.0)]
    assert str(found) == (
        "L1.H2, query of 'dog' · key of 'old' = -0.50 over 3 dimensions.\n"
        "Score: -0.50 × 0.5 +0.50 (position bias, mask or shift) = 0.25. Largest by dimension: -2.00 (2), +1.50 (0+1)."
    )
    assert repr(found) == str(found), "as the end of a notebook's cell shows it"
    plain = QueryKey("L1.H2", ("dog", "old"), -0.25, 0.5, table)
    assert plain.added == 0
    assert "Score: -0.50 × 0.5 = -0.25." in str(plain)
    spec = found.figure().to_dict()
    (data,) = spec["datasets"].values()
    assert data == [{"dimensions": "0+1", "product": 1.5}, {"dimensions": "2", "product": -2.0}]


def test_where_there_are_several_attentions_the_sentence_says_which(load) -> None:
    trace = load("tiny:bart").trace("the old dog", "the city")
    assert str(trace.query_key(0, 1, query=1, key=1, stack="cross")).startswith("cross L0.H1, query of")
    assert str(load("tiny:bert").trace("the old dog").query_key(0, 1, query=1, key=1)).startswith("L0.H1, query of")
