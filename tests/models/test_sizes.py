"""A configuration with absurd sizes is one line, said before anything is built."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import headwise as hw
from headwise.errors import ModelError
from headwise.models.sizes import MOST, MOST_LAYERS, claims


@pytest.fixture
def saved_bert(load, tmp_path: Path) -> Path:
    model = load("tiny:bert")
    model.hf.save_pretrained(tmp_path / "m")
    model.tokenizer.save_pretrained(tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.parametrize(
    ("name", "value", "most"),
    [("num_hidden_layers", 10**7, "2,000"), ("hidden_size", 10**12, "20,000,000"),
     ("max_position_embeddings", 10**10, "20,000,000"), ("vocab_size", 10**11, "20,000,000"),
     ("num_attention_heads", 1e300, "20,000,000"), ("intermediate_size", 2**70, "20,000,000")],
)  # fmt: skip
def test_a_size_that_no_model_has(
    saved_bert: Path, name: str, value: int, most: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved_bert / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    monkeypatch.setattr("headwise.models.load.auto_class", lambda _: pytest.fail("it is being built"))
    with pytest.raises(ModelError) as told:
        hw.load(str(saved_bert))
    assert str(told.value) == (
        f"{name} of a model must be at most {most}, but config.json of {saved_bert} says {value:.0f}; correct it."
    )


def test_sizes_within_and_what_is_none() -> None:
    nested: dict = {"hidden_size": 1}
    for _ in range(100):
        nested = {"text_config": nested}
    assert list(claims(nested)) == []
    found = claims({"n_layer": 12, "encoder_layers": 6, "layer_norm_eps": 1e9, "rope_theta": 10**10, "use_layers": True,
                    "vision_config": {"d_model": 8, "layers": "all"}, "num_experts": 4})  # fmt: skip
    assert list(found) == [
        ("n_layer", 12, MOST_LAYERS), ("encoder_layers", 6, MOST_LAYERS), ("d_model", 8, MOST),
        ("num_experts", 4, MOST),
    ]  # fmt: skip


@pytest.mark.parametrize("content", ["[]", "{", "\0", "5"])
def test_a_configuration_that_is_none(saved_bert: Path, content: str) -> None:
    (saved_bert / "config.json").write_text(content)
    with pytest.raises(ModelError) as told:
        hw.load(str(saved_bert))
    assert "\n" not in str(told.value)
