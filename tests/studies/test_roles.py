"""Roles of heads: a perfect induction head is found and needed; scores by hand; verdicts on each side of a line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

import headwise as hw
from headwise.changes import zero
from headwise.errors import InputError
from headwise.interventions.effects import effects
from headwise.interventions.outcomes import Question
from headwise.models.editing import head_outputs
from headwise.studies.answers import DOING
from headwise.studies.roles import Roles, made, scores_of
from headwise.studies.roles.agreement import agreeing
from headwise.studies.roles.atlas import SCHEMA, answers, judged, most_like
from headwise.studies.roles.scores import ROLES
from headwise.studies.roles.trials import Trial, drawn, looking, task_of, threshold, tried
from headwise.studies.study import Setting, State
from references.compare import assert_close
from references.induction import VOCABULARY, loaded

LINES = [
    "The old dog sat in the sun.",
    "It is said that the sea is big, and so it was.",
    "They all came to the end, the end.",
]
SETTING = Setting("m", {"self": (2, 2, 3)}, True, {"documents": 4, "tokens": 40})


@pytest.fixture(scope="module")
def perfect() -> hw.Model:
    return loaded()


def test_a_perfect_induction_head_is_found_and_its_removal_destroys_copying(perfect: hw.Model, tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    file.write_text("w3 w4 w5 w6 w7 w8 w9\nw4 w5 w9 w12 w2 w3 w8\nw9 w8 w7 w6 w3 w4 w11")
    result = hw.run(
        "roles", perfect, corpus=file, out=tmp_path / "out", settings={"roles": {"sequences": 6, "draws": 4}}
    )
    looks = result.table.filter(part="head", role="induction")
    assert looks.filter("looks")["name"].to_list() == ["L1.H1"]
    assert looks.filter(name="L1.H1")["value"][0] > 0.8
    assert result.table.filter(part="head", role="previous").filter("looks")["name"].to_list() == ["L0.H0"]
    trial = result.table.filter(part="trial", role="induction").to_dicts()[0]
    assert trial["verdict"] == "role"
    assert trial["task"] == "repeat"
    assert trial["value"] > 1 > abs(trial["control"])
    assert set(result.figures) >= {"atlas", "trials"}
    for one in made.repeated(perfect, 2, 5):
        question = one.question(perfect)
        with torch.no_grad():
            own = question.read(perfect.hf(**question.inputs)).mean()
            with perfect.changed(zero("L1.H1")):
                without = question.read(perfect.hf(**question.inputs)).mean()
        assert own < 1
        assert without == pytest.approx(float(np.log(VOCABULARY)), abs=0.05), "nothing is left but chance"


def test_sources_are_where_the_next_token_stands(load) -> None:
    model = load("tiny:llama", "causal-lm")
    for one in (*made.repeated(model, 3, 0), *made.needles(model, 3, 1)):
        asked = (one.source >= 0).nonzero()[:, 0].tolist()
        assert len(asked) >= 2
        for place in asked:
            assert one.text.ids[int(one.source[place])] == one.text.ids[place + 1]
            assert int(one.source[place]) <= place
        question = one.question(model)
        assert (question.labels >= 0).sum() == len(asked)


@pytest.mark.parametrize("name", ["tiny:llama", "tiny:gpt2"])
def test_trials_are_those_of_whole_texts_run_one_by_one(load, name: str) -> None:
    """Means and scores come from one pass a text, and texts end where the last is asked: it tells the same."""
    model = load(name, "causal-lm")
    for texts in (list(made.repeated(model, 2, 0)), list(made.needles(model, 2, 1))):
        seen = made.seen(model, texts, "raw")
        outputs = [head_outputs(model, model.batch([one.text])) for one in texts]
        for place, means in seen.means.items():
            assert_close(means, torch.cat([each[place][0] for each in outputs]).double().mean(0), 1e-6)
        maps = [torch.stack(list(model.trace(ids=one.text.ids).attention())) for one in texts]
        rows = [(one.source >= 0).nonzero()[:, 0] for one in texts]
        share = [each[:, :, row, one.source[row]].mean(-1) for each, row, one in zip(maps, rows, texts, strict=True)]
        for layer, expected in enumerate(torch.stack(share).mean(0)):
            assert_close(seen.scores["self", layer][0], expected.double(), 1e-5)
        trial = Trial("induction", "repeat", (("self", 0, 1), ("self", 2, 3)), ((("self", 0, 2), ("self", 2, 0)),))
        asked = {number: one.question(model).until_asked() for number, one in enumerate(texts)}
        assert all(asked[at].length == len(one.text) - 1 for at, one in enumerate(texts)), "the last token is not read"
        again = Trial("previous", "repeat", trial.controls[0], (trial.heads[::-1], trial.controls[0]))
        found = tried(model, asked, [trial], seen.means)["induction"]
        twice = tried(model, asked, [trial, again], seen.means)["previous"]
        alone = tried(model, {at: one.question(model) for at, one in enumerate(texts)}, [trial])["induction"]
        for at, one in enumerate(texts):
            plain = [
                one_by_one(model, one.question(model), heads, seen.means) for heads in (trial.heads, *trial.controls)
            ]
            assert_close(found[at][0], torch.tensor(plain, dtype=torch.float64), 1e-5)
            assert_close(found[at], alone[at], 1e-5)
            assert_close(twice[at][0], found[at][0, [1, 0, 1]], 1e-6)
        assert float(torch.cat(list(found.values())).abs().max()) > 1e-4


def test_heads_that_are_drawn_twice_are_taken_away_once(load, monkeypatch: pytest.MonkeyPatch) -> None:
    model, asked = load("tiny:llama", "causal-lm"), []
    (text,) = made.repeated(model, 1, 0)

    def counted(model: hw.Model, question: Question, variants: list, **options):
        asked.append(len(variants))
        return effects(model, question, variants, **options)

    monkeypatch.setattr("headwise.studies.roles.trials.effects", counted)
    one, two, three = ((("self", 1, head),) for head in (0, 1, 2))
    trial = Trial("induction", "repeat", one, (two, three, two, two))
    found = tried(model, {0: text.question(model)}, [trial])["induction"][0]
    assert asked == [3]
    assert found.shape == (1, 5)
    assert found[0, 1] == found[0, 3] == found[0, 4] != found[0, 2]


def one_by_one(model: hw.Model, question: Question, heads: tuple, means: dict) -> float:
    """The loss with heads at their means less that of the model as it is, by a plain hook a layer."""

    def put(layer: int, head: int, size: int):
        def hook(_module, args):
            x = args[0].clone()
            x[..., head * size : (head + 1) * size] = means["self", layer][head].to(x)
            return (x,)

        return hook

    with torch.no_grad():
        own = question.read(model.hf(**question.inputs)).double().mean()
        sites = [(model.sites()[layer], layer, head) for _, layer, head in heads]
        hooks = [s.projection.register_forward_pre_hook(put(at, head, s.circuit.w_o.shape[1])) for s, at, head in sites]
        try:
            return float(question.read(model.hf(**question.inputs)).double().mean() - own)
        finally:
            for one in hooks:
                one.remove()


def test_sentences_that_agree_are_all_different_up_to_64(load) -> None:
    """A text that comes twice would count twice in an interval."""
    texts = [one.text.ids for one in agreeing(load("tiny:gpt2", "causal-lm"), 64, 0)]
    assert len(texts) in (0, 64)
    assert len(set(texts)) == len(texts)


def test_scores_over_texts_are_those_of_the_maps(load, tmp_path: Path) -> None:
    """One text, by hand from its trace."""
    model, file = load("tiny:bert"), tmp_path / "x.txt"
    file.write_text(LINES[2])
    result = hw.run("roles", model, corpus=file, out=tmp_path / "out", settings={"roles": {"draws": 2}})
    trace = model.trace(LINES[2])
    maps, ids = trace.attention()[1, 2].double(), trace.text.ids
    score = {row["role"]: row["value"] for row in result.table.filter(part="head", layer=1, head=2).to_dicts()}
    n = len(ids)
    assert score["previous"] == pytest.approx(float(maps.diagonal(-1).mean()), rel=1e-5)
    assert score["next"] == pytest.approx(float(maps.diagonal(1).mean()), rel=1e-5)
    assert score["offset−2"] == pytest.approx(float(maps.diagonal(-2).mean()), rel=1e-5)
    assert score["separator"] == pytest.approx(float(maps[:, -1].mean()), rel=1e-5)
    same = [sum(maps[q, k] for k in range(q) if ids[k] == ids[q]) for q in range(n) if ids[q] in ids[:q]]
    assert score["duplicate"] == pytest.approx(float(sum(same) / len(same)), rel=1e-5)
    broad = -(maps * maps.log()).sum(-1).mean() / np.log(n)
    assert score["broad"] == pytest.approx(float(broad), rel=1e-5)
    reached = trace.attention("effective")[1, 2].double()
    share = 1 - reached.square().sum(-1) / maps.square().sum(-1)
    assert score["null"] == pytest.approx(float(share.mean()), rel=1e-4)
    assert "induction" not in score, "an encoder has no next token"


@pytest.mark.parametrize(
    ("name", "task", "quantity"),
    [("tiny:llama", "causal-lm", "norm"), ("tiny:llama", None, "effective"), ("tiny:marian", "translation", "raw")],
)
def test_every_kind_of_model_has_an_atlas(load, tmp_path: Path, name: str, task: str | None, quantity: str) -> None:
    model = load(name, task)
    file = tmp_path / ("x.pairs" if model.is_encoder_decoder else "x.txt")
    file.write_text("\n".join(f"{a} ||| {b}" for a, b in zip(LINES, LINES[::-1], strict=True))
                    if model.is_encoder_decoder else "\n".join(LINES))  # fmt: skip
    settings = {"roles": {"quantity": quantity, "sequences": 3, "draws": 2}}
    result = hw.run("roles", model, corpus=file, out=tmp_path / "out", settings=settings)
    heads = result.table.filter(part="head")
    assert set(heads["stack"]) == set(model.stacks)
    assert heads["value"].is_finite().all()
    assert ("copying" in set(heads["role"])) == (task == "causal-lm")
    assert len([name for name in result.figures if name.startswith("atlas")]) == len(model.stacks)


def test_batches_play_no_part(load, tmp_path: Path) -> None:
    model, file = load("tiny:bert"), tmp_path / "x.txt"
    file.write_text("\n".join(LINES))
    settings = {"roles": {"draws": 2}}
    whole, parts = (
        hw.run("roles", model, corpus=file, out=tmp_path / str(size), settings=settings, batch_tokens=size).table
        for size in (9, 999)
    )
    assert np.allclose(whole["value"], parts["value"], atol=1e-5)


def test_controls_are_other_heads_of_the_same_layers() -> None:
    heads = (("self", 0, 1), ("self", 0, 2), ("self", 3, 0))
    for some in drawn(heads, {("self", 0): 4, ("self", 3): 2}, 20, seed=0):
        assert [one[:2] for one in some] == [one[:2] for one in heads]
        assert len(set(some)) == 3
        assert not set(some) & set(heads)
    (few,) = drawn((("self", 0, 0), ("self", 0, 1)), {("self", 0): 2}, 1, seed=0)
    assert sorted(few) == [("self", 0, 0), ("self", 0, 1)], "where no other is left"


def test_a_head_looks_like_a_role_from_its_threshold_on() -> None:
    scores = {("self", 0, head): score for head, score in enumerate([0.39, 0.4, 0.9, 0.1])}
    assert looking(scores, "previous") == (("self", 0, 2), ("self", 0, 1))
    assert threshold("previous") == 0.4
    assert (threshold("induction"), threshold("copying")) == (0.3, 3.0)
    assert task_of("induction", ["plain", "repeat"]) == "repeat"
    assert task_of("induction", ["plain"]) == task_of("next", ["plain", "repeat"]) == "plain"


@pytest.mark.parametrize(
    ("own", "controls", "idle", "verdict"),
    [
        ([1.0, 1.1, 1.2] * 2, [[0.1] * 10] * 6, False, "role"),
        ([1.0, 1.1, 1.2] * 2, [[0.1] * 10] * 6, True, "looks like"),
        ([1.0, 1.1, 1.2] * 2, [[2.0] * 10] * 6, True, "role"),
        ([1.0, 1.1, 1.2] * 2, [[0.1] * 9 + [2.0]] * 6, False, "role"),  # nine of ten draws change less
        ([1.0, 1.1, 1.2] * 2, [[0.1] * 8 + [2.0] * 2] * 6, False, "looks like"),
        ([1.0, -1.1, 0.1] * 2, [[0.0] * 10] * 6, False, "looks like"),  # the interval holds 0
        ([1.0, 1.1, 1.2, 1.3, 1.4], [[0.1] * 10] * 5, False, "looks like"),  # too few texts for an interval
    ],
)
def test_verdicts(own: list[float], controls: list[list[float]], idle: bool, verdict: str) -> None:
    assert judged(np.column_stack([own, controls]), idle, 0)["verdict"] == verdict


def test_the_strongest_role_is_the_one_farthest_over_its_threshold() -> None:
    rows = [("previous", 0, 0.5), ("copying", 0, 6.0), ("previous", 1, 0.3), ("copying", 1, 2.9)]
    table = pl.DataFrame(
        [{"part": "head", "role": role, "stack": "self", "layer": 0, "head": at, "name": f"L0.H{at}", "value": value}
         for role, at, value in rows], schema=SCHEMA,
    )  # fmt: skip
    best = most_like(table, {("copying", "L0.H0")})
    assert best["role"].to_list() == ["copying", "none"]
    assert best["tested"].to_list() == [True, False]
    assert most_like(table, {("copying", "L0.H1")})["tested"].to_list() == [False, False], "others were taken away"


def test_the_words() -> None:
    head = {"part": "head", "stack": "self", "layer": 0, "head": 1, "name": "L0.H1", "value": 0.9, "looks": True}
    trial = {
        "part": "trial",
        "task": "repeat",
        "heads": "L0.H1",
        "value": 1.5,
        "control": 0.1,
        "gain": 1.4,
        "texts": 6,
        "unit": "nats",
    }
    rows = [{**head, "role": "induction"}, {**head, "role": "previous", "head": 0, "looks": False},
            {**trial, "role": "induction", "verdict": "role"},
            {**trial, "role": "broad", "verdict": "looks like"}]  # fmt: skip
    doing, matter = answers(pl.DataFrame(rows, schema=SCHEMA), SETTING)
    assert doing.question == DOING
    assert doing.says == (
        f"1 of 2 heads look like one of {len(ROLES)} roles. Taken away, against random heads of the same layers: a "
        "task made for them loses more without induction (L0.H1); only look like it: broad."
    )
    assert matter.says == (
        "The heads that look like induction (L0.H1) do it: without them the task `repeat` loses 1.5 nats, without as "
        "many others of their layers 0.1 (6 texts)."
    )
    rows[2]["verdict"] = "looks like"
    (doing,) = answers(pl.DataFrame(rows, schema=SCHEMA), SETTING)
    assert doing.says.endswith(
        "Taken away, against random heads of the same layers: only look like it: induction, broad."
    )
    assert scores_of(State(), "previous", ("self",)) == {}


@pytest.mark.parametrize(
    ("role", "needs"), [("previous", "that needs a next-token head"), ("next", "there is no task for it")]
)
def test_plain_texts_do_not_tell_what_heads_are_for(role: str, needs: str) -> None:
    head = {"part": "head", "stack": "self", "layer": 0, "head": 2, "name": "L0.H2", "value": 0.9, "looks": True}
    trial = {"part": "trial", "task": "plain", "heads": "L0.H2", "value": 0.0028, "control": 0.0011, "gain": 0.0017,
             "texts": 6, "unit": "1 − cos", "verdict": "role"}  # fmt: skip
    parks = {**trial, "role": "first", "heads": "L2.H9", "value": 0.0001, "gain": -0.001}
    rows = [{**head, "role": role}, {**trial, "role": role}, parks]
    doing, matter = answers(pl.DataFrame(rows, schema=SCHEMA), SETTING)
    assert doing.says == (
        f"1 of 1 heads look like one of {len(ROLES)} roles. Taken away, against random heads of the same layers: the "
        f"answer as a whole moves more without {role} (L0.H2); the answer moves less, as it should without heads that "
        "only park, without first (L2.H9); only look like it: none."
    )
    assert matter.says == (
        f"The heads that look like {role} (L0.H2) matter to the answer as a whole: without them it moves by 0.0028 "
        "(1 − cos), without as many others of their layers by 0.0011 (6 texts). Whether for what they look like was "
        f"not tested: {needs}."
    )
    own = {**trial, "role": "induction", "task": "repeat", "heads": "L1.H0", "value": 0.001, "gain": 0.0009}
    _, matter = answers(pl.DataFrame([*rows, own], schema=SCHEMA), SETTING)
    assert matter.says.startswith("The heads that look like induction (L1.H0) do it:"), "a task made for it comes first"


def test_bad_settings_are_one_line() -> None:
    with pytest.raises(InputError) as error:
        Roles(draws=0)
    assert str(error.value) == ("draws of study roles must be a whole number, 1 or more, but 0 was given.")
    with pytest.raises(InputError, match="There is no attention quantity 'row'"):
        Roles(quantities=("row",))
