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
    assert page.start == {"layer": 1, "heads": "0"}


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
        ({"html_action": "return"}, r"hw.view\(…\).save\(path\), or hw.view\(…\)._repr_html_\(\)"),
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
    assert shown.page.start == {"layer": 1, "heads": "2", "theme": "dark"}
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
