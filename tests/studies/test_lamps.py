"""The lamps over a corpus: numbers of single texts by loops, any batch or block, intervals, and the votes in words."""

# ruff: noqa: E501 - sentences are compared whole

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from headwise.lamps import Head, lamps
from headwise.studies.lamps import ALL, NUMBERS, VERDICTS, Lit, values_of
from headwise.studies.study import Setting, State
from headwise.text.categories import categories
from references.loose import naive as loosest
from references.precision import nearness
from references.studies_folding import TEXTS, assert_drawable, exact, folded, in_blocks, setting


def concluded(model, study: Lit, state: State) -> State:
    return State(study.conclude(state, model, lambda _: None))


def naive(model, text: str, pair: str, stack: str) -> np.ndarray:
    """[layer head number] of one text by plain loops over its rows."""
    trace = model.trace(text, pair)
    raw, norm = (trace.attention(name, stack=stack).double().numpy() for name in ("raw", "norm"))
    facts = trace.nullspace(stack=stack)
    kinds = np.array(categories(trace.keys(stack), causal=model.causal or stack == "decoder"))
    seen = trace.of(stack)[0].visible[0].sum(-1).tolist()
    free = [loosest(layer)[0].numpy() for layer in trace.of(stack)]
    found = np.full((*raw.shape[:2], len(NUMBERS)), np.nan)
    for layer, head in np.ndindex(*raw.shape[:2]):
        rows = []
        for query, keys in enumerate(seen):
            if keys >= 3:
                a, p = raw[layer, head, query], norm[layer, head, query] / norm[layer, head, query].sum()
                near = [
                    a[query + step] if 0 <= query + step < len(a) and stack != "cross" else 0.0 for step in (-1, 0, 1)
                ]
                rows.append([
                    free[layer][head, query], np.minimum(a, p).sum(), a[kinds != 3].sum(), p[kinds != 3].sum(), *near,
                ])  # fmt: skip
        means = np.mean(rows, axis=0) if rows else np.full(7, np.nan)
        shares = [facts.null_share[layer, head].item(), facts.identifiable_rows[layer, head].item()]
        found[layer, head] = [*shares, *means[:4], means[4:].max()]
    return found


@pytest.mark.parametrize("family", ["bert", "llama", "bart"])
def test_every_number_of_every_text(family: str) -> None:
    model, study = exact(family), Lit()
    state = concluded(model, study, folded(model, study))
    for stack in model.stacks:
        layers = values_of(state, stack)
        for document, (text, pair) in enumerate(TEXTS):
            got = np.stack([layer[document] for layer in layers])
            # of two copies of a word that are as far away as the last neighbour, either may be the one that counts
            np.testing.assert_allclose(got, naive(model, text, pair, stack), rtol=1e-5, atol=5e-5)


@pytest.mark.parametrize("family", ["gpt2", "bart"])
def test_batches_and_blocks_change_nothing(family: str) -> None:
    model, study = exact(family), Lit()
    whole = concluded(model, study, folded(model, study))
    for other in (folded(model, study, batch_tokens=1), in_blocks(model, study, rows=5)):
        for stack in model.stacks:
            for a, b in zip(values_of(whole, stack), values_of(concluded(model, study, other), stack), strict=True):
                np.testing.assert_allclose(a, b, rtol=10 * nearness(model), atol=10 * nearness(model))


def test_intervals_hold_the_mean_shrink_with_texts_and_come_from_the_seed() -> None:
    generator = np.random.default_rng(1)
    values = generator.uniform(size=(400, 2, len(NUMBERS)))
    values[5, 0, 3] = np.nan  # a text that has no such row
    few, many = (list(Lit()._intervals(part)) for part in (values[:25], values))
    for head in range(2):
        assert few[head]["carried_low"] < few[head]["carried"] < few[head]["carried_high"]
        assert many[head]["carried"] == pytest.approx(np.nanmean(values[:, head, NUMBERS.index("carried")]))
        width = many[head]["carried_high"] - many[head]["carried_low"]
        error = np.nanstd(values[:, head, NUMBERS.index("carried")], ddof=1) / np.sqrt(400)
        assert width == pytest.approx(2 * 1.96 * error, rel=0.15)
    assert list(Lit()._intervals(values)) == many != list(Lit(seed=1)._intervals(values))


def table(
    heads: list[tuple[float, float, float]], carried: float, null: float = 0.0, alike: float = 0.0, only: float = 0.96
) -> pl.DataFrame:
    """Heads by (null share, carried, parked), and the row of all, in whose mean so much is on keys that send the same.

    `only`: the rows that no other distribution can replace.
    """
    rows = []
    for at, (share, follows, parked) in enumerate([(null, carried, 0.1), *heads]):
        lit = lamps(Head(null_share=share, unique_rows=only, carried=follows, parked=parked, sent=parked))
        numbers = {"null_share": share, "unique_rows": only, "loose": 0.0 if at else alike, "carried": follows,
                   "parked": parked, "sent": parked, "neighbour": 0.0}  # fmt: skip
        ends = {f"{name}_{end}": value for name, value in numbers.items() for end in ("low", "high")}
        rows.append({"stack": "self", "layer": at - 1 if at else None, "head": 0 if at else None, "texts": 7,
                     "name": f"L{at - 1}.H0" if at else ALL, **numbers, **ends, "sink": lit.sink})  # fmt: skip
    return pl.DataFrame(rows)


SETTING = Setting("m", {"self": (3, 1, 4)}, False, {"documents": 7, "tokens": 70})


@pytest.mark.parametrize(
    ("carried", "null", "votes"),
    [(0.75, 0.05, ["yes", "yes"]), (0.74, 0.06, ["with care", "with care"]), (0.49, 0.31, ["no", "no"]),
     (0.75, 0.31, ["no", "with care"]), (0.75, 0.30, ["with care", "yes"]), (0.49, 0.05, ["yes", "no"])],
)  # fmt: skip
def test_the_mean_head_votes_by_its_lamp(carried: float, null: float, votes: list[str]) -> None:
    """What is carried is held back beside a red one; whether weights are unique is another question than the other's."""
    found = [a for a in Lit().answers(table([(0.0, 0.9, 0.1)], carried, null), SETTING) if a.vote]
    assert [answer.vote.verdict for answer in found if answer.vote] == votes
    lit = lamps(Head(null_share=null, unique_rows=0.96, carried=carried, parked=0.1, sent=0.1))
    assert votes == ["yes" if lit.unique.held else VERDICTS[lit.unique.colour], VERDICTS[lit.carries.colour]]


@pytest.mark.parametrize(
    ("alike", "verdict", "but"),
    [(0.049, "yes", ""), (0.05, "yes", "; 5.0 % of a row may move to tokens that send nearly the same"),
     (0.06, "with care", "; 6.0 % of a row may move to tokens that send nearly the same"),
     (0.31, "no", "; 31 % of a row may move to tokens that send nearly the same")],
)  # fmt: skip
def test_weight_on_tokens_that_send_the_same_is_not_unique(alike: float, verdict: str, but: str) -> None:
    found = [answer.vote for answer in Lit().answers(table([(0.0, 0.9, 0.1)], 0.8, 0.0, alike), SETTING) if answer.vote]
    assert found[0].verdict == verdict
    assert found[0].because.replace("\u00a0", " ").endswith(f"0 no){but}")


@pytest.mark.parametrize(
    ("null", "only", "verdict", "but"),
    [(0.05, 0.95, "yes", ""), (0.05, 0.949, "with care", "; 5.1 % of the rows may leave room for another distribution"),
     (0.04, 0.0, "with care", "; 100 % of the rows may leave room for another distribution"),
     (0.06, 0.96, "with care", ""), (0.31, 0.0, "no", "")],
)  # fmt: skip
def test_rows_that_leave_room_are_named_where_they_decide(null: float, only: float, verdict: str, but: str) -> None:
    """“Yes” stood beside 3 % in the null space of broad maps, of which each weight could have been another."""
    made = table([(0.0, 0.9, 0.1)], 0.8, null, only=only)
    found = [answer.vote for answer in Lit().answers(made, SETTING) if answer.vote]
    assert found[0].verdict == verdict
    assert found[0].because.replace("\u00a0", " ").endswith(f"no){but}")


def clauses(carried: float, null: float, parked: float = 0.1, unique: float = 0.96) -> list[str]:
    heads = [(0.0, 0.9, 0.1), (0.5, 0.9, 0.1), (0.0, 0.4, 0.1)]
    made = table(heads, carried, null).with_columns(
        pl.when(name=ALL).then(pl.lit(of)).otherwise(name).alias(name)
        for number, of in (("parked", parked), ("sent", parked), ("unique_rows", unique))
        for name in (number, f"{number}_low", f"{number}_high")
    )
    votes = [answer.vote for answer in Lit().answers(made, SETTING) if answer.vote]
    assert [(vote.holds_for, vote.out_of) for vote in votes] == [(("L0.H0", "L2.H0"), 3), (("L0.H0",), 3)]
    return [vote.because.replace("\u00a0", " ") for vote in votes]


def test_a_vote_says_how_many_heads_it_is_true_of_and_why_it_is_held_back() -> None:
    unique, carries = (
        "{} of the squared weights change nothing, if weights may be negative or not sum to 1 ({} to {}, 7 texts; of 3 heads 2 yes, 0 with care, 1 no)",
        "{} of what is sent follows the weights ({} to {}, 7 texts; of 3 heads 1 yes, 1 with care (1 held back), 1 no)",
    )
    no, yes, some = (of.format(*[share] * 3) for of, share in ((unique, "40 %"), (carries, "80 %"), (unique, "10 %")))
    assert clauses(0.8, 0.4) == [no, f"{yes}; yes, but held back: not to be shown (Unique?)"]
    assert clauses(0.8, 0.1) == [some, yes]
    assert clauses(0.8, 0.1, parked=0.5) == [
        some,
        f"{yes}; a sink: 50 % of the weight is parked, 50 % of what is sent comes from there",
    ]
    assert clauses(0.8, 0.4, unique=1.0)[0] == f"{no}; yet no other distribution gives the output"
    assert clauses(0.8, 0.1, unique=1.0) == [f"{some}; no other distribution gives the output", yes]


@pytest.mark.parametrize(
    ("number", "ends", "unique", "carries"),
    [
        ("null_share", (0.02, 0.06), "“with care”", ""),  # .05 is the line
        ("null_share", (0.02, 0.31), "“with care” or “no”", ""),
        ("unique_rows", (0.9, 1.0), "“with care”", ""),
        ("carried", (0.74, 0.9), "", "“with care”"),
        ("parked", (0.1, 0.5), "", "“with care” or “no”"),  # a sink that sends .1 of .5
        ("carried", (0.76, 0.9), "", ""),
    ],
)
def test_a_vote_says_what_it_might_also_be(number, ends, unique, carries) -> None:
    made = table([(0.0, 0.9, 0.1)], 0.8, 0.03).with_columns(
        pl.when(name=ALL).then(pl.lit(end)).otherwise(f"{number}_{side}").alias(f"{number}_{side}")
        for side, end in zip(("low", "high"), ends, strict=True)
    )
    votes = [answer.vote.because for answer in Lit().answers(made, SETTING) if answer.vote]
    for said, other in zip(votes, (unique, carries), strict=True):
        assert said.partition("; close: ")[2] == (f"within the intervals it could be {other}" if other else "")


def test_a_run_of_a_version_that_did_not_count_them_is_read_as_before() -> None:
    older = table([(0.0, 0.9, 0.1)], 0.8).drop("loose", "loose_low", "loose_high")
    assert [answer.vote.verdict for answer in Lit().answers(older, SETTING) if answer.vote] == ["yes", "yes"]


def test_texts_that_are_too_short_have_no_say() -> None:
    nan = float("nan")
    found = list(Lit().answers(table([(nan, nan, nan)], nan, nan), SETTING))
    assert [answer.vote for answer in found] == [None] * 3
    assert found[1].says == "Unique? These texts are too short to tell."
    (numbers,) = Lit()._intervals(np.full((3, 1, len(NUMBERS)), nan))
    assert all(np.isnan(value) for value in numbers.values())


def test_answers_say_how_many_maps_may_be_shown_and_name_the_sinks() -> None:
    heads = [(0.0, 0.9, 0.1), (0.0, 0.6, 0.2), (0.0, 0.9, 0.5)]
    said = [answer.says.replace("\u00a0", " ") for answer in Lit().answers(table(heads, 0.8), SETTING)]
    assert said == [
        "Of 3 maps 1 may be shown as what the head did, 2 with care and 0 not; 1 is of a sink (by the lamps unique? and "
        "carries anything? in the mean over 7 texts).",
        "Unique? In the mean over heads 0.0 % of the squared weights change nothing, if weights may be negative or not sum to 1 (0.0 % to 0.0 %, 7 texts; of 3 heads "
        "3 yes, 0 with care, 0 no).",
        "Carries anything? In the mean over heads 80 % of what is sent follows the weights (80 % to 80 %, 7 texts; of 3 "
        "heads 1 yes, 2 with care (1 held back), 0 no).",
        "1 of 3 heads are sinks: 50 % of their weight or more is parked on special tokens, periods and commas together "
        "(most in L2.H0; 7 texts).",
    ]


def test_table_and_figures() -> None:
    model, study = exact("bart"), Lit(resamples=100)
    state = concluded(model, study, folded(model, study))
    found = study.table(state, setting(model))
    assert found.filter(pl.col("name") == ALL)["stack"].to_list() == list(model.stacks)
    for stack in model.stacks:
        heads, whole = (found.filter(pl.col("stack") == stack, (pl.col("name") == ALL) == of) for of in (False, True))
        assert whole["parked"].item() == pytest.approx(heads["parked"].mean(), rel=1e-6)
    charts = study.figures(state, setting(model))
    assert_drawable(charts, ["lamps", "lamps-decoder", "lamps-cross"])
    for panel in charts["lamps"].to_dict()["hconcat"]:
        end = panel["encoding"]["color"]["scale"]["domain"][1]
        assert "room" not in panel["title"]["text"] or end <= 0.3, "its lamp is red from there, not from 1"


def test_the_table_says_which_lamps_are_held_back() -> None:
    """“62 yes” of the verdict were 6 green ones in the table, and nothing said why."""
    red, good = [0.4, 0.0, 0.0, 0.9, 0.1, 0.1, 0.0], [0.0, 1.0, 0.0, 0.9, 0.1, 0.1, 0.0]
    rows = list(Lit(resamples=100)._rows("self", [np.array([[red, good]] * 5)]))
    assert [(row["lamp_carries"], row["held"]) for row in rows[1:]] == [("amber", "carries"), ("green", None)]
