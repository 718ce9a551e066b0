"""Alignment: rules by hand, every map against loops, a model that copies, scores against sets, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import MarianConfig, MarianMTModel

import headwise as hw
from headwise.engine.fold import fold
from headwise.engine.plan import Plan
from headwise.engine.run import run
from headwise.errors import HeadwiseError, InputError
from headwise.measures.wordmaps import Words, words
from headwise.models.tiny import tiny_tokenizer
from headwise.studies.alignment import Alignment, choice, chosen_links, gradients
from headwise.studies.alignment.embeddings import nearest
from headwise.studies.alignment.extract import forwards, only
from headwise.studies.alignment.maps import columns
from headwise.studies.alignment.scores import Division, aer, counted, diagonal, from_bits, gold_bits, matrix, to_bits
from headwise.studies.alignment.sides import Sides, sides
from headwise.studies.study import Reading, State, packed, plus, unpacked
from headwise.text.alignments import Links, Pair, parse_pair, score, write_pairs
from headwise.text.corpus import Document, Shard, open_corpus
from references.alignment import argmax_links, pairs_of, token_maps, word_scores
from references.precision import nearness
from references.studies_folding import assert_drawable, assert_same, exact, setting

LINES = (
    "The old dog and the young cat sat in the sun . ||| it was said , again , that the sea is big ||| 0-0 1p1 3-3 11-9",
    "it is said that the sea is big ||| so it was ||| 0-1 1-2 2p2",
    "the sea ||| and the unspeakable ||| 0-1 1-2",
    "in the end , all of them came ||| they were old . The cat was not",
    "a dog , a cat ||| the sun is in the sea , they say ||| 0-0 1p1 1-2 4-5",
)
PAIRS = tuple(parse_pair(line, "here") for line in LINES)
ALL = ("raw", "effective", "norm", "norm-sum", "alti")
STUDY = Alignment(extractions=("argmax", "mutual"), choose_first=2, resamples=40, examples=2)


def folded(model: hw.Model, study: Alignment, *, batch_tokens: int = 2048, order: Sequence[int] = range(5)) -> State:
    plan = Plan({}, {}, open_corpus("sample"), batch_tokens=batch_tokens)
    documents = [Document(at, PAIRS[at].source, PAIRS[at].target, notes=PAIRS[at]) for at in order]
    state = State()
    for part in (documents[:2], documents[2:]):
        state = plus(state, fold(model, [study], Shard(0, tuple(part)), plan).states["alignment"])
    return unpacked(packed(state))


@cache
def state_of(family: str) -> State:
    return folded(exact(family), STUDY)


def found_links(state: State, key: str, number: int, column: int) -> set[tuple[int, int]]:
    pieces = state[key]
    bits = pieces.tensors[pieces.numbers.index(number)]  # type: ignore[attr-defined]
    target, source = np.nonzero(from_bits(bits, PAIRS[number].lengths)[..., column])
    return set(zip(source.tolist(), target.tolist(), strict=True))


def test_which_row_speaks_for_which_word() -> None:
    model = exact("marian")
    pair = Pair("the unreal sea", "the old unreal sea")
    batch = model.batch([model.encode(pair.source)], [model.encode_target(pair.target)])
    tokens = batch.targets[0].tokens
    found = sides(batch, [pair])
    pieces = [at for at, token in enumerate(tokens) if token in ("▁the", "▁old", "▁sea")]
    assert tokens[0] == "<pad>"
    assert len(tokens) > 6, "unreal must be several tokens for this test to say anything"
    for position, shift in (("input", 0), ("output", 1)):
        giving = found.words[position].giving[0]
        assert giving.shape == (4, len(tokens))
        assert giving.sum(1).tolist() == pytest.approx([1.0] * 4), "a mean over rows"
        for word, at in zip((0, 1, 3), pieces, strict=True):
            assert giving[word].nonzero().flatten().tolist() == [at - shift]
        assert (giving[2] > 0).sum() == len(tokens) - 4
    receiving = found.receiving()[0]
    assert receiving.sum(1).tolist() == [1.0] * len(batch.texts[0]), "every token counts once"
    assert receiving[-1].tolist() == [0, 0, 0, 1], "the end of the sentence has a column of its own"
    with pytest.raises(InputError, match=r"source \|\|\| target"):
        sides(batch, [None])


def test_the_rules_for_subwords_by_hand() -> None:
    """Source a b1 b2 </s>, target x y1 y2: b's pieces add up, y's rows are averaged; or tokens link and words join."""
    tokens = torch.tensor([[0.4, 0.3, 0.3, 0.0], [0.5, 0.2, 0.2, 0.1], [0.1, 0.2, 0.2, 0.5]])
    rows = words([[0, 1, 1]], [2]).giving
    columns_ = words([[0, 1, 1, 2]], [3]).receiving
    pairs = Sides((Pair("a b", "x y"),), 2, {"input": Words(rows, columns_)})
    soft = rows[:, None] @ tokens[None, None] @ columns_[:, None]
    assert torch.allclose(soft[0, 0], torch.tensor([[0.4, 0.6, 0.0], [0.3, 0.4, 0.3]]))
    there = torch.ones(1, 2, dtype=torch.bool)
    assert pairs_of(forwards(only(soft, pairs.columns), there, 2)) == {(0, 1), (1, 1)}
    hard = forwards(tokens[None, None], torch.ones(1, 3, dtype=torch.bool), 4)  # x→a, y1→a, y2→</s>
    union = rows[:, None] @ hard.float() @ columns_[:, None]
    assert pairs_of(union[..., :2] > 0) == {(0, 0), (1, 0)}


# --- against loops ---


@pytest.mark.parametrize("family", ["marian", "t5", "bart", "mbart"])
def test_every_map_against_loops(family: str) -> None:
    model, state = exact(family), state_of(family)
    names = columns(ALL, 4, each_head=True)
    near = 0
    for number, pair in enumerate(PAIRS):
        trace = model.trace(pair.source, pair.target)
        for index, layer in enumerate(trace.of("cross")):
            maps = token_maps(layer)
            for position in ("input", "output"):
                for column, name in enumerate(names):
                    scores, special = word_scores(trace, pair, maps[name.quantity, name.head], position)
                    found = found_links(state, f"links argmax/{position}@cross.{index}", number, column)
                    both = np.sort(np.concatenate([scores, special[:, None]], 1), 1)
                    if (both[:, -1] - both[:, -2] < 1e-9 * np.abs(both).max()).any():
                        near += 1  # a tie, which rounding decides
                        continue
                    assert found == argmax_links(scores, special), (number, index, position, name)
    assert near < 30


def test_the_soft_map_of_an_example_is_the_one_of_the_loops() -> None:
    model, state = exact("marian"), state_of("marian")
    trace, pair = model.trace(PAIRS[1].source, PAIRS[1].target), PAIRS[1]
    maps = token_maps(trace.of("cross")[2])
    kept = state["soft input@cross.2"].tensors[1]  # type: ignore[attr-defined]
    for column, quantity in enumerate(("raw", "effective", "norm-sum", "alti")):
        expected = word_scores(trace, pair, maps[quantity, None], "input")[0].clip(min=0)
        np.testing.assert_allclose(kept[:, column].reshape(expected.shape).numpy(), expected, rtol=1e-5, atol=1e-6)


def test_union_against_loops() -> None:
    model, study = exact("marian"), Alignment(rule="union", quantities=("raw", "norm-sum"), heads=False)
    state = folded(model, study)
    for number, pair in enumerate(PAIRS):
        trace = model.trace(pair.source, pair.target)
        batch = model.batch([trace.text], [trace.target])  # type: ignore[list-item]
        both = sides(batch, [pair], dtype=torch.float64)
        source = both.receiving()[0].argmax(1).tolist()
        target = [row.argmax().item() if row.any() else None for row in both.words["input"].giving[0].mT]
        for index, layer in enumerate(trace.of("cross")):
            for column, name in enumerate((("raw", None), ("norm-sum", None))):
                highest = token_maps(layer)[name].argmax(1)
                expected = {(source[key], word) for word, key in zip(target, highest, strict=True) if word is not None}
                expected = {(s, t) for s, t in expected if s < pair.lengths[0]}
                assert found_links(state, f"links argmax/input@cross.{index}", number, column) == expected


def test_batches_order_and_blocks_do_not_matter() -> None:
    model = exact("marian")
    assert_same(folded(model, STUDY, batch_tokens=1), state_of("marian"), nearness(model))
    assert_same(folded(model, STUDY, order=(3, 0, 4, 2, 1)), state_of("marian"), nearness(model))
    for study in (STUDY, Alignment(rule="union", extractions=("argmax", "threshold"))):
        texts = [model.encode(pair.source) for pair in PAIRS]
        batch = model.batch(texts, [model.encode_target(pair.target) for pair in PAIRS])
        reading, state = Reading(batch, torch.arange(5), model.causal, PAIRS), {}
        with torch.inference_mode():
            for layer in _layers(model, batch, rows=5):
                state = plus(state, study.observe(layer, reading))
        assert_same(state, folded(model, study), nearness(model))


def _layers(model: hw.Model, batch, rows: int) -> list:
    found: list = []
    model.run(batch, found.append, rows=rows)
    return found


# --- a model that copies ---


@cache
def copier() -> hw.Model:
    """A small Marian that was taught to copy, here."""
    torch.manual_seed(0)
    tokenizer = tiny_tokenizer("pieces")
    pad, end = tokenizer.pad_token_id, tokenizer.eos_token_id
    config = MarianConfig(
        vocab_size=len(tokenizer), d_model=32, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=32, dropout=0.0,
        pad_token_id=pad, eos_token_id=end, decoder_start_token_id=pad, bos_token_id=None, forced_eos_token_id=None,
        scale_embedding=True, init_std=0.15,
    )  # fmt: skip
    model = MarianMTModel(config)
    words_ = [tokenizer.convert_tokens_to_ids(f"▁{word}") for word in VOCABULARY]
    step = torch.optim.Adam(model.parameters(), 5e-3)
    draw = random.Random(0)
    for _ in range(260):
        size = draw.randint(3, 9)
        ids = torch.tensor([[*draw.choices(words_, k=size), end] for _ in range(24)])
        start = torch.cat([torch.full((24, 1), pad), ids[:, :-1]], 1)
        logits = model(input_ids=ids, decoder_input_ids=start).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())
        step.zero_grad()
        loss.backward()
        step.step()
    assert loss.item() < 0.3, f"it has not learned to copy: {loss.item()}"
    return hw.load((model.eval(), tokenizer))


VOCABULARY = ("the", "of", "and", "in", "to", "was", "it", "is", "on", "that")


def test_a_model_that_copies_aligns_on_the_diagonal(tmp_path: Path) -> None:
    model, draw = copier(), random.Random(1)
    lines = [draw.sample(VOCABULARY, draw.randint(3, 9)) for _ in range(24)]
    straight = [frozenset((at, at) for at in range(len(line))) for line in lines]
    pairs = [Pair(" ".join(line), " ".join(line), Links(own, own)) for line, own in zip(lines, straight, strict=True)]
    (tmp_path / "copies.pairs").write_bytes(write_pairs(pairs))
    options = {"gradients": ("gradient-norm", "smooth-gradient"), "samples": 2, "choose": 0.3}
    result = run("alignment", model, corpus=tmp_path / "copies.pairs", out=tmp_path / "out",
                 settings={"alignment": options})  # fmt: skip
    best = result.table.filter(pl.col("best") & pl.col("head").is_null() & (pl.col("position") == "output"))
    found = dict(best.select("quantity", "aer").iter_rows())
    assert max(found["raw"], found["norm-sum"], found["alti"]) < 0.2, found
    by_gradient = dict(result.table.filter(pl.col("layer").is_null()).select("quantity", "aer").iter_rows())
    assert by_gradient["gradient-norm"] < 0.65, "by chance it would be 0.8"
    assert by_gradient["the diagonal"] == 0
    assert score(chosen_links(result.state, 24), [pair.links for pair in pairs if pair.links]).aer < 0.2
    assert choice(result.state)["by"] == "chosen_aer"

    (tmp_path / "bare.pairs").write_bytes(write_pairs([Pair(pair.source, pair.target) for pair in pairs]))
    bare = run("alignment", model, corpus=tmp_path / "bare.pairs", out=tmp_path / "bare",
               settings={"alignment": {"heads": False}})  # fmt: skip
    assert choice(bare.state)["by"] == "agreement"
    assert score(chosen_links(bare.state, 24), [pair.links for pair in pairs if pair.links]).aer < 0.2
    assert bare.table["aer"].is_null().all()
    assert "fig7" not in bare.figures


def test_vectors_of_the_same_sentence_are_each_others_nearest() -> None:
    pair = Pair("the old sea is big", "the old sea is big")
    straight = {(at, at) for at in range(5)}
    for way in ("argmax", "both", "mutual"):
        assert nearest(exact("bert"), [pair], layer=-1, way=way) == [straight]
    line = Pair("the of and in", "the of and in")
    assert nearest(copier(), [line], layer=-1)[0] <= {(s, t) for s in range(4) for t in range(4)}
    with pytest.raises(InputError, match="argmax, both, mutual"):
        nearest(exact("bert"), [pair], layer=0, way="none")


# --- gradients ---


def test_gradients_against_differences() -> None:
    """x · ∂f/∂x is how f changes when x grows by a share; ‖∂f/∂x‖ bounds it. By central differences in float64."""
    model = hw.load("tiny:marian", task="translation", dtype="float64")
    pairs = (PAIRS[1], PAIRS[2])
    batch = model.batch([model.encode(p.source) for p in pairs], [model.encode_target(p.target) for p in pairs])
    maps = gradients.maps(model, batch, [0, 1], ("gradient-norm", "gradient-input"))
    x, size = gradients.embedded(model, batch), 1e-6
    for text in (0, 1):
        for key in (0, 1):
            sides_ = []
            for sign in (1, -1):
                moved = x.clone()
                moved[text, key] *= 1 + sign * size
                watched = gradients.watching(model.hf, lambda call: call.rows(0, call.length))
                with torch.no_grad(), watched, gradients.entering(model, moved):
                    logits = model.hf(**batch.inputs, use_cache=False).logits
                sides_.append(logits[text, :-1].log_softmax(-1))
            after = torch.tensor(batch.targets[text].ids[1:])
            slope = (sides_[0] - sides_[1])[torch.arange(len(after)), after] / (2 * size)
            assert torch.allclose(maps[text, 1, : len(after), key], slope, rtol=1e-4, atol=1e-6)
            bound = maps[text, 0, : len(after), key] * x[text, key].norm()
            assert bool((slope.abs() <= bound * (1 + 1e-6) + 1e-9).all())
    assert not maps[:, :, -1].any(), "the last row predicts the end"
    assert not maps[1, :, len(batch.targets[1]) - 1 :].any(), "nor does padding speak"


def test_noise_belongs_to_the_pair_and_none_is_the_gradient_itself() -> None:
    model = hw.load("tiny:marian", task="translation", dtype="float64")
    encoded = [(model.encode(pair.source), model.encode_target(pair.target)) for pair in PAIRS[1:4]]
    every, one = model.batch(*map(list, zip(*encoded, strict=True))), model.batch([encoded[1][0]], [encoded[1][1]])
    whole = gradients.maps(model, every, [1, 2, 3], ("smooth-gradient",), samples=2)
    alone = gradients.maps(model, one, [2], ("smooth-gradient",), samples=2)
    _, _, rows, keys = alone.shape
    assert torch.allclose(whole[1:2, :, : rows - 1, :keys], alone[:, :, :-1], rtol=1e-9, atol=1e-12)
    calm = gradients.maps(model, one, [2], ("gradient-input", "smooth-gradient"), noise=0.0, samples=1)
    assert torch.equal(calm[:, 0], calm[:, 1])


# --- scores ---


link = st.sets(st.tuples(st.integers(0, 2), st.integers(0, 4)))


@given(st.lists(st.tuples(link, link, link), min_size=1, max_size=4))
def test_counts_are_those_of_sets(rows: list[tuple[set, set, set]]) -> None:
    pairs = [Pair("a b c", "d e f g h", Links(frozenset(sure), frozenset(sure | more))) for _, sure, more in rows]
    found = [to_bits(matrix(frozenset(links), (3, 5))[None]) for links, _, _ in rows]
    gold = [bits for pair in pairs if (bits := gold_bits(pair)) is not None]
    counts = counted(found, gold, [(3, 5)] * len(rows)).sum(0)[0]
    expected = score([links for links, _, _ in rows], [pair.links for pair in pairs if pair.links])
    assert tuple(int(number) for number in counts) == tuple(expected)
    assert float(aer(counts)) == pytest.approx(expected.aer, nan_ok=True)


def test_the_interval_is_that_of_resampled_pairs() -> None:
    generator = np.random.default_rng(5)
    counts = torch.from_numpy(generator.integers(1, 9, (60, 2, 4)).astype(float))
    division = Division.of(range(60), fraction=0.5, first=20, resamples=400, seed=3)
    scores = division.scores(counts)
    assert torch.equal(scores.chosen, counts[:20].sum(0))
    assert torch.equal(scores.scored, counts[20:].sum(0))
    drawn = [aer(counts[20:][generator.integers(0, 40, 40)].sum(0)) for _ in range(4000)]
    low, high = torch.quantile(torch.stack(drawn), torch.tensor([0.025, 0.975]).double(), dim=0)
    assert torch.allclose(scores.low, low, atol=0.03)
    assert torch.allclose(scores.high, high, atol=0.03)
    with pytest.raises(InputError, match="got 60 and 0"):
        Division.of(range(60), fraction=0.5, first=60, resamples=4, seed=0)


def test_the_diagonal() -> None:
    assert np.array_equal(diagonal((4, 4)), np.eye(4, dtype=bool))
    assert diagonal((1, 3)).all()
    assert diagonal((5, 2)).argmax(1).tolist() == [1, 3]


@cache
def concluded(family: str) -> State:
    return unpacked(packed(STUDY.conclude(state_of(family), exact(family), lambda _: None)))


def test_the_table_is_what_the_links_score() -> None:
    model = exact("marian")
    table = STUDY.table(concluded("marian"), setting(model))
    names = columns(ALL, 4, each_head=True)
    assert len(table) == 2 * 2 * 3 * len(names) + 1
    gold = {number: pair.links for number, pair in enumerate(PAIRS) if pair.links}
    for row in table.filter(pl.col("layer").is_not_null()).iter_rows(named=True):
        key = f"links {row['extraction']}/{row['position']}@cross.{row['layer']}"
        column = names.index((row["quantity"], row["head"]))
        parts = [[n for n in gold if n < 2], [n for n in gold if n >= 2], list(gold)]
        links = {n: found_links(state_of("marian"), key, n, column) for n in gold}
        chosen, scored, every = (score([links[n] for n in part], [gold[n] for n in part]) for part in parts)
        assert (row["chosen_aer"], row["aer"], row["all_aer"]) == pytest.approx((chosen.aer, scored.aer, every.aer))
        assert row["low"] <= row["aer"] + 1e-9
        assert row["high"] >= row["aer"] - 1e-9
        assert row["recall"] == pytest.approx(scored.recall)
        assert row["links"] == scored.found
    groups = table.filter(pl.col("best")).group_by("quantity", "position", "extraction", pl.col("head").is_null()).len()
    assert set(groups["len"]) == {1}
    assert len(groups) == 2 * 2 * (4 + 3)


@pytest.mark.parametrize("family", ["marian", "t5"])
def test_figures(family: str) -> None:
    charts = STUDY.figures(concluded(family), setting(exact(family)))
    assert_drawable(charts, ["fig7", "table3", "fig8", "fig13-17"])
    framed = str(charts["fig8"].to_dict())
    assert "unspeakable" not in framed, "only the first pairs are drawn"
    assert "young" in framed


def test_links_of_another_aligner_are_scored_on_the_same_pairs(tmp_path: Path) -> None:
    gold = [pair for pair in PAIRS if pair.links]
    (tmp_path / "x.pairs").write_bytes(write_pairs(gold))
    lines = [" ".join(f"{s}-{t}" for s, t in pair.links.sure) for pair in gold if pair.links]
    (tmp_path / "perfect.txt").write_text("\n".join(lines) + "\n")
    settings = {"beside": (f"perfect={tmp_path / 'perfect.txt'}",), "choose_first": 2, "quantities": ("raw",)}
    result = run("alignment", exact("marian"), corpus=tmp_path / "x.pairs", out=tmp_path / "out",
                 settings={"alignment": settings})  # fmt: skip
    row = result.table.filter(pl.col("quantity") == "perfect").row(0, named=True)
    assert (row["aer"], row["precision"], row["recall"], row["layer"]) == (0, 1, 1, None)


# --- what is refused ---


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"quantities": ("norms",)},
            "quantities of study alignment must be of parts that are each one of raw.*but norms",
        ),
        ({"quantities": ()}, "at least one part"),
        ({"positions": ("middle",)}, "each one of input, output, but middle"),
        ({"extractions": ("softmax",)}, "extractions of study alignment must be of parts that are each one of"),
        ({"rule": "first"}, "rule of study alignment must be one of soft, union, but 'first'"),
        ({"rule": "union", "extractions": ("mutual",)}, "goes with argmax and threshold"),
        ({"threshold": 0.0}, "above 0 and up to 1"),
        ({"quantities": ("norm",), "heads": False}, "add norm-sum"),
        ({"beside": ("eflomal",)}, "NAME=FILE"),
        ({"choose": 1.0}, "above 0 and below 1"),
        ({"gradients": ("gradient-norm",)}, "task='translation'"),
    ],
)
def test_settings_that_make_no_sense(settings: dict, said: str) -> None:
    with pytest.raises(HeadwiseError, match=said) as caught:
        Alignment(**settings).check(exact("marian"))
    assert "\n" not in str(caught.value)


def test_models_and_corpora_that_do_not_fit() -> None:
    with pytest.raises(InputError, match="takes an encoder–decoder"):
        Alignment().check(exact("llama"))
    plan = Plan({}, {}, open_corpus("sample"))
    with pytest.raises(InputError, match="headwise align"):
        fold(exact("marian"), [Alignment()], Shard(0, (Document(0, "the sea", "and"),)), plan)


def test_a_marian_folder_loads_without_its_head(tmp_path: Path) -> None:
    """Its positions are sines, which checkpoints leave out; they must not be taken for missing weights."""
    made = copier()
    made.hf.save_pretrained(tmp_path)
    made.tokenizer.save_pretrained(tmp_path)
    bare = hw.load(tmp_path)
    one, other = (model.trace("the of and in", "the of and in").attention(stack="cross") for model in (bare, made))
    assert torch.allclose(one, other, atol=1e-5)


def test_the_model_that_ships_aligns_everyday_words() -> None:
    """A row of the decoder predicts the next word; where German has another order, its largest norm follows it."""
    trace = hw.load("demo-nmt").trace("Wir trinken heute Wasser.", "We are drinking water today.")
    assert trace.target is not None
    best = trace.mixing("norm-sum", stack="cross")[2].argmax(-1)
    links = {word: trace.tokens[key] for word, key in zip(trace.target.tokens[1:], best.tolist(), strict=False)}
    assert {word: links[f"▁{word}"] for word in ("We", "drinking", "water", "today")} == {
        "We": "▁Wir", "drinking": "▁trinken", "water": "▁Wasser", "today": "▁heute"
    }  # fmt: skip
