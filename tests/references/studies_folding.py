"""A few texts through a study: by the engine with any batch size, in any order, or in blocks of query rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache

import pytest
import torch

import headwise as hw
from headwise.engine.fold import fold
from headwise.engine.plan import Plan
from headwise.studies.study import Reading, Setting, State, Study, packed, plus, unpacked
from headwise.text.corpus import Document, Shard, open_corpus

TEXTS = (
    ("The old dog and the young cat sat in the sun, and so it was.", "It was said, again, that the sea is big."),
    ("It is said that the sea is big.", "So it was."),
    ("the sea", "and"),
    ("In the end, all of them came, and it was the end of it.", "They were old. The cat was not."),
    ("A dog, a cat.", "The sun is in the sea, they say, and the sea in the sun."),
)
FAMILIES = {"bert": ("self",), "llama": ("self",), "bart": ("encoder", "decoder", "cross")}


@cache
def exact(family: str) -> hw.Model:
    """In float64, so that batch-mates make no difference beyond 1e-12."""
    return hw.load(f"tiny:{family}", dtype="float64")


def folded(model: hw.Model, study: Study, *, batch_tokens: int = 2048, order: Sequence[int] = range(5)) -> State:
    documents = [Document(index, *TEXTS[index]) for index in order]
    plan = Plan({}, {}, open_corpus("sample"), batch_tokens=batch_tokens)
    state = State()
    for part in (documents[:2], documents[2:]):  # two shards
        state = plus(state, fold(model, [study], Shard(0, tuple(part)), plan).states[study.name])
    return unpacked(packed(plus(state, study.of_model(model))))


def in_blocks(model: hw.Model, study: Study, rows: int) -> State:
    """The same with at most `rows` query rows a layer, all texts in one batch."""
    both = model.is_encoder_decoder
    texts = [model.encode(text, None if both else pair) for text, pair in TEXTS]
    batch = model.batch(texts, [model.encode_target(pair) for _, pair in TEXTS] if both else [])
    reading, states = Reading(batch, torch.arange(len(TEXTS)), model.causal), []
    with torch.inference_mode():
        model.run(batch, lambda layer: states.append(study.observe(layer, reading)), rows=rows)
    total = State()
    for state in states:
        total = plus(total, state)
    return plus(total, study.of_model(model))


def setting(model: hw.Model) -> Setting:
    sizes = {stack: (model.layers(stack), model.heads(stack), model.head_size(stack)) for stack in model.stacks}
    return Setting(model.name, sizes, model.causal, {"documents": len(TEXTS), "tokens": 0})


def assert_same(got: State, expected: State, near: float) -> None:
    """Equal to `near` of each tensor's largest number, samples and counts included."""
    assert got.keys() == expected.keys()
    flat, other = packed(got), packed(expected)
    for key, tensor in other.items():
        if near > 1e-9 and key.startswith("RankHistogram"):  # rounding moves a few pairs to the next bin
            continue
        assert flat[key].shape == tensor.shape, key
        finite = tensor.isfinite()
        assert torch.equal(flat[key].isfinite(), finite), key
        size = tensor[finite].abs().max().clamp(min=1e-3) if finite.any() else 1.0
        assert not finite.any() or (flat[key] - tensor)[finite].abs().max() <= near * size, key


def assert_drawable(charts: Mapping[str, object], names: Sequence[str]) -> None:
    """Figures of these names with a title, a caption, data in every panel, and nothing that JSON cannot hold."""
    assert set(names) <= set(charts)
    for name, chart in charts.items():
        spec = chart.to_dict()  # type: ignore[attr-defined]
        json.dumps(spec, allow_nan=False)
        assert spec["title"]["text"], name
        assert spec["title"]["subtitle"], name
        assert spec["datasets"], name
        assert all(spec["datasets"].values()), f"{name} has an empty panel"


every_stack = pytest.mark.parametrize(
    ("family", "stack"), [(family, stack) for family, stacks in FAMILIES.items() for stack in stacks]
)
