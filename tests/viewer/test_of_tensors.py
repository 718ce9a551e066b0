"""bertviz's input in all its shapes."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from headwise.errors import InputError
from headwise.viewer import view
from headwise.viewer.of_tensors import page_of_tensors, side, stacked, units
from viewer.samples import softmax

TOKENS = ["[CLS]", "a", "##b", "c", "[SEP]"]
ALPHA = softmax((2, 3, 5, 5))


@pytest.mark.parametrize(
    "attention",
    [
        [ALPHA[:1], ALPHA[1:]],
        tuple(torch.tensor(layer)[None] for layer in ALPHA),
        tuple(torch.tensor(layer, dtype=torch.bfloat16).float()[None] for layer in ALPHA),
        torch.tensor(ALPHA)[:, None],
        torch.tensor(ALPHA, requires_grad=True),
        ALPHA,
    ],
)
def test_each_shape_of_attention_gives_the_same_page(attention: object) -> None:
    page = page_of_tensors(attention, TOKENS)
    np.testing.assert_allclose(page.stacks[0].quantities[0].values, ALPHA, atol=4e-3)


def test_half_precision_is_read() -> None:
    assert stacked([torch.tensor(ALPHA[0], dtype=torch.bfloat16)[None]]).dtype == np.float32


def test_sentences_specials_and_words_are_read_off_the_tokens() -> None:
    found = side(TOKENS, 3, True)
    assert found.segment == (0, 0, 0, 1, 1)
    assert found.special == (True, False, False, False, True)
    assert (found.unit, found.words) == ((0, 1, 1, 2, 3), ("[CLS]", "ab", "c", "[SEP]"))


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (["Hel", "lo", "Ġwor", "ld"], [0, 0, 1, 1]),
        (["▁Hel", "lo", "▁world", "</s>"], [0, 0, 1, 2]),
        (["<s>", "un", "believ", "able", "Ġit"], [0, 1, 1, 1, 2]),
        (["no", "marks", "here"], [0, 1, 2]),
        ([], []),
    ],
)
def test_words_from_marks(tokens: list[str], expected: list[int]) -> None:
    assert units(tokens, [token in ("<s>", "</s>") for token in tokens]) == expected


def test_encoder_decoder_and_cross_attention() -> None:
    decoder, cross = softmax((2, 3, 4, 4), 1), softmax((2, 3, 4, 5), 2)
    page = page_of_tensors(
        encoder_attention=list(ALPHA[:, None]),
        decoder_attention=list(decoder[:, None]),
        cross_attention=list(cross[:, None]),
        encoder_tokens=TOKENS,
        decoder_tokens=["w", "x", "y", "z"],
    )
    shapes = [(stack.name, len(stack.queries), len(stack.keys)) for stack in page.stacks]
    assert shapes == [("encoder", 5, 5), ("decoder", 4, 4), ("cross", 4, 5)]


def test_layers_and_heads_can_be_chosen() -> None:
    page = page_of_tensors(ALPHA, TOKENS, include_layers=[1], include_heads=[2, 0], layer=1, heads=[0])
    (shown,) = page.stacks[0].quantities
    assert (shown.layers, shown.heads) == ((1,), (2, 0))
    np.testing.assert_array_equal(shown.values, ALPHA[[1]][:, [2, 0]])
    assert page.start == {"stack": "self", "layer": 1, "head": 0, "heads": "0"}


@pytest.mark.parametrize(
    ("asked", "start"),
    [
        ({"layer": 1, "heads": [2]}, {"layer": 1, "head": 2, "heads": "2"}),
        ({"layer": 1, "heads": 2}, {"layer": 1, "head": 2, "heads": "2"}),
        ({"layer": 0, "heads": [2, 1]}, {"layer": 0, "head": 2, "heads": "2,1"}),
        ({"layer": 0, "heads": [2, 1], "head": 1}, {"layer": 0, "head": 1, "heads": "2,1"}),
        ({"layer": np.int64(1), "head": np.int64(2)}, {"layer": 1, "head": 2, "heads": "2"}),
        ({"layer": 1}, {"layer": 1}),
        ({"include_layers": [1], "layer": 1, "heads": [1]}, {"layer": 1, "head": 1, "heads": "1"}),
    ],
)
def test_a_page_opens_at_the_head_that_was_asked_for(asked: dict, start: dict) -> None:
    """The heading said L2.H0 of curves of L2.H3."""
    page = page_of_tensors(ALPHA, TOKENS, **asked)
    assert page.start == {"stack": "self", **start}
    assert not any(note.startswith("The page opens at") for note in page.notes), "nothing chose it but who asked"


@pytest.mark.parametrize(("layer", "stack"), [(None, "cross"), (1, "cross"), (2, "encoder")])
def test_tensors_of_a_translation_open_on_cross_attention(layer: int | None, stack: str) -> None:
    page = page_of_tensors(
        encoder_attention=softmax((3, 3, 5, 5)),
        decoder_attention=softmax((2, 3, 4, 4), 1),
        cross_attention=softmax((2, 3, 4, 5), 2),
        encoder_tokens=TOKENS,
        decoder_tokens=["w", "x", "y", "z"],
        layer=layer,
    )
    assert page.start is not None
    assert page.start["stack"] == stack


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "Something must be given"),
        ({"attention": ALPHA}, "tokens of the self attention must be given; pass tokens=."),
        ({"attention": ALPHA, "tokens": TOKENS[:4]}, "4 × 4; got 5 × 5"),
        ({"attention": [], "tokens": TOKENS}, "at least one layer"),
        (
            {"attention": (np.concatenate([ALPHA, ALPHA]),), "tokens": TOKENS},
            r"must be of one text, but each layer has a batch of 4; .*\(\[layer\[i : i \+ 1\] for layer in attention\]",
        ),
        ({"attention": (), "tokens": TOKENS}, 'attn_implementation="eager"'),
        ({"attention": (None, None), "tokens": TOKENS}, 'attn_implementation="eager"'),
        ({"attention": None, "tokens": TOKENS}, 'attn_implementation="eager"'),
        ({"attention": TOKENS, "tokens": ALPHA}, "tokens second; swap them"),
        ({"attention": ALPHA, "tokens": [101, 7, 8, 9, 102]}, r"but got a list of others; pass tokenizer.convert_ids"),
        (
            {"attention": [ALPHA[0], ALPHA[1][:2]], "tokens": TOKENS},
            r"layer 0 is \(3, 5, 5\) and layer 1 \(2, 5, 5\); .*attention\[:1\]",
        ),
        ({"attention": list(ALPHA * [[[[1]]], [[[np.nan]]]]), "tokens": TOKENS}, "all of L1.H0 are NaN"),
        ({"attention": SimpleNamespace(attentions=ALPHA), "tokens": TOKENS}, "attention=outputs.attentions"),
        ({"attention": SimpleNamespace(attentions=None), "tokens": TOKENS}, 'attn_implementation="eager"'),
        ({"attention": object(), "tokens": TOKENS}, r"one a layer, but got object; .* model.trace\(text\)"),
        ({"attention": ALPHA, "tokens": TOKENS, "include_layers": 1}, r"as in layers=\[3\]; got 1"),
        ({"attention": ALPHA, "tokens": TOKENS, "include_heads": ["L0.H1"]}, r"as in heads=\[3\]"),
        ({"attention": ALPHA, "tokens": TOKENS, "sentence_b_start": 9}, "0 … 5; got 9"),
        ({"attention": ALPHA, "tokens": TOKENS, "include_layers": [2]}, "Layer numbers must lie in 0 … 1"),
        ({"attention": ALPHA, "tokens": TOKENS, "layer": 2}, "that it holds, 0 … 1, but layer 2 was asked for; name"),
        ({"attention": ALPHA, "tokens": TOKENS, "heads": [0, 99]}, "holds, 0 … 2, but head 99 was asked for; name one"),
        ({"attention": ALPHA, "tokens": TOKENS, "head": -1}, "holds, 0 … 2, but head -1 was asked for"),
        ({"attention": ALPHA, "tokens": TOKENS, "include_heads": [0, 2], "heads": [1]}, "holds, 0, 2, but head 1 was"),
        ({"attention": ALPHA, "tokens": TOKENS, "heads": ["L0.H1"]}, "but head 'L0.H1' was asked for"),
        ({"attention": ALPHA[0], "tokens": TOKENS}, r"one of \(3, 5, 5\) was given; a layer by itself .*, \[att\]"),
        ({"attention": list(ALPHA[0]), "tokens": TOKENS}, r"but layer 0 is \(5, 5\); a layer by itself .*, \[att\]"),
    ],
)
def test_bad_input_is_refused_with_what_to_do(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        page_of_tensors(**arguments)  # pyright: ignore[reportArgumentType]


def test_a_view_is_shown_and_saved(tmp_path) -> None:
    shown = view(ALPHA, TOKENS, 3)
    path = shown.save(tmp_path / "page.html")
    assert path.read_text("ascii") == shown.html()
    assert "5 × 5" in repr(shown)
    with pytest.raises(InputError, match="must exist"):
        shown.save(tmp_path / "no" / "folder.html")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"html_action": "return"}, r"hw.view\(…\).save\(path\), or hw.view\(…\).html\(\) for its text"),
        ({"tokenizer": None}, "query_key"),
        ({"colour": "red"}, "A page of tensors takes tokens, .*include_layers.*, but 'colour' was passed"),
        ({"display_mode": "blue"}, "must be 'light' or 'dark', but got 'blue'"),
    ],
)
def test_bertvizs_other_arguments_are_refused_in_a_line(given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        view(ALPHA, TOKENS, **given)  # pyright: ignore[reportArgumentType]


def test_bertvizs_other_arguments_are_taken() -> None:
    shown = view(ALPHA, TOKENS, 3, html_action="view", prettify_tokens=False, display_mode="dark", layer=1, head=2)
    assert shown.page.start == {"stack": "self", "layer": 1, "head": 2, "heads": "2", "theme": "dark"}
    with pytest.raises(InputError, match=r"After sentence_b_start every argument goes by its name"):
        view(ALPHA, TOKENS, 3, True)


def test_numbers_that_are_no_attention_are_not_called_so() -> None:
    (raw,) = page_of_tensors(ALPHA, TOKENS).stacks[0].quantities
    assert (raw.quantity.label, raw.quantity.rows) == ("Raw attention", "Each row adds up to 1.")
    (less,) = page_of_tensors(ALPHA - 0.5, TOKENS).stacks[0].quantities
    assert less.quantity.label == "Given numbers"
    assert "They do not look like attention: L0.H0 has -0." in less.quantity.about
    assert less.quantity.signed
    (half,) = page_of_tensors(ALPHA * np.array([1, 0.5])[:, None, None, None], TOKENS).stacks[0].quantities
    assert "row 0 of L1.H0 adds up to 0.5, not to 1." in half.quantity.about
    assert half.quantity.rows != "Each row adds up to 1."


@pytest.mark.parametrize(
    ("times", "said"), [(1.0, None), (1.019, None), (2.0, "row 0 of L0.H0 adds up to 2, not to 1")]
)
def test_rows_that_do_not_add_up_to_one_are_warned_of(times: float, said: str | None) -> None:
    """Weights whose rows add up to 2 were taken without a word in Python."""
    if said is None:
        view(ALPHA * times, TOKENS)  # a warning is an error here
        return
    with pytest.warns(UserWarning, match="Numbers as they were given") as told:
        view(ALPHA * times, TOKENS)
    assert [str(one.message) for one in told] == [
        f"Numbers as they were given. They do not look like attention: {said}."
    ]
