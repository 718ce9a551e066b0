"""A notebook that switches gradients off, gets the answers that it had with them on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import headwise as hw
from headwise.models.model import Model
from headwise.traces.trace import Trace

TEXT = "The cat sat on the mat"
OFF = {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}
ASKED: dict[str, Callable[[Model, Trace], object]] = {
    "why": lambda _model, trace: trace.why(1, 1, 3, 2).table,
    "query_key": lambda _model, trace: trace.query_key(1, 1, query=3, key=2).table,
    "brought": lambda _model, trace: trace.brought().table,
    **{
        method: lambda model, _trace, method=method: model.explain(TEXT, method=method).table
        for method in ("paths", "integrated-gradients", "gradient-input", "leave-one-out")
    },
}


@pytest.fixture(params=OFF, autouse=True)
def gradients_off(request: pytest.FixtureRequest) -> Iterator[None]:
    with OFF[request.param]():
        yield


@pytest.fixture(scope="module")
def model() -> Model:
    return hw.load("tiny:gpt2", task="causal-lm")


@pytest.mark.parametrize("name", ASKED)
def test_answers_are_the_same_without_gradients(name: str, model: Model) -> None:
    asked = ASKED[name]
    without = asked(model, model.trace(TEXT))
    with torch.inference_mode(False), torch.enable_grad():
        assert asked(model, model.trace(TEXT)).equals(without)


def test_a_page_is_written(model: Model, tmp_path: Path) -> None:
    model.trace(TEXT).save_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 10_000


def test_a_study_that_learns_runs(tmp_path: Path) -> None:
    corpus = tmp_path / "texts.jsonl"
    corpus.write_text('{"text": "a cat sat", "label": 0}\n{"text": "a dog ran", "label": 1}\n', encoding="utf-8")
    settings = {"adversary": {"steps": 3}}
    found = hw.run(
        ["adversary"], "tiny:bert", task="classification", corpus=corpus, out=tmp_path / "run", settings=settings
    )
    assert len(found["adversary"].table)
