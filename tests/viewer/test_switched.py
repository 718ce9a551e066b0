"""Heads switched off on a page: which, with which maps, and what the page lacks otherwise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import headwise as hw
from headwise.changes import zero
from headwise.errors import InputError
from headwise.interventions import matters as asked
from headwise.interventions.matters import matters
from headwise.viewer import switched
from headwise.viewer.of_trace import page_of_trace
from headwise.viewer.payload import packed
from references.captures import TEXTS


def test_what_matters_most_can_be_switched_off(load) -> None:
    model = load("tiny:llama", "causal-lm")
    page = page_of_trace(model.trace(TEXTS[0]), besides=(), matters=True)
    assert len(page.off) == 3
    one = page.off[0]
    assert one.quantity == f"without-{one.name}"
    maps = {each.name: each for each in page.stacks[0].quantities}[one.quantity]
    np.testing.assert_allclose(maps.values, model.trace(TEXTS[0], change=zero(one.name)).attention(), atol=1e-6)
    shares = [share for *_, share in one.moved]
    assert shares == sorted(shares, reverse=True)
    assert all(share > 0 for share in shares)
    lamp = page.stacks[0].facts.lamps[one.layer, one.head].matters
    taken = float(matters(model, TEXTS[0], exact=True)[one.layer, one.head])
    told = "With it at zero the distribution of the answer (or of the text's next tokens, in the mean) moves by"
    assert lamp.says.startswith(f"{told} {taken:.2g} nats.")
    header = packed(page).header
    assert header["off"][0]["name"] == one.name
    assert header["live"] is False


def test_where_every_head_was_taken_away_the_first_are_those_of_the_lamps(
    load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page offered three heads by a shortlist of the first order, and not the one whose lamp had the most."""
    monkeypatch.setattr(switched, "most_needed", lambda *_: pytest.fail("it is known already"))
    model = load("tiny:llama", "causal-lm")
    taken = matters(model, TEXTS[0], exact=True)
    page = page_of_trace(model.trace(TEXTS[0]), besides=(), matters=True)
    assert [float(taken[one.layer, one.head]) for one in page.off] == pytest.approx(
        sorted(taken.flatten().tolist())[:-4:-1]
    )


def test_the_lamp_of_a_head_that_is_switched_off_says_what_was_seen(load, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where all others have an estimate of the first order alone, or none; it does not touch what else is told."""
    monkeypatch.setattr(asked, "QUICK", 0)
    model = load("tiny:llama", "causal-lm")
    taken = float(matters(model, TEXTS[0], exact=True)[1, 2])
    for asks in (False, True):
        plain = page_of_trace(model.trace(TEXTS[0]), besides=(), matters=asks).stacks[0].facts.lamps
        facts = page_of_trace(model.trace(TEXTS[0]), besides=(), matters=asks, off=["L1.H2"]).stacks[0].facts
        lamp = facts.lamps[1, 2].matters
        assert f"moves by {abs(taken):.2g} nats" in lamp.says
        assert "first order" not in lamp.says
        assert asks == ("first order" in facts.lamps[0, 0].matters.says)
        assert facts.lamps[1, 2].unique.says.startswith(plain[1, 2].unique.says.partition(" Yes, but")[0])


def test_named_heads_of_the_shown_layers_only(load) -> None:
    page = page_of_trace(load("tiny:bert").trace(TEXTS[0]), besides=(), off=["L0.H1"], layers=[0, 2], heads=[1, 3])
    (one,) = page.off
    maps = page.stacks[0].quantities[-1]
    assert (maps.layers, maps.heads, maps.values.shape[:2]) == ((0, 2), (1, 3), (2, 2))
    assert {(layer, head) for _, layer, head, _ in one.moved} == {(2, 1), (2, 3)}
    assert not page_of_trace(load("tiny:bert").trace(TEXTS[0]), besides=()).off


def test_what_cannot_be_switched_off_is_one_line(load, tmp_path: Path) -> None:
    trace = load("tiny:bert").trace(TEXTS[0])
    trace.save(tmp_path / "t.safetensors")
    with pytest.raises(InputError, match="Heads are switched off in a model, but this trace has none at hand"):
        page_of_trace(hw.open(tmp_path / "t.safetensors"), besides=(), off=["L0.H1"])
    with pytest.raises(InputError, match="beside raw weights, but the page has none"):
        page_of_trace(trace, quantities=["effective"], off=["L0.H1"])
    with pytest.raises(InputError, match=r"Heads of tiny:bert go from 0 to 3, but L0\.H9"):
        page_of_trace(trace, besides=(), off=["L0.H9"])
