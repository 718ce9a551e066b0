"""The tiny models: the same every time, and random where a default would hide a mistake."""

from __future__ import annotations

import torch

from headwise.models.tiny import FAMILIES, REFUSED, tiny_model, tiny_tokenizer


def test_the_same_every_time() -> None:
    first, second, other = (tiny_model("bert", seed=seed)[0].state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_making_one_leaves_the_random_state_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    tiny_model("gpt2")
    assert torch.equal(torch.rand(3), expected)


def test_no_parameter_is_a_default() -> None:
    """Zero biases and unit gains would hide a missing bias or gain."""
    for family in FAMILIES:
        for name, parameter in tiny_model(family)[0].named_parameters():
            if parameter.numel() > 1:
                assert parameter.std() > 0.05, (family, name)


def test_tokenizers_give_back_the_text() -> None:
    for kind in ("wordpiece", "bytes", "pieces"):
        tokenizer = tiny_tokenizer(kind)
        assert (
            tokenizer.decode(tokenizer("the old dog")["input_ids"], skip_special_tokens=True).strip() == "the old dog"
        )


def test_refused_families_are_not_supported_ones() -> None:
    assert not set(REFUSED) & set(FAMILIES)
