"""The profile study: its means are surface's, its single documents are those of single texts, in any batch or block."""

from __future__ import annotations

import numpy as np
import pytest

from headwise.studies.profile import NUMBERS, Profile, values_of
from headwise.studies.study import State
from headwise.text.categories import categories
from references.precision import nearness
from references.studies_folding import TEXTS, assert_drawable, exact, folded, in_blocks, setting


def concluded(model, study: Profile, state: State) -> State:
    return State(study.conclude(state, model, lambda _: None))


def naive(model, text: str, pair: str, quantity: str, stack: str) -> np.ndarray:
    """[layer head number] of one text by plain loops over its rows."""
    trace = model.trace(text, pair)
    maps = trace.attention(quantity, stack=stack).double().numpy()
    raw = trace.attention("raw", stack=stack).double().numpy()
    kinds = np.array(categories(trace.keys(stack), causal=model.causal or stack == "decoder"))
    found = np.full((*maps.shape[:2], len(NUMBERS)), np.nan)
    for layer, head in np.ndindex(*maps.shape[:2]):
        a, rows = maps[layer, head], range(maps.shape[2])
        found[layer, head, :4] = [np.mean([a[q, kinds == kind].sum() for q in rows]) for kind in range(4)]
        for at, offset in enumerate((-1, 0, 1)):
            near = [a[q, q + offset] for q in rows if stack != "cross" and 0 <= q + offset < a.shape[1]]
            found[layer, head, 4 + at] = np.mean(near) if near else np.nan
        found[layer, head, 7] = np.mean([-(row[row > 0] * np.log(row[row > 0])).sum() for row in raw[layer, head]])
    return found


@pytest.mark.parametrize(("family", "quantity"), [("bert", "raw"), ("llama", "effective"), ("bart", "norm")])
def test_every_number_of_every_document(family: str, quantity: str) -> None:
    model, study = exact(family), Profile(quantities=(quantity,))
    state = concluded(model, study, folded(model, study))
    for stack in model.stacks:
        numbers, layers = values_of(state, stack)
        assert numbers == (0, 1, 2, 3, 4)
        for document, (text, pair) in enumerate(TEXTS):
            wanted = naive(model, text, pair, quantity, stack)
            got = np.stack([layer[document] for layer in layers])
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", ["bert", "gpt2", "bart"])
def test_batches_and_blocks_change_nothing(family: str) -> None:
    model, study = exact(family), Profile()
    whole = concluded(model, study, folded(model, study))
    for other in (folded(model, study, batch_tokens=1), in_blocks(model, study, rows=5)):
        state = concluded(model, study, other)
        for stack in model.stacks:
            for a, b in zip(values_of(whole, stack)[1], values_of(state, stack)[1], strict=True):
                np.testing.assert_allclose(a, b, rtol=nearness(model), atol=nearness(model))


def test_figures() -> None:
    model, study = exact("bart"), Profile()
    figures = study.figures(concluded(model, study, folded(model, study)), setting(model))
    assert_drawable(figures, ["profile", "profile-decoder", "profile-cross"])
