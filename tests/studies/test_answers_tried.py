"""The sentences of the studies that try something out (maps, probes, removals, links), as in test_answers.py.

Every table is also read with numbers that are not finite, of which nothing may be said (references/undefined.py).
"""

# ruff: noqa: E501 - sentences are compared whole

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from headwise.papers.brunner2020 import LEARNED as CLAIMED
from headwise.studies.answers import BELIEVE, DOING, MIXING, Vote
from headwise.studies.identity.answers import LEARNED
from references.answers import NB, answered, said, setting

# --- identity ---


def test_identity_tells_both_maps_with_their_tokens() -> None:
    rows = [("rate", kind, distance, 0, layer, tested, "test", value, 40.0)
            for kind, values in (("linear", (0.9, 0.8)), ("none", (0.7, 0.2)))
            for distance in ("cosine", "l2")
            for layer, value in enumerate(values) for tested in (layer, 1 - layer)]  # fmt: skip
    table = pl.DataFrame(rows, schema=["what", "map", "distance", "offset", "layer", "tested", "set", "value", "count"],
                         orient="row")  # fmt: skip
    of = setting(documents=100)
    assert [answer.says for answer in answered("identity", table, MIXING, of=of)] == [
        f"A linear map still finds a token's own place among its sentence in 90, 80{NB}% of the cases, layer by layer (40 "
        "tokens).",
        f"Without a map, by the nearest vector alone: 70, 20{NB}% (40 tokens).",
    ]
    without = f"Without a map, by the nearest vector alone: 70, 20{NB}% (40 tokens)."
    assert said("identity", table.filter(map="none"), MIXING) == [without]
    too_few = (
        "Whether a linear map still finds a token's own place is undecided: 99 texts, and a map to learn takes 100."
    )
    assert [answer.says for answer in answered("identity", table, MIXING, of=setting(99))] == [too_few, without]


def test_a_map_takes_as_many_texts_in_a_sentence_as_in_a_claim() -> None:
    """“In short” told 60 % of a map that six texts taught, beside 90 % without one; the claims called it undecided."""
    assert LEARNED == CLAIMED


# --- heads as classifiers ---


def scored(what: str, rows: list[tuple[str, float, int, bool]]) -> pl.DataFrame:
    return pl.DataFrame(
        [("self", "raw", label, f"L0.H{at}", best, accuracy, count)
         for at, (label, accuracy, count, best) in enumerate(rows)],
        schema=["stack", "quantity", what, "name", "best", "accuracy", "count"], orient="row",
    )  # fmt: skip


@pytest.mark.parametrize(("study", "what"), [("syntax", "relation"), ("coref", "type")])
def test_best_heads_are_named_from_fifty_examples_on(study: str, what: str) -> None:
    table = scored(what, [("det", 0.5, 50, True), ("obj", 0.9, 49, True), ("case", 0.75, 200, True),
                          ("case", 0.99, 200, False), ("all", 1.0, 900, True)])  # fmt: skip
    assert said(study, table, DOING) == [
        "Best heads, chosen on one part of the texts and scored on the other: case L0.H2 (75\u00a0% of 200), "
        "det L0.H0 (50\u00a0% of "
        "50)."
    ]
    assert said(study, table.filter(pl.col("count") < 50), DOING) == [
        "Best heads, chosen on one part of the texts and scored on the other: none with 50 examples."
    ]


def test_the_probe_stands_beside_the_next_word_and_its_control() -> None:
    rows = [("uas", "attention", "raw", "argmax", 61.4, 60.0, 63.0, 12.0, 800),
            ("uas", "attention", "raw", "tree", 99.0, 99.0, 99.0, 99.0, 800),
            ("uas", "right-branching", None, "argmax", 26.3, 26.3, 26.3, 1.0, 800)]  # fmt: skip
    table = pl.DataFrame(rows, schema=["what", "probe", "quantity", "decoder", "value", "low", "high", "control", "count"],
                         orient="row")  # fmt: skip
    assert said("probe", table, DOING) == [
        f"Read together, the raw weights of all heads find the syntactic head of 61{NB}% of 800 words (60 to 63 over "
        f"seeds); the next word is it in 26{NB}%, and heads drawn by word type are found for 12{NB}%."
    ]
    assert said("probe", table.filter(pl.col("probe") == "attention"), DOING) == []


# --- predictions ---


def explained(rows: dict[str, tuple[float, float, float]]) -> pl.DataFrame:
    return pl.DataFrame(
        [(name, 24, *gain) for name, gain in rows.items()],
        schema=[
            "method",
            "texts",
            "comprehensiveness_gain",
            "comprehensiveness_gain_low",
            "comprehensiveness_gain_high",
        ],
        orient="row",
    )


def not_shown(gain: str, close: str = "") -> Vote:
    said = "the tokens that attention names are not shown to matter more than random ones"
    return Vote("matters", "no", f"{said}: without them the probability falls by {gain} more, over 24 texts{close}")


CLOSE = "; close: its interval holds 0, where this turns"
MORE = (
    "leave-one-out names tokens that matter more than those that attention names: beyond random ones the probability "
    "falls by +0.300 (+0.160 to +0.400) and by +0.100 (+0.050 to +0.150), over 24 texts"
)
FALLS = (
    "the probability falls more without the tokens that attention names than without random ones: by +0.100 (+{} to "
    "+0.150), over 24 texts"
)


@pytest.mark.parametrize(
    ("attention", "best", "vote"),
    [
        ((0.1, 0.0, 0.2), (0.2, 0.1, 0.3), not_shown("+0.100 (+0.000 to +0.200)", CLOSE)),
        ((-0.1, -0.2, -0.05), (0.2, 0.1, 0.3), not_shown("-0.100 (-0.200 to -0.050)")),
        ((0.1, float("nan"), float("nan")), (0.2, 0.1, 0.3), not_shown("+0.100 (no interval)")),
        ((0.1, 0.05, 0.15), (0.3, 0.16, 0.4), Vote("matters", "with care", MORE)),
        ((0.1, 0.05, 0.15), (0.3, 0.14, 0.4), Vote("matters", "yes", FALLS.format("0.050"))),
        ((0.1, 0.0005, 0.15), (0.3, 0.14, 0.4), Vote("matters", "yes", FALLS.format("0.001"))),
        ((0.1, 0.0004, 0.15), (0.3, 0.14, 0.4), Vote("matters", "yes", FALLS.format("0.0004").replace("+0.100", "+0.1000").replace("+0.150", "+0.1500"))),
    ],
)  # fmt: skip
def test_faithfulness_votes_by_intervals(attention: Any, best: Any, vote: Vote) -> None:
    table = explained({"random": (0.0, 0.0, 0.0), "raw-attention": attention, "leave-one-out": best})
    (answer,) = answered("faithfulness", table, BELIEVE)
    assert answer.vote == vote


@pytest.mark.parametrize(("causal", "row"), [(False, "as a rule that of [CLS]"), (True, "the last token's")])
def test_every_method_that_was_tried_is_told_best_first_and_which_map_raw_attention_is(causal: bool, row: str) -> None:
    """The page dropped all but attention's: nobody could tell what may be shown in its place."""
    table = explained({"random": (0.0, 0.0, 0.0), "raw-attention": (0.02, -0.04, 0.07), "rollout": (0.03, 0.0, 0.06),
                       "leave-one-out": (0.14, 0.07, 0.21), "gradient-norm": (0.05, 0.001, 0.1)})  # fmt: skip
    (answer,) = answered("faithfulness", table, BELIEVE, of=replace(setting(), causal=causal))
    assert answer.vote is not None
    names = [one.name.removeprefix("gain_") for one in answer.vote.numbers]
    assert names == ["leave-one-out", "gradient-norm", "rollout", "raw-attention"]
    assert (answer.vote.holds_for, answer.vote.out_of) == (("leave-one-out", "gradient-norm"), 4)
    assert answer.vote.numbers[-1].says == (
        "is how much further the probability falls without the tokens that raw-attention names (the last layer, in the "
        f"row that the answer is read from, {row}; mean of its heads, no single head's map) than without random ones"
    )
    assert answer.vote.numbers[0].says == (
        "is how much further the probability falls without the tokens that leave-one-out names than without random ones"
    )


def test_faithfulness_names_the_best_method_whichever_it_is() -> None:
    table = explained({"random": (0.9, 0.9, 0.9), "raw-attention": (0.1, 0.05, 0.15), "rollout": (0.12, 0.0, 0.2),
                       "leave-one-out": (0.3, 0.2, 0.4)})  # fmt: skip
    start = (
        "How far the prediction's probability falls without the tokens that an explanation names (mean over "
        f"1{NB}% to 50{NB}% of the tokens taken away), beyond random ones: "
    )
    end = f", over 24 texts (95{NB}% intervals); "
    assert said("faithfulness", table, BELIEVE) == [
        f"{start}leave-one-out +0.300 (+0.200 to +0.400); raw-attention +0.100 (+0.050 to +0.150){end}leave-one-out is the "
        "best of 3 here."
    ]
    first = table.filter(pl.col("method") != "leave-one-out").with_columns(
        comprehensiveness_gain=pl.when(method="raw-attention").then(0.5).otherwise("comprehensiveness_gain")
    )
    assert said("faithfulness", first, BELIEVE) == [
        f"{start}raw-attention +0.500 (+0.050 to +0.150){end}raw-attention is the best of 2 here."
    ]


def test_faithfulness_has_no_vote_where_attention_was_not_asked_or_no_text_is_long_enough() -> None:
    (answer,) = answered("faithfulness", explained({"rollout": (0.1, 0.0, 0.2)}), BELIEVE)
    assert answer.vote is None
    nothing = explained({"raw-attention": (float("nan"),) * 3})
    assert said("faithfulness", nothing, BELIEVE) == ["No text was long enough to remove tokens from."]


@pytest.mark.parametrize(
    ("js", "verdict", "because"),
    [
        (0.10, "yes", "no attention far from the model's own gives its answer (12 texts)"),
        (0.11, "with care", "all weights can be moved by 0.11 of at most 0.69 nats and the answer stays (12 texts)"),
        (0.35, "with care", "all weights can be moved by 0.35 of at most 0.69 nats and the answer stays (12 texts)"),
        (0.36, "no", "all weights can be moved by 0.36 of at most 0.69 nats and the answer stays (12 texts)"),
    ],
)
def test_the_adversary_votes_by_how_far_attention_can_be_moved(js: float, verdict: Any, because: str) -> None:
    rows = [("per-instance", None, "js", js, js - 0.02, js + 0.02, 12), ("per-instance", None, "tvd", 0.0312, 0.0, 0.1, 12),
            ("per-instance", 1, "js", 9.0, 9.0, 9.0, 12), ("exact", None, "js", 9.0, 9.0, 9.0, 12)]  # fmt: skip
    table = pl.DataFrame(rows, schema=["form", "head", "what", "value", "low", "high", "count"], orient="row")
    (answer,) = answered("adversary", table, BELIEVE)
    assert answer.vote == Vote("matters", verdict, because)
    assert answer.says == (
        f"For one text at a time, attention can be moved by {js:.2f} nats of Jensen–Shannon divergence ({js - 0.02:.2f} to "
        f"{js + 0.02:.2f}; at most 0.69) while the prediction moves by 0.031 (total variation), in the mean over 12 texts."
    )
    assert answered("adversary", table.filter(form="exact"), BELIEVE) == []


# --- alignment ---


def aligned(rows: list[tuple[str, int | None, int | None, float | None, float | None, bool, float]]) -> pl.DataFrame:
    """quantity, layer, head, aer, chosen_aer, best, agreement."""
    return pl.DataFrame(
        [(quantity, "input", layer, head, aer, 0.2, 0.4, chosen, best, agreement)
         for quantity, layer, head, aer, chosen, best, agreement in rows],
        schema={"quantity": pl.String, "position": pl.String, "layer": pl.Int64, "head": pl.Int64, "aer": pl.Float64,
                "low": pl.Float64, "high": pl.Float64, "chosen_aer": pl.Float64, "best": pl.Boolean,
                "agreement": pl.Float64}, orient="row",
    )  # fmt: skip


def test_alignment_names_the_map_chosen_on_other_pairs() -> None:
    table = aligned([("raw", 0, None, 0.25, 0.5, True, 0.9), ("norm-sum", 1, None, 0.3, 0.4, True, 0.1),
                     ("norm-sum", 0, None, 0.1, 0.1, False, 0.1), ("norm", 1, 2, 0.05, 0.05, True, 0.1),
                     ("diagonal", None, None, 0.0, 0.0, True, 0.0)])  # fmt: skip
    assert said("alignment", table, DOING) == [
        f"Words are aligned best by norm-sum of decoder layer 1, input position: alignment error 30{NB}% (20{NB}% to 40{NB}%), "
        "over 3 pairs."
    ]


def test_alignment_that_is_no_better_than_the_diagonal_is_warned_of() -> None:
    def told(place: float) -> str:
        rows = [("raw", 0, None, 0.72, 0.5, True, 0.9), ("the diagonal", None, None, place, 0.5, True, 0.9)]
        return said("alignment", aligned(rows), DOING)[0].partition("3 pairs.")[2]

    assert told(0.721) == ""
    assert told(0.72) == (
        f" That is no better than the diagonal, words aligned by their places alone (72{NB}%): was the model trained "
        "for these languages, in this direction?"
    )


def test_alignment_goes_by_agreement_without_gold_links() -> None:
    table = aligned([("raw", 0, None, None, None, False, 0.2), ("alti", 1, None, None, None, False, 0.6)])
    assert said("alignment", table, DOING) == [
        f"Words are aligned best by alti of decoder layer 1, input position: 60{NB}% of its links are found from both sides, "
        "over 3 pairs."
    ]
    assert said("alignment", aligned([("norm", 0, 1, None, None, False, 0.2)]), DOING) == [
        "Single heads were scored, and no map of all heads together; they are in the section."
    ]
