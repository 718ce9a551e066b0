"""Ablation over a corpus: effects are those of a plain loop, whatever the batches and shards; the table; the words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.changes import mean, zero
from headwise.engine.run import setting_of
from headwise.errors import InputError
from headwise.interventions.outcomes import ask
from headwise.studies.ablation import Ablation
from headwise.studies.ablation.answers import MATTER, answers
from headwise.studies.ablation.facts import SCHEMA, ends
from headwise.studies.ablation.figures import drawn
from headwise.studies.answers import BELIEVE, Answer, Vote
from headwise.studies.study import Setting
from references.compare import assert_close

LINES = ["The old dog sat in the sun.", "It is said that the sea is big, and so it was.", "They all came to the end.",
         "And the young cat and the dog sat by the sea."]  # fmt: skip
PAIRS = "\n".join(f"{a} ||| {b}" for a, b in zip(LINES, reversed(LINES), strict=True))
HEADS = Setting("m", {"self": (2, 2, 3)}, True, {"documents": 4, "tokens": 40})


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(LINES))
    return file


def heads(table: pl.DataFrame, way: str, number: str = "effect") -> pl.DataFrame:
    return table.filter(part="head", way=way, number=number)


def by_hand(model: hw.Model, change) -> Tensor:
    """The mean change of the loss over the corpus, by plain passes."""
    found = []
    for number, line in enumerate(LINES):
        question = ask(model, model.encode(line), number=number)
        assert question is not None
        with torch.no_grad():
            clean = question.read(model.hf(**question.inputs))
            with model.changed(change):
                found.append(question.effects(clean, question.read(model.hf(**question.inputs)))[0, 0])
    return torch.stack(found).mean()


def test_effects_are_those_of_plain_passes(load, corpus: Path, tmp_path: Path) -> None:
    model = load("tiny:llama", "causal-lm")
    result = hw.run("ablation", model, corpus=corpus, out=tmp_path / "out", settings={"ablation": {"curve": 2}})
    table = result.table
    for layer, head in ((0, 1), (2, 3)):
        row = lambda way: heads(table, way).filter(layer=layer, head=head)["value"][0]  # noqa: B023, E731
        assert_close(torch.tensor(row("zero")), by_hand(model, zero(f"L{layer}.H{head}")), 1e-5)
        at_mean = mean(f"L{layer}.H{head}", corpus=str(corpus))
        assert_close(torch.tensor(row("mean")), by_hand(model, at_mean), 1e-5)
    assert table["texts"][0] == 4
    assert set(table["part"]) == {"head", "attention", "feed-forward", "correlation", "curve"}
    orders = set(table.filter(part="curve")["name"])
    assert "norm, least first" in orders
    assert ("null share, most first" in orders) == (table["null"].n_unique() > 2), "all 0: no order"
    everything = table.filter(part="curve", removed=12)["value"].to_list()
    assert np.allclose(everything, everything[0], atol=1e-6), "all orders end with no head left"
    assert set(result.figures) == {"heads", "estimate", "statistics", "removal"}


def test_batches_and_shards_play_no_part(load, corpus: Path, tmp_path: Path) -> None:
    model, settings = load("tiny:bert", "masked-lm"), {"ablation": {"curve": 1, "texts": 6, "ways": ("mean",)}}
    corpus.write_text("\n".join([*LINES, *(line[4:] for line in LINES)]))
    whole = hw.run("ablation", model, corpus=corpus, out=tmp_path / "a", settings=settings)
    parts = hw.run(
        "ablation", model, corpus=corpus, out=tmp_path / "b", settings=settings, shard_documents=1, batch_tokens=8
    )
    for column in ("value", "low", "high", "estimate", "null"):
        assert_close(whole.table[column].to_torch(), parts.table[column].to_torch(), 1e-5)
    assert whole.table["texts"].max() == 6


@pytest.mark.parametrize(
    ("name", "task", "numbers"),
    [("tiny:bert", None, {"effect"}), ("tiny:bert", "classification", {"loss", "probability", "accuracy"}),
     ("tiny:marian", "translation", {"effect"})],
)  # fmt: skip
def test_every_kind_of_model_has_effects(load, tmp_path: Path, name: str, task: str | None, numbers: set[str]) -> None:
    model = load(name, task)
    file = tmp_path / ("x.pairs" if model.is_encoder_decoder else "x.txt")
    file.write_text(PAIRS if model.is_encoder_decoder else "\n".join(LINES))
    result = hw.run("ablation", model, corpus=file, out=tmp_path / "out", settings={"ablation": {"curve": 1}})
    table = result.table
    assert set(table.filter(part="head")["number"]) == numbers
    assert set(table.filter(part="head")["stack"]) == set(model.stacks)
    units = {"effect": "nats" if task else "1 − cos", "loss": "nats", "probability": "of 1", "accuracy": "of 1"}
    assert dict(table.filter(part="head").select("number", "unit").unique().rows()) == {n: units[n] for n in numbers}
    assert (heads(table, "mean", next(iter(sorted(numbers))))["value"].abs() > 0).any()
    assert table.filter(part="feed-forward", stack="cross").is_empty()
    assert len(list(Ablation().answers(table, setting_of(result.manifest)))) == 3


def test_an_interval_of_nothing_is_not_known() -> None:
    values = np.stack([np.arange(101.0), np.full(101, np.nan), np.r_[np.nan, np.ones(100)]], axis=1)
    low, high = ends(values)
    np.testing.assert_allclose(low, [2.5, np.nan, 1.0])
    np.testing.assert_allclose(high, [97.5, np.nan, 1.0])
    assert np.isnan(ends(np.full(5, np.nan))[0])


def table_of(values: list[float], lows: list[float | None], rho: dict[str, tuple[float, float | None]]) -> pl.DataFrame:
    rows = [
        {"part": "head", "stack": "self", "layer": at // 2, "head": at % 2, "name": f"L{at // 2}.H{at % 2}",
         "way": "mean", "number": "effect", "value": value, "low": low, "texts": 4, "unit": "1 − cos"}
        for at, (value, low) in enumerate(zip(values, lows, strict=True))
    ]  # fmt: skip
    rows += [
        {"part": "correlation", "name": name, "value": value, "low": low, "high": None if low is None else low + 0.2,
         "texts": 4}
        for name, (value, low) in rho.items()
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=SCHEMA)


def test_the_words_of_a_table_by_hand() -> None:
    rho = {"estimate": (0.9, 0.8), "entropy": (-0.6, -0.7), "norm": (0.5, 0.4), "null": (float("nan"), None)}
    first, second, _ = answers(table_of([1.0, 3.0, -1.0, 0.0], [0.5, 2.0, -2.0, -0.1], rho), HEADS)
    assert first.question == MATTER
    assert first.says == (
        "Taken away alone (at its mean), 2 of 4 heads clearly change what the model does (interval beyond 0.001 "
        "(1 − cos)); the 4 that matter most (L0.H1, L0.H0, L1.H1, L1.H0) make up 100\u00a0% of the sum over all heads "
        "(4 texts)."
    )
    assert first.headline == "L0.H1 matters most; 4 of 4 heads make up 100\u00a0% of all effects."
    assert second.says == (
        "Of what can be read off its attention, the entropy of its attention says most about a head, and tells whether "
        "it matters (ρ = -0.60, -0.70 to -0.50; 4 texts). One backward pass tells it with ρ = 0.90."
    )


def test_where_no_head_clearly_matters_none_is_said_to_matter_most() -> None:
    """“L5.H0 matters most” stood over “0 of 72 heads clearly change what the model does”."""
    first, *_ = answers(table_of([0.0001, 0.0003, -0.0001, 0.0], [-0.1, -0.1, -0.2, -0.1], {}), HEADS)
    assert "0 of 4 heads clearly change what the model does" in first.says
    assert first.headline == ("No head clearly changes what the model does when taken away alone; L0.H1 comes nearest.")


@pytest.mark.parametrize(
    ("value", "word"),
    [(0.6, "tells"), (0.59, "hints at"), (0.3, "hints at"), (0.29, "does not tell"), (-0.6, "tells"),
     (-0.29, "does not tell")],
)  # fmt: skip
def test_how_well_a_statistic_tells_is_said_by_two_thresholds(value: float, word: str) -> None:
    _, last, *_ = answers(table_of([1.0] * 4, [None] * 4, {"norm": (value, None)}), HEADS)
    assert last.says == (
        f"Of what can be read off its attention, the length of what it sends says most about a head, and {word} "
        f"whether it matters (ρ = {value:.2f}; 4 texts)."
    )


@pytest.mark.parametrize(
    ("lows", "highs", "verdict", "needed", "idle"),
    [
        ([0.001] * 9 + [-1.0], [0.2] * 10, "yes", 9, 0),
        ([0.001] * 8 + [-1.0] * 2, [0.2] * 10, "with care", 8, 0),
        ([0.00099] * 10, [0.2] * 10, "with care", 0, 0),
        ([-0.2] * 9 + [-1.0], [-0.001] * 9 + [1.0], "yes", 9, 0),
        ([-0.0009] * 9 + [-1.0], [0.0009] * 9 + [1.0], "no", 0, 9),
        ([-0.0009] * 8 + [-1.0] * 2, [0.0009] * 8 + [1.0] * 2, "with care", 0, 8),
        ([-0.0009] * 10, [0.001] * 10, "with care", 0, 0),
    ],
)
def test_heads_that_matter_are_counted_by_one_threshold(
    lows: list, highs: list, verdict: str, needed: int, idle: int
) -> None:
    """In the vote, in the sentence and under the figure: an interval of a distance is always above 0."""
    table = table_of([0.1] * 10, lows, {}).with_columns(high=pl.Series(highs))
    told = list(answers(table, HEADS))
    (vote,) = [answer.vote for answer in told if answer.question == BELIEVE]
    assert vote is not None
    assert (vote.tested, vote.verdict) == ("heads", verdict)
    assert vote.because == (
        f"{needed} of 10 heads clearly move the vector when taken away alone (interval beyond 0.001 (1 − cos)), "
        f"{idle} clearly do not (interval within it); each at its mean, 4 texts"
    )
    assert told[0].says.startswith(
        f"Taken away alone (at its mean), {needed} of 10 heads clearly change what the model does (interval beyond "
        "0.001 (1 − cos)); the 5 that"
    )
    captions = str(drawn(table, HEADS, ways=("mean",))["heads"].to_dict())
    assert f"{needed} of 10 heads clearly change it: interval beyond 0.001 (1 − cos) (at its mean)." in captions
    assert "each head at its mean, 1 − cos" in captions


def test_too_few_texts_are_said_so_and_have_no_vote() -> None:
    assert not [answer for answer in answers(table_of([1.0] * 4, [None] * 4, {}), HEADS) if answer.vote]
    first, *_ = answers(table_of([1.0] * 4, [None] * 4, {}), HEADS)
    assert "Taken away alone (at its mean), 4 texts are too few for intervals, which take 6;" in first.says
    assert list(answers(pl.DataFrame(schema=SCHEMA), HEADS)) == []


@pytest.mark.parametrize(("texts", "undecided"), [(4, True), (5, True), (6, False)])
def test_why_five_texts_that_other_votes_count_are_too_few_for_this_one(texts: int, undecided: bool) -> None:
    """The page said that a vote takes four texts, and of four that this test was not made."""
    table = table_of([1.0] * 4, [None] * 4, {}).with_columns(texts=pl.lit(texts))
    found = [answer for answer in answers(table, HEADS) if answer.question == BELIEVE]
    why = f"n = {texts}, and a head's own interval takes 6 texts"
    says = f"Do the heads matter to the answer? Undecided: {why}."
    assert found == ([Answer(BELIEVE, says, undecided=Vote("heads", "no", why))] if undecided else [])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ways": ("x",)}, "Heads are replaced by mean, zero, resample, each once, but ways=('x',) was asked for."),
        ({"ways": ()}, "Heads are replaced by mean, zero, resample, each once, but ways=() was asked for."),
        ({"outcome": "joy"}, "What a model does is one of masked-token, label, token-label, translation, next-token, "
                             "sentence, tokens, but 'joy' was asked for."),
        ({"draws": 0}, "draws of study ablation must be a whole number, 1 or more, but 0 was given."),
    ],
)  # fmt: skip
def test_bad_settings_are_one_line(settings: dict, said: str) -> None:
    with pytest.raises(InputError) as error:
        Ablation(**settings)
    assert str(error.value) == said
