"""The page that a user with a private model can send."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headwise as hw
from headwise.cli import app
from headwise.cli.doctor import facts, page

Load = Callable[..., hw.Model]


@pytest.mark.parametrize(
    ("family", "said"),
    [
        ("bert", ["self 2       4 × 6", "encoder.layer.2.attention.output.dense", "LayerNorm after it", "sees all"]),
        ("granite", ["causal, residual + 0.7 · out, RMSNorm after it", "long texts in blocks of rows"]),
        ("gpt-neox", ["no: ", "no sum of attention and residual"]),
        ("bloom", ["followed by softmax and product"]),
        ("t5", ["encoder 0", "decoder 0", "cross 0", "RMSNorm after it"]),
    ],
)
def test_the_page_says_what_was_found(load: Load, family: str, said: list[str]) -> None:
    lines = list(page(facts(load(f"tiny:{family}"), 1.0)))
    text = "\n".join(lines)
    for words in said:
        assert words in text
    assert "broken" not in text
    assert "proved: Σ_h α V W_O + b_O" in text
    assert any(line.strip().startswith("effective ") and line.endswith("ms") for line in lines)


def test_the_costs_are_those_of_the_guard(load: Load) -> None:
    """3 layers × 4 heads × 128² × 4 bytes, twice."""
    assert f"    128 tokens   {2 * 3 * 4 * 128**2 * 4 / 2**20:,.0f} MB" in list(page(facts(load("tiny:bert"), 1.0)))


def test_a_refused_model_is_one_line() -> None:
    result = CliRunner().invoke(app, ["doctor", "tiny:nothing"])
    assert result.exit_code != 0
    assert isinstance(result.exception, hw.errors.HeadwiseError)


def test_a_checkpoint_is_examined_with_the_head_that_it_was_saved_with(load: Load, tmp_path: Path) -> None:
    model = load("tiny:gpt2", "causal-lm")
    model.hf.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    result = CliRunner().invoke(app, ["doctor", str(tmp_path), "--json", "-"])
    assert '"GPT2LMHeadModel"' in result.output
