"""What the lamps are told of a trace, against loops in float64, and that padding kinds of tokens are found."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.references.precision import nearness

from headwise.lamps import ALONE, Head, is_sink
from headwise.text.categories import categories
from headwise.traces.lamps import (
    carried,
    named,
    neighbours,
    on_places,
    parking_places,
    readings,
    trace_lamps,
    with_choice,
)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_numbers_are_those_of_loops(load, name: str) -> None:
    model = load(f"tiny:{name}")
    trace = model.trace("the old man went to the city, and the dog saw him.")
    alpha, norm = (trace.attention(q).double() for q in ("raw", "norm"))
    causal = name == "gpt2"
    kinds = categories(trace.text, causal=causal)
    near = max(nearness(model), 1e-5)  # the maps are float32
    for layer, heads in enumerate(readings(trace)):
        for head, found in enumerate(heads):
            follows, parked, sent, beside = [], [], [], []
            for query, row in enumerate(alpha[layer, head].tolist()):
                if causal and query < 2:  # one or two keys: no choice
                    continue
                lengths = norm[layer, head, query].tolist()
                shares = [length / sum(lengths) for length in lengths]
                follows.append(sum(min(a, p) for a, p in zip(row, shares, strict=True)))
                parked.append(sum(a for a, kind in zip(row, kinds, strict=True) if kind != 3))
                sent.append(sum(p for p, kind in zip(shares, kinds, strict=True) if kind != 3))
                beside.append([row[query + step] if 0 <= query + step < len(row) else 0.0 for step in (-1, 0, 1)])
            steps = [sum(each) / len(each) for each in zip(*beside, strict=True)]
            assert found.neighbour == pytest.approx(max(steps), rel=1e-5)
            mean = [sum(each) / len(each) for each in (follows, parked, sent)]
            assert [found.carried, found.parked, found.sent] == pytest.approx(mean, rel=near)


def test_one_key_whoever_looks_is_a_parking_place() -> None:
    alpha = torch.full((1, 2, 5, 4), 0.1)
    alpha[0, 0, :, 2], alpha[0, 1, :, 2] = 0.7, 0.49
    alpha[0, 1, :, 3] = 0.31
    fixed, rows = torch.tensor([True, False, False, False]), torch.ones(5, dtype=torch.bool)
    places = parking_places(alpha, fixed, rows)
    assert places.tolist() == [[[True, False, True, False], [True, False, False, False]]]
    assert on_places(alpha, places, rows).tolist() == [pytest.approx([0.8, 0.1])]
    assert not parking_places(alpha, fixed, rows & (torch.arange(5) < 3))[
        ..., 2
    ].any()  # of three rows, nothing is said


def test_a_head_of_the_token_before_is_no_sink_where_short_texts_have_special_ones_there(load) -> None:
    """In “[CLS] good , i say [SEP]” half of its weight lay on [CLS] and the comma; a head of 35 % was named for it."""
    trace = load("tiny:bert").trace("the sea, he")
    n = len(trace.tokens)
    before = torch.eye(n)[[0, *range(n - 1)]]
    layers = [replace(layer, alpha=before.expand_as(layer.alpha), memo={}) for layer in trace.of(None)]
    parked = sum(
        float(before[:, at].sum()) for at, kind in enumerate(categories(trace.text, causal=False)) if kind != 3
    )
    assert parked / n >= 0.5
    assert float(neighbours(layers[0])[0].mean(1).amax()) == pytest.approx((n - 1) / n)
    assert not is_sink(Head(parked=parked / n, neighbour=(n - 1) / n))


def test_of_one_token_nothing_is_judged(load) -> None:
    """“hello” of a decoder had nine maps that may be shown."""
    found = [lit for row in trace_lamps(load("tiny:gpt2").trace(ids=[5])) for lit in row]
    assert {(lamp.colour, lamp.level) for lit in found for lamp in lit} == {("dark", None)}
    assert {lit.unique.says for lit in found} == {lit.carries.says for lit in found} == {ALONE}
    assert {lit.showing for lit in found} == {"with care"}


def test_rows_without_a_choice_do_not_count_unless_there_are_no_others() -> None:
    causal = torch.ones(4, 4, dtype=torch.bool).tril()
    assert with_choice(causal).tolist() == [False, False, True, True]
    assert with_choice(causal[:2, :2]).tolist() == [True, True]
    alpha = torch.tensor([[[[1.0, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]]]])
    shares = torch.tensor([[[[1.0, 0, 0], [0.9, 0.1, 0], [0.6, 0.3, 0.1]]]])
    assert carried(alpha, shares, torch.tensor([False, False, True])).item() == pytest.approx(0.6)


def test_a_saved_trace_has_the_same_lamps_and_matters_is_dark_until_given(load, tmp_path) -> None:
    import headwise as hw

    trace = load("tiny:bert").trace("the old man went to the city.")
    trace.save(tmp_path / "t.safetensors")
    assert trace_lamps(hw.open(tmp_path / "t.safetensors")) == trace_lamps(trace)
    assert {lamps.matters.colour for row in trace_lamps(trace) for lamps in row} == {"dark"}
    known = trace_lamps(trace, matters=torch.full((3, 4), 0.5), exact=True)
    said = {lamps.matters.says.partition(" Yes, but held")[0] for row in known for lamps in row}
    assert said == {"With it at zero the output moves by 0.5 nats."}


@pytest.mark.parametrize(
    ("token", "shown"), [("Ġcity", '"city"'), ("[SEP]", "[SEP]"), ("</s>", "</s>"), ("▁", '"▁"'), (".", '"."')]
)
def test_tokens_in_sentences(token: str, shown: str) -> None:
    assert named(token) == shown
