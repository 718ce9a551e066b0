"""The surface study against loops over whole maps, one text at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest

import headwise as hw
from headwise.studies.surface import Surface
from headwise.text.categories import CATEGORIES, categories
from references.precision import nearness
from references.studies_folding import TEXTS, assert_drawable, assert_same, exact, folded, in_blocks, setting


def naive(model, texts, quantity: str, stack: str) -> dict[tuple[int, int], dict[str, float]]:
    """Every column of the table by plain loops: mean over rows, then over the texts that have such rows."""
    collected: dict[tuple[int, int], dict[str, list[float]]] = {}
    for text, pair in texts:
        trace = model.trace(text, pair)
        maps = trace.attention(quantity, stack=stack).double().numpy()
        raw = trace.attention("raw", stack=stack).double().numpy()
        causal = model.causal or stack == "decoder"
        key_kinds = np.array(categories(trace.keys(stack), causal=causal))
        query_kinds = np.array(categories(trace.queries(stack), causal=model.causal or stack in ("decoder", "cross")))
        for layer in range(maps.shape[0]):
            for head in range(maps.shape[1]):
                facts = _facts(maps[layer, head], raw[layer, head], key_kinds, query_kinds, cross=stack == "cross")
                place = collected.setdefault((layer, head), {})
                for name, value in facts.items():
                    place.setdefault(name, []).append(value)
    return {
        place: {name: float(np.mean(values)) for name, values in facts.items()} for place, facts in collected.items()
    }


def _facts(a, raw, key_kinds, query_kinds, *, cross: bool) -> dict[str, float]:
    facts = {f"to_{name}": a[:, key_kinds == kind].sum(1).mean() for kind, name in enumerate(CATEGORIES)}
    for name, rows in (("separator", query_kinds == 1), ("other", query_kinds != 1)):  # Clark: [SEP], and all the rest
        if rows.any():
            facts[f"{name}_to_separator"] = a[rows][:, key_kinds == 1].sum(1).mean()
    for name, offset in (("previous", -1), ("current", 0), ("next", 1)):
        near = [a[q, q + offset] for q in range(len(a)) if not cross and 0 <= q + offset < a.shape[1]]
        if near:
            facts[name] = float(np.mean(near))
    entropies = [-sum(p * math.log(p) for p in row if p > 0) for row in raw]
    facts["entropy"] = float(np.mean(entropies))
    if (query_kinds == 0).any():
        facts["entropy_from_first"] = float(np.mean(np.array(entropies)[query_kinds == 0]))
    return facts


@pytest.mark.parametrize("family", ["bert", "llama", "modernbert", "bart"])
def test_every_number_of_the_table(family: str) -> None:
    # ModernBERT is NaN in float64 where a padding row sees no key, so it is read as it comes
    model, study = hw.load("tiny:modernbert") if family == "modernbert" else exact(family), Surface()
    table = study.table(folded(model, study), setting(model))
    assert set(table["quantity"]) == {"raw", "effective", "norm"}
    for stack in model.stacks:
        for quantity in study.quantities:
            wanted = naive(model, TEXTS, quantity, stack)
            for row in table.filter(stack=stack, quantity=quantity).iter_rows(named=True):
                for name, value in wanted[row["layer"], row["head"]].items():
                    if quantity == "raw" or not name.startswith("entropy"):
                        place = (stack, quantity, row["name"], name)
                        assert row[name] == pytest.approx(value, rel=1e-4, abs=1e-5), place


@pytest.mark.parametrize("family", ["bert", "gpt2", "bart"])
def test_batches_order_and_blocks_change_nothing(family: str) -> None:
    model, study = exact(family), Surface()
    whole = folded(model, study)
    assert_same(folded(model, study, batch_tokens=1), whole, nearness(model))
    assert_same(folded(model, study, order=[4, 2, 0, 3, 1]), whole, nearness(model))
    assert_same(in_blocks(model, study, rows=5), whole, nearness(model))


def test_figures() -> None:
    model, study = exact("bart"), Surface(quantities=("raw", "norm"))
    figures = study.figures(folded(model, study), setting(model))
    assert_drawable(figures, ["fig2", "fig2-bottom", "rel-pos", "fig4", "fig2-cross", "fig4-decoder"])
    assert "rel-pos-cross" not in figures
