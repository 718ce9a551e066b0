"""Roles where the corpus has labels, and the task `agree`: against plain loops, whatever the batches, and by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
import torch

import headwise as hw
from headwise.engine.fold import fold
from headwise.engine.plan import Plan
from headwise.measures import ATTENTION
from headwise.stats import Sums
from headwise.studies.roles import Roles
from headwise.studies.roles.agreement import VERBS, agreeing
from headwise.studies.roles.made import ids_of, seen
from headwise.studies.study import State, plus
from headwise.studies.syntax.pairs import pairs
from headwise.text.alignments import parse_pair
from headwise.text.corpus import Document, Shard, open_corpus
from headwise.types import Layer
from references.alignment import token_maps, word_scores
from references.studies_folding import exact
from references.words import naive_choice, naive_owner, naive_word_map, parsed, told

PAIRS = [parse_pair(line, "here") for line in (
    "The old dog and the young cat sat in the sun . ||| it was said , again , that the sea is big ||| 0-0 1p1 3-3 11-9",
    "it is said that the sea is big ||| so it was ||| 0-1 1-2 2p2",
    "a dog , a cat ||| the sun is in the sea , they say ||| 0-0 1p1 1-2 4-5")]  # fmt: skip
Hits = dict[tuple[int, int], float]


def observed(model: hw.Model, documents: Sequence[Document], *, batch_tokens: int, quantity: str = "raw") -> State:
    plan, state = Plan({}, {}, open_corpus("sample"), batch_tokens=batch_tokens), State()
    for part in (documents[:1], documents[1:]):
        if part:
            study = Roles(quantities=(quantity,), texts=1)
            state = plus(state, fold(model, [study], Shard(0, tuple(part)), plan).states["roles"])
    return State(state)


def scored(state: State, role: str, stack: str = "self") -> Hits:
    means = [sums.mean.tolist() for sums in state.by_layer(Sums, role, stack)]
    return {(layer, head): value for layer, row in enumerate(means) for head, value in enumerate(row)}


def shares(right: Counter[tuple[int, int]], asked: int, like: Hits) -> Hits:
    return {place: right[place] / asked for place in like}


@pytest.mark.parametrize(("family", "quantity"), [("bert", "raw"), ("llama", "norm")])
def test_governors_and_dependents_are_those_of_plain_loops(family: str, quantity: str) -> None:
    model = exact(family)
    right: dict[str, Counter[tuple[int, int]]] = {"governor": Counter(), "dependent": Counter()}
    asked = 0
    for sentence in parsed():
        trace = model.trace(sentence.text)
        owners = [-1 if special else naive_owner(span, sentence.spans)
                  for special, span in zip(trace.text.special, trace.text.offsets, strict=True)]  # fmt: skip
        wanted = [pair for pair in pairs(sentence) if not pair.relation.startswith(("sd:", "punct"))
                  and {pair.asker, pair.dependent, pair.head} <= set(owners)]  # fmt: skip
        asked += len(wanted)
        there = sorted(set(owners) - {-1})
        for layer, heads in enumerate(trace.attention(quantity).double().numpy()):
            for head, tokens in enumerate(heads):
                words = naive_word_map(tokens, owners, len(sentence))
                for pair in wanted:
                    before = [word for word in there if word < pair.asker] if model.causal else there
                    after = [word for word in there if word > pair.asker] if model.causal else there
                    row = naive_choice(words[pair.asker], [word for word in before if word != pair.asker])
                    column = naive_choice(words[:, pair.asker], [word for word in after if word != pair.asker])
                    right["governor"][layer, head] += row == pair.head
                    right["dependent"][layer, head] += column == pair.head
    documents = [Document(at, one.text, notes=one) for at, one in enumerate(parsed())]
    state = observed(model, documents, batch_tokens=2048, quantity=quantity)
    alone = observed(model, documents, batch_tokens=1, quantity=quantity)
    for role, counted in right.items():
        assert sum(counted.values()) > 0
        assert scored(state, role) == pytest.approx(shares(counted, asked, scored(state, role)))
        assert scored(alone, role) == pytest.approx(scored(state, role)), "batch-mates play no part"


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_antecedents_are_those_of_plain_loops(family: str) -> None:
    model, document = exact(family), told()
    state = observed(model, [Document(0, document.text, notes=document)], batch_tokens=2048)
    text = model.encode(document.text)
    owners = [-1 if special else naive_owner(span, document.spans)
              for special, span in zip(text.special, text.offsets, strict=True)]  # fmt: skip
    layers: list[Layer] = []
    with torch.inference_mode():
        model.run(model.batch([text]), layers.append, rows=0)
    right, asked = Counter(), 0
    there = [number for number, head in enumerate(document.heads) if head in owners]
    for mention in there:
        own, entity = document.heads[mention], document.mentions[mention].entity
        gold = {document.heads[other] for other in there if other < mention and document.heads[other] != own
                and document.mentions[other].entity == entity}  # fmt: skip
        asked += bool(gold)
        seen = [word for word in sorted(set(owners) - {-1, own}) if not model.causal or word < own]
        for layer in layers if gold else ():
            for head, tokens in enumerate(ATTENTION["raw"](layer)[0].double().numpy()):
                words = naive_word_map(tokens, owners, len(document))
                right[layer.index, head] += naive_choice(words[own], seen) in gold
    assert asked > 0
    assert scored(state, "antecedent") == pytest.approx(shares(right, asked, scored(state, "antecedent")))


def test_alignments_are_those_of_plain_loops() -> None:
    model = exact("marian")
    documents = [Document(at, pair.source, pair.target, notes=pair) for at, pair in enumerate(PAIRS)]
    state, alone = (observed(model, documents, batch_tokens=size) for size in (2048, 1))
    for role, position in (("alignment", "input"), ("alignment-next", "output")):
        right, asked = Counter(), 0
        for pair in PAIRS:
            assert pair.links is not None
            trace = model.trace(pair.source, pair.target)
            linked = {target for _, target in pair.links.possible}
            asked += len(linked)
            for layer in trace.of("cross"):
                for (quantity, head), tokens in token_maps(layer).items():
                    if quantity == "raw" and head is not None:
                        words, special = word_scores(trace, pair, tokens, position)
                        best = {target: int(words[target].argmax()) for target in linked}
                        right[layer.index, head] += sum(
                            (source, target) in pair.links.possible and words[target, source] >= special[target]
                            for target, source in best.items()
                        )
        assert sum(right.values()) > 0
        assert scored(state, role, "cross") == pytest.approx(shares(right, asked, scored(state, role, "cross")))
        assert scored(alone, role, "cross") == pytest.approx(scored(state, role, "cross"))


def test_without_labels_there_are_no_such_scores(load) -> None:
    plain = observed(load("tiny:bert"), [Document(0, "The old dog sat in the sun.")], batch_tokens=2048)
    assert not [key for key in plain if key.startswith(("governor", "dependent", "antecedent", "alignment"))]
    links = parse_pair("a dog ||| the sun", "here")
    model = exact("marian")
    assert not [key for key in observed(model, [Document(0, links.source, links.target, notes=links)], batch_tokens=99)
                if key.startswith("alignment")]  # fmt: skip


# --- agree ---


def test_subjects_and_verbs_agree_and_the_nearer_noun_does_not(load) -> None:
    model = load("tiny:llama", "causal-lm")
    texts = list(agreeing(model, 6, 0))
    assert len(texts) == 6
    one, many = (ids_of(model, verb)[-1] for verb in VERBS)
    assert [one_text.verbs.tolist() for one_text in texts[:2]] == [[one, many], [many, one]]
    for text in texts:
        assert (text.source >= 0).nonzero().tolist() == [[len(text.text) - 1]]
    first = texts[0]
    assert list(first.text.ids[: int(first.source[-1]) + 1][-len(ids_of(model, " key")) :]) == ids_of(model, " key")
    assert list(first.text.ids)[-len(ids_of(model, " dogs")) :] == ids_of(model, " dogs")


def test_the_loss_is_that_of_two_verbs_and_the_score_that_of_the_map(load) -> None:
    model = load("tiny:llama", "causal-lm")
    (text,) = agreeing(model, 1, 3)
    question = text.question(model)
    with torch.no_grad():
        logits = model.hf(**question.inputs).logits[0, -1].double().numpy()
        loss = question.read(model.hf(**question.inputs))
    right, wrong = text.verbs.tolist()
    assert loss.shape == (1, 1)
    assert float(loss) == pytest.approx(np.log1p(np.exp(logits[wrong] - logits[right])), rel=1e-4)
    layers: list[Layer] = []
    with torch.no_grad():
        model.run(model.batch([text.text]), layers.append, rows=0)
    found = seen(model, [text], "raw").scores["self", 1][0]
    assert found.tolist() == pytest.approx(layers[1].alpha[0, :, -1, int(text.source[-1])].tolist())


def test_a_tokenizer_that_does_not_tell_the_verbs_apart_has_no_such_task(load, monkeypatch) -> None:
    monkeypatch.setattr("headwise.studies.roles.agreement.VERBS", (" is", " is"))
    assert list(agreeing(load("tiny:llama", "causal-lm"), 2, 0)) == []
