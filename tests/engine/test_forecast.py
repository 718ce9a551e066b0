"""What is told before a run starts: one line of all studies together, and how to make a long run shorter."""

from __future__ import annotations

import pytest

from headwise.engine.fold import EVERY
from headwise.engine.forecast import (
    A_SHARD,
    AFTER,
    EACH,
    PARTS_AFTER,
    SHARED,
    SPECIAL,
    Forecast,
    Pass,
    foretold,
    lengths,
    of_texts,
    span,
    timed,
    together,
)
from headwise.engine.plan import Plan
from headwise.engine.run import _done
from headwise.results import write_shard
from headwise.studies import STUDIES
from headwise.text.corpus import open_corpus

ASKING = [STUDIES["surface"](), STUDIES["faithfulness"](texts=1)]


def test_only_texts_that_a_study_asks_cost_its_passes() -> None:
    found = of_texts([12.0, 12.0, 0.0], ASKING, 24, Pass(0.01, 12, 1.0), parts=8, shard=1)
    shared, own = 0.01 * (SHARED + EACH), 0.01 * (250 + 12)
    assert found.shards == pytest.approx([2 * A_SHARD + shared + own, 2 * A_SHARD + shared, 2 * A_SHARD])
    assert found.shares["faithfulness"] == pytest.approx(own / sum(found.shards))
    assert (list(found.texts), found.after) == ([1, 1, 1], 2 * (AFTER + PARTS_AFTER))
    assert found.whole == pytest.approx(sum(found.shards) + found.after)


def test_a_pass_costs_by_tokens() -> None:
    assert Pass(0.5, 42, 1.0).of(2 * 42 + SPECIAL) == pytest.approx(1.0)


def test_heads_are_what_ablation_asks_for() -> None:
    assert STUDIES["ablation"](ways=("mean", "zero")).passes(9, 24) == 48
    assert STUDIES["surface"]().passes(9, 24) == 0


@pytest.mark.parametrize(("truncate", "expected"), [(False, [5.0, 0.0]), (True, [5.0, 7.0])])
def test_a_text_too_long_costs_nothing_unless_it_is_cut(tmp_path, load, truncate: bool, expected: list[float]) -> None:
    (tmp_path / "c.txt").write_text("0123456789\n\n" + "x" * 40, "utf-8")
    plan = Plan({}, {}, open_corpus(tmp_path / "c.txt"), truncate=truncate, max_tokens=7)
    assert lengths(load("tiny:bert"), plan, Pass(1.0, 1, 0.5)) == expected


@pytest.mark.parametrize(
    ("seconds", "shares", "said"),
    [
        (19.0, {EVERY: 1.0}, []),
        (20.0, {EVERY: 1.0}, ["2 texts will take about 15–30 s"]),
        (1.0, {"faithfulness": 0.9, EVERY: 0.1}, ["2 texts will take less than 15 s, faithfulness 90 % of it"]),
        (120.0, {"mixing": 0.6, "ablation": 0.2, EVERY: 0.2},
         ["2 texts will take about 1–3 minutes, mixing 60 % and ablation 20 % of it"]),
        (121.0, {"mixing": 0.6, "edges": 0.21, "reasons": 0.19},
         ["2 texts will take about 1–3 minutes, mixing 60 % and edges 21 % of it",
          "for less: read fewer texts (--first 1), or leave out mixing"]),
    ],
)  # fmt: skip
def test_what_is_told(seconds: float, shares: dict[str, float], said: list[str]) -> None:
    assert foretold(Forecast([seconds / 2, seconds / 2], [1, 1], shares), ASKING) == said


def test_the_only_study_is_not_told_to_be_left_out() -> None:
    told = foretold(Forecast([600.0], [1400], {"faithfulness": 1.0}), ASKING[1:])
    assert told[1:] == ["for less: read fewer texts (--first 350)"]


def test_a_short_text_is_timed_among_many_and_a_long_one_among_few(load, tmp_path) -> None:
    """A pass of 4 texts of 13 tokens is nothing but its overhead: 17–35 minutes were foretold of 164 s."""
    (tmp_path / "c.txt").write_text("the old city was big", "utf-8")
    model, rows = load("tiny:bert"), []
    handle = model.hf.register_forward_pre_hook(
        lambda _, __, inputs: rows.append(inputs["input_ids"].shape), with_kwargs=True
    )
    found = timed(model, Plan({}, {}, open_corpus(tmp_path / "c.txt")))
    handle.remove()
    assert found is not None
    assert rows == [(together(found.tokens), found.tokens)] * 2
    assert together(found.tokens) == 64
    assert [together(tokens) for tokens in (1, 13, 96, 193, 512)] == [64, 59, 8, 4, 4]


def test_what_is_learned_is_told_apart() -> None:
    found = Forecast([30.0], [4], {EVERY: 1.0}, after=10.0)
    told = "4 texts will take about 30–55 s; what identity learns comes after that"
    assert foretold(found, [STUDIES["identity"](), STUDIES["surface"]()]) == [told]


@pytest.mark.parametrize(
    ("done", "said"),
    [(0, ["2 texts will take about 20–40 s, mixing 100 % of it"]),
     (1, ["1 text will take less than 15 s, mixing 100 % of it"]), (2, [])],
)  # fmt: skip
def test_a_resumed_run_foretells_what_is_left(tmp_path, done: int, said: list[str]) -> None:
    for number in range(done):
        write_shard(tmp_path, number, {}, {}, plan="p")
    assert foretold(Forecast([22.0, 8.0], [1, 1], {"mixing": 1.0}), [], _done(tmp_path)) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(10.7, "less than 15 s"), (10.8, "about 10–15 s"), (85, "about 60–120 s"), (86, "about 1–3 minutes"),
     (3857, "about 45–90 minutes"), (3858, "about 0.8–1.5 hours")],
)  # fmt: skip
def test_a_span_in_words(seconds: float, said: str) -> None:
    assert span(seconds) == said
