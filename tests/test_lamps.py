"""The three lamps, on each side of each threshold, and what must never be green."""

# ruff: noqa: E501 - sentences are compared whole

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from headwise.lamps import WIDTH_SMALL, Head, is_sink, lamps, summed_up, with_other
from headwise.traces.lamps import trace_lamps

GOOD = Head(null_share=0.0, unique_rows=1.0, carried=0.9, parked=0.1, sent=0.1, matters=0.05, exact=True)


def colours(**changes: object) -> list[str]:
    return [lamp.colour for lamp in lamps(replace(GOOD, **changes))]  # type: ignore[arg-type]


def test_a_head_that_is_well_by_every_question_is_green() -> None:
    assert colours() == ["green", "green", "green"]
    assert lamps(GOOD).showing == "yes"


@pytest.mark.parametrize(
    ("changes", "colour", "says"),
    [
        ({"null_share": 0.05, "unique_rows": 0.95}, "green", "5 % of the squared weights change nothing if weights may be negative or not sum to 1; 5 % of the rows may leave room for another distribution (none negative, sum 1); how far it may go was not asked (trace.attention_interval asks it of a row)."),
        ({"null_share": 0.05, "unique_rows": 0.949}, "amber", "5 % of the squared weights change nothing if weights may be negative or not sum to 1; 5.1 % of the rows may leave room for another distribution (none negative, sum 1); how far it may go was not asked (trace.attention_interval asks it of a row)."),
        ({"null_share": 0.0, "unique_rows": None}, "amber", "0 % of the squared weights change nothing if weights may be negative or not sum to 1; rows may leave room for another distribution (none negative, sum 1); how far it may go was not asked (trace.attention_interval asks it of a row)."),
        ({"null_share": 0.051, "unique_rows": 0.95}, "amber", "5.1 % of the squared weights change nothing if weights may be negative or not sum to 1; 5 % of the rows may leave room for another distribution (none negative, sum 1); how far it may go was not asked (trace.attention_interval asks it of a row)."),
        ({"null_share": 0.3, "unique_rows": 0.0}, "amber", "30 % of the squared weights change nothing if weights may be negative or not sum to 1; 100 % of the rows may leave room for another distribution (none negative, sum 1); how far it may go was not asked (trace.attention_interval asks it of a row)."),
        ({"null_share": 0.31, "unique_rows": 0.0}, "red", "31 % of the squared weights change nothing if weights may be negative or not sum to 1; 100 % of the rows may leave room for another distribution (none negative, sum 1); how far it may go was not asked (trace.attention_interval asks it of a row)."),
        ({"null_share": 0.3}, "green", "No other weights give this output (30 % in the null space)."),
        ({"null_share": 0.6}, "amber",
         "60 % of the squared weights change nothing if weights may be negative or not sum to 1; yet no other distribution (none negative, sum 1) gives this output."),
        ({"null_share": 0.0, "unique_rows": 0.9, "width": 0.05}, "green",
         "0 % of the squared weights change nothing if weights may be negative or not sum to 1; as a distribution (none negative, sum 1) each could be another within 0.05."),
        ({"null_share": 0.0, "unique_rows": 0.9, "width": 0.06}, "amber",
         "0 % of the squared weights change nothing if weights may be negative or not sum to 1; as a distribution (none negative, sum 1) each could be another within 0.06."),
        ({"null_share": 0.0, "unique_rows": 0.9, "width": 0.31}, "red",
         "0 % of the squared weights change nothing if weights may be negative or not sum to 1; as a distribution (none negative, sum 1) each could be another within 0.31."),
        ({"null_share": None}, "dark", "Whether other weights would do was not measured."),
        ({"null_share": float("nan")}, "dark", "Whether other weights would do was not measured."),
    ],
)  # fmt: skip
def test_unique(changes: dict[str, object], colour: str, says: str) -> None:
    lamp = lamps(replace(GOOD, **changes)).unique  # type: ignore[arg-type]
    assert (lamp.colour, lamp.says) == (colour, says)


@pytest.mark.parametrize(
    ("changes", "colour", "says"),
    [
        ({"loose": 0.049}, "green", "No other weights give this output (0 % in the null space)."),
        ({"loose": 0.05}, "green", "A weight may move by 5 % of its row to tokens that send nearly the same, as a word said twice: the output stays within 1 %."),
        ({"loose": 0.051}, "amber", "A weight may move by 5.1 % of its row to tokens that send nearly the same, as a word said twice: the output stays within 1 %."),
        ({"loose": 0.31}, "red", "A weight may move by 31 % of its row to tokens that send nearly the same, as a word said twice: the output stays within 1 %."),
        ({"loose": 0.06, "null_share": 0.4, "unique_rows": 0.0}, "red", "40 % of the squared weights change nothing if weights may be negative or not sum to 1; 100 % of the rows may leave room for another distribution (none negative, sum 1); how far it may go was not asked (trace.attention_interval asks it of a row)."),
        ({"loose": None}, "green", "No other weights give this output (0 % in the null space)."),
    ],
)  # fmt: skip
def test_what_gives_nearly_the_same_output_counts(changes: dict, colour: str, says: str) -> None:
    """A word said three times shared out its weight under a green lamp: its values differ by what nobody would notice."""
    lamp = lamps(replace(GOOD, **changes)).unique
    assert (lamp.colour, lamp.says) == (colour, says)


@pytest.mark.parametrize(
    ("parked", "neighbour", "sink"),
    [(0.5, None, True), (0.5, 0.49, True), (0.5, 0.5, False), (0.49, 0.0, False), (0.9, 0.8, True)],
)
def test_weight_that_goes_one_way_whatever_stands_there_is_not_parked(
    parked: float, neighbour: float | None, sink: bool
) -> None:
    assert is_sink(Head(parked=parked, neighbour=neighbour)) is sink
    assert lamps(replace(GOOD, parked=parked, neighbour=neighbour)).sink is sink


def test_another_distribution_that_was_looked_for_is_told_and_changes_no_colour() -> None:
    asked = lamps(replace(GOOD, null_share=0.4, unique_rows=0.0, carried=0.4))
    found = with_other(asked, 0.0312)
    assert found.unique.says == (
        "40 % of the squared weights change nothing if weights may be negative or not sum to 1; 100 % of the rows may leave room for another distribution (none negative, sum 1); the one looked for moves no weight by more than 0.031, others may move one farther."
    )
    assert found.unique.colour == asked.unique.colour == "red"
    assert with_other(lamps(GOOD), 0.5) == lamps(GOOD), "where nothing was left open nothing is said"


@pytest.mark.parametrize(
    ("changes", "colour", "says"),
    [
        ({"carried": 0.75}, "green", "75 % of what is sent follows the weights."),
        ({"carried": 0.74}, "amber", "74 % of what is sent follows the weights."),
        ({"carried": 0.7474}, "amber", "74.7 % of what is sent follows the weights."),
        ({"carried": 0.5}, "amber", "50 % of what is sent follows the weights."),
        ({"carried": 0.49}, "red", "49 % of what is sent follows the weights."),
        ({"parked": 0.49}, "green", "90 % of what is sent follows the weights."),
        ({"parked": 0.5, "sent": 0.4, "on": '"."'}, "amber",
         'A sink: 50 % of the weight is parked, the most on "."; 40 % of what is sent comes from there. 90 % of what is sent follows the weights.'),
        ({"parked": 0.8, "sent": 0.4, "on": "[SEP]"}, "amber",
         "A sink: 80 % of the weight is parked, the most on [SEP]; 40 % of what is sent comes from there. 90 % of what is sent follows the weights."),
        ({"parked": 0.8, "sent": 0.39}, "red",
         "A sink: 80 % of the weight is parked; 39 % of what is sent comes from there. 90 % of what is sent follows the weights."),
        ({"parked": 0.8, "sent": 0.8, "carried": 0.4}, "red",
         "A sink: 80 % of the weight is parked; 80 % of what is sent comes from there. 40 % of what is sent follows the weights."),
        ({"parked": 0.8, "sent": None, "carried": None}, "amber", "A sink: 80 % of the weight is parked."),
        ({"carried": None}, "dark", "What the weights carry was not measured."),
    ],
)  # fmt: skip
def test_carries(changes: dict[str, object], colour: str, says: str) -> None:
    lamp = lamps(replace(GOOD, **changes)).carries  # type: ignore[arg-type]
    assert (lamp.colour, lamp.says) == (colour, says)


@pytest.mark.parametrize(("carried", "held"), [(0.75, True), (0.74, False), (None, False)])
def test_a_sink_whose_weights_carry_is_held_back_as_any_other_yes(carried: float | None, held: bool) -> None:
    lamp = lamps(replace(GOOD, parked=0.5, sent=0.4, carried=carried)).carries
    assert (lamp.colour, lamp.held) == ("amber", held)


@pytest.mark.parametrize(
    ("changes", "colour", "says"),
    [
        ({"matters": 0.01}, "green", "With it at zero the output moves by 0.01 nats."),
        ({"matters": 0.2, "exact": False}, "green", "With it at zero the output moves by about 0.2 nats, to first order."),
        ({"matters": 0.009, "what": "loss of the label"}, "amber",
         "With it at zero the loss of the label moves by 0.009 nats."),
        ({"matters": 0.009}, "amber", "With it at zero the output moves by 0.009 nats."),
        ({"matters": 0.001, "unit": "(1 − cos)"}, "amber",
         "With it at zero the output moves by 0.001 (1 − cos)."),
        ({"matters": 0.0009}, "red", "With it at zero the output moves by 0.0009 nats."),
        ({"matters": 0.00001, "exact": False}, "dark",
         "With it at zero the output moves by about 1e-05 nats, to first order, which may be off 20 times or more and "
         "does not tell: taking it away does (--exact)."),
        ({"matters": -0.3, "exact": False}, "green",
         "With it at zero the output moves by about 0.3 nats, to first order."),
        ({"matters": -0.0015, "exact": False}, "dark",
         "With it at zero the output moves by about 0.0015 nats, to first order, which may be off 20 "
         "times or more and does not tell: taking it away does (--exact)."),
        ({"matters": 0.19, "exact": False}, "dark",
         "With it at zero the output moves by about 0.19 nats, to first order, which may be off 20 times or more and "
         "does not tell: taking it away does (--exact)."),
        ({"matters": None}, "dark", "Not asked: what the model does without this head is not known yet."),
    ],
)  # fmt: skip
def test_matters(changes: dict[str, object], colour: str, says: str) -> None:
    lamp = lamps(replace(GOOD, **changes)).matters  # type: ignore[arg-type]
    assert (lamp.colour, lamp.says) == (colour, says)


@pytest.mark.parametrize(
    "bad", [{"null_share": 0.9, "unique_rows": 0.0}, {"carried": 0.2}, {"matters": 0.0}, {"parked": 0.7, "sent": 0.7}]
)
def test_nothing_is_green_over_a_sink_or_beside_a_red_lamp(bad: dict[str, object]) -> None:
    assert "green" not in colours(**bad)
    assert lamps(replace(GOOD, **bad)).showing != "yes"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "showing"),
    [({}, "yes"), ({"matters": None}, "yes"), ({"carried": None}, "with care"), ({"null_share": None}, "with care"),
     ({"carried": 0.6}, "with care"), ({"carried": 0.4}, "no"), ({"matters": 0.0}, "no")],
)  # fmt: skip
def test_what_may_be_shown_is_decided_by_the_worst_lamp_and_by_what_is_known(changes: dict, showing: str) -> None:
    assert lamps(replace(GOOD, **changes)).showing == showing


def test_colours_scale_with_the_number() -> None:
    levels = [lamps(replace(GOOD, carried=value)).carries.level for value in (0.0, 0.25, 0.5, 0.625, 0.75, 0.875, 1.0)]
    assert levels == pytest.approx([0, 1 / 6, 1 / 3, 1 / 2, 2 / 3, 5 / 6, 1], abs=1e-4)
    assert lamps(replace(GOOD, null_share=0.0, unique_rows=0.96)).unique.level == 1
    shown, open_ = lamps(GOOD).unique.level, lamps(replace(GOOD, null_share=0.01, unique_rows=0.5)).unique.level
    assert 1 / 3 < (open_ or 0) < 2 / 3 < (shown or 0), "amber, by its hue too"
    assert lamps(replace(GOOD, matters=5.0)).matters.level == 1


def test_sinks_are_told_and_several_heads_are_summed_up() -> None:
    heads = [GOOD, replace(GOOD, carried=0.6), replace(GOOD, parked=0.5, sent=0.1), replace(GOOD, parked=None)]
    assert [is_sink(head) for head in heads] == [False, False, True, False]
    found = [lamps(head) for head in heads]
    said = "4 maps 2 may be shown as what the head did, 1 with care and 1 not; 1 is of a sink."
    assert summed_up(found, asks="--matters") == f"Of {said}"
    unasked = [*found[:3], lamps(replace(heads[3], matters=None))]
    assert summed_up(unasked, asks="--matters") == (
        f"So far, of {said} Whether the heads matter was not asked (--matters asks)."
    )
    assert summed_up(unasked[3:], asks="ablation") == (
        "So far, the map may be shown as what the head did. Whether the head matters was not asked (ablation asks)."
    )
    rough = [*found[:3], lamps(replace(heads[3], matters=0.002, exact=False))]
    assert summed_up(rough, asks="--matters") == (
        f"So far, of {said} Of 1 head the first order does not tell whether it matters (--exact does)."
    )
    assert summed_up(found[:2], asks="x").endswith("1 with care and 0 not; none is of a sink.")
    assert summed_up(found[:1], asks="x") == "The map may be shown as what the head did."
    assert summed_up(found[2:3], asks="x") == "The map should not be shown as what the head did; it is of a sink."
    assert summed_up(found[2:3] * 2, asks="x").endswith("2 are of sinks.")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"carried": 0.49}, "not to be shown (Carries anything?)"),
        ({"matters": 0.0009}, "not to be shown (Matters?)"),
        ({"carried": 0.49, "matters": 0.0009}, "not to be shown (Carries anything?, Matters?)"),
        ({"parked": 0.5, "sent": 0.5}, "a sink (Carries anything?)"),
        ({"parked": 0.5, "sent": 0.1}, "not to be shown (Carries anything?)"),
        ({"carried": 0.5, "matters": 0.001, "parked": 0.49}, None),
    ],
)
def test_a_lamp_that_is_held_back_says_its_own_answer_and_by_which_lamp(changes: dict, why: str | None) -> None:
    lamp = lamps(replace(GOOD, **changes)).unique
    own = "No other weights give this output (0 % in the null space)."
    if why is None:
        assert (lamp.colour, lamp.held, lamp.says) == ("green", False, own)
        return
    assert (lamp.colour, lamp.held, lamp.says) == ("amber", True, f"{own} Yes, but held back: {why}.")
    assert not any(one.held for one in lamps(replace(GOOD, null_share=0.1, unique_rows=0.0, **changes))[:1])


@pytest.mark.parametrize("name", ["tiny:llama", "tiny:bert"])
def test_a_lamp_is_green_only_where_the_intervals_are_narrow(load, name: str) -> None:
    """A share of 1 % in the null space stood under a green lamp, and a linear programme moved 90 % of the weight."""
    trace = load(name, "causal-lm" if name == "tiny:llama" else None).trace(" ".join(["the old dog ran to a city"] * 2))
    found = [(at, head, lamp) for at, row in enumerate(trace_lamps(trace)) for head, lamp in enumerate(row)]
    n = len(trace.tokens)
    for layer, head, lamp in found:
        ends = [trace.attention_interval(layer, head, query) for query in range(n)]
        width = sum(float((high - low).max()) for low, high in ends) / n
        assert lamp.unique.colour != "green" or width <= WIDTH_SMALL + 1e-6, (layer, head, width)
        if lamp.unique.colour == "amber" and not lamp.unique.held:
            assert re.search("leave room|send nearly the same|yet no", lamp.unique.says)
    assert {lamp.unique.colour for *_, lamp in found} != {"green"}, "else nothing was tried"
