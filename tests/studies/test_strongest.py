"""The texts where heads do it most: those of a plain search through single texts, in any batch, block or order."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch

from headwise.studies.strongest import MOST, PATTERNS, Strongest, _bytes
from headwise.studies.study import Setting, State
from headwise.text.categories import categories
from references.studies_folding import TEXTS, assert_drawable, exact, folded, in_blocks, setting


def concluded(model, study: Strongest, state: State) -> State:
    return State(study.conclude(state, model, lambda _: None))


def naive(model, text: str, pair: str, stack: str) -> dict[str, np.ndarray]:
    """By pattern [layer head] of one text, in loops over its rows."""
    trace = model.trace(text, pair)
    raw, kept = (trace.attention(name, stack=stack).double().numpy() for name in ("raw", "effective"))
    kinds = np.array(categories(trace.keys(stack), causal=model.causal or stack == "decoder"))
    found = {name: np.full(raw.shape[:2], np.nan) for name in PATTERNS}
    for at in np.ndindex(*raw.shape[:2]):
        a, rows = raw[at], range(raw.shape[2])
        for kind, name in enumerate(("first", "separator", "punctuation")):
            found[name][at] = np.mean([a[q, kinds == kind].sum() for q in rows])
        for name, offset in (("previous", -1), ("same", 0), ("next", 1)):
            near = [a[q, q + offset] for q in rows if stack != "cross" and 0 <= q + offset < a.shape[1]]
            found[name][at] = np.mean(near) if near else np.nan
        entropy = np.mean([-(row[row > 0] * np.log(row[row > 0])).sum() for row in a])
        found["sharp"][at], found["broad"][at] = -entropy, entropy
        found["null"][at] = max(0.0, 1 - (kept[at] ** 2).sum() / (a**2).sum())
    return found


@pytest.mark.parametrize("family", ["bert", "llama", "bart"])
def test_the_first_texts_are_those_of_a_plain_search(family: str) -> None:
    model, study = exact(family), Strongest(texts=2, shortest=9)
    table = study.table(concluded(model, study, folded(model, study)), setting(model))
    traces = [model.trace(*pair) for pair in TEXTS]
    for stack in model.stacks:
        found = [naive(model, *pair, stack) for pair in TEXTS]
        long = [number for number, trace in enumerate(traces) if len(trace.queries(stack)) >= 9]
        for pattern, (_, sign) in PATTERNS.items():
            for layer, head in ((0, 1), (2, 3)):
                known = [
                    (found[n][pattern][layer, head], n) for n in long if not np.isnan(found[n][pattern][layer, head])
                ]
                best = sorted(known, key=lambda one: (-one[0], one[1]))[:2]
                rows = table.filter(stack=stack, pattern=pattern, layer=layer, head=head).to_dicts()
                assert [row["value"] for row in rows] == pytest.approx([sign * value for value, _ in best], abs=1e-6)
                assert [row["place"] for row in rows] == list(range(1, len(best) + 1))
                if len(best) < 2 or best[0][0] - best[1][0] > 1e-6:  # else rounding orders them
                    assert [row["document"] for row in rows][:1] == [n for _, n in best][:1]
    begins = {row["document"]: row["text"] for row in table.to_dicts()}
    assert all(text.startswith(TEXTS[number][0][:20]) for number, text in begins.items())
    assert any(" / " in text for text in begins.values()), "a pair is parted by a slash"


@pytest.mark.parametrize("family", ["bert", "bart"])
def test_batches_blocks_and_order_change_nothing(family: str) -> None:
    model, study = exact(family), Strongest(texts=2, shortest=2)
    whole = study.table(concluded(model, study, folded(model, study)), setting(model))
    for other in (folded(model, study, batch_tokens=1), in_blocks(model, study, rows=5),
                  folded(model, study, order=(4, 2, 0, 3, 1))):  # fmt: skip
        table = study.table(concluded(model, study, other), setting(model))
        assert len(table) == len(whole)
        np.testing.assert_allclose(table["value"], whole["value"], atol=1e-6)


def test_only_texts_of_the_table_are_stored() -> None:
    model, study = exact("bert"), Strongest(texts=1, shortest=9)
    state = concluded(model, study, folded(model, study))
    told = set(study.table(state, setting(model))["document"])
    assert set(state.documents("text")) == told
    assert 2 not in told, "“the sea” is too short to count"
    none = Strongest(texts=1, shortest=500)
    empty = none.table(concluded(model, none, folded(model, none)), setting(model))
    assert empty.is_empty()
    assert list(none.answers(empty, setting(model))) == []
    assert none.figures(concluded(model, none, folded(model, none)), setting(model)) == {}


def test_how_a_text_begins() -> None:
    assert bytes(_bytes("é 🦜").tolist()).decode() == "é 🦜"
    cut = bytes(_bytes("é" * 500).tolist()).decode()
    assert len(cut) == MOST
    assert cut.endswith("é …")
    assert _bytes("").dtype == torch.uint8


def test_the_sentences_on_both_sides_of_the_threshold() -> None:
    row = {"stack": "self", "layer": 0, "head": 1, "name": "L0.H1", "pattern": "previous", "place": 1, "document": 4,
           "text": "A dog, a cat."}  # fmt: skip
    whole = Setting("m", {"self": (1, 2, 6)}, False, {"documents": 12, "tokens": 90})
    said = [one.says for one in Strongest().answers(pl.DataFrame([{**row, "value": 0.5}]), whole)]
    assert said == ["L0.H1 looks at the word before most in text 4 of 12 texts (0.50 of its weight): “A dog, a cat.”."]
    assert list(Strongest().answers(pl.DataFrame([{**row, "value": 0.49}]), whole)) == []
    long = pl.DataFrame([{**row, "value": 0.5, "text": "Isaac Newton showed " * 6}])
    (told,) = Strongest().answers(long, whole)
    assert told.says.endswith(f"“{'Isaac Newton showed ' * 3}Isaac Newton …”."), "no half word"


def test_figures() -> None:
    model, study = exact("bart"), Strongest(shortest=2)
    state = concluded(model, study, folded(model, study))
    figures = study.figures(state, setting(model))
    assert_drawable(figures, ["strongest", "strongest-decoder", "strongest-cross"])
    rows = next(iter(figures["strongest"].to_dict()["datasets"].values()))
    assert all(row["text"] for row in rows), "the pointer shows the text"
