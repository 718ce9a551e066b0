"""The pass of a run is the model's own: tried on a text of the corpus, in the manifest, and a stop where it is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import headwise as hw
from headwise.errors import ProofError
from headwise.models.model import Model

TEXTS = ["a dog", "the old dog sat in the sun and slept", "it is"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS))
    return path


def test_the_manifest_says_how_near_the_watched_pass_is(load: Callable[..., Model], corpus: Path) -> None:
    model = load("tiny:bert")
    proof = hw.run("surface", model, corpus=corpus, out=corpus.parent / "out").manifest["proof"]["text"]
    assert proof["tokens"] == max(len(model.encode(text)) for text in TEXTS)
    assert 0 <= proof["output_error"] < 1e-5


def test_a_pass_that_differs_stops_the_run(load: Callable[..., Model], corpus: Path, monkeypatch) -> None:
    model, run = load("tiny:bert"), Model.run

    def other(self, batch, visit, **options):
        output = run(self, batch, visit, **options)
        output.last_hidden_state += 0.01 * torch.randn(output.last_hidden_state.shape, generator=torch.manual_seed(1))
        return output

    monkeypatch.setattr(Model, "run", other)
    with pytest.raises(ProofError, match=r"differs by .* when it is watched"):
        hw.run("surface", model, corpus=corpus, out=corpus.parent / "out")
    assert not list((corpus.parent / "out").glob("**/*.safetensors"))


def test_the_viewer_says_it_too(load: Callable[..., Model]) -> None:
    from headwise.viewer.of_trace import page_of_trace

    page = page_of_trace(load("tiny:bert").trace("the dog"), quantities=("raw",))
    assert any("gave the output that it gives by itself on this text, to " in note for note in page.notes)
