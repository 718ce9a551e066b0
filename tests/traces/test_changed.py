"""A trace of a changed model: it knows by what, is asked again under just that, says so, and keeps it on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.changes import Block, Change, called, cut, mean, resample, scale, without, zero
from headwise.errors import InputError
from headwise.models.editing import in_force
from headwise.traces.trace import Trace
from headwise.viewer.of_trace import page_of_trace
from references.compare import assert_close

TEXT, CELL = "The cat sat down because it was tired.", (2, 1, 5, 3)
ZERO, LESS = zero("L0.H1"), scale("L1.H2", by=0.25)
ASKED: dict[str, Callable[[Trace], Tensor]] = {
    "query_key": lambda trace: torch.tensor(trace.query_key(*CELL).score),
    "why": lambda trace: torch.tensor(trace.why(*CELL).top(3)["part"].to_list()),
    "value-zeroing": lambda trace: trace.mixing("value-zeroing"),
    "hidden-token": lambda trace: trace.origins("hidden-token"),
}


@pytest.fixture(scope="module")
def model() -> hw.Model:
    return hw.load("tiny:bert")


@pytest.mark.parametrize("name", ASKED)
def test_a_trace_is_asked_again_under_the_changes_it_was_read_under(model: hw.Model, name: str) -> None:
    ask = ASKED[name]
    intact, wanted = ask(model.trace(TEXT)), ask(model.trace(TEXT, change=[ZERO, LESS]))
    own = model.trace(TEXT)
    with model.changed(ZERO), model.changed(LESS):
        inside = model.trace(TEXT)
        assert_close(ask(inside), wanted, 1e-6)  # LESS twice would be another model
        assert_close(ask(own), intact, 1e-6)  # read before the block: of the model as it is
        assert in_force(model) == (ZERO, LESS)
    assert inside.change == (ZERO, LESS)
    assert_close(ask(inside), wanted, 1e-6)
    assert (intact - wanted).abs().max() > 1e-4, "it matters"


def test_changes_of_a_block_and_of_the_call_are_carried_together(model: hw.Model) -> None:
    with model.changed(ZERO):
        assert model.trace(TEXT, change=LESS).change == (ZERO, LESS)
        assert model.traces([TEXT])[0].change == (ZERO,)
    assert model.trace(TEXT).change == in_force(model) == ()
    with pytest.raises(InputError, match="leave out layers and change"), model.changed(ZERO):
        model.trace(TEXT, keep="top")


@pytest.mark.parametrize("inner", [mean("L1.H0", corpus="sample", first=2), resample("L1.H0", text="Dogs ran home.")])
def test_a_block_within_a_block_is_both_in_one(model: hw.Model, inner: Change) -> None:
    """What a change needs to know (a mean, another text) is asked of the model as it is."""
    outer = zero("L0")
    with model.changed(outer), model.changed(inner):
        nested = model.trace(TEXT).hidden["self"]
    assert_close(nested, model.trace(TEXT, change=[outer, inner]).hidden["self"], 1e-6)
    assert torch.equal(model.trace(TEXT).hidden["self"], model.trace(TEXT).hidden["self"])


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (zero("L1.H1"), 0.0),
        (scale("L1.H1", by=0.5), 0.5),
        (mean("L1.H1", corpus="sample", first=1), 0.0),
        (without("attention", 1), 0.0),
    ],
)
@pytest.mark.parametrize("family", ["bert", "llama"])
def test_a_head_sends_what_is_left_of_it(family: str, change: Change, left: float) -> None:
    model = hw.load(f"tiny:{family}")
    intact, trace = model.trace(TEXT), model.trace(TEXT, change=change)
    assert_close(trace.attention("norm")[1, 1], left * intact.attention("norm")[1, 1], 1e-6)
    assert torch.equal(trace.attention("raw")[1], intact.attention("raw")[1]), "it keeps its own weights"
    other = left * intact.attention("norm")[1, 0] if isinstance(change, Block) else intact.attention("norm")[1, 0]
    assert_close(trace.attention("norm")[1, 0], other, 1e-6)


def test_what_heads_send_together_adds_up_to_what_a_changed_layer_gives(model: hw.Model) -> None:
    layer = model.trace(TEXT, change=[scale("L1.H1", by=0.5), zero("L1.H0")]).of()[1]
    sent = torch.einsum("bhqk,bhkd,hde->bqe", layer.alpha, layer.head_value, layer.circuit.w_o) + layer.circuit.b_o
    assert_close(sent, layer.out, 1e-5)


def test_it_says_by_what_it_was_changed(model: hw.Model) -> None:
    changed = model.trace(TEXT, change=[ZERO, cut((5, 2))])
    assert 'through tiny:bert changed by zero("L0.H1") and cut((5, 2)): ' in repr(changed)
    assert "changed" not in repr(model.trace(TEXT))
    page = page_of_trace(changed, quantities=["raw"])
    assert page.model == 'tiny:bert changed by zero("L0.H1") and cut((5, 2))', "at the head of the page"
    assert page.model in changed.figure(1, 1).to_dict()["title"]["text"]
    notes = page.notes
    assert any(note.startswith('This is not the model as it is: it was changed by zero("L0.H1") and') for note in notes)
    assert not any("by itself" in note for note in notes)
    assert any("the model, changed so, gave the output that it gives unwatched on this text, to" in n for n in notes)
    own = page_of_trace(model.trace(TEXT), quantities=["raw"]).notes
    assert any("the model gave the output that it gives by itself on this text, to" in note for note in own)
    assert not any("changed" in note for note in own)


def test_a_saved_trace_knows_what_was_changed(model: hw.Model, tmp_path: Path) -> None:
    changes = (
        ZERO,
        resample("L1.H0", text="Dogs ran."),
        cut((None, 0), heads=["L0", "L1.H2"]),
        without("attention", 2),
    )
    trace = model.trace(TEXT, change=changes)
    opened = hw.open(trace.save(tmp_path / "trace.safetensors"))
    assert isinstance(opened, Trace)
    assert opened.change == changes
    assert opened.changed_by == trace.changed_by != ""
    assert_close(opened.attention("norm"), trace.attention("norm"), 1e-6)
    assert page_of_trace(opened, quantities=["raw"]).notes[-2].startswith("This is not the model as it is")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (zero((1, 2), "L3"), 'zero("L1.H2", "L3")'),
        (zero(*[f"L{i}" for i in range(8)], stack="cross"),
         'zero("L0", "L1", "L2", "L3", "L4", "L5", … 2 more, stack="cross")'),
        (mean("all", corpus="sample", first=3), 'mean("all", corpus="sample", first=3)'),
        (resample("L0", text="a" * 61), f'resample("L0", text="{"a" * 59}…")'),
        (cut((1, None), heads=(0, 1), renormalise=False), 'cut((1, None), heads="L0.H1", renormalise=False)'),
        (without("feed-forward", 0, 2, to="mean", corpus="sample"),
         'without("feed-forward", 0, 2, to="mean", corpus="sample")'),
    ],
)  # fmt: skip
def test_a_change_is_told_as_the_call_that_makes_it(change: Change, says: str) -> None:
    assert called(change) == says


@pytest.mark.parametrize(
    ("make", "given", "options", "says"),
    [
        (zero, (1, 1), {}, "A head is named L3.H4, .* but got 1"),
        (zero, ((1, 1, 1),), {}, r"A head is named L3.H4, .* but got \(1, 1, 1\)"),
        (cut, (("cat", "sat"),), {}, "An edge is a pair .* of positions"),
        (scale, ("L0",), {"by": "half"}, "scaled by a number, but got by='half'"),
        (without, ("attention", "3"), {}, "A layer is a zero-based number, but got '3'"),
    ],
)
def test_a_change_of_a_wrong_type_is_refused_in_one_line(
    make: Callable[..., Change], given: tuple[Any, ...], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says) as caught:
        make(*given, **options)
    assert "\n" not in str(caught.value)
