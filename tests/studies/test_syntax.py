"""Heads as parsers: by hand, by loops, with attention that knows the tree, and what changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

import headwise as hw
from headwise.engine.fold import fold
from headwise.engine.plan import Plan
from headwise.errors import InputError
from headwise.stats import Pieces
from headwise.studies.hits import Questions, best_cell, chooses, from_bits, from_bytes, to_bits, to_bytes
from headwise.studies.study import Reading, State, packed, plus, unpacked
from headwise.studies.syntax import DIRECTIONS, Syntax
from headwise.studies.syntax.pairs import ALL, NO_PUNCTUATION, Pair, asked, labels, pairs
from headwise.text.conllu import Sentence
from headwise.text.corpus import Document, Shard, open_corpus
from headwise.types import Encoding, Layer
from references.studies_folding import assert_drawable, assert_same, exact, setting
from references.words import naive_choice, naive_owner, naive_word_map, parsed

FAMILIES = ("bert", "llama", "modernbert")
EVERY = Syntax(directions=DIRECTIONS, resamples=50, choose_first=1)


def reading(model: hw.Model, study: Syntax, *, batch_tokens: int = 2048, order: tuple[int, ...] = (0, 1, 2)) -> State:
    """The hand-made sentences through the engine, in two shards."""
    sentences = parsed()
    plan = Plan({}, {}, open_corpus("sample"), batch_tokens=batch_tokens)
    documents = [Document(number, sentences[number].text, notes=sentences[number]) for number in order]
    state = State()
    for part in (documents[:1], documents[1:]):
        state = plus(state, fold(model, [study], Shard(0, tuple(part)), plan).states["syntax"])
    return unpacked(packed(state))


def concluded(model: hw.Model, study: Syntax) -> State:
    return unpacked(packed(study.conclude(reading(model, study), model, lambda _: None)))


# --- pairs ---


def test_pairs_of_a_sentence_and_the_stanford_ones() -> None:
    one = parsed()[0]
    found = {(one.forms[pair.dependent], one.forms[pair.head], pair.relation) for pair in pairs(one)}
    assert ("dog", "sit", "nsubj") in found
    assert ("on", "mat", "case") in found
    assert ("mat", "on", "sd:pobj") in found
    assert ("on", "sit", "sd:prep") in found
    assert not {relation for _, _, relation in found} & {"root"}
    assert sum(relation == "sd:pobj" for _, _, relation in found) == 1, "'s is no preposition"
    askers = {pair.relation: one.forms[pair.asker] for pair in pairs(one) if pair.relation == "nmod:poss"}
    assert askers == {"nmod:poss": "'s"}
    assert {pair.asker == pair.dependent for pair in pairs(one, clitic=False)} == {True}


def test_which_sets_a_pair_counts_in() -> None:
    assert labels("nsubj") == ("nsubj", ALL, NO_PUNCTUATION)
    assert labels("punct") == ("punct", ALL)
    assert labels("sd:prep") == ("sd:prep",)


def test_a_corpus_without_parses_is_refused() -> None:
    with pytest.raises(InputError, match=r"parsed sentences.*CoNLL-U"):
        asked([exact("bert").encode("the sea")], [None])


# --- against loops ---


def naive_hits(model: hw.Model, study: Syntax, quantity: str) -> dict[str, Counter[tuple[int, int, str, str]]]:
    """Right answers by (layer, head, direction, label), of the sentences to choose on and of those to score."""
    right: dict[str, Counter[tuple[int, int, str, str]]] = {"chosen": Counter(), "scored": Counter()}
    for number, sentence in enumerate(parsed()):
        part = "chosen" if number < study.choose_first else "scored"
        trace = model.trace(sentence.text)
        owners = [
            -1 if special else naive_owner(span, sentence.spans)
            for special, span in zip(trace.text.special, trace.text.offsets, strict=True)
        ]
        for layer, heads in enumerate(trace.attention(quantity).double().numpy()):
            seen = naive_seen(trace.layers[layer].visible[0].numpy(), owners, len(sentence))
            for head, tokens in enumerate(heads):
                words = naive_word_map(tokens, owners, len(sentence), first=study.first_token)
                for pair in pairs(sentence, clitic=study.clitic):
                    if not {pair.asker, pair.dependent, pair.head} <= set(owners):
                        continue
                    for way in study.directions:
                        if naive_right(words, seen, pair, way):
                            right[part].update((layer, head, way, label) for label in labels(pair.relation))
    return right


def naive_seen(tokens: np.ndarray, owners: list[int], words: int) -> np.ndarray:
    """Whether a token of one word sees a token of another."""
    seen = np.zeros((words, words), dtype=bool)
    for query, one in enumerate(owners):
        for key, other in enumerate(owners):
            if min(one, other) >= 0 and one != other:
                seen[one, other] |= tokens[query, key]
    return seen


def naive_right(words: np.ndarray, seen: np.ndarray, pair: Pair, way: str) -> bool:
    if way == "from-dependent":
        return naive_choice(words[pair.asker], np.flatnonzero(seen[pair.asker])) == pair.head
    if way == "from-head":
        return naive_choice(words[pair.head], np.flatnonzero(seen[pair.head])) == pair.asker
    return naive_choice(words[:, pair.asker], np.flatnonzero(seen[:, pair.asker])) == pair.head


@pytest.mark.parametrize("family", FAMILIES)
def test_every_number_of_the_table(family: str) -> None:
    model = hw.load("tiny:modernbert") if family == "modernbert" else exact(family)
    table = EVERY.table(concluded(model, EVERY), setting(model))
    assert set(table["quantity"]) == {"raw", "effective", "norm", "offset", "next"}
    for quantity in EVERY.quantities:
        right = naive_hits(model, EVERY, quantity)
        for row in table.filter(quantity=quantity).iter_rows(named=True):
            key = (row["layer"], row["head"], row["direction"], row["relation"])
            for part, count, accuracy in (
                ("chosen", "chosen_count", "chosen_accuracy"),
                ("scored", "count", "accuracy"),
            ):
                if row[count]:
                    assert row[accuracy] * row[count] == pytest.approx(right[part][key]), (quantity, key)
                else:
                    assert right[part][key] == 0
                    assert row[accuracy] is None or np.isnan(row[accuracy])


def test_counts_baselines_and_what_is_visible_by_hand() -> None:
    model = exact("llama")
    table = EVERY.table(concluded(model, EVERY), setting(model))
    one = table.filter(quantity="offset", name="+1", direction="from-dependent")
    # The first sentence (12 words, 11 with a head): old → dog, n't → sit, the → cat and 's → mat for the possessor,
    # as 's answers for it, are followed by their head.
    told = one.filter(relation=ALL).row(0, named=True)
    assert told["chosen_count"] == 11
    assert told["chosen_accuracy"] == pytest.approx(4 / 11)
    # The second: It → big at +2, was → big at +1, ! → big at −1.
    assert told["count"] == 3
    assert told["accuracy"] == pytest.approx(1 / 3)
    assert one.filter(relation=NO_PUNCTUATION)["count"].to_list() == [2]
    assert one.filter(relation=NO_PUNCTUATION)["accuracy"].to_list() == [0.5]
    best = table.filter(pl.col("best"), quantity="offset", relation=ALL)
    assert best["name"].to_list() == ["+1"]
    branching = table.filter(quantity="next", relation=ALL)
    assert branching["name"].to_list() == ["right-branching"]
    assert branching["accuracy"].to_list() == [pytest.approx(1 / 3)]
    shares = dict(table.filter(quantity="raw", relation=ALL, name="L0.H0").select("direction", "visible").iter_rows())
    assert shares == {
        "from-dependent": pytest.approx(1 / 3),
        "to-dependent": pytest.approx(2 / 3),
        "from-head": pytest.approx(2 / 3),
    }


# --- attention that knows the tree ---


def tree_layer(text: Encoding, sentence: Sentence, owners: list[int], *, to_head: bool) -> Layer:
    """Every token of a word gives all its attention to the word's head, or the head to all of its dependents."""
    words = torch.zeros(len(sentence) + 1, len(sentence) + 1)  # subtle: the last, −1, is for tokens of no word
    for dependent, head in enumerate(sentence.heads):
        if head >= 0:
            words[(dependent, head) if to_head else (head, dependent)] = 1.0
    size = len(text)
    mask = torch.ones(1, size, dtype=torch.bool)
    return Layer(
        stack="self", index=0, first_row=0, alpha=words[owners][:, owners][None, None], value=torch.ones(1, 1, size, 6),
        visible=mask[:, None].expand(1, size, size), query_mask=mask, key_mask=mask, out=torch.zeros(1, size, 24),
        residual=None, circuit=exact("bert").sites()[0].circuit,
    )  # fmt: skip


@pytest.mark.parametrize("to_head", [True, False])
def test_attention_that_is_the_tree_scores_one_in_the_right_direction(to_head: bool) -> None:
    model, sentence = exact("bert"), parsed()[0]
    text = model.encode(sentence.text)
    spans = zip(text.special, text.offsets, strict=True)
    owners = [-1 if special else naive_owner(span, sentence.spans) for special, span in spans]
    study = Syntax(quantities=("raw",), directions=DIRECTIONS, clitic=False)
    batch = Reading(model.batch([text]), torch.tensor([0]), False, (sentence,))
    state = study.observe(tree_layer(text, sentence, owners, to_head=to_head), batch)
    hits, relations = state["hits raw@self.0"], state["relations@self.0"]
    assert isinstance(hits, Pieces)
    assert isinstance(relations, Pieces)
    ours = torch.tensor([not relation.startswith("sd:") for relation in from_bytes(relations.tensors[0])])
    from_dependent, to_dependent, from_head = from_bits(hits.tensors[0], 1)[ours, :, 0].double().mean(0).tolist()
    assert (from_dependent if to_head else to_dependent) == 1.0
    assert (to_dependent if to_head else from_dependent) < 1.0
    assert from_head < 1.0, "a head has several dependents and only one first choice"


# --- what changes nothing ---


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_batches_and_order_change_nothing(family: str) -> None:
    model = exact(family)
    whole = reading(model, EVERY)
    assert_same(reading(model, EVERY, batch_tokens=1), whole, 0)
    assert_same(reading(model, EVERY, order=(2, 0, 1)), whole, 0)


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_blocks_of_rows_change_nothing(family: str) -> None:
    model, sentences = exact(family), parsed()
    batch = model.batch([model.encode(sentence.text) for sentence in sentences])
    states = {}
    for rows in (0, 5):
        read, total = Reading(batch, torch.arange(3), model.causal, tuple(sentences)), {}
        found: list[State] = []
        with torch.inference_mode():
            model.run(batch, lambda layer, read=read, found=found: found.append(EVERY.observe(layer, read)), rows=rows)
        for state in found:
            total = plus(total, state)
        states[rows] = total
    assert_same(states[5], states[0], 0)


def test_words_without_a_token_and_cut_sentences_are_counted() -> None:
    model, sentence = exact("bert"), parsed()[0]
    whole = asked([model.encode(sentence.text)], [sentence])
    cut = asked([model.encode(sentence.text, limit=8, truncate=True)], [sentence])
    assert len(whole.relations) + whole.untold == len(list(pairs(sentence)))
    assert len(cut.relations) + cut.untold == len(list(pairs(sentence)))
    assert cut.untold > whole.untold


# --- scores ---


def test_bits_and_bytes_come_back() -> None:
    hits = torch.rand(5, 2, 11, generator=torch.Generator().manual_seed(0)) > 0.5
    assert torch.equal(from_bits(to_bits(hits), 11), hits)
    names = ["nsubj", "obl:tmod", "", "größe", "x" * 99]
    assert from_bytes(to_bytes(names))[:4] == names[:4]


def test_scores_are_shares_and_the_interval_that_of_a_plain_bootstrap() -> None:
    """Three documents score, one chooses; every resample again by a loop."""
    hits = torch.tensor([1, 0, 1, 1, 0, 0, 1, 0], dtype=torch.bool).reshape(8, 1, 1)
    rows, choosing = [2, 3, 1, 2], torch.tensor([True, False, False, False])
    questions = Questions.of([("a", "all")] * 5 + [("all",)] * 3, rows, choosing, resamples=400, seed=3)
    found = questions.scores(hits)
    assert questions.labels == ("a", "all")
    assert found["chosen"].mean.flatten().tolist() == [0.5, 0.5]
    assert found["scored"].total.flatten().tolist() == [2.0, 3.0]
    assert found["scored"].weight.flatten().tolist() == [3.0, 6.0]
    drawn = np.random.default_rng(3).multinomial(3, [1 / 3] * 3, 400)
    right, size = [np.array([2, 0, 1]), np.array([3, 1, 2])]
    shares = [weights @ right / (weights @ size) for weights in drawn]
    assert found["low"].mean[1].item() == pytest.approx(np.quantile(shares, 0.025), abs=1e-6)
    assert found["high"].mean[1].item() == pytest.approx(np.quantile(shares, 0.975), abs=1e-6)


def test_the_division_depends_on_the_number_alone() -> None:
    numbers = list(range(4000))
    whole = chooses(numbers, 0.3)
    assert torch.equal(chooses(numbers[1000:], 0.3), whole[1000:])
    assert whole.double().mean().item() == pytest.approx(0.3, abs=0.02)
    assert chooses([0, 1, 2, 3], 0.3, 2).tolist() == [True, True, False, False]
    assert best_cell(torch.tensor([[0.1, float("nan")], [0.4, 0.4]])) == (1, 0)


# --- figures, settings ---


def test_figures() -> None:
    model, study = exact("bert"), replace(EVERY, quantities=("raw", "norm"))
    figures = study.figures(concluded(model, study), setting(model))
    assert {"table1", "heads-raw", "heads-norm"} == set(figures)
    assert_drawable(figures, ["table1"])
    caption = " ".join(figures["table1"].to_dict()["title"]["subtitle"])
    assert "No examples of" in caption
    assert "compound:prt" in caption
    assert "nsubj" not in caption


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"choose": 0.0}, "above 0 and below 1"),
        ({"resamples": 0}, "1 or more"),
        ({"directions": ("up",)}, "but up was given"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: Mapping, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        Syntax(**settings).check(exact("bert"))


@pytest.mark.parametrize("first", [3, 4])
def test_a_division_that_leaves_nothing_to_score_is_refused(first: int) -> None:
    study = replace(EVERY, choose_first=first, quantities=("raw",))
    with pytest.raises(InputError, match="3 and 0 with"):
        concluded(exact("bert"), study)


def test_an_encoder_decoder_is_refused() -> None:
    with pytest.raises(InputError, match="takes an encoder or a decoder"):
        Syntax().check(exact("bart"))
