"""Every item of the papers has a name, every claim can be looked at, and a few are decided by hand."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

import headwise as hw
from headwise.papers import PAPERS, Job
from headwise.papers.brunner2020 import falling, not_own, recovered
from headwise.papers.clark2019 import near_within_layers, relative_position, separator, separator_to_itself
from headwise.papers.kobayashi2020 import (
    early_layers_align,
    input_position,
    norms_align,
    short_vectors,
    stretching,
)
from headwise.studies import STUDIES

SEEDS = Path(__file__).parents[3] / "shared" / "SEEDS.md"
SECTIONS = {"A": "clark2019", "B": "brunner2019", "C": "brunner2020", "D": "kobayashi2020", "E": "yang"}


@pytest.mark.skipif(not SEEDS.is_file(), reason="the list of the papers' items is not part of the project")
def test_every_item_of_the_seeds_has_its_name() -> None:
    section, asked = "", []
    for line in SEEDS.read_text("utf-8").splitlines():
        if line.startswith("## "):
            section = line[3]
        elif section in SECTIONS and (row := re.match(r"\| ([^|]+?) \|", line)) and row[1] not in ("id", "---"):
            asked += [(SECTIONS[section], name.strip()) for name in row[1].split(",")]
    assert len(asked) > 40
    for paper, name in asked:
        known = {one for item in PAPERS[paper].items for one in (item.id, *item.also)}
        plain = name.removesuffix(" §3.1")  # "rel-pos §3.1"
        assert any(_covers(one, plain) for one in known), f"{paper} has no {name}"


def _covers(known: str, asked: str) -> bool:
    """fig10–12 covers fig11 and fig10–12; fig11 and fig12 together are fig11–13's beginning."""
    if known == asked or asked.startswith(f"{known}–"):
        return True
    ends = re.match(r"([a-z]+)(\d+)–(\d+)$", known)
    number = re.match(r"([a-z]+)(\d+)", asked)
    return bool(ends and number and ends[1] == number[1] and int(ends[2]) <= int(number[2]) <= int(ends[3]))


def test_items_name_studies_and_settings_that_exist() -> None:
    for paper in PAPERS.values():
        assert len({item.id for item in paper.items}) == len(paper.items)
        for item in paper.items:
            assert item.command if item.job is None else item.job.get
            if isinstance(item.job, Job):
                STUDIES[item.job.study](**item.job.settings)


def heads_table(**columns: list[float]) -> pl.DataFrame:
    size = len(next(iter(columns.values())))
    return pl.DataFrame(
        {"stack": ["self"] * size, "quantity": ["raw"] * size, "layer": list(range(size)), "head": [0] * size,
         "name": [f"L{at}.H0" for at in range(size)], **columns}
    )  # fmt: skip


def test_heads_that_look_one_step_aside() -> None:
    both = relative_position(heads_table(previous=[0.6, 0.1], next=[0.0, 0.51]))
    assert both.verdict == "holds"
    assert both.value == "previous: L0.H0; next: L1.H0"
    assert relative_position(heads_table(previous=[0.6, 0.1], next=[0.0, 0.5])).verdict == "holds in part"
    assert relative_position(heads_table(previous=[0.1], next=[0.1])).verdict == "does not hold"


def test_separators() -> None:
    table = heads_table(to_separator=[0.2, 0.7], to_first=[0.1, 0.1], separator_to_separator=[0.1, 0.95])
    assert separator(table).verdict == "holds"
    assert separator_to_itself(table).verdict == "holds"
    quiet = heads_table(to_separator=[0.2, 0.3], to_first=[0.1, 0.1], separator_to_separator=[0.1, 0.95])
    assert separator(quiet).verdict == "does not hold"
    assert separator_to_itself(quiet).verdict == "not comparable"


def test_distances_within_and_between_layers() -> None:
    table = pl.DataFrame(
        {"stack": ["self"] * 3, "a": ["x", "x", "y"], "b": ["y", "z", "z"], "layer_a": [0, 0, 0], "layer_b": [0, 1, 1],
         "js": [0.1, 0.4, 0.2]}
    )  # fmt: skip
    found = near_within_layers(table)
    assert found.verdict == "holds"
    assert "0.100 nats within a layer, 0.300 between" in found.value


def norms_table(rows: list[tuple[str, str, str | None, float]]) -> pl.DataFrame:
    return pl.DataFrame(
        [("self", *row) for row in rows], schema=["stack", "paper", "what", "category", "value"], orient="row"
    )


def test_a_parked_token_sends_a_short_vector() -> None:
    weights = {"first": 0.5, "separator": 0.1, "punctuation": 0.1, "other": 0.3}
    norms = {"first": 0.1, "separator": 0.2, "punctuation": 0.2, "other": 0.5}
    rows = [("fig3", "alpha", kind, value) for kind, value in weights.items()]
    found = short_vectors(norms_table(rows + [("fig3", "norm", kind, value) for kind, value in norms.items()]))
    assert found.verdict == "holds"
    assert found.value == "first tokens: 50\u00a0% of the weight, 10\u00a0% of the summed norms"


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [([1.8, 2.0], "holds"), ([1.7, 2.0, 2.1], "holds in part"), ([1.0, 1.1], "does not hold")],
)
def test_stretching(ratios: list[float], verdict: str) -> None:
    assert stretching(norms_table([("fig9", "ratio", None, ratio) for ratio in ratios])).verdict == verdict


def test_falling_correlation_takes_the_longest_texts() -> None:
    rows = [(20.0, 1.0), (20.0, 0.9), (90.0, 0.2), (90.0, 0.4)]
    table = pl.DataFrame(
        [("self", "fig1a", "pearson", length, value) for length, value in rows],
        schema=["stack", "paper", "what", "length", "value"], orient="row",
    )  # fmt: skip
    assert falling(table).value == "r = 0.95 at 20 tokens, 0.30 at 90"


def test_layers_that_lose_their_word() -> None:
    table = pl.DataFrame(
        [("rate", "test", "linear", "cosine", layer, layer, 0, value) for layer, value in enumerate([1.0, 0.95, 0.8])],
        schema=["what", "set", "map", "distance", "layer", "tested", "offset", "value"], orient="row",
    )  # fmt: skip
    found = recovered(table)
    assert found.verdict == "does not hold"
    assert found.value.startswith("100, 95, 80\u00a0%")
    shares = pl.DataFrame(
        {"kind": ["not-own"] * 3, "statistic": ["share"] * 3, "group": [""] * 3, "layer": [0, 1, 2],
         "value": [0.0, 0.05, 0.3]}
    )  # fmt: skip
    assert not_own(shares).verdict == "holds"


def test_a_claim_about_what_was_not_asked_is_not_comparable() -> None:
    table = pl.DataFrame(
        [("rate", "test", "none", "cosine", 0, 0, 0, 1.0)],
        schema=["what", "set", "map", "distance", "layer", "tested", "offset", "value"], orient="row",
    )  # fmt: skip
    claims = [claim for item in PAPERS["brunner2020"].items if item.id in ("fig2a", "fig2b") for claim in item.claims]
    verdicts = [claim.found(table).verdict for claim in claims]
    assert verdicts == ["not comparable", "holds", "not comparable"]


@pytest.mark.parametrize("family", ["bert", "llama", "t5"])
def test_claims_can_be_looked_at_for_any_kind_of_model(family: str, load, tmp_path: Path) -> None:
    """Also where there are no separators, no [CLS], or two stacks: a claim says so and does not fail."""
    model = load(f"tiny:{family}")
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"a": "The cat sat on the mat, and it purred.", "b": "It was warm there, they said."}\n' * 4)
    studies = ["surface", "norms", "nullspace", "distances"]
    results = hw.run(studies, model, corpus=pairs, columns=["a", "b"], out=tmp_path / "out", progress=False)
    assert isinstance(results, dict)
    looked = [
        claim.look(results[item.job.study].table)
        for paper in PAPERS.values()
        for item in paper.items
        if isinstance(item.job, Job) and item.job.study in results
        for claim in item.claims
    ]
    assert len(looked) >= 14
    assert all("nan" not in found.value for found in looked), [found.value for found in looked]


def alignment_table(errors: dict[tuple[str, str], list[float]]) -> pl.DataFrame:
    rows = [
        (quantity, position, "argmax", layer, None, value)
        for (quantity, position), values in errors.items()
        for layer, value in enumerate(values)
    ]
    names = {"quantity": pl.String, "position": pl.String, "extraction": pl.String, "layer": pl.Int64, "head": pl.Int64,
             "all_aer": pl.Float64}  # fmt: skip
    return pl.DataFrame(rows, schema=names, orient="row")


def test_the_papers_own_alignment_errors_hold() -> None:
    table = alignment_table({
        ("raw", "input"): [0.762, 0.801, 0.519, 0.921, 0.935, 0.944],
        ("norm-sum", "input"): [0.325, 0.283, 0.427, 0.870, 0.886, 0.905],
        ("norm-sum", "output"): [0.9, 0.8, 0.7, 0.6, 0.5, 0.4],
    })  # fmt: skip
    assert norms_align(table).verdict == early_layers_align(table).verdict == input_position(table).verdict == "holds"
    assert "norms 32.5 28.3 42.7" in norms_align(table).value


def test_the_middle_layer_is_not_early_and_a_small_gain_is_not_clear() -> None:
    table = alignment_table({("raw", "input"): [0.9, 0.7, 0.9], ("norm-sum", "input"): [0.95, 0.66, 0.95]})
    assert early_layers_align(table).verdict == "does not hold"
    assert norms_align(table).verdict == "does not hold"
