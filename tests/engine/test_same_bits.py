"""Across threads, batch sizes and shard sizes: the same numbers to rounding; with the same plan, the same bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import torch

import headwise as hw
from headwise.models.model import Model
from references.precision import nearness

TEXTS = [
    "the old dog",
    "it was said in the city, and again",
    "a river",
    "the sun sat in the north of it, old and big",
] * 3
WAYS = {
    "batches": {"batch_tokens": 1},
    "shards": {"shard_documents": 2},
    "threads": {"threads": 2},
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("same") / "texts.txt"
    path.write_text("\n".join(TEXTS))
    return path


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def table(model: Model, corpus: Path, out: Path, **options) -> pl.DataFrame:
    return hw.run("surface", model, corpus=corpus, out=out, **{"threads": 1, **options}).table


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_another_way_gives_the_same_numbers_to_rounding(corpus: Path, tmp_path: Path, dtype: str) -> None:
    model = hw.load("tiny:bert", dtype=dtype)
    bound = nearness(model) if dtype == "float64" else 1e-5
    plain = table(model, corpus, tmp_path / "plain")
    numbers = [name for name, kind in plain.schema.items() if kind.is_float()]
    assert numbers
    for name, options in WAYS.items():
        other = table(model, corpus, tmp_path / name, **options)
        assert other.drop(numbers).equals(plain.drop(numbers))
        apart = (other.select(numbers) - plain.select(numbers)).fill_nan(0.0).fill_null(0.0)
        worst = max(float(apart[number].abs().max() or 0.0) for number in numbers)  # type: ignore[arg-type]
        assert worst <= bound, f"{name}: {worst}"


def test_the_same_plan_gives_the_same_bits(load: Callable[..., Model], corpus: Path, tmp_path: Path) -> None:
    model = load("tiny:bert")
    files = [tmp_path / name / "state.safetensors" for name in "ab"]
    for file in files:
        table(model, corpus, file.parent)
    assert files[0].read_bytes() == files[1].read_bytes()
