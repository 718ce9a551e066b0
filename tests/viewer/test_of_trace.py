"""A trace as a page: every family's stacks and quantities, and a reason for each that is missing."""

# ruff: noqa: ARG002  (the stand-in has the arguments of a trace, used or not)

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from headwise.cli import view as command
from headwise.errors import InputError, ModelError, UnknownNameError
from headwise.traces.saved import open_trace
from headwise.viewer import frame, page_of, save_page, view, view_of
from headwise.viewer.of_trace import DEAR, LEFT_OUT, NO_MODEL, SLOW, affordable, page_of_trace
from viewer.samples import HEADS, LAYERS, TOKENS, softmax

LONG = "the old river runs from the hills to the sea and the people of the town follow it home"


@dataclass
class Encoding:
    tokens: tuple[str, ...] = ("[CLS]", "It", "pur", "##red", ".", "Yes", "[SEP]")
    special: tuple[bool, ...] = (True, False, False, False, False, False, True)
    segment: tuple[int, ...] = (0, 0, 0, 0, 0, 1, 1)
    offsets: tuple[tuple[int, int], ...] = ((0, 0), (0, 2), (3, 6), (6, 9), (9, 10), (0, 3), (0, 0))
    unit: tuple[int, ...] = (0, 1, 2, 2, 3, 4, 5)
    words: tuple[str, ...] = ("[CLS]", "It", "purred", ".", "Yes", "[SEP]")


@dataclass
class FakeTrace:
    """The least that a page asks of a trace, with origins and without a residual."""

    model_name: str = "fake"
    stacks: tuple[str, ...] = ("self",)
    asked: list[tuple[int, int]] = field(default_factory=list)

    def queries(self, stack: str | None = None) -> Encoding:
        return Encoding()

    keys = queries

    def attention(self, name: str = "raw", *, stack: str | None = None) -> np.ndarray:
        return softmax((LAYERS, HEADS, TOKENS, TOKENS), seed=len(name))

    def mixing(self, name: str, *, stack: str | None = None) -> np.ndarray:
        if name.startswith("norm-residual"):
            raise ModelError("No sum of a residual was found.")
        if name not in ("raw-mean", "norm-sum"):
            raise UnknownNameError(name)
        return softmax((LAYERS, TOKENS, TOKENS))

    def origins(self, name: str) -> np.ndarray:
        if name != "hidden-token":
            raise UnknownNameError(name)
        return softmax((LAYERS, TOKENS, TOKENS), seed=9)

    def nullspace(self, *, stack: str | None = None) -> Any:
        table = np.arange(LAYERS * HEADS).reshape(LAYERS, HEADS)
        names = ("rank", "null_dim", "simplex_dim")
        tables = {**dict.fromkeys(names, table), **dict.fromkeys(("pearson", "null_share"), table / 10.0)}
        return type("Null", (), {"n": TOKENS, "d_head": 5, **tables, "identifiable": table == 1})

    def alternative_attention(self, layer: int, head: int, *, stack: str | None = None) -> Any:
        self.asked.append((layer, head))
        rows = softmax((TOKENS, TOKENS), seed=layer * 10 + head)
        return type("Other", (), {"alpha": rows, "js": np.full(TOKENS, 0.5), "change": 1e-9})


def test_all_kinds_of_quantity_are_shown_and_missing_ones_have_a_reason() -> None:
    page = page_of_trace(FakeTrace())
    (stack,) = page.stacks
    assert [(q.name, q.kind) for q in stack.quantities] == [
        *((name, "attention") for name in ("raw", "effective", "null", "norm")),
        *((name, "mixing") for name in ("raw-mean", "norm-sum")),
        ("hidden-token", "origins"),
        ("alternative", "attention"),
    ]
    assert {name for name, _ in page.missing} == {"norm-residual", "norm-residual-ln"}
    assert page.title == "It purred. / Yes"
    assert page.start is not None
    assert any(
        f"L{page.start['layer']}.H{page.start['head']}" in note and "not a typical" in note for note in page.notes
    )


def test_alternatives_are_those_that_the_trace_gives() -> None:
    trace = FakeTrace()
    page = page_of_trace(trace, alternatives=2)
    (stack,) = page.stacks
    assert len(trace.asked) == 2
    assert (0, 1) not in trace.asked  # that head is identifiable
    assert page.start is not None
    assert (page.start["layer"], page.start["head"]) == trace.asked[0]
    values = stack.quantities[-1].values
    assert stack.facts is not None
    for layer, head in np.ndindex(LAYERS, HEADS):
        there = (layer, head) in trace.asked
        assert np.isfinite(values[layer, head]).all() == there
        assert np.isfinite(stack.facts.other_js[layer, head]) == there
        said = stack.facts.lamps[layer, head].unique.says
        if there:
            moved = np.abs(values[layer, head] - stack.quantities[0].values[layer, head]).max()
            assert said.endswith(
                f"the one looked for moves no weight by more than {moved:.2g}, others may move one farther."
            )
        else:
            assert "looked for" not in said


def test_layers_heads_and_quantities_can_be_chosen() -> None:
    page = page_of_trace(FakeTrace(), quantities=["norm", "norm-sum"], layers=[1], heads=[2, 0])
    norm, summed = page.stacks[0].quantities
    assert (norm.layers, norm.heads, summed.heads) == ((1,), (2, 0), (0,))
    assert page.stacks[0].facts is not None
    assert page.stacks[0].facts.rank.tolist() == [[5, 3]]
    with pytest.raises(InputError, match="Head numbers"):
        page_of_trace(FakeTrace(), heads=[3])


@pytest.mark.parametrize("family", ["tiny:bert", "tiny:llama", "tiny:t5"])
def test_pages_of_real_traces(family: str, load: Callable[..., Any], tmp_path) -> None:
    trace = load(family).trace(LONG, "il fiume" if family == "tiny:t5" else None)
    view = view_of(trace, alternatives=1)
    assert [stack.name for stack in view.page.stacks] == list(trace.stacks)
    for stack in view.page.stacks:
        raw = next(q for q in stack.quantities if q.name == "raw")
        np.testing.assert_allclose(raw.values, trace.attention("raw", stack=stack.name).numpy(), rtol=1e-6)
        assert {"effective", "null", "norm"} <= {q.name for q in stack.quantities}
    assert view.page.title == LONG
    path = save_page(trace, tmp_path / "page.html", alternatives=0)
    assert path.read_text("ascii") == page_of(trace, alternatives=0)
    assert frame(trace, alternatives=0).startswith("<iframe srcdoc=")


def test_what_is_not_there_says_how_to_ask_for_it() -> None:
    """ "Not here: flow … ask for it" did not say how; what is too dear for a page comes only by its name."""
    assert DEAR.format("flow") == (
        "It takes long to compute for a text of this length; ask for it by name: `headwise view --with flow`, "
        "hw.view(trace, besides=['flow'])."
    )
    assert all("`headwise view --with " in said for said in (LEFT_OUT, DEAR, SLOW))


@pytest.mark.parametrize(
    ("family", "task", "there"),
    [("tiny:bert", None, False), ("tiny:bert", "classification", True), ("tiny:gpt2", "causal-lm", True)],
)
def test_what_a_model_cannot_have_is_not_offered(
    family: str, task: str | None, there: bool, load: Callable[..., Any]
) -> None:
    """ "Left out, to be quick; ask for it" was said of what a model without an output can never give."""
    missing = dict(page_of_trace(load(family, task=task).trace(LONG), besides=()).missing)
    said = missing["output-weighted"]
    assert (said == LEFT_OUT.format("output-weighted")) == there
    assert there or said.startswith("output-weighted needs a model with an output, but tiny:bert (BertModel) has no")
    assert missing["globenc"] == LEFT_OUT.format("globenc")


def test_a_saved_trace_does_not_offer_what_runs_the_model(load: Callable[..., Any], tmp_path) -> None:
    opened = open_trace(load("tiny:bert").trace(LONG).save(tmp_path / "t.safetensors"))
    missing = dict(page_of_trace(opened, besides=()).missing)
    assert missing["hidden-token"].startswith("hidden-token needs passes through the model, but this trace was opened")
    assert missing["globenc"] == LEFT_OUT.format("globenc")


def test_a_page_names_its_model_as_the_world_knows_it() -> None:
    assert page_of_trace(FakeTrace(model_name="demo")).model == "all-MiniLM-L6-v2 (demo)"
    assert page_of_trace(FakeTrace(model_name="demo-nmt")).model == "demo-nmt"


def test_the_page_of_a_reopened_trace_says_why_it_has_no_answer(load: Callable[..., Any], tmp_path) -> None:
    trace = load("tiny:gpt2", task="causal-lm").trace("the old river")
    trace.save(tmp_path / "t.safetensors")
    own, again = (page_of_trace(one, besides=()) for one in (trace, open_trace(tmp_path / "t.safetensors")))
    note = NO_MODEL.format("tiny:gpt2")
    assert own.answer
    assert note not in own.notes
    assert again.answer == ""
    assert note in again.notes


def test_the_page_of_a_translation_made_in_python_says_what_the_command_says(load: Callable[..., Any]) -> None:
    model = load("demo-nmt", task="translation")
    given, own = model.trace("Der Hund bellt.", "The dog barks."), model.trace("Der Hund bellt.")
    said = "The target read here: “The dog barks.” (24\u00a0% a token, geometric mean)"
    for choices in ({"quantities": ["raw"]}, {"besides": ()}):
        assert view_of(given, **choices).page.answer == said
    assert "The target read here: \\u201cThe dog barks." in page_of(given, quantities=["raw"])
    assert "The target read here" in frame(given), "a notebook's cell"
    assert page_of_trace(own, quantities=["raw"]).answer.startswith("It translates this as: “The dog ")
    without = load("demo-nmt", task=None).trace("Der Hund bellt.", "The dog barks.")
    page = page_of_trace(without, quantities=["raw"])
    assert page.answer.startswith("Loaded without its head: "), "a model without its head says how to have it"
    assert page.answer not in page.notes


@pytest.mark.parametrize(("tokens", "heads"), [(0, 21600), (60, 6), (120, 1), (128, 1), (129, 0), (512, 0)])
def test_other_weights_are_computed_while_they_are_cheap(tokens: int, heads: int) -> None:
    assert affordable(tokens) == heads


def test_a_quick_page_has_what_is_quick_and_what_was_named_and_says_how_to_get_the_rest() -> None:
    trace = FakeTrace()
    page = page_of_trace(trace, besides=["hidden-token"])
    names = [maps.name for maps in page.stacks[0].quantities]
    assert names == ["raw", "effective", "null", "norm", "norm-sum", "hidden-token", "alternative"]
    assert len(trace.asked) == 1  # other weights of one head
    left_out = dict(page.missing)
    assert "--with globenc" in left_out["globenc"]
    assert "hidden-token" not in left_out
    assert "hidden-token" not in [maps.name for maps in page_of_trace(FakeTrace(), besides=()).stacks[0].quantities]


def test_a_large_page_saved_in_python_says_how_large_it_is_and_how_it_becomes_smaller(
    load, tmp_path, monkeypatch
) -> None:
    """`trace.save_html` wrote 37 MB without a word; the command line tells it in its own words, from the same size."""
    pages = import_module("headwise.viewer.view")  # whose name is the function's too
    assert pages.LARGE == command.LARGE
    trace, path = load("tiny:bert").trace("the old river"), tmp_path / "page.html"
    size = len(page_of(trace, quantities=["raw"]))
    monkeypatch.setattr(pages, "LARGE", size)
    trace.save_html(path, quantities=["raw"])  # not larger: a warning is an error here
    monkeypatch.setattr(pages, "LARGE", size - 1)
    said = f"{path} is large, {size / 2**20:.1f} MB, and takes long to open: {{}} or a shorter text makes it smaller."
    ways = "model.trace(text, keep='top'), fewer quantities=", "include_layers=[…], include_heads=[…]"
    tensors = [softmax((1, 2, 3, 3))]
    for save, way in (
        (lambda: trace.save_html(path, quantities=["raw"]), ways[0]),
        (lambda: view(trace, quantities=["raw"]).save(path), ways[0]),
        (lambda: view(tensors, list("abc"), model="x" * size).save(path), ways[1]),
    ):
        with pytest.warns(UserWarning, match="is large") as told:
            save()
        (one,) = told
        assert str(one.message).split(" MB")[1] == said.format(way).split(" MB")[1]
    view_of(trace, quantities=["raw"]).save(path)  # as the command line, which says so itself
