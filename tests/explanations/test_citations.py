"""Citations: the sparse regression by hand and against brute force, sentences of an answer, and planted sources."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from headwise.cli import app
from headwise.errors import InputError, ModelError
from headwise.explanations import citations
from headwise.explanations.asking import Wish, ask
from headwise.explanations.citations import Citation, Cited, by_sentence, cite
from headwise.explanations.sparse import lasso


def test_the_lasso_of_independent_columns_is_a_soft_threshold() -> None:
    x = np.array([[a, b] for a in (0, 1) for b in (0, 1)], dtype=float)  # variance 1/4, no covariance
    y = x @ np.array([2.0, 0.3]) + 7
    np.testing.assert_allclose(lasso(x, y, 0.05), [2.0 - 0.05 / 0.25, 0.3 - 0.05 / 0.25])
    np.testing.assert_allclose(lasso(x, y, 0.1), [2.0 - 0.1 / 0.25, 0.0])
    np.testing.assert_allclose(lasso(x, y, 0.05, np.array([1.0, 0.0])), [2.0 - 0.05 / 0.25, 0.3])


def test_no_neighbour_of_the_lasso_is_better() -> None:
    generator = np.random.default_rng(0)
    x, noise = generator.random((40, 5)) < 0.5, generator.normal(size=40)
    x = x.astype(float)
    y = x @ np.array([3.0, 0, -2, 0, 0.5]) + 0.1 * noise

    def loss(w: np.ndarray) -> float:
        rest = (y - y.mean()) - (x - x.mean(0)) @ w
        return float((rest**2).mean() / 2 + 0.05 * np.abs(w).sum())

    found = lasso(x, y, 0.05)
    for step in 1e-3 * generator.normal(size=(200, 5)):
        assert loss(found) <= loss(found + step) + 1e-12
    assert found[1] == 0 or abs(found[1]) < 0.1


def test_an_answer_is_cut_into_its_sentences(load) -> None:
    model = load("tiny:gpt2", "causal-lm")
    asked = by_sentence(ask(model, "the dog", wish=Wish(target="It was late. The sea was old.")))
    assert [t.name for t in asked.targets] == ["It was late.", "The sea was old."]
    assert [row for t in asked.targets for row in t.rows] == list(range(len(asked.rows)))


def test_planted_sources_are_cited(load, monkeypatch) -> None:
    """Against a model whose log-probability is known: sentence 0 rests on source 1, sentence 1 on nothing."""

    def without(self, gone, *, removal: str):
        assert removal == "delete"
        import torch

        own = [unit.tokens[0] for unit in citations.units_of(self, "sentences") if unit.given]
        there = (~gone[:, own]).double()
        first = -5 + 3.0 * there[:, 1]
        values = torch.stack([first, torch.full_like(first, -2.0)])
        return torch.stack([values, values], dim=-1)

    monkeypatch.setattr("headwise.explanations.question.Question.without", without)
    monkeypatch.setattr(citations, "guess_of", lambda asked: __import__("torch").ones(2, len(asked)).double())
    context = "The dog was old. The cat sat by the sea. It was late."
    found = cite(load("tiny:gpt2", "causal-lm"), context, "Who sat?", "The cat. It was so.")
    assert [s.sentence for s in found.sentences] == ["The cat.", "It was so."]
    assert [c.source for c in found.sentences[0].citations] == ["The cat sat by the sea."]
    assert found.sentences[0].citations[0].effect == pytest.approx(3.0, rel=0.01)
    assert str(found.sentences[1]) == "It was so. [rests on none: the model's own knowledge]"
    assert found.fit[0] == pytest.approx(1.0, abs=0.01)
    assert found.passes <= 64
    assert found.table["source"].to_list() == ["The cat sat by the sea."]


def test_the_question_always_stays(load) -> None:
    model = load("tiny:gpt2", "causal-lm")
    found = cite(model, "The dog was old. It was late.", "Who was old?", "the dog", passes=16)
    assert found.sources == ("The dog was old.", "It was late.")
    assert found.passes == 16


def test_words_of_a_citation() -> None:
    cited = Cited("So.", (Citation("A.", 2.0, 1.0, 3.0), Citation("B.", 1.0, 0.5, 2.0)))
    assert str(cited) == "So. [A.; B.]"


def test_bad_input_is_one_line(load, tmp_path) -> None:
    gpt2 = load("tiny:gpt2", "causal-lm")
    with pytest.raises(InputError, match="A context must have"):
        cite(gpt2, "  ", "Who?")
    with pytest.raises(InputError, match="at least 16 passes"):
        cite(gpt2, "the dog", "Who?", passes=3)
    with pytest.raises(InputError, match="Sources are sentences or passages"):
        cite(gpt2, "the dog", "Who?", units="words")
    with pytest.raises(ModelError, match="Citations need a model that writes"):
        cite(load("tiny:bert", "classification"), "the dog", "Who?")
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    run = CliRunner().invoke(app, ["cite", "--context", str(empty), "--question", "Who?", "--model", "tiny:gpt2"])
    assert isinstance(run.exception, InputError)
    assert str(run.exception).endswith("empty.txt is empty; give another file.")
