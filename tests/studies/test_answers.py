"""Every sentence of every study: a table by hand on each side of each threshold, and the exact words it must give.

Every table is also read with numbers that are not finite, of which nothing may be said (references/undefined.py).
"""

# ruff: noqa: E501 - sentences are compared whole

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from headwise.studies.answers import BELIEVE, DOING, MIXING, NOISE, Vote
from references.answers import NB, answered, said, setting

# --- surface ---


def surface(entropy: list[float], first: list[float], separator: list[float], quantity: str = "raw") -> pl.DataFrame:
    n = len(entropy)
    return pl.DataFrame({"stack": ["self"] * n, "quantity": [quantity] * n, "name": [f"L0.H{i}" for i in range(n)],
                         "entropy": entropy, "to_first": first, "to_separator": separator})  # fmt: skip


def test_surface_names_the_sharpest_and_the_broadest_head() -> None:
    table = surface([1.25, 0.5, 2.0], [0.1] * 3, [0.1] * 3)
    assert said("surface", table, DOING) == [
        "The sharpest head is L0.H1 (entropy 0.50 nats), the broadest L0.H2 (2.00), in the mean over 3 texts."
    ]


@pytest.mark.parametrize(
    ("first", "separator", "told"),
    [
        ([0.5, 0.2], [0.5, 0.1], "0 of 2"),
        ([0.51, 0.2], [0.0, 0.1], "1 of 2: L0.H0"),
        ([0.1, 0.51], [0.52, 0.1], "2 of 2: L0.H0, L0.H1"),
    ],
)
def test_surface_counts_the_heads_that_park(first: list[float], separator: list[float], told: str) -> None:
    assert said("surface", surface([1.0, 2.0], first, separator), NOISE) == [
        f"Heads with over 50{NB}% of their weight on the first token, or over 50{NB}% on separators: {told}."
    ]


def test_surface_speaks_of_raw_weights_and_of_the_first_stack_alone() -> None:
    table = pl.concat([surface([1.0], [0.9], [0.0], "effective"), surface([2.0], [0.1], [0.0])])
    assert said("surface", table, NOISE)[0].endswith("0 of 1.")
    assert said("surface", table, NOISE, quantities=("effective",)) == []
    both = pl.concat([surface([1.0], [0.1], [0.0]), surface([2.0], [0.9], [0.0]).with_columns(stack=pl.lit("cross"))])
    assert said("surface", both, NOISE)[0].endswith("0 of 1.")


# --- distances ---


def pairs(behaviours: list[str], js: dict[tuple[int, int], float]) -> pl.DataFrame:
    n = range(len(behaviours))
    rows = [("self", f"L0.H{a}", f"L0.H{b}", behaviours[a], js.get((min(a, b), max(a, b)), 0.3)) for a in n for b in n]
    return pl.DataFrame(rows, schema=["stack", "a", "b", "behaviour_a", "js"], orient="row")


def test_distances_count_behaviours_by_name() -> None:
    found = answered("distances", pairs(["other", "previous token", "broad", "previous token"], {}), DOING)
    assert [answer.says for answer in found] == [
        f"2 of 4 look at the previous token with over 40{NB}% of their weight: L0.H1, L0.H3.",
        f"1 of 4 look everywhere, with an entropy over 90{NB}% of that of even weights: L0.H2.",
    ]
    headline = f"3 of 4 heads have a behaviour that can be named by position (over 40{NB}% of their attention on one place, or broad); 1 have none (3 texts)."
    assert {answer.headline for answer in found} == {headline}


def test_distances_say_where_no_head_has_a_behaviour() -> None:
    (only,) = answered("distances", pairs(["other", "other"], {}), DOING)
    assert only.says == f"No head gives over 40{NB}% of its attention to one place."
    assert (
        only.headline
        == f"0 of 2 heads have a behaviour that can be named by position (over 40{NB}% of their attention on one place, or broad); 2 have none (3 texts)."
    )


@pytest.mark.parametrize(("js", "count"), [(0.049, "1"), (0.05, "None"), (0.3, "None")])
def test_distances_count_copies_below_their_threshold(js: float, count: str) -> None:
    assert said("distances", pairs(["other"] * 3, {(0, 2): js}), NOISE) == [
        f"{count} of 3 pairs of heads attend nearly alike (below 0.05 nats of Jensen–Shannon divergence, 3 texts); what "
        "they carry may differ."
    ]


@pytest.mark.parametrize(
    ("kind", "does"),
    [
        ("previous token", "look at the previous token"), ("next token", "look at the next token"),
        ("current token", "look at the token itself"), ("first token", "park on the first token"),
        ("separator", "park on separators"), ("punctuation", "look at periods and commas"), ("broad", "look everywhere"),
    ],
)  # fmt: skip
def test_every_behaviour_has_its_words_and_its_bar(kind: str, does: str) -> None:
    """Three counts of heads that park stood on a page, by three bars that two of them did not name."""
    even = f", with an entropy over 90{NB}% of that of even weights"
    bar = even if kind == "broad" else f" with over 40{NB}% of their weight"
    assert said("distances", pairs([kind, "other"], {}), DOING) == [f"1 of 2 {does}{bar}: L0.H0."]


# --- importance ---


def test_importance_names_what_the_loss_hangs_on_least_and_most() -> None:
    table = pl.DataFrame({"stack": ["self"] * 2, "to_first": [1e-4, 3e-4], "to_separator": [float("nan")] * 2,
                          "to_punctuation": [0.02, 0.02], "to_other": [0.01, 0.01]})  # fmt: skip
    assert said("importance", table, NOISE) == [
        "The loss hangs least on weights to the first token (mean |∂loss/∂α| 0.0002 nats) and most on those to "
        "punctuation (0.02), over 3 texts."
    ]


# --- nullspace ---


def facts(rows: list[tuple[str, str, int | None, float | None, float]]) -> pl.DataFrame:
    """paper, what, head, length, value."""
    return pl.DataFrame(
        [("self", paper, what, head, None if head is None else f"L0.H{head}", length, value)
         for paper, what, head, length, value in rows],
        schema={"stack": pl.String, "paper": pl.String, "what": pl.String, "head": pl.Int64, "name": pl.String,
                "length": pl.Float64, "value": pl.Float64}, orient="row",
    )  # fmt: skip


def null_space(r: list[float], free: float = 2.4, unique: float = 0.75) -> pl.DataFrame:
    heads = [("fig1a", "pearson", head, None, value) for head, value in enumerate(r)]
    rows = [("rank", "null_dim", 0, None, free), ("rank", "null_dim", 1, None, free)]
    # buckets of lengths, as the table has them too: a long one with few rows must not count as much as a short one
    buckets = [("rank", "null_dim", None, 8.0, 0.0), ("rank", "null_dim", None, 90.0, 82.0)]
    return facts([*heads, *rows, *buckets, ("rank", "identifiable_rows", 0, None, unique)])


@pytest.mark.parametrize(
    ("r", "verdict", "because"),
    [
        (0.90, "yes", "hardly any of the raw weights changes nothing in a head's output"),
        (0.89, "with care", "a good part of the raw weights changes nothing in a head's output"),
        (0.50, "with care", "a good part of the raw weights changes nothing in a head's output"),
        (0.49, "no", "most of what the raw weights show changes nothing in a head's output"),
    ],
)
def test_nullspace_votes_by_the_correlation_of_raw_and_effective(r: float, verdict: Any, because: str) -> None:
    *_, answer = answered("nullspace", null_space([r, r]), BELIEVE)
    good = 2 if r == 0.90 else 0
    clause = f"{because} (mean r = {r:.2f}, 3 texts; {good} of 2 heads with 0.9 or more and at most 30\u00a0% without effect)"
    assert answer.vote == Vote("alike", verdict, clause)
    assert [(one.value, one.n, one.share) for one in answer.vote.numbers] == [(pytest.approx(r), 3, False)]
    assert answer.says == (
        "Raw weights and effective weights, the part of them that the output depends on, correlate with r = "
        f"{r:.2f} ± 0.00 over 2 heads (mean ± standard deviation)."
    )


@pytest.mark.parametrize(
    ("share", "held"),
    [(0.30, ("L0.H0", "L0.H2")), (0.31, ("L0.H0",))],
)
def test_hardly_any_weight_is_without_effect_in_heads_by_their_own_r_and_null_space(
    share: float, held: tuple[str, ...]
) -> None:
    """By a mean of 0.94 it was said of every head, 52 of 270 of which had less than 0.9."""
    table = pl.concat([null_space([0.9, 0.89, 0.99]), facts([("mass", "null_share", 2, None, share)])])
    *_, answer = answered("nullspace", table, BELIEVE)
    assert answer.vote is not None
    assert (answer.vote.holds_for, answer.vote.out_of) == (held, 3)
    assert answer.vote.because.endswith(
        f"(mean r = 0.93, 3 texts; {len(held)} of 3 heads with 0.9 or more and at most 30\u00a0% without effect)"
    )


def test_nullspace_tells_free_directions_by_the_mean_over_rows_not_over_buckets() -> None:
    first, *_ = said("nullspace", null_space([0.9, 0.8]), BELIEVE)
    assert first == (
        "A head passes on 8 numbers a token, and the 3 texts have 20 tokens on average: a row of weights can be moved in "
        f"2.4 directions, in the mean over rows, and the head's output stays the same; 75{NB}% of all rows, "
        "those of all texts together, have weights that no others can replace."
    )
    assert "moved in 46 directions" in said("nullspace", null_space([0.9, 0.8], free=46.2), BELIEVE)[0]


def test_nullspace_says_where_texts_are_too_short() -> None:
    first, second = answered("nullspace", null_space([]), BELIEVE)
    assert first.vote is None
    assert second.vote is None
    assert second.says == "These texts are too short to tell raw and effective attention apart."


@pytest.mark.parametrize(("share", "half"), [(0.50, 1), (0.51, 2)])
def test_nullspace_counts_heads_of_which_over_half_changes_nothing(share: float, half: int) -> None:
    shares = [("mass", "null_share", head, None, value) for head, value in enumerate([share, 0.1, 0.8])]
    (answer,) = answered("nullspace", facts(shares), NOISE)
    assert answer.headline == f"In {half} of 3 heads over half of the squared weights change nothing (3 texts)."
    assert answer.says == f"The most of a head's squared weights that changes nothing is 80{NB}%, in L0.H2."


@pytest.mark.parametrize(
    ("most", "told"),
    [
        (0.00099, f"In no head 0.1{NB}% of the squared weights or more change nothing."),
        (0.001, f"The most of a head's squared weights that changes nothing is 0.1{NB}%, in L0.H1."),
    ],
)
def test_nullspace_names_no_head_for_nothing(most: float, told: str) -> None:
    shares = [("mass", "null_share", head, None, value) for head, value in enumerate([0.0, most])]
    (answer,) = answered("nullspace", facts(shares), NOISE)
    assert answer.says == told


# --- norms ---


def carried(weights: dict[str, float], norms: dict[str, float]) -> pl.DataFrame:
    rows = [("self", "fig3", what, kind, value)
            for what, of in (("alpha", weights), ("norm", norms)) for kind, value in of.items()]  # fmt: skip
    return pl.DataFrame(rows, schema=["stack", "paper", "what", "category", "value"], orient="row")


@pytest.mark.parametrize(
    ("weight", "norm", "verdict", "because"),
    [
        (0.48, 0.39, "yes", f"the first token takes 48{NB}% of the weight and carries 39{NB}% of the lengths, those of all heads added up (3 texts)"),
        (0.48, 0.38, "yes", f"the first token takes 48{NB}% of the weight and carries 38{NB}% of the lengths, those of all heads added up (3 texts)"),
        (0.48, 0.37, "with care", f"the first token takes 48{NB}% of the weight and carries 37{NB}% of the lengths, those of all heads added up (3 texts)"),
        (0.48, 0.18, "with care", f"the first token takes 48{NB}% of the weight and carries 18{NB}% of the lengths, those of all heads added up (3 texts)"),
        (0.48, 0.10, "no", f"the first token takes 48{NB}% of the weight and carries 10{NB}% of the lengths, those of all heads added up (3 texts)"),
        (0.30, 0.70, "no", f"the first token takes 30{NB}% of the weight and carries 70{NB}% of the lengths, those of all heads added up (3 texts)"),
    ],
)  # fmt: skip
def test_norms_vote_by_where_the_weight_goes_and_where_the_lengths_are(
    weight: float, norm: float, verdict: Any, because: str
) -> None:
    table = carried(
        {"first": weight, "separator": 0.01, "other": 0.99 - weight}, {"first": 2 * norm, "other": 2 - 2 * norm}
    )
    (answer,) = answered("norms", table, BELIEVE)
    assert answer.vote == Vote("parked", verdict, because)
    assert [(one.value, one.n, one.says) for one in answer.vote.numbers] == [
        (pytest.approx(weight), 3, "of the weight goes to the first token"),
        (pytest.approx(norm), 3, "of the lengths of all heads, added up, comes from the first token"),
    ]
    assert answer.says == (
        f"The first token: {100 * weight:.0f}{NB}% of all weight, {100 * norm:.0f}{NB}% of the length of the vectors that "
        "the weights carry (3 texts). A large weight on a short vector moves little."
    )


def test_norms_speak_of_the_kind_that_takes_most() -> None:
    (answer,) = answered("norms", carried({"first": 0.2, "separator": 0.5, "other": 0.3},
                                          {"first": 0.4, "separator": 0.1, "other": 0.5}), BELIEVE)  # fmt: skip
    assert answer.vote is not None
    assert (
        answer.vote.because
        == f"separators take 50{NB}% of the weight and carry 10{NB}% of the lengths, those of all heads added up (3 texts)"
    )


# --- mixing ---


def mixed(own: list[float], lost: list[float]) -> pl.DataFrame:
    rows = [("own", layer, "", "median", value) for layer, value in enumerate(own)]
    rows += [("own", layer, "", "chance", 0.1) for layer in range(len(own))]
    rows += [("not-own", layer, "", "share", value) for layer, value in enumerate(lost)]
    return pl.DataFrame(rows, schema=["kind", "layer", "group", "statistic", "value"], orient="row")


def test_mixing_tells_every_layer_and_of_how_many_texts() -> None:
    found = answered("mixing", mixed([0.8, 0.345], [0.0, 0.25]), MIXING, of=setting(200), texts=3)
    assert [answer.says for answer in found] == [
        f"A token's own share in its hidden vector, layer by layer: 80, 34{NB}% (median over the tokens of 3 texts; an "
        f"even mixture would be 10{NB}%).",
        f"Hidden tokens whose largest part is another token's: 0, 25{NB}%, layer by layer (3 texts).",
    ]
    assert found[0].headline == (
        f"From the first layer on: the median token is 80{NB}% itself after it, and 34{NB}% after the last."
    )


@pytest.mark.parametrize(
    ("last", "verdict", "because"),
    [
        (0.50, "yes", "hidden tokens are still mostly their own words (3 texts)"),
        (0.49, "with care", f"after the last layer the median hidden token is 49{NB}% its own word (3 texts)"),
    ],
)
def test_mixing_votes_by_what_is_left_after_the_last_layer(last: float, verdict: Any, because: str) -> None:
    (answer,) = answered("mixing", mixed([0.9, last], [0.0, 0.1]), BELIEVE, texts=0)
    assert answer.vote == Vote("words", verdict, because)
    assert answer.says == (
        f"Weights are given to hidden tokens: the median one is {100 * last:.0f}{NB}% its own word after the last layer "
        "(3 texts)."
    )


def voted(study: str, table: pl.DataFrame) -> Vote:
    (vote,) = (answer.vote for answer in answered(study, table, BELIEVE) if answer.vote)
    return vote


@pytest.mark.parametrize(
    ("study", "made"),
    [
        ("nullspace", lambda value: null_space([value])),
        ("mixing", lambda value: mixed([0.9, value], [0.0, 0.1])),
        ("norms", lambda value: carried({"first": value, "other": 1 - value}, {"first": 0.45, "other": 0.55})),
        ("adversary", lambda value: facts_moved(value)),
    ],
)
def test_a_verdict_turns_where_its_vote_says_that_it_turns(study: str, made: Any) -> None:
    turns = voted(study, made(0.44)).turns
    assert turns
    for turn in turns:
        below, above = (voted(study, made(turn + step)) for step in (-1e-3, 1e-3))
        assert below.verdict != above.verdict, turn
        assert above.numbers[0].value == pytest.approx(turn + 1e-3), "in the first of its numbers"


def facts_moved(js: float) -> pl.DataFrame:
    rows = [("per-instance", None, "js", js, js, js, 9), ("per-instance", None, "tvd", 0.01, 0.01, 0.01, 9)]
    columns = ["form", "head", "what", "value", "low", "high", "count"]
    return pl.DataFrame(rows, schema=columns, orient="row").with_columns(pl.col("head").cast(pl.Int64))


def test_mixing_leaves_out_layers_without_origins() -> None:
    assert "layer by layer: 80\u00a0%" in said("mixing", mixed([0.8, float("nan")], [0.1, 0.2]), MIXING)[0]
    assert said("mixing", mixed([float("nan")], [float("nan")]), MIXING) == []
