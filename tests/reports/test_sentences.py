"""What may be written: of a head only where its own numbers say so, of the answer only by what was tried; whole sentences."""

# ruff: noqa: E501 - sentences are compared whole

from __future__ import annotations

import shlex
import sys
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest

from headwise.cli import main
from headwise.reports.sentences import OF_ONE, SENTENCES, both_ends, holdings, instead, sentences, to_test
from headwise.reports.verdict import outcomes
from headwise.studies.answers import VERDICTS, Number, Tested, Verdict, Vote

HEADS = tuple(f"L0.H{at}" for at in range(6))


def written(*votes: Vote) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return sentences(outcomes(votes), holdings(votes))


def of_head(tested: Tested, came: Verdict, names: tuple[str, ...]) -> Vote:
    return Vote(tested, came, "", (), names, 9)


@pytest.mark.parametrize(
    ("tested", "said", "which"),
    [
        ("unique", "“hardly any other weights give this head the same output”", "whose own answer to “unique?” is yes"),
        ("alike", "“hardly any of this head's weights are without effect on its output”", "with r ≥ 0.9 of raw and effective weights, and at most 30 % of the squared ones in the null space"),
        ("carries", "“through this head, the tokens with large weights send most of what is sent”", "whose own lamp carries anything? is green"),
        ("heads", "“without this head alone the model's loss (or vector) moves”", "where the head's own interval says so"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("came", VERDICTS)
def test_a_sentence_about_a_head_is_of_the_heads_for_which_it_holds(
    tested: Any, came: Any, said: str, which: str
) -> None:
    """By a mean of 77 % it was allowed of every head, though a sixth of them had a red lamp."""
    few, one, none = (written(of_head(tested, came, names))[0] for names in (HEADS, HEADS[:1], ()))
    assert f"{said}, of the 6 of 9 heads {which} (L0.H0, L0.H1, L0.H2, L0.H3 and 2 more)." in few
    assert f"{said}, of the one head of 9 {which} (L0.H0)." in one
    assert not [line for line in none if "this head," in line or "this head's" in line or "this head alone" in line]


def test_a_yes_of_the_mean_alone_allows_no_sentence_about_a_head() -> None:
    for tested in ("unique", "alike", "carries", "heads"):
        assert written(Vote(tested, "yes", ""))[0] == ()


def test_what_may_be_written_of_some_heads_is_forbidden_of_the_others_only() -> None:
    named, unnamed = (written(of_head("alike", "with care", names))[1][0] for names in (HEADS, ()))
    assert named == "the raw map alone, as what reaches the head's output, of other heads than those named."
    assert unnamed == "the raw map alone, as what reaches the head's output."
    assert written(of_head("carries", "no", HEADS))[1][0] == (
        "“head h passes on token k”, of other heads than those named: what is sent does not go where the weights go."
    )


@pytest.mark.parametrize(("tested", "came"), [*product(get_args(Tested), VERDICTS), ("matters", None)])
def test_nothing_that_may_be_written_is_nothing_or_about_any_one_head(tested: Any, came: Any) -> None:
    may, _ = SENTENCES[tested, came]
    assert not may.startswith("nothing")
    assert "this head" not in may
    assert set(OF_ONE) == {"unique", "alike", "carries", "heads", "matters"}


@pytest.mark.parametrize("unique", VERDICTS)
@pytest.mark.parametrize("pinned", [True, False])
def test_where_no_other_weights_were_left_no_line_says_that_there_may_be_some(unique: Verdict, pinned: bool) -> None:
    """“100 % … have weights that no others can replace” stood above “as if it could be no other”, which was forbidden."""
    votes = [of_head("unique", unique, HEADS), of_head("alike", "yes", HEADS[:1]), Vote("parked", "no", "")]
    may, may_not = sentences(outcomes(votes), holdings(votes), pinned=pinned)
    no_other = "“no other weights (none negative, sum 1) give these heads the same output”, on these texts; longer ones may differ."
    alike = "“hardly any of this head's weights are without effect on its output”, of the one head of 9 with r ≥ 0.9 of raw and effective weights, and at most 30 % of the squared ones in the null space (L0.H0)."
    if pinned:
        assert may == (no_other, alike, SENTENCES["parked", "no"][0])
        assert may_not == (
            "that a head matters to the model's answer because its weights are unique: that is another test.",
            SENTENCES["parked", "no"][1],
            "“the model decided because of token k”: that was not tested.",
        )
    else:
        assert no_other not in may
        assert (
            "that a single weight could be no other, or that a large one sends much: those are other tests." in may_not
        )
        assert any("hardly any other" in line for line in may)


def test_other_bans_of_the_raw_map_stay_where_no_other_weights_were_left() -> None:
    for came in ("with care", "no"):
        votes = [Vote("unique", "yes", ""), Vote("alike", came, "")]
        assert SENTENCES["alike", came][1].format(others="") in sentences(outcomes(votes), {}, pinned=True)[1]


# --- the answer ---


def gain(method: str, value: float, low: float, high: float) -> Number:
    return Number(f"gain_{method}", "", value, low, high, 24, share=False)


def tried(came: Verdict, *beyond: str) -> Vote:
    numbers = (
        gain("leave-one-out", 0.14, 0.07, 0.21),
        gain("rollout", 0.034, 0.0012, 0.07),
        gain("raw-attention", 0.02, -0.04, 0.07),
    )
    return Vote("matters", came, "", numbers, beyond, 3)


def test_the_best_method_that_beats_random_tokens_may_be_shown_where_attention_may_not() -> None:
    """The page said “nothing of the model's answer” where the same study had found two methods that hold."""
    two = tried("no", "leave-one-out", "rollout")
    assert instead([two], how="?") == (
        "The tokens that leave-one-out names: without them 0.14 of probability is lost beyond random ones (0.07 to 0.21), "
        "the most of 3 methods; then rollout. Chosen and tried on the same 24 texts."
    )
    assert written(two) == (
        (
            "“in the mean over these texts, the prediction falls more without the tokens that this method names than without random ones”, of the 2 of 3 methods whose own interval is above 0, best first (leave-one-out, rollout).",
        ),
        ("“the model decided because of token k” from attention.",),
    )
    assert "; then" not in instead([tried("no", "leave-one-out")], how="?")


def test_where_no_method_holds_none_may_be_shown_and_where_none_was_tried_the_page_says_how() -> None:
    assert instead([tried("no")], how="?") == (
        "None of the 3 methods that were tried: the tokens that they name are not shown to matter more than random ones."
    )
    assert written(tried("no"))[0] == ()
    assert instead([Vote("matters", "no", "")], how="do x") == "Which tokens it rests on was not tested: do x."


def test_an_interval_that_is_above_0_reads_so() -> None:
    assert both_ends(gain("a", 0.03, 0.0012, 0.07)) == ("0.001", "0.070")
    assert both_ends(gain("a", 0.03, 0.0, 0.07)) == ("0.00", "0.07")
    assert both_ends(gain("a", 0.94, 0.938, 0.942)) == ("0.938", "0.942")
    assert both_ends(gain("a", 0.94, 0.94, 0.94)) == ("0.94", "0.94")


@pytest.mark.parametrize(
    ("kind", "task", "said"),
    [
        ("decoder", None, "headwise verdict demo-llm --task causal-lm --set faithfulness.removal=delete --corpus 'a b.txt' --out answer would test it"),
        ("encoder", None, "faithfulness would test it, of a classifier: headwise verdict FOLDER --task classification"),
        ("encoder", "classification", "faithfulness would test it (--studies …,faithfulness)"),
        ("encoder–decoder", "translation", "headwise explain tests it text by text (--task translation)"),
    ],
)  # fmt: skip
def test_who_would_test_the_answer_by_the_kind_of_model(kind: str, task: str | None, said: str) -> None:
    """A language model's page spoke of classifiers alone."""
    assert to_test({"called": "demo-llm", "corpus": "a b.txt", "kind": kind, "task": task}) == said


def test_the_command_for_a_decoder_tests_its_answer(monkeypatch, capsys, tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("The old man went to the city.\n" * 4)
    facts = {"called": "tiny:llama", "corpus": str(tmp_path / "c.txt"), "kind": "decoder", "task": None}
    command = shlex.split(to_test(facts).removesuffix(" would test it"))
    monkeypatch.chdir(tmp_path)
    cheap = ["--set", "faithfulness.methods=random,raw-attention", "--set", "faithfulness.fractions=0.5"]
    monkeypatch.setattr(sys, "argv", [*command, "--studies", "faithfulness", *cheap])
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    assert "Decided by faithfulness, its one test." in capsys.readouterr().out
