"""Every item of the papers has a name, and every claim is decided by hand on both sides of its bar."""
# ruff: noqa: E501 - a case reads as a row of a table

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import headwise as hw
from headwise.papers import PAPERS, Evidence, Job, brunner2019, brunner2020, clark2019, kobayashi2020, yang
from headwise.papers.claim import Claim, Judged, Seen, counts_of, judge
from headwise.papers.verdict import Numbers
from headwise.studies import STUDIES
from papers import tables

COUNTS = {"texts": 100, "folds": 10, "seeds": 3, "pairs": 200}
NBSP = "\u00a0"


def claim_of(look: Callable[[pl.DataFrame], Seen]) -> Claim:
    return next(
        claim for paper in PAPERS.values() for item in paper.items for claim in item.claims if claim.look is look
    )


def judged(look: Callable[[pl.DataFrame], Seen], table: pl.DataFrame, control: pl.DataFrame | None = None) -> Judged:
    """With an interval of no width, unless the table has its own."""
    controls = [] if control is None else [control] * 3
    return judge(claim_of(look), Evidence(table, COUNTS, [table] * 5, controls))


def test_items_name_studies_and_settings_that_exist() -> None:
    for paper in PAPERS.values():
        assert len({item.id for item in paper.items}) == len(paper.items)
        for item in paper.items:
            assert item.job.get
            assert item.pictures is None or {"maps", "named", "fractions"} & set(item.figures)
            if isinstance(item.job, Job):
                STUDIES[item.job.study](**item.job.settings)


def test_every_claim_has_one_bar_and_a_rule_in_words() -> None:
    claims = [claim for paper in PAPERS.values() for item in paper.items for claim in item.claims]
    assert len(claims) >= 40
    for claim in claims:
        assert (claim.above is None) != (claim.below is None)
        assert claim.least >= 3
    assert claim_of(clark2019.parking).rule == (
        f"attention to the first token or to separators, of the head that gives most: all of the interval above 50{NBSP}%, "
        "from 20 texts or more (interval: jackknife over texts)"
    )
    assert claim_of(kobayashi2020.stretching).rule == (
        "largest over smallest singular value, the least of the heads: above 1.80, from 4 heads or more "
        "(interval: none: the weights alone, exact)"
    )


T = tables
BOTH_SIDES: list[tuple[Any, pl.DataFrame, str, pl.DataFrame, str]] = [
    (clark2019.relative_position, T.heads(previous=[0.6, 0.1], next=[0.0, 0.51]),
     f"51{NBSP}% (51{NBSP}% to 51{NBSP}%); previous: L0.H0; next: L1.H0",
     T.heads(previous=[0.6, 0.1], next=[0.0, 0.5]), f"50{NBSP}% (50{NBSP}% to 50{NBSP}%); previous: L0.H0; next: none"),
    (clark2019.separator, T.heads(to_separator=[0.2, 0.7], to_first=[0.3, 0.1]),
     f"70{NBSP}% (70{NBSP}% to 70{NBSP}%); the mean of layer 1; to the first token at most 30{NBSP}% (layer 0)",
     T.heads(to_separator=[0.2, 0.3], to_first=[0.1, 0.9]),
     f"30{NBSP}% (30{NBSP}% to 30{NBSP}%); the mean of layer 1; to the first token at most 90{NBSP}% (layer 1)"),
    (clark2019.parking, T.heads(to_separator=[0.2, 0.1], to_first=[0.51, 0.1]),
     f"51{NBSP}% (51{NBSP}% to 51{NBSP}%); first tokens, over half in 1 of 2 heads; over half: L0.H0",
     T.heads(to_separator=[0.5, 0.1], to_first=[0.3, 0.1]),
     f"50{NBSP}% (50{NBSP}% to 50{NBSP}%); separator tokens, over half in 0 of 2 heads; over half: none"),
    (clark2019.separator_to_itself, T.heads(to_separator=[0.6, 0.1], separator_to_separator=[0.95, 0.1]),
     f"95{NBSP}% (95{NBSP}% to 95{NBSP}%); mean of the 1 heads that attend to separators",
     T.heads(to_separator=[0.6, 0.7], separator_to_separator=[0.95, 0.75]),
     f"85{NBSP}% (85{NBSP}% to 85{NBSP}%); mean of the 2 heads that attend to separators"),
    (clark2019.broad_first, T.heads(entropy=[3.0, 2.5, 2.0, 2.5]),
     "0.50 (0.50 to 0.50); 2.75 nats in the first third of the layers, 2.25 in the rest (3.0, 2.5, 2.0, 2.5, layer by layer)",
     T.heads(entropy=[4.0, 1.0, 2.0, 2.5]),
     "0.25 (0.25 to 0.25); 2.50 nats in the first third of the layers, 2.25 in the rest (4.0, 1.0, 2.0, 2.5, layer by layer)"),
    (clark2019.broad_summary, T.heads(entropy_from_first=[1.0, 1.0, 2.0]),
     "1.00 (1.00 to 1.00); 2.00 nats in the last layer, 1.00 in the mean of the others",
     T.heads(entropy_from_first=[2.0, 2.0, 1.0]),
     "-1.00 (-1.00 to -1.00); 1.00 nats in the last layer, 2.00 in the mean of the others"),
    (clark2019.near_within_layers, T.distances(0.2, 0.3),
     f"50{NBSP}% (50{NBSP}% to 50{NBSP}%); mean Jensen-Shannon 0.200 nats within a layer, 0.300 between layers",
     T.distances(0.29, 0.3),
     f"3.4{NBSP}% (3.4{NBSP}% to 3.4{NBSP}%); mean Jensen-Shannon 0.290 nats within a layer, 0.300 between layers"),
    (clark2019.no_op, T.heads(to_separator=[9.0, 0.01], to_first=[1.0, 1.0], to_other=[1.0, 0.1]),
     f"10{NBSP}% (10{NBSP}% to 10{NBSP}%); separator tokens 0.01, other tokens 0.1",
     T.heads(to_separator=[0.0, 0.2], to_first=[1.0, 1.0], to_other=[1.0, 0.1]),
     f"200{NBSP}% (200{NBSP}% to 200{NBSP}%); separator tokens 0.2, other tokens 0.1"),
    (clark2019.relations, T.relations([0.8] * 12, 0.5),
     f"100{NBSP}% (76{NBSP}% to 100{NBSP}%); r0 80%/50%, r1 80%/50%, r2 80%/50% (head/offset)",
     T.relations([0.8] + [0.5] * 11, 0.5),
     f"8.3{NBSP}% (1.5{NBSP}% to 35{NBSP}%); r0 80%/50%, r1 50%/50%, r2 50%/50% (head/offset)"),
    (clark2019.attention_parses, T.parses(55, 60, 20), "25.0 points (24.3 points to 25.7 points); attention 55%, right-branching 30%",
     T.parses(35, 60, 20), "5.0 points (4.3 points to 5.7 points); attention 35%, right-branching 30%"),
    (clark2019.vectors_add, T.parses(55, 65, 20), "10.0 points (9.3 points to 10.7 points); 65% with vectors, 55% without",
     T.parses(55, 55.4, 20), "0.4 points (-0.3 points to 1.1 points); 55% with vectors, 55% without"),
    (brunner2020.peak_gone, T.peaks(0.4, 0.1),
     f"25{NBSP}% (25{NBSP}% to 25{NBSP}%); separator tokens; in layer 0: 40{NBSP}% raw, 10{NBSP}% effective",
     T.peaks(0.4, 0.3),
     f"75{NBSP}% (75{NBSP}% to 75{NBSP}%); separator tokens; in layer 0: 40{NBSP}% raw, 30{NBSP}% effective"),
    (brunner2020.falling, T.by_length("fig1a", pearson={20.0: 1.0, 90.0: 0.3}),
     "0.30 (0.30 to 0.30); at 90 tokens, after 1.00 at 20",
     T.by_length("fig1a", pearson={20.0: 1.0, 90.0: 0.95}), "0.95 (0.95 to 0.95); at 90 tokens, after 1.00 at 20"),
    (brunner2020.without_map, T.rates({(0, 0, 0): 1.0, (1, 1, 0): 0.5, (2, 2, 0): 0.1}, "none"),
     f"100{NBSP}% (99{NBSP}% to 100{NBSP}%); 100, 50, 10{NBSP}%, layer by layer",
     T.rates({(0, 0, 0): 0.11, (1, 1, 0): 0.06, (2, 2, 0): 0.04}, "none"),
     f"11{NBSP}% (10{NBSP}% to 12{NBSP}%); 11, 6, 4{NBSP}%, layer by layer"),
    (brunner2020.recovered, T.rates({(0, 0, 0): 1.0, (1, 1, 0): 0.95}),
     f"95{NBSP}% (94{NBSP}% to 96{NBSP}%); 100, 95{NBSP}%, layer by layer",
     T.rates({(0, 0, 0): 1.0, (1, 1, 0): 0.85}), f"85{NBSP}% (84{NBSP}% to 86{NBSP}%); 100, 85{NBSP}%, layer by layer"),
    (brunner2020.first_map_fails, T.rates({(0, 0, 0): 1.0, (0, 1, 0): 0.6, (1, 1, 0): 0.9, (1, 0, 0): 0.95}),
     "30.0 points (28.6 points to 31.4 points); 90% by its own map, 60% by the first layer's",
     T.rates({(0, 0, 0): 1.0, (0, 1, 0): 0.88, (1, 1, 0): 0.9, (1, 0, 0): 0.95}),
     "2.0 points (0.6 points to 3.4 points); 90% by its own map, 88% by the first layer's"),
    (brunner2020.last_map_serves, T.rates({(1, 1, 0): 0.9, (1, 0, 0): 0.95, (0, 0, 0): 1.0}),
     f"95{NBSP}% (94{NBSP}% to 96{NBSP}%); 90% on the last layer itself",
     T.rates({(1, 1, 0): 0.9, (1, 0, 0): 0.5, (0, 0, 0): 1.0}),
     f"50{NBSP}% (49{NBSP}% to 51{NBSP}%); 90% on the last layer itself"),
    (brunner2020.neighbours, T.rates({(1, 1, -1): 0.3, (1, 1, 1): 0.4}),
     f"40{NBSP}% (39{NBSP}% to 41{NBSP}%); after the last layer: -1 30%, +1 40%",
     T.rates({(1, 1, -1): 0.95, (1, 1, 1): 0.4}), f"95{NBSP}% (94{NBSP}% to 96{NBSP}%); after the last layer: -1 95%, +1 40%"),
    (brunner2020.not_own, T.mixing("not-own", "share", [0.0, 0.3]),
     f"30{NBSP}% (30{NBSP}% to 30{NBSP}%); 0, 30{NBSP}%, layer by layer",
     T.mixing("not-own", "share", [0.5, 0.05]), f"5.0{NBSP}% (5.0{NBSP}% to 5.0{NBSP}%); 50, 5{NBSP}%, layer by layer"),
    (brunner2020.own_at_first, T.mixing("not-own", "share", [0.01, 0.3]),
     f"1.0{NBSP}% (1.0{NBSP}% to 1.0{NBSP}%); 1, 30{NBSP}%, layer by layer",
     T.mixing("not-own", "share", [0.02, 0.3]), f"2.0{NBSP}% (2.0{NBSP}% to 2.0{NBSP}%); 2, 30{NBSP}%, layer by layer"),
    (brunner2020.own_share_falls, T.mixing("own", "median", [0.4, 0.1]),
     f"25{NBSP}% (25{NBSP}% to 25{NBSP}%); median 40, 10{NBSP}%, layer by layer",
     T.mixing("own", "median", [0.4, 0.32]), f"80{NBSP}% (80{NBSP}% to 80{NBSP}%); median 40, 32{NBSP}%, layer by layer"),
    (brunner2020.local, T.offsets([0.6, 0.3]), f"60{NBSP}% (60{NBSP}% to 60{NBSP}%); 60, 30{NBSP}%, layer by layer",
     T.offsets([0.5, 0.6]), f"50{NBSP}% (50{NBSP}% to 50{NBSP}%); 50, 60{NBSP}%, layer by layer"),
    (brunner2020.less_local, T.offsets([0.6, 0.3]), f"50{NBSP}% (50{NBSP}% to 50{NBSP}%); 60, 30{NBSP}%, layer by layer",
     T.offsets([0.5, 0.6]), f"120{NBSP}% (120{NBSP}% to 120{NBSP}%); 50, 60{NBSP}%, layer by layer"),
    (brunner2019.still_first, T.mixing("rank", "median", [1.0, 1.0, 5.0]), "1.00 (1.00 to 1.00); median rank 1, 1, 5, layer by layer",
     T.mixing("rank", "median", [1.0, 2.0, 5.0]), "2.00 (2.00 to 2.00); median rank 1, 2, 5, layer by layer"),
    (kobayashi2020.short_vectors, T.parked(0.5, 0.1),
     f"20{NBSP}% (20{NBSP}% to 20{NBSP}%); first tokens; 50{NBSP}% of the weight, 10{NBSP}% of the summed norms",
     T.parked(0.5, 0.4), f"80{NBSP}% (80{NBSP}% to 80{NBSP}%); first tokens; 50{NBSP}% of the weight, 40{NBSP}% of the summed norms"),
    (kobayashi2020.at_odds, T.parked(0.5, 0.1, first=-0.5, other=0.1), "-0.50 (-0.52 to -0.48); first tokens; first -0.50, other 0.10",
     T.parked(0.5, 0.1, first=-0.1, other=0.1), "-0.10 (-0.12 to -0.08); first tokens; first -0.10, other 0.10"),
    (kobayashi2020.spread_of_vectors, T.norms([("table1", "cv", None, 0.2), ("table1", "cv", None, 0.3)]),
     "0.25 (0.25 to 0.25); 0.20 to 0.30 by head",
     T.norms([("table1", "cv", None, 0.1), ("table1", "cv", None, 0.3)]), "0.20 (0.20 to 0.20); 0.10 to 0.30 by head"),
    (kobayashi2020.spread_of_inputs, T.norms([("table1", "cv", None, 0.2), ("table4", "cv", None, 0.1)]),
     "0.50 (0.50 to 0.50); 0.10 for x, 0.20 for f(x)",
     T.norms([("table1", "cv", None, 0.2), ("table4", "cv", None, 0.3)]), "1.50 (1.50 to 1.50); 0.30 for x, 0.20 for f(x)"),
    (kobayashi2020.frequent_words, T.norms([("fig6", "rho_f_occurrences", None, 0.7)]), "0.70 (0.70 to 0.70); over occurrences",
     T.norms([("fig6", "rho_f_occurrences", None, -0.7)]), "-0.70 (-0.70 to -0.70); over occurrences"),
    (kobayashi2020.weights_do_not_tell,
     T.norms([("fig6", "rho_f_occurrences", None, 0.7), ("fig6", "rho_alpha_occurrences", None, -0.1)]),
     "0.60 (0.60 to 0.60); ρ 0.70 for ‖f(x)‖, -0.10 for the weight",
     T.norms([("fig6", "rho_f_occurrences", None, 0.3), ("fig6", "rho_alpha_occurrences", None, -0.2)]),
     "0.10 (0.10 to 0.10); ρ 0.30 for ‖f(x)‖, -0.20 for the weight"),
    (kobayashi2020.frequent_words,
     T.norms([("fig6", "rho_f_occurrences", None, 0.7), ("fig6", "rho_f_vocabulary", None, 0.6)]),
     "0.60 (0.60 to 0.60); over occurrences, ranks by the vocabulary",
     T.norms([("fig6", "rho_f_vocabulary", None, -0.7)]),
     "-0.70 (-0.70 to -0.70); over occurrences, ranks by the vocabulary"),
    (kobayashi2020.weights_do_not_tell,
     T.norms([("fig6", "rho_f_vocabulary", None, 0.7), ("fig6", "rho_alpha_vocabulary", None, -0.1)]),
     "0.60 (0.60 to 0.60); ρ 0.70 for ‖f(x)‖, -0.10 for the weight, ranks by the vocabulary",
     T.norms([("fig6", "rho_f_vocabulary", None, 0.3), ("fig6", "rho_alpha_vocabulary", None, -0.2)]),
     "0.10 (0.10 to 0.10); ρ 0.30 for ‖f(x)‖, -0.20 for the weight, ranks by the vocabulary"),
    (kobayashi2020.stretching, T.norms([("fig9", "ratio", None, value) for value in (1.9, 2.0, 3.0, 4.0)]),
     "1.90 (exact); the least of the heads; 2.5 in the median",
     T.norms([("fig9", "ratio", None, value) for value in (1.7, 2.0, 3.0, 4.0)]),
     "1.70 (exact); the least of the heads; 2.5 in the median"),
    (kobayashi2020.norms_align, T.alignment({("raw", "input"): [0.8, 0.52], ("norm-sum", "input"): [0.33, 0.28]}),
     "24.0 points (22.6 points to 25.4 points); weights 80.0 52.0; norms 33.0 28.0; the diagonal 75.0",
     T.alignment({("raw", "input"): [0.92, 0.95], ("norm-sum", "input"): [0.89, 0.86]}, diagonal=0.72),
     "-14.0 points (-15.4 points to -12.6 points); weights 92.0 95.0; norms 89.0 86.0; the diagonal 72.0"),
    (kobayashi2020.early_layers_align, T.alignment({("norm-sum", "input"): [0.3, 0.5, 0.9, 0.9]}),
     "45.0 points (43.6 points to 46.4 points); layer 1 of 4 is the best (norms 30.0 50.0 90.0 90.0; the diagonal 75.0)",
     T.alignment({("norm-sum", "input"): [0.9, 0.5, 0.9]}),
     "-40.0 points (-41.4 points to -38.6 points); layer 2 of 3 is the best (norms 90.0 50.0 90.0; the diagonal 75.0)"),
    (kobayashi2020.input_position, T.alignment({("norm-sum", "input"): [0.3], ("norm-sum", "output"): [0.5]}),
     "20.0 points (18.6 points to 21.4 points); 30.0 for the word just read, 50.0 for the word to come",
     T.alignment({("norm-sum", "input"): [0.6], ("norm-sum", "output"): [0.5]}),
     "-10.0 points (-11.4 points to -8.6 points); 60.0 for the word just read, 50.0 for the word to come"),
    (yang.tagger, T.curve(0.9), "0.90 (0.90 to 0.90)", T.curve(0.8), "0.80 (0.80 to 0.80)"),
    (yang.adversary_tags_as_well, T.curve(adversary={0.2: 0.895}), "0.5 points (0.5 points to 0.5 points); F1 0.896 against 0.901",
     T.curve(adversary={0.2: 0.76}), "14.0 points (14.0 points to 14.0 points); F1 0.761 against 0.901"),
    (yang.much_divergence_costs, T.curve(adversary={0.0: 0.895, 3.0: 0.7}),
     "20.0 points (20.0 points to 20.0 points); F1 0.701 against 0.901",
     T.curve(adversary={0.0: 0.895, 3.0: 0.88}), "2.0 points (2.0 points to 2.0 points); F1 0.881 against 0.901"),
    (yang.other_seeds_differ, T.curve(js=0.5, matched=0.4), "0.40 (0.40 to 0.40); 0.50 head by head; F1 0.901 against 0.901",
     T.curve(js=0.5, matched=0.15), "0.15 (0.15 to 0.15); 0.50 head by head; F1 0.901 against 0.901"),
    (yang.any_guide_will_do, T.guides(base=0.86, weak=0.86, strong=0.85, uniform=0.7),
     "1.0 points (1.0 points to 1.0 points); base 0.860, adversary λ=0.2 0.860, adversary λ=3 0.850, uniform 0.700",
     T.guides(base=0.86, weak=0.73, strong=0.67, uniform=0.69),
     "19.0 points (19.0 points to 19.0 points); base 0.860, adversary λ=0.2 0.730, adversary λ=3 0.670, uniform 0.690"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("look", "there", "told", "not_there", "told_not"), BOTH_SIDES, ids=[case[0].__name__ for case in BOTH_SIDES]
)
def test_both_sides_of_the_bar_in_words(look, there, told, not_there, told_not) -> None:
    yes, no = judged(look, there), judged(look, not_there)
    assert (yes.verdict, yes.ours) == ("holds", told)
    assert (no.verdict, no.ours) == ("does not hold", told_not)


def test_every_claim_is_decided_by_hand() -> None:
    looks = {claim.look for paper in PAPERS.values() for item in paper.items for claim in item.claims}
    elsewhere = {clark2019.antecedents, brunner2020.null_space, brunner2020.mixtures, yang.a_knee, yang.free_up_to_the_knee,
                 yang.rivals_for_single_words, yang.attention_is_not_importance}  # fmt: skip
    assert looks == {case[0] for case in BOTH_SIDES} | elsewhere


def test_claims_with_tables_of_another_form() -> None:
    far, near = (
        judged(clark2019.antecedents, T.mentions(0.6, 0.3)),
        judged(clark2019.antecedents, T.mentions(0.3, 0.35)),
    )
    assert (far.verdict, far.ours) == (
        "holds",
        "30.0 points (25.8 points to 34.2 points); L1.H2 60%; nearest 30%",
    )
    assert near.verdict == "does not hold"
    few = judged(clark2019.antecedents, T.mentions(0.6, 0.3, count=99))
    assert (few.verdict, few.why) == ("undecided", "99 mentions, and it takes 100")
    free = T.by_length("rank", rank={20.0: 20.0, 80.0: 64.0}, null_dim={20.0: 0.0, 80.0: 16.0})
    assert judged(brunner2020.null_space, free).ours == (
        f"20{NBSP}% (20{NBSP}% to 20{NBSP}%); 16.0 directions at 80.0 tokens, of rank 64.0"
    )
    own = pl.concat([T.mixing("own", "median", [0.4, 0.1]), T.mixing("own", "chance", [0.02, 0.02])])
    assert judged(brunner2020.mixtures, own).ours.endswith(f"median 40, 10{NBSP}%, layer by layer (chance 2.0{NBSP}%)")


@pytest.mark.parametrize(
    ("depth", "straight", "verdict"),
    [(0.4, 0.1, "holds"), (0.2, 0.1, "does not hold"), (0.3, 0.1, "undecided"), (0.4, 0.3, "undecided")],
)
def test_a_knee_is_deeper_than_that_of_a_straight_line(depth: float, straight: float, verdict: str) -> None:
    knees = pl.DataFrame(
        [("kl", "nll", 0.02, 30.0, 20.0, 40.0, 1.0, depth, depth - 0.06, depth + 0.04, straight)], orient="row",
        schema=["divergence", "loss", "lambda", "at", "low", "high", "found", "depth", "shallow", "deep", "straight"],
    )  # fmt: skip
    found = judged(yang.a_knee, knees)
    share = f"{100 * depth:.0f}{NBSP}% ({100 * depth - 6:.0f}{NBSP}% to {100 * depth + 4:.0f}{NBSP}%)"
    assert (found.verdict, found.ours) == (verdict, f"{share}; λ = 0.02, KL 30.0 nats (20.0 to 40.0)")
    if straight > yang.DEEP:
        assert found.why == "a straight line with the seeds' spread does it too"


@pytest.mark.parametrize(("f1", "verdict"), [(0.895, "holds"), (0.85, "does not hold")])
def test_divergence_is_free_if_the_f1_at_the_knee_is_the_bases(f1: float, verdict: str) -> None:
    """The walk's case: there is a knee, and at it F1 has gone down."""
    table = T.curve(adversary={0.0: 0.9, 0.02: f1, 3.0: 0.7})
    cost = {0.0: (0.0, 0.0), 0.02: (30.0, 0.1), 3.0: (40.0, 1.0)}
    at = [cost.get(value, (0.0, 0.0)) for value in table["lambda"]]
    table = table.with_columns(kl=pl.Series([x for x, _ in at]), nll=pl.Series([y for _, y in at]))
    found = judged(yang.free_up_to_the_knee, table)
    assert (found.verdict, found.words) == (verdict, f"at the knee, λ = 0.02: F1 {f1 + 0.001:.3f} against 0.901")
    line = table.with_columns(kl=pl.col("lambda"), nll=pl.col("lambda"))
    assert judged(yang.free_up_to_the_knee, line).why == "the curve has no knee"


def test_a_row_says_which_interval_it_is() -> None:
    assert claim_of(clark2019.vectors_add).rule.endswith(
        "(interval: the range of the seeds, of both terms, which is no 95 % interval)"
    )
    assert claim_of(yang.a_knee).rule.endswith("(interval: bootstrap over seeds)")


def of_taggers(name: str, base: float, untrained: float, **more: object) -> pl.DataFrame:
    """20 sentences of a word each, for each kind of tagger."""
    kinds = (("base", base), ("untrained", untrained))
    return pl.concat(
        pl.DataFrame({"kind": kind, "sentence": list(range(20)), name: [value] * 20, **more}) for kind, value in kinds
    )


def test_what_untrained_taggers_do_too_does_not_hold() -> None:
    def rivals(base: float, untrained: float) -> Judged:
        return judged(yang.rivals_for_single_words, of_taggers("js", base, untrained, tvd=0.01))

    def tau(base: float, untrained: float) -> Judged:
        return judged(
            yang.attention_is_not_importance, of_taggers("kendall", base, untrained, method="gradient", seed=0)
        )

    for claim, yes, no in ((rivals, 0.6, 0.1), (tau, 0.2, 0.8)):
        assert claim(yes, no).verdict == "holds"
        assert (claim(yes, yes).verdict, claim(yes, yes).why) == ("undecided", "an untrained tagger does it too")
        assert claim(no, no).verdict == claim(no, yes).verdict == "does not hold"
    apart = T.curve(js=0.5, matched=0.4)
    alike = apart.with_columns(matched=pl.lit(0.4))
    assert judged(yang.other_seeds_differ, apart).verdict == "holds"
    assert judged(yang.other_seeds_differ, alike).why == "an untrained pair of seeds does it too"


@pytest.mark.parametrize(
    ("look", "table", "why"),
    [
        (clark2019.separator, T.heads(to_separator=[0.0, 0.0], to_first=[0.1, 0.1]), "the texts have no separators"),
        (clark2019.separator_to_itself, T.heads(to_separator=[0.3], separator_to_separator=[0.9]),
         "no head gives separators over half of its attention"),
        (clark2019.separator_to_itself, T.heads(to_separator=[0.0, 0.0], separator_to_separator=[0.0, 0.0]),
         "the texts have no separators"),
        (clark2019.broad_summary, T.heads(entropy_from_first=[0.0, 0.0]),
         "there is no [CLS], or the first token sees only itself"),
        (brunner2020.falling, T.by_length("fig1a", pearson={90.0: 0.3}), "no texts are 1.5 times as long as the shortest"),
        (brunner2020.null_space, T.by_length("rank", rank={20.0: 20.0}, null_dim={20.0: 0.0}),
         "texts are not longer than the heads are wide"),
        (brunner2020.falling, pl.concat([
            T.by_length("fig1a", pearson={7.0: 1.0, 27.0: 1.0}), T.by_length("rank", null_dim={27.0: 0.0})]),
         "texts are not longer than the heads are wide"),
        (brunner2020.peak_gone, pl.concat([T.peaks(0.5, 0.5), T.by_length("rank", null_dim={27.0: 0.0})], how="diagonal"),
         "texts are not longer than the heads are wide"),
        (brunner2020.peak_gone, T.peaks(0.1, 0.01), f"there is no peak: at most 10{NBSP}% to separator tokens"),
        (kobayashi2020.short_vectors, T.parked(0.1, 0.01),
         f"special tokens get too little here: over all heads first tokens, which get most, have 10{NBSP}% of the weight, "
         f"less than 20{NBSP}% (single heads may park all the same: clark2019 fig2-top)"),
        (brunner2020.first_map_fails, T.rates({(0, 0, 0): 1.0, (1, 1, 0): 1.0}), "maps were not tested on other layers"),
        (brunner2020.recovered, T.rates({(0, 0, 0): 1.0}, "none"), "the run did not ask for this"),
    ],
)  # fmt: skip
def test_what_there_is_nothing_to_compare_with(look, table, why) -> None:
    found = judged(look, table)
    assert (found.verdict, found.why, found.ours) == ("not comparable", why, why)


def test_a_control_that_passes_and_one_that_was_not_run() -> None:
    table = T.heads(to_separator=[0.2, 0.1], to_first=[0.6, 0.1])
    assert judged(clark2019.parking, table, table).why == "networks that learned nothing do it too: 3 of 3 untrained"
    assert judge(claim_of(clark2019.parking), Evidence(table, COUNTS, [table] * 5)).why == "no control was run"
    assert judge(claim_of(clark2019.parking), Evidence(table, COUNTS, (), [])).why == "there is no interval"
    parse = judged(clark2019.attention_parses, T.parses(55, 60, 45))
    assert (parse.verdict, parse.why) == ("undecided", "untrained attention with vectors does it too")
    assert parse.control == "untrained attention with vectors: 15.0 points"


@pytest.mark.parametrize("look", [brunner2020.recovered, brunner2020.first_map_fails, brunner2020.last_map_serves])
def test_a_map_learned_from_few_texts_decides_nothing(look) -> None:
    """Folds agree on what eight sentences teach: their interval is narrow, and no evidence."""
    claim, table = claim_of(look), T.rates({(0, 0, 0): 0.6, (0, 1, 0): 0.6, (1, 1, 0): 0.5, (1, 0, 0): 0.5})
    few, enough = (judge(claim, Evidence(table, {"texts": n, "folds": 5})) for n in (99, 100))
    assert (few.verdict, few.why) == ("undecided", "99 texts, and a map to learn takes 100")
    assert enough.verdict == "does not hold"
    assert few.ours == enough.ours
    assert claim.rule.endswith("from 4 folds of 100 texts or more (interval: Student's t over folds)")


def test_a_causal_model_is_asked_for_the_previous_token_alone() -> None:
    found = judged(clark2019.relative_position, T.heads(previous=[0.6, 0.1], next=[0.0, 0.0]))
    assert (found.verdict, found.instead) == ("holds", "the previous token only: the next is not seen")
    assert found.ours == f"60{NBSP}% (60{NBSP}% to 60{NBSP}%); {found.instead}; previous: L0.H0"


def test_without_separators_the_loss_is_read_of_the_first_token_and_it_is_told() -> None:
    nothing = [float("nan")] * 2
    found = judged(clark2019.no_op, T.heads(to_separator=nothing, to_first=[9.0, 0.01], to_other=[1.0, 0.1]))
    assert (found.verdict, found.instead) == ("holds", "the first token: there are no separators")
    assert found.ours == f"10{NBSP}% (10{NBSP}% to 10{NBSP}%); {found.instead}; first tokens 0.01, other tokens 0.1"


def test_low_layers_are_the_first_third_and_not_the_first_alone() -> None:
    """The walk's case: a broad layer 0 above the narrowest layer of all."""
    found = judged(clark2019.broad_first, T.heads(entropy=[3.7, 2.4, 2.4, 2.8, 2.7, 3.6]))
    assert found.verdict == "does not hold"
    assert found.numbers
    assert found.numbers.value == pytest.approx((3.7 + 2.4) / 2 - (2.4 + 2.8 + 2.7 + 3.6) / 4)


def test_no_end_of_an_interval_is_beyond_what_the_number_can_be() -> None:
    share, open_ = (T.mixing("not-own", *rest) for rest in (("share", [0.0, 0.9]), ("unsure", [0.001, 0.2])))
    first, last = (judged(look, pl.concat([share, open_])) for look in (brunner2020.own_at_first, brunner2020.not_own))
    assert (first.number, last.number) == (
        f"0.0{NBSP}% (0.0{NBSP}% to 0.1{NBSP}%)",
        f"90{NBSP}% (70{NBSP}% to 100{NBSP}%)",
    )
    texts = [
        T.by_length("rank", rank={size: 32.0}, null_dim={size: size - 32})
        for size in (127.7, 128.0, 126.0, 128.0, 128.0)
    ]
    free = judge(claim_of(brunner2020.null_space), Evidence(texts[0], COUNTS, texts, texts[:3]))
    assert free.numbers
    assert free.numbers.high <= 1


def test_the_layer_in_which_only_cls_counts_is_left_out() -> None:
    ranks = T.mixing("rank", "median", [1.0, 1.0, 9.0, 1.0], [420.0, 420.0, 420.0, 8.0])
    assert brunner2020.mixing_rows(ranks, "rank", "median") == [1.0, 1.0, 9.0]


def test_tokens_that_the_estimate_leaves_open_widen_the_interval() -> None:
    share, few, many = (
        T.mixing("not-own", *rest) for rest in (("share", [0.0, 0.3]), ("unsure", [0.0, 0.05]), ("unsure", [0.0, 0.25]))
    )
    sure, open_ = (judged(brunner2020.not_own, pl.concat([share, rows])) for rows in (few, many))
    assert (sure.verdict, open_.verdict) == ("holds", "undecided")
    assert open_.why == "the interval lies across the bar"
    assert open_.ours == (
        f"30{NBSP}% (5.0{NBSP}% to 55{NBSP}%); 0, 30{NBSP}%, layer by layer; "
        f"25{NBSP}% of the tokens are open by the error of the estimate"
    )


def test_the_items_table_of_alignment_errors_has_the_mean_last() -> None:
    rows = [("raw", "input", 0, 0.8), ("raw", "input", 1, 0.6), ("norm-sum", "input", 1, 0.3), ("norm-sum", "input", 0, 0.5),
            ("raw", "output", 0, 0.1)]  # fmt: skip
    table = pl.DataFrame(rows, schema=["quantity", "position", "layer", "aer"], orient="row").with_columns(
        extraction=pl.lit("argmax"), head=pl.lit(None, dtype=pl.Int64)
    )
    found = kobayashi2020.errors_by_layer(table)
    assert found.columns == ["layer", "raw", "norm-sum"]
    assert [row[0] for row in found.rows()] == ["1", "2", "mean"]
    assert found["raw"].to_list() == pytest.approx([80, 60, 70])
    assert found["norm-sum"].to_list() == pytest.approx([50, 30, 40])


def test_texts_are_those_that_were_asked() -> None:
    assert counts_of({"documents": 100, "settings": {"texts": 16, "seeds": [0, 1]}}) == {
        "texts": 16,
        "pairs": 100,
        "seeds": 2,
    }
    assert counts_of({"documents": 100, "settings": {"texts": 0, "folds": 10}}) == {
        "texts": 100,
        "pairs": 100,
        "folds": 10,
    }


@pytest.mark.parametrize("family", ["bert", "llama", "t5"])
def test_claims_can_be_looked_at_for_any_kind_of_model(family: str, load, tmp_path: Path) -> None:
    """Also where there are no separators, no [CLS], or two stacks: a claim says so and does not fail."""
    model = load(f"tiny:{family}")
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"a": "The cat sat on the mat, and it purred.", "b": "It was warm there, they said."}\n' * 6)
    studies = ["surface", "norms", "nullspace", "distances"]
    results = hw.run(studies, model, corpus=pairs, columns=["a", "b"], out=tmp_path / "out", progress=False,
                     shard_documents=1, parts=5)  # fmt: skip
    assert isinstance(results, dict)
    looked = [
        judge(claim, Evidence(results[item.job.study].table, {"texts": 100}, results[item.job.study].parts))
        for paper in PAPERS.values()
        for item in paper.items
        if isinstance(item.job, Job) and item.job.study in results
        for claim in item.claims
    ]
    assert len(looked) >= 14
    assert all(len(result.parts) == 5 for result in results.values())
    assert all("nan" not in found.ours for found in looked), [found.ours for found in looked]
    assert {found.verdict for found in looked} <= {"undecided", "does not hold", "not comparable"}


def test_a_control_whose_texts_could_not_tell_is_none() -> None:
    """Controls of texts of one length gave fig1a a "holds": none of them could have passed."""
    table, one = T.by_length("fig1a", pearson={30.0: 0.9, 90.0: 0.2}), T.by_length("fig1a", pearson={90.0: 0.2})
    assert (
        judge(claim_of(brunner2020.falling), Evidence(table, COUNTS, [table] * 5, [one] * 3)).why
        == "no control was run"
    )
    flat = T.by_length("fig1a", pearson={30.0: 0.9, 90.0: 0.9})
    assert judge(claim_of(brunner2020.falling), Evidence(table, COUNTS, [table] * 5, [flat] * 3)).verdict == "holds"
    peak, none, there = T.peaks(0.6, 0.01), T.peaks(0.1, 0.01), T.peaks(0.6, 0.5)  # without a peak, the network is it
    dashes, told = (
        judge(claim_of(brunner2020.peak_gone), Evidence(peak, COUNTS, [peak] * 5, [none, none, one]))
        for one in (none, there)
    )
    assert (dashes.verdict, dashes.why) == ("undecided", "no control could tell: none has what the claim speaks of")
    assert dashes.control == "untrained: –, –, –"
    assert told.verdict == "holds"


@pytest.mark.parametrize(("n", "said"), [(1, "1 text"), (2, "2 texts")])
def test_one_text_is_one_text(n: int, said: str) -> None:
    assert Judged("undecided", "", numbers=Numbers(0.5, 0.4, 0.6, n, "texts", None)).n == said
