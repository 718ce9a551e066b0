"""What the engine hands to a study: layers, hidden tokens, the model, and the sum, each only where it is asked for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import polars as pl
import pytest
import torch

import headwise as hw
from headwise.engine.fold import fold
from headwise.engine.plan import Plan
from headwise.models.model import Model
from headwise.stats import Pieces, Sums
from headwise.studies.study import Study
from headwise.text.corpus import Document, Shard, open_corpus

TEXTS = ("the sea is big", "the old dog and the young cat sat in the sun", "so it was")
CALLS: Counter[str] = Counter()


@dataclass(frozen=True)
class Table(Study):
    def table(self, *_):
        return pl.DataFrame()

    def figures(self, *_):
        return {}


@dataclass(frozen=True)
class Hidden(Table):
    name = "hidden"

    def observe_hidden(self, hidden, reading):
        CALLS["hidden"] += 1
        lengths = [len(text) for text in reading.batch.texts]
        kept = {int(n): hidden["self"][:, i, : lengths[i]].transpose(0, 1) for i, n in enumerate(reading.documents)}
        return {"hidden": Pieces.of(kept)}


@dataclass(frozen=True)
class Asks(Table):
    name = "asks"

    def ask(self, _model, reading):
        CALLS["ask"] += 1
        assert torch.is_grad_enabled()
        assert reading.notes == tuple(f"note {int(n)}" for n in reading.documents)
        return {"texts": Sums.of(torch.ones(1, len(reading.batch.texts)), torch.ones(1, 1))}


@pytest.fixture
def passes(monkeypatch):
    CALLS.clear()
    run = Model.run

    def counted(self, *args, **options):
        CALLS["passes"] += 1
        return run(self, *args, **options)

    monkeypatch.setattr(Model, "run", counted)


def folded(studies, batch_tokens=2048):
    documents = tuple(Document(index, text, notes=f"note {index}") for index, text in enumerate(TEXTS))
    model = hw.load("tiny:bert", dtype="float64")
    CALLS.clear()
    return fold(model, studies, Shard(0, documents), Plan({}, {}, open_corpus("sample"), batch_tokens=batch_tokens))


@pytest.mark.usefixtures("passes")
def test_hidden_tokens_are_those_of_the_trace_whatever_the_batch():
    model = hw.load("tiny:bert", dtype="float64")
    for batch_tokens in (1, 2048):
        pieces = folded([Hidden()], batch_tokens).states["hidden"]["hidden"]
        for text, piece in zip(TEXTS, pieces.tensors, strict=True):
            torch.testing.assert_close(piece, model.trace(text).hidden["self"].transpose(0, 1))


@pytest.mark.usefixtures("passes")
def test_only_the_passes_that_a_study_needs_are_made():
    folded([Asks()])
    assert CALLS == {"ask": 1}
    folded([Hidden(), Asks()])
    assert CALLS == {"passes": 1, "hidden": 1, "ask": 1}
