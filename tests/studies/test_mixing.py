"""The study `mixing`: against loops, on maps whose answer is known, and merged in any grouping."""

from __future__ import annotations

import random
from functools import cache, reduce
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import headwise as hw
from headwise.attributions import ORIGINS
from headwise.errors import HeadwiseError, InputError
from headwise.models.packaged import packaged_folder
from headwise.studies import STUDIES
from headwise.studies.mixing import MOST
from headwise.studies.mixing.facts import GROUPS, facts, unsure
from headwise.studies.mixing.figures import mixing_figures
from headwise.studies.mixing.table import mixing_table
from headwise.studies.study import State, packed, plus, unpacked
from headwise.types import Encoding
from references.precision import nearness
from references.studies_folding import TEXTS, assert_drawable, assert_same, exact, folded, setting
from references.studies_mixing import Text, naive

TAGS = ["NN", "VBD", "DT", None]
LAYERS = 3


def encoding(special: list[bool]) -> Encoding:
    names = tuple(
        "[CLS]" if at == 0 and is_special else "[SEP]" if is_special else f"t{at}"
        for at, is_special in enumerate(special)
    )
    count = len(special)
    return Encoding(
        tokens=names, ids=tuple(range(count)), special=tuple(special), segment=(0,) * count,
        offsets=((0, 0),) * count, unit=tuple(range(count)), words=names,
    )  # fmt: skip


def pair_special(length: int) -> list[bool]:
    return [at in (0, length // 2, length - 1) for at in range(length)]


def random_text(seed: int, length: int, *, causal: bool) -> Text:
    generator = np.random.default_rng(seed)
    maps = generator.dirichlet([0.3] * length, size=(LAYERS, length))
    if causal:
        maps = np.tril(maps) + 1e-9 * np.tril(np.ones((length, length)))
        maps /= maps.sum(-1, keepdims=True)
    special = [False] * length if causal else pair_special(length)
    tags = [
        ("[CLS]" if at == 0 else "[SEP]") if special[at] else random.Random(seed + at).choice(TAGS)
        for at in range(length)
    ]
    return Text(maps, special, tags)


FEW = [random_text(seed, length, causal=False) for seed, length in enumerate((2, 5, 11, 19, 3))]


def state_of(text: Text, *, causal: bool):
    return State(facts(torch.from_numpy(text.maps), encoding(list(text.special)), text.tags, causal=causal))


@cache
def few_states():
    return [state_of(text, causal=False) for text in FEW]


def table_of(texts: list[Text], *, causal: bool = False) -> pl.DataFrame:
    return mixing_table(reduce(plus, [state_of(text, causal=causal) for text in texts]))


def value(table: pl.DataFrame, kind: str, layer: int, group: str, statistic: str) -> float:
    chosen = table.filter(
        (pl.col("kind") == kind)
        & (pl.col("layer") == layer)
        & (pl.col("group") == group)
        & (pl.col("statistic") == statistic)
    )
    assert chosen.height == 1, (kind, layer, group, statistic)
    return chosen["value"][0]


QUANTILES = {"q05": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95}


@pytest.mark.parametrize("causal", [False, True])
def test_every_fact_is_that_of_the_loops(causal: bool) -> None:
    texts = [random_text(seed, length, causal=causal) for seed, length in enumerate((3, 7, 13, 29, 71, 131))]
    texts[2].maps[1, 4] = np.nan  # a token that nothing reaches
    table, expected = table_of(texts, causal=causal), naive(texts, causal=causal)
    checked = 0
    for (kind, layer, group), wanted in expected.items():
        if kind in ("each", "total"):
            assert value(table, "neighbours", layer, group, kind) == pytest.approx(wanted, rel=1e-9)
        elif kind.endswith(("own", "rank")):
            _check_spread(table, kind, layer, group, np.sort(wanted))
        else:
            assert value(table, kind, layer, group, "share") == pytest.approx(wanted, rel=1e-9)
        checked += 1
    assert checked > (200 if causal else 500)
    written = {
        (row["kind"], row["layer"], row["group"]) for row in table.iter_rows(named=True) if row["value"] == row["value"]
    }
    assert {key for key in expected if key[0].startswith(("to-first", "tag", "offset"))} <= written


def _check_spread(table: pl.DataFrame, kind: str, layer: int, group: str, wanted: np.ndarray) -> None:
    """Quantiles within the width of a bin (ranks exactly), the mean and the share of others exactly."""
    for name, q in QUANTILES.items():
        exact = wanted[max(int(np.ceil(q * len(wanted) * (1 - 1e-12))) - 1, 0)]
        got = value(table, kind, layer, group, name)
        if kind.endswith("rank"):
            assert got == exact
        else:
            assert got == pytest.approx(exact, rel=1 / 64, abs=2**-14)
    if kind == "own":
        assert value(table, "own", layer, "", "mean") == pytest.approx(wanted.mean(), rel=1e-9)
        assert value(table, "own", layer, "", "sd") == pytest.approx(wanted.std(), rel=1e-9)
    if kind == "rank":
        assert value(table, "not-own", layer, "", "share") == pytest.approx((wanted > 1).mean(), abs=1e-12)


def test_identity_maps_keep_every_token() -> None:
    maps = np.tile(np.eye(11), (LAYERS, 1, 1))
    table = table_of([Text(maps, pair_special(11), ["NN"] * 11)])
    for layer in range(LAYERS):
        assert value(table, "own", layer, "", "mean") == 1
        assert value(table, "own", layer, "", "median") == 1
        assert value(table, "rank", layer, "", "q95") == 1
        assert value(table, "not-own", layer, "", "share") == 0
        assert all(value(table, "neighbours", layer, group, "each") == 0 for group in ("1", "2", "3"))


@pytest.mark.parametrize("length", [2, 17, 40])
def test_even_maps_give_one_part_in_n_and_known_groups(length: int) -> None:
    maps = np.full((LAYERS, length, length), 1 / length)
    table = table_of([Text(maps, pair_special(length), ["NN"] * length)])
    pairs = {
        group: sum(2 * max(length - d, 0) for d in range(low, min(high, length) + 1))
        for group, (low, high) in GROUPS.items()
    }
    for layer in range(LAYERS):
        assert value(table, "own", layer, "", "mean") == pytest.approx(1 / length)
        assert value(table, "own", layer, "", "chance") == pytest.approx(1 / length)
        assert value(table, "not-own", layer, "", "share") == 0  # a tie is the token's own
        for group, count in pairs.items():
            assert value(table, "neighbours", layer, group, "total") == pytest.approx(count / length**2)
            if count:
                assert value(table, "neighbours", layer, group, "each") == pytest.approx(1 / length)
                assert value(table, "neighbours", layer, group, "relative") == pytest.approx(1 / LAYERS)
        assert value(table, "offset", layer, "1", "share") == pytest.approx((length - 1) / (length * (length - 1)))


def test_causal_tokens_have_no_neighbours_to_the_right_and_the_first_says_nothing() -> None:
    text = random_text(5, 23, causal=True)
    table = table_of([text], causal=True)
    right = table.filter((pl.col("kind") == "offset") & (pl.col("group").is_in([str(d) for d in range(1, 51)])))
    assert (right["count"] == 0).all()
    own = table.filter((pl.col("kind") == "own") & (pl.col("statistic") == "mean"))
    assert (own["count"] == 22).all()
    assert table.filter(pl.col("kind").str.starts_with("to-first")).height == 0


def test_a_text_of_one_token_has_no_facts_and_no_error() -> None:
    table = table_of([Text(np.ones((LAYERS, 1, 1)), [False], ["NN"])], causal=True)
    assert table.filter((pl.col("kind") == "own") & (pl.col("statistic") == "median"))["value"].is_nan().all()
    assert (table.filter(pl.col("kind") == "own")["count"] == 0).all()


@given(st.permutations(range(5)), st.integers(1, 4))
def test_texts_add_up_in_any_order_and_grouping(order: list[int], cut: int) -> None:
    states = few_states()
    shuffled = [states[number] for number in order]
    whole = reduce(plus, states)
    grouped = unpacked(packed(plus(reduce(plus, shuffled[:cut]), reduce(plus, shuffled[cut:]))))
    assert set(grouped) == set(whole)
    for key, statistic in whole.items():
        for part, tensor in statistic.to_state().items():
            torch.testing.assert_close(grouped[key].to_state()[part], tensor, rtol=1e-12, atol=1e-12)


def test_relative_contributions_sum_to_one_over_layers() -> None:
    table = table_of([random_text(1, 31, causal=False)])
    sums = table.filter(pl.col("statistic") == "relative").group_by("group").agg(pl.col("value").sum())
    np.testing.assert_allclose(sums["value"].to_numpy(), 1.0)


def test_shares_of_a_profile_sum_to_one() -> None:
    table = table_of([random_text(1, 140, causal=False)])
    for kind in ("offset", "to-first", "to-first-by-separator"):
        sums = table.filter(pl.col("kind") == kind).group_by("layer").agg(pl.col("value").sum())
        np.testing.assert_allclose(sums["value"].to_numpy(), 1.0)


def test_figures_are_named_as_in_the_papers_and_leave_out_layers_without_origins() -> None:
    text = random_text(3, 37, causal=False)
    text.maps[2, 1:] = np.nan  # as the last layer of a classifier: only [CLS] is read
    charts = mixing_figures(state_of(text, causal=False), "a model", "output-weighted")
    assert list(charts) == ["fig2a", "fig2b", "fig3b", "fig4a", "fig4b", "fig18", "fig3", "fig4", "fig5-15"]
    spec = charts["fig2a"].to_dict()
    assert any("Layer 2 is left out" in line for line in spec["title"]["subtitle"])
    rows = [row for data in spec["datasets"].values() for row in data if "median" in row]
    assert {row["layer"] for row in rows} == {0, 1}
    for chart in charts.values():
        assert chart.to_dict()["title"]["text"].startswith("a model, output-weighted: ")


# The study on models.


def mixing(**settings):
    return STUDIES["mixing"](**settings)


def write_tags(path: Path, texts: list[str]) -> str:
    """A CoNLL-U file with a sentence a text: words are what blanks part, tags their lengths."""
    blocks = [
        [f"# sent_id = s{number}", f"# text = {text}"]
        + [f"{at}\t{word}\t_\t_\tX{len(word)}\t_\t0\troot\t_\t_" for at, word in enumerate(text.split(), 1)]
        for number, text in enumerate(texts)
    ]
    path.write_text("\n\n".join("\n".join(block) for block in blocks) + "\n\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def tags(tmp_path: Path) -> str:
    return write_tags(tmp_path / "tags.conllu", [side for pair in TEXTS for side in pair])


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_state_is_that_of_the_origins_text_by_text(family: str, tags: str) -> None:
    """With the seeds of the documents, and every token of a word tagged as the word."""
    model = exact(family)
    study = mixing(tangents=2, seed=5, tags=tags)
    states = []
    for number, (text, pair) in enumerate(TEXTS):
        coded = model.encode(text, pair)
        seed = 5 + 1_000_003 * number
        origins = ORIGINS["hidden-token"](model, model.batch([coded]), k=2, seed=seed)
        assert origins.error is not None
        maps, error = origins.maps[0].double(), origins.error[0].double()
        words = [word for side in (text, pair) for word in side.split()]
        found = _tags_by_characters(coded, (text, pair))
        assert len({tag for tag in found if tag and tag.startswith("X")}) == len({len(word) for word in words})
        states.append(facts(maps, coded, found, causal=model.causal, error=error))
    got = {key: value for key, value in folded(model, study).items() if not key.startswith("example")}
    assert_same(got, reduce(plus, states), nearness(model))


def _tags_by_characters(coded: Encoding, sides: tuple[str, str]) -> list[str | None]:
    found: list[str | None] = []
    for at, (start, stop) in enumerate(coded.offsets):
        side = sides[coded.segment[at]]
        letter = next((char for char in range(start, stop) if not side[char].isspace()), None)
        if coded.special[at] or letter is None:
            found.append(coded.tokens[at] if coded.special[at] else None)
            continue
        word = (side[: letter + 1].split()[-1] + side[letter + 1 :]).split()[0]
        found.append(f"X{len(word)}")
    return found


@pytest.mark.parametrize("family", ["bert", "llama", "bart"])
def test_batch_mates_padding_and_order_make_no_difference(family: str) -> None:
    model, study = exact(family), mixing(quantities=("rollout",), tags="none")
    whole = folded(model, study)
    assert_same(folded(model, study, batch_tokens=1), whole, nearness(model))
    assert_same(folded(model, study, order=(4, 2, 0, 3, 1)), whole, nearness(model))


def test_only_the_first_texts_are_asked() -> None:
    state = folded(exact("bert"), mixing(quantities=("rollout",), texts=2))
    assert float(state["length"].count) == 2


def test_example_is_one_row_of_the_maps() -> None:
    model = exact("bert")
    study = mixing(quantities=("rollout",), example="1:4")
    table = study.table(folded(model, study), setting(model)).filter(pl.col("kind") == "example")
    coded = model.encode(*TEXTS[1])
    maps = ORIGINS["rollout"](model, model.batch([coded])).maps[0]
    for layer in range(model.layers()):
        rows = table.filter(pl.col("layer") == layer)
        assert rows["group"].to_list() == [f"{at} {token}" for at, token in enumerate(coded.tokens)]
        np.testing.assert_allclose(rows["value"].to_numpy(), maps[layer, 4].numpy(), rtol=1e-6)


@pytest.mark.parametrize(("asked", "tokens"), [("1:4:2", [4, 2]), ("1*3", [2, 7, 12])])
def test_several_tokens_of_a_text_each_have_their_rows_and_a_figure(asked: str, tokens: list[int]) -> None:
    model = exact("bert")
    study = mixing(quantities=("rollout",), example=asked)
    state, coded = folded(model, study), model.encode(*TEXTS[1])
    tokens = tokens if ":" in asked else [(2 * at + 1) * len(coded) // 6 for at in range(3)]
    table = study.table(state, setting(model)).filter(pl.col("kind") == "example")
    maps = ORIGINS["rollout"](model, model.batch([coded])).maps[0]
    for token in tokens:
        rows = table.filter((pl.col("layer") == 1) & (pl.col("statistic") == f"1:{token}"))
        np.testing.assert_allclose(rows["value"].to_numpy(), maps[1, token].numpy(), rtol=1e-6)
    charts = study.figures(state, setting(model))
    titles = [charts[f"fig{19 + at}"].to_dict()["title"]["text"] for at in range(len(tokens))]
    assert [title.split("token ")[1].split(" ")[0] for title in titles] == [str(token) for token in tokens]
    assert f"fig{19 + len(tokens)}" not in charts


def test_default_example_is_the_middle_token_of_the_first_text() -> None:
    model = exact("llama")
    table = mixing(quantities=("rollout",)).table(folded(model, mixing(quantities=("rollout",))), setting(model))
    middle = len(model.encode(*TEXTS[0])) // 2
    assert table.filter(pl.col("kind") == "example")["statistic"].unique().to_list() == [f"0:{middle}"]


def test_conllu_corpus_brings_its_own_tags(tmp_path: Path) -> None:
    corpus = write_tags(tmp_path / "c.conllu", ["the old dog", "so it was said"])
    result = hw.run(
        "mixing", "tiny:bert", corpus=corpus, out=tmp_path / "out", settings={"mixing": {"quantities": ("rollout",)}}
    )
    tagged = result.table.filter(pl.col("kind") == "tag-own")
    assert set(tagged["group"]) == {"[CLS]", "[SEP]", "X2", "X3", "X4"}
    assert "fig26-37" in result.figures


def test_tags_that_do_not_match_name_the_sentence_and_the_word(tmp_path: Path) -> None:
    texts = [side for pair in TEXTS for side in pair]
    texts[3] = "So it is."
    study = mixing(quantities=("rollout",), tags=write_tags(tmp_path / "tags.conllu", texts))
    with pytest.raises(InputError, match=r"sentence s3 \(line .*word 3, 'is\.', should be there is 'was\.'"):
        folded(exact("bert"), study)


def test_tags_that_end_too_early_are_refused(tmp_path: Path) -> None:
    study = mixing(quantities=("rollout",), tags=write_tags(tmp_path / "tags.conllu", list(TEXTS[0])))
    with pytest.raises(InputError, match="it ends after 2 and document"):
        folded(exact("bert"), study)


def test_spacy_tags_reach_the_table(load) -> None:
    pytest.importorskip("spacy")
    try:
        packaged_folder("spacy-en")
    except HeadwiseError as error:
        pytest.skip(str(error))
    model, study = load("tiny:bert"), mixing(quantities=("rollout",), tags="spacy", tagset="upos")
    table = study.table(folded(model, study), setting(model))
    assert {"[CLS]", "[SEP]", "NOUN", "DET", "PUNCT"} <= set(table.filter(pl.col("kind") == "tag-own")["group"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"quantities": ("rolout",)}, "Did you mean 'rollout'"),
        ({"tangents": -1}, "tangents of study mixing must be a whole number, 0 or more, but -1"),
        ({"texts": -2}, "texts of study mixing must be a whole number, 0 or more, but -2"),
        ({"tagset": "penn"}, "must be one of xpos, upos, but 'penn'"),
        ({"example": "first"}, r"An example is document:token, both from 0, or document\*count, but 'first'"),
        ({"example": "1:"}, r"An example is document:token, both from 0, or document\*count, but '1:'"),
    ],
)
def test_settings_that_cannot_be(settings: dict, message: str) -> None:
    with pytest.raises(HeadwiseError, match=message):
        mixing(**settings)


def test_an_example_beyond_the_text_is_refused() -> None:
    with pytest.raises(InputError, match=r"Document 2 has tokens 0 to \d+, but example 2:999 was asked for"):
        folded(exact("bert"), mixing(quantities=("rollout",), example="2:999"))


def test_missing_tag_file_is_refused_before_anything_runs(load) -> None:
    with pytest.raises(InputError, match=r"Tags must be corpus, none, spacy or a readable CoNLL-U file"):
        mixing(tags="no-such.conllu").check(load("tiny:bert"))


def test_output_weighted_needs_a_head(load) -> None:
    with pytest.raises(HeadwiseError, match="output-weighted needs a model with an output"):
        folded(load("tiny:bert"), mixing(quantities=("output-weighted",)))


def test_output_weighted_on_a_classifier_leaves_out_the_last_layer(load) -> None:
    model, study = load("tiny:bert", "classification"), mixing(quantities=("output-weighted",), texts=2)
    state = folded(model, study)
    charts = study.figures(state, setting(model))
    assert_drawable(charts, ["fig2a", "fig2b", "fig3b", "fig4a", "fig4b", "fig18", "fig19"])
    own = study.table(state, setting(model)).filter((pl.col("kind") == "own") & (pl.col("statistic") == "mean"))
    assert own["count"].to_list()[-1] == 2  # [CLS] of two texts


@pytest.mark.parametrize("family", ["bert", "llama", "bart"])
def test_figures_of_every_family_can_be_drawn(family: str, tags: str) -> None:
    model, study = exact(family), mixing(quantities=("rollout",), tags="none" if family == "bart" else tags)
    charts = study.figures(folded(model, study), setting(model))
    assert_drawable(charts, ["fig3a", "fig2b", "fig3b", "fig4a", "fig4b", "fig19"])
    assert ("fig18" in charts) == (family != "llama")


def test_figures_of_nothing_are_empty_and_no_error() -> None:
    state = state_of(Text(np.ones((LAYERS, 1, 1)), [False], ["NN"]), causal=True)
    assert "fig3a" in mixing_figures(state, "a model", "rollout")


def test_a_token_is_open_where_its_rival_is_within_two_errors() -> None:
    """Own shares 0.6, 0.3, 0.5 against 0.4, 0.5, 0.3; errors leave the second open, the third by a hair not."""
    maps = torch.tensor([[[0.6, 0.4, 0.0], [0.5, 0.3, 0.2], [0.3, 0.2, 0.5]]], dtype=torch.float64)
    error = torch.tensor([[[0.01, 0.01, 9.0], [0.1, 0.1, 9.0], [0.06, 9.0, 0.0799]]], dtype=torch.float64)
    assert unsure(maps, error).tolist() == [[False, True, False]]
    error[0, 2, 2] = 0.0801  # 2 · √(0.06² + 0.0801²) > 0.2
    assert unsure(maps, error).tolist() == [[False, True, True]]


def test_tangents_double_until_the_error_decides() -> None:
    """Nothing may be open: they double up to the width of the model, where maps are exact; all may: they stay."""
    model = exact("bert")
    assert model.hf.config.hidden_size <= MOST
    sure, open_ = (folded(model, mixing(tangents=2, unsure=share, tags="none")) for share in (0.0, 1.0))
    whole = folded(model, mixing(tangents=0, tags="none"))
    assert "unsure" not in whole
    assert float(sure["unsure"].mean.max()) == 0 < float(open_["unsure"].mean.max())
    assert_same({key: value for key, value in sure.items() if key != "unsure"}, whole, nearness(model))
    table = mixing_table(State(open_))
    assert table.filter(pl.col("statistic") == "unsure")["layer"].to_list() == list(range(model.layers()))
