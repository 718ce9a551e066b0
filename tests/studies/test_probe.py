"""Study `probe` through the engine: what it keeps of a sentence, what it refuses, and that it ends in a table."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

import headwise as hw
from headwise.engine.fold import fold
from headwise.engine.plan import Plan
from headwise.errors import HeadwiseError, InputError
from headwise.measures import ATTENTION
from headwise.stats import Pieces, Sums
from headwise.studies.probe import PAPER, Probe
from headwise.studies.probe.trees import has_tree_decoder
from headwise.studies.probe.untrained import drawn_anew, untrained
from headwise.studies.probe.vectors import from_model, word_vectors
from headwise.studies.study import State, packed, plus, unpacked
from headwise.text.conllu import Sentence, sentences, words_of
from headwise.text.corpus import Document, Shard, open_corpus
from references.studies_folding import assert_drawable, setting

STUDY = Probe(vectors="model", seeds=2, epochs=2, batch=10, structural_epochs=1, structural_rank=5)
WORDS = ["the", "sea", "is", "old", "unhappily", "and", "cat", "saw", "it"]


def conllu(count: int, seed: int = 0) -> str:
    """Sentences of random words and random trees, with a full stop that hangs on the root."""
    random, text = np.random.default_rng(seed), ""
    for _ in range(count):
        words = int(random.integers(2, 7))
        heads = [0, *(int(random.integers(1, word + 1)) for word in range(1, words)), 1]
        forms = [*(WORDS[int(random.integers(len(WORDS)))] for _ in range(words)), "."]
        for number, (form, head) in enumerate(zip(forms, heads, strict=True), start=1):
            relation = "punct" if form == "." else "root" if head == 0 else "dep"
            text += "\t".join([str(number), form, "_", "X", "_", "_", str(head), relation, "_", "_"]) + "\n"
        text += "\n"
    return text


@cache
def parsed(count: int = 12) -> tuple[Sentence, ...]:
    return tuple(sentences(conllu(count).splitlines()))


def folded(model: hw.Model, study: Probe, order: list[int], batch_tokens: int = 2048) -> State:
    plan, state = Plan({}, {}, open_corpus("sample"), batch_tokens=batch_tokens), {}
    documents = [Document(number, parsed()[number].text, notes=parsed()[number]) for number in order]
    for part in (documents[:5], documents[5:]):
        state = plus(state, fold(model, [study], Shard(0, tuple(part)), plan).states[study.name])
    return unpacked(packed(state))


@cache
def state_of(family: str) -> State:
    return folded(hw.load(f"tiny:{family}"), STUDY, list(range(12)))


def pieces(state: State, key: str) -> dict[int, torch.Tensor]:
    found = state[key]
    assert isinstance(found, Pieces)
    return dict(zip(found.numbers, found.tensors, strict=True))


@pytest.mark.parametrize("family", ["bert", "llama"])
@pytest.mark.parametrize("quantity", ["raw", "effective", "norm"])
def test_word_maps_are_sums_to_and_means_from_a_word(family: str, quantity: str, load: Callable[..., hw.Model]) -> None:
    model = load(f"tiny:{family}")
    for number in (0, 7):
        parse = parsed()[number]
        encoding = model.encode(parse.text)
        owners = words_of(encoding, parse.spans)
        tokens = [[t for t, owner in enumerate(owners) if owner == word] for word in range(len(parse))]
        last = len(encoding) - 1
        frames = [[0] if encoding.special[0] else [], [last] if encoding.special[last] else [], *tokens]
        size, layers = len(frames), []
        batch = model.batch([encoding])
        with torch.inference_mode():
            model.run(batch, layers.append, rows=0)
        for layer in layers:
            maps = ATTENTION[quantity](layer)[0].double().numpy()
            found = pieces(state_of(family), f"{quantity}@self.{layer.index}")[number].view(size, size, -1)
            for i, j in np.ndindex(size, size):
                rows = [maps[:, q][:, frames[j]].sum(-1) for q in frames[i]]
                expected = np.mean(rows, axis=0) if rows else np.zeros(len(maps))
                np.testing.assert_allclose(found[i, j].double().numpy(), expected, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_words_vectors_and_hidden_tokens(family: str, load: Callable[..., hw.Model]) -> None:
    model, state = load(f"tiny:{family}"), state_of(family)
    parse = parsed()[3]
    words = pieces(state, "words")[3]
    assert words[:, 0].tolist() == list(parse.heads)
    assert words[:, 1].tolist() == [int(relation != "punct") for relation in parse.relations]
    trace, owners = model.trace(parse.text), words_of(model.encode(parse.text), parse.spans)
    table = model.hf.get_input_embeddings().weight.detach()
    for word in range(len(parse)):
        mine = [token for token, owner in enumerate(owners) if owner == word]
        expected = table[[trace.text.ids[token] for token in mine]].mean(0)
        torch.testing.assert_close(pieces(state, "vectors")[3][word].float(), expected, rtol=2e-3, atol=1e-3)
        hidden = trace.hidden["self"][:, mine].mean(1)
        torch.testing.assert_close(pieces(state, "hidden")[3][word].float(), hidden, rtol=2e-3, atol=5e-3)


def test_batches_and_order_make_no_difference(load: Callable[..., hw.Model]) -> None:
    other = folded(load("tiny:bert"), STUDY, [7, 3, 11, 0, 5, 1, 2, 4, 6, 8, 9, 10], batch_tokens=40)
    for key, tensor in packed(state_of("bert")).items():
        torch.testing.assert_close(packed(other)[key], tensor, rtol=2e-3, atol=2e-3)


def test_the_untrained_copy_keeps_embeddings_and_nothing_else(load: Callable[..., hw.Model]) -> None:
    model = load("tiny:bert")
    fresh, again = drawn_anew(model.hf, 3), drawn_anew(model.hf, 3)
    for (name, old), (_, new), (_, same) in zip(
        model.hf.named_parameters(), fresh.named_parameters(), again.named_parameters(), strict=True
    ):
        assert torch.equal(new, same)
        assert torch.equal(old, new) == ("_embeddings.weight" in name), name
    assert untrained(model, 3) is untrained(model, 3)
    assert untrained(model, 3) is not untrained(model, 4)
    maps, other = pieces(state_of("bert"), "untrained@self.0"), pieces(state_of("bert"), "raw@self.0")
    assert not torch.allclose(maps[0], other[0], atol=0.05)


def test_from_a_file_to_a_table(tmp_path: Path, load: Callable[..., hw.Model]) -> None:
    corpus = tmp_path / "small.conllu"
    corpus.write_text(conllu(30), "utf-8")
    settings = {"probe": {**STUDY.settings(), "train": 20}}
    result = hw.run("probe", load("tiny:llama"), corpus=corpus, out=tmp_path / "out", settings=settings, progress=False)
    table = result.table
    scores = table.filter(pl.col("what").is_in(["uas", "uuas"]))
    assert set(scores["probe"]) == set(PAPER)
    decoders = {"argmax", "tree"} if has_tree_decoder() else {"argmax"}
    for quantity in ("raw", "effective", "norm"):
        rows = table.filter(what="uas", probe="attention", quantity=quantity)
        assert set(rows["decoder"]) == decoders
        assert table.filter(what="weight", quantity=quantity).height == 2 * 3 * 4
    assert scores.filter(~pl.col("value").is_between(0, 100)).is_empty()
    assert (scores["low"] <= scores["value"] + 1e-9).all()
    assert (scores["value"] <= scores["high"] + 1e-9).all()
    np.testing.assert_allclose(scores["selectivity"], scores["value"] - scores["control"])
    assert dict(table.filter(what="sentences").select("name", "count").iter_rows()) == {"train": 20, "test": 10}
    assert table.filter(what="uuas")["layer"].to_list() == [0, 1, 2, 3]
    test = list(sentences(conllu(30).splitlines()))[20:]
    right = [head == word + 1 for s in test for word, head in enumerate(s.heads) if s.relations[word] != "punct"]
    baseline = table.filter(what="uas", probe="right-branching")
    assert baseline["value"].item() == pytest.approx(100 * np.mean(right))
    assert baseline["count"].item() == len(right)


def test_figures_can_be_drawn(load: Callable[..., hw.Model]) -> None:
    model = load("tiny:bert")
    lines: list[str] = []
    state = State(STUDY.conclude(state_of("bert"), model, lines.append))
    assert all(isinstance(value, Sums) for value in state.values())  # no features are kept
    assert any("seed 1, epoch 2" in line for line in lines)
    assert_drawable(STUDY.figures(state, setting(model)), ["table3", "weights", "structural"])


def test_a_corpus_without_parses_is_refused(tmp_path: Path, load: Callable[..., hw.Model]) -> None:
    corpus = tmp_path / "plain.txt"
    corpus.write_text("The sea is old.\nIt is.\n", "utf-8")
    with pytest.raises(InputError, match=r"parsed sentences.*FILE\.conllu"):
        hw.run("probe", load("tiny:bert"), corpus=corpus, out=tmp_path / "out", progress=False)


def test_too_few_sentences_are_refused(tmp_path: Path, load: Callable[..., hw.Model]) -> None:
    corpus = tmp_path / "one.conllu"
    corpus.write_text(conllu(1), "utf-8")
    settings = {"probe": {"vectors": "model"}}
    with pytest.raises(InputError, match="to train and to test on, but of 1 in this corpus 0 are for training"):
        hw.run("probe", load("tiny:bert"), corpus=corpus, out=tmp_path / "out", settings=settings, progress=False)
    corpus.write_text(conllu(9), "utf-8")
    with pytest.raises(InputError, match="9 are for training and 0 for testing"):
        hw.run("probe", load("tiny:bert"), corpus=corpus, out=tmp_path / "more",
               settings={"probe": {"vectors": "model", "train": 9}}, progress=False)  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"vectors": "word2vec"}, "glove, model or spacy"),
        ({"quantities": ("rwa",)}, "rwa"),
        ({"epochs": 0}, "1 or more"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict, told: str, load: Callable[..., hw.Model]) -> None:
    with pytest.raises(HeadwiseError, match=told):
        Probe(**settings).check(load("tiny:bert"))


def test_encoder_decoders_are_refused(load: Callable[..., hw.Model]) -> None:
    with pytest.raises(InputError, match="takes an encoder or a decoder"):
        Probe().check(load("tiny:bart"))


def test_glove_knows_words_whatever_their_case(load: Callable[..., hw.Model]) -> None:
    model = load("tiny:bert")
    parse = next(sentences(["1\tCat\t_\t_\t_\t_\t0\troot\t_\t_", "2\tcat\t_\t_\t_\t_\t1\tdep\t_\t_",
                            "3\tzzxqy\t_\t_\t_\t_\t1\tdep\t_\t_"]))  # fmt: skip
    try:
        found = word_vectors("glove")(model, model.encode(parse.text), parse)
    except HeadwiseError as error:
        pytest.skip(f"GloVe cannot be had: {error}")
    assert found.shape == (3, 50)
    assert torch.equal(found[0], found[1])
    assert not found[2].any()


def test_vectors_of_the_model_are_zero_for_a_word_without_tokens(load: Callable[..., hw.Model]) -> None:
    model = load("tiny:bert")
    parse = next(sentences(["1-2\tzum\t_\t_\t_\t_\t_\t_\t_\t_", "1\tzu\t_\t_\t_\t_\t0\troot\t_\t_",
                            "2\tdem\t_\t_\t_\t_\t1\tdet\t_\t_"]))  # fmt: skip
    found = from_model(model, model.encode(parse.text), parse)
    assert found[0].any()
    assert not found[1].any()
