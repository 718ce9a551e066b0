"""Heads as finders of antecedents: by loops, by hand, in windows, and what changes nothing."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch

import headwise as hw
from headwise.engine.fold import fold
from headwise.engine.plan import Plan
from headwise.errors import InputError
from headwise.measures import ATTENTION
from headwise.studies.coref import ALL, Coref
from headwise.studies.coref.mentions import READINGS, asked, noted, passage, unreached
from headwise.studies.study import Reading, State, packed, plus, unpacked
from headwise.text.coref import CorefDocument
from headwise.text.corpus import Document, Shard, open_corpus
from references.studies_folding import assert_drawable, assert_same, exact, setting
from references.words import naive_choice, naive_owner, naive_word_map, told

STUDY = Coref(choose_first=1, resamples=40)


def read(model: hw.Model, study: Coref, *, cuts: tuple[int, ...] = (160, 20), batch_tokens: int = 2048) -> State:
    """The tale twice, as two documents in two shards, cut to so many tokens."""
    state = State()
    for number, cut in enumerate(cuts):
        plan = Plan({}, {}, open_corpus("sample"), truncate=True, max_tokens=cut, batch_tokens=batch_tokens)
        shard = Shard(number, (Document(number, told().text, notes=told()),))
        state = plus(state, fold(model, [study], shard, plan).states["coref"])
    return unpacked(packed(state))


def concluded(model: hw.Model, study: Coref = STUDY, **options) -> State:
    return unpacked(packed(study.conclude(read(model, study, **options), model, lambda _: None)))


def naive_right(model: hw.Model, document: CorefDocument, quantity: str, limit: int) -> Counter:
    """Right answers by (layer, head, reading, type) of a document cut to `limit` tokens."""
    right: Counter = Counter()
    text = model.encode(document.text, limit=limit, truncate=True)
    owners = [
        -1 if special else naive_owner(span, document.spans)
        for special, span in zip(text.special, text.offsets, strict=True)
    ]
    layers: list = []
    with torch.inference_mode():
        model.run(model.batch([text]), layers.append, rows=0)
    there = [number for number, head in enumerate(document.heads) if head in owners]
    for layer in layers:
        for head, tokens in enumerate(ATTENTION[quantity](layer)[0].double().numpy()):
            words = naive_word_map(tokens, owners, len(document))
            for mention in there:
                own = document.heads[mention]
                earlier = [other for other in there if other < mention and document.heads[other] != own]
                same = [o for o in earlier if document.mentions[o].entity == document.mentions[mention].entity]
                if not same:
                    continue
                seen = [word for word in sorted(set(owners) - {-1, own}) if not model.causal or word < own]
                among = {
                    "mentions": [word for word in seen if word in {document.heads[other] for other in earlier}],
                    "words": seen,
                }
                for reading, allowed in among.items():
                    choice = naive_choice(words[own], allowed)
                    if choice is not None and choice in {document.heads[other] for other in same}:
                        right.update((layer.index, head, reading, kind) for kind in (ALL, document.types[mention]))
    return right


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_every_number_of_the_table(family: str) -> None:
    model = exact(family)
    table = STUDY.table(concluded(model), setting(model))
    for quantity in STUDY.quantities:
        chosen, scored = (naive_right(model, told(), quantity, cut) for cut in (160, 20))
        for row in table.filter(quantity=quantity).iter_rows(named=True):
            key = (row["layer"], row["head"], row["reading"], row["type"])
            for right, count, accuracy in ((chosen, "chosen_count", "chosen_accuracy"), (scored, "count", "accuracy")):
                if row[count]:
                    assert row[accuracy] * row[count] == pytest.approx(right[key]), (quantity, key)
                else:
                    assert right[key] == 0
                    assert np.isnan(row[accuracy])


def test_questions_and_rules_by_hand() -> None:
    model, document = exact("bert"), told()
    whole = passage(document, model.encode(document.text))
    assert [document.written(number) for number in whole.asked] == [
        "her", "the cat", "they", "anna", "the mother of the cat", "the cat"
    ]  # fmt: skip
    questions = asked([whole])
    # nearest: only the mother ← anna is right; "her and the cat" is no candidate for "her", as its head is that word.
    # Head match: anna, and the cat twice. The sieves: those, and the mother ← anna, where all agree; "they" agrees
    # with nothing in number, so that the nearest of any is taken, the cat.
    assert questions.rules[:, 0].int().tolist() == [
        [0, 0, 0], [0, 1, 1], [0, 0, 0], [0, 1, 1], [1, 0, 1], [0, 1, 1]
    ]  # fmt: skip
    assert unreached(document, [whole]) == 0
    cut = passage(document, model.encode(document.text, limit=20, truncate=True))
    assert unreached(document, [cut]) == 6 - len(cut.asked)


def test_a_choice_without_candidates_is_wrong() -> None:
    """In a causal model "her and the cat" is earlier than nothing that it sees; all must stay defined."""
    table = STUDY.table(concluded(exact("gpt2")), setting(exact("gpt2")))
    assert table["accuracy"].drop_nans().is_between(0, 1).all()


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_blocks_of_rows_change_nothing(family: str) -> None:
    model, document = exact(family), told()
    batch = model.batch([model.encode(document.text)])
    states = {}
    for rows in (0, 7):
        reading = Reading(batch, torch.tensor([0]), model.causal, (document,))
        found: list[State] = []
        with torch.inference_mode():
            model.run(batch, lambda layer, r=reading, f=found: f.append(STUDY.observe(layer, r)), rows=rows)
        total = State()
        for state in found:
            total = plus(total, state)
        states[rows] = total
    assert_same(states[7], states[0], 0)


def test_a_window_that_holds_all_is_the_document() -> None:
    model = exact("bert")
    plain, windowed = STUDY, Coref(choose_first=1, resamples=40, windows=True, window_tokens=160, overlap=20)
    assert_same(read(model, windowed, cuts=(160, 160)), read(model, plain, cuts=(160, 160)), 0)


def test_small_windows_ask_every_mention_at_most_once() -> None:
    model, document = exact("bert"), told()
    study = Coref(windows=True, window_tokens=24, overlap=10)
    parts = list(study._windows(model, document))
    asked_about = [mention for part in parts for mention in part.asked]
    assert len(parts) > 2
    assert len(asked_about) == len(set(asked_about))
    assert all(len(part.encoding) <= 24 for part in parts)
    assert {head for part in parts for head in range(part.start, part.stop)} == set(range(len(document)))
    assert all(later.start > earlier.start for earlier, later in pairwise(parts))
    assert unreached(document, parts) == 6 - len(asked_about)
    state = read(model, study, cuts=(24, 24))
    assert_same(read(model, study, cuts=(24, 24), batch_tokens=1), state, 0)


def test_figures() -> None:
    model = exact("bert")
    figures = STUDY.figures(concluded(model, cuts=(160, 160)), setting(model))
    assert_drawable(figures, ["table2"])


def test_bad_settings_and_corpora_are_refused() -> None:
    with pytest.raises(InputError, match="fewer tokens than they have"):
        Coref(window_tokens=10, overlap=10).check(exact("bert"))
    with pytest.raises(InputError, match="must fit tiny:bert, which reads 160"):
        Coref(windows=True, window_tokens=4000).check(exact("bert"))
    with pytest.raises(InputError, match="takes an encoder or a decoder"):
        Coref().check(exact("bart"))
    with pytest.raises(InputError, match=r"\.conll file"):
        noted(None)
    assert READINGS == ("mentions", "words")
