"""The study of token identity: against loops over Hugging Face's own hidden states, and what a user can get wrong."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

import headwise as hw
from headwise.engine.fold import fold
from headwise.engine.plan import Plan
from headwise.errors import InputError
from headwise.stats import Pieces, Sums
from headwise.studies.identity import Identity, _numbers
from headwise.studies.identity.figures import two_models
from headwise.studies.identity.recovery import READINGS
from headwise.studies.identity.table import identity_table, interval
from headwise.studies.identity.tokens import TAGS, by_frequency, by_tag, with_attribution
from headwise.studies.study import Setting, State, plus
from headwise.text.conllu import sentences
from headwise.text.corpus import Document, Shard, open_corpus
from references import identity as twin

TEXT = "the old dog and the young cat sat in the sun so it was the end of the sea"
TEXTS = tuple(" ".join(TEXT.split()[start : start + 3 + start % 7]) for start in range(13))
DOG = """# sent_id = dog
# text = The dog sat.
1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_
2\tdog\tdog\tNOUN\tNN\t_\t3\tnsubj\t_\t_
3\tsat\tsit\tVERB\tVBD\t_\t0\troot\t_\tSpaceAfter=No
4\t.\t.\tPUNCT\t.\t_\t3\tpunct\t_\t_
"""


def gathered(study: Identity, model: hw.Model, *, texts=TEXTS, tokens: int = 2048, notes=None, cut: int = 99) -> State:
    """What the engine adds up, in shards of `cut` documents."""
    plan = Plan({}, {}, open_corpus("sample"), batch_tokens=tokens)
    documents = [Document(i, text, notes=notes[i] if notes else None) for i, text in enumerate(texts)]
    state = State()
    for start in range(0, len(documents), cut):
        state = plus(
            state, fold(model, [study], Shard(0, tuple(documents[start : start + cut])), plan).states["identity"]
        )
    return state


def setting(model: hw.Model) -> Setting:
    return Setting(model.name, {"self": (model.layers(), 4, 6)}, model.causal, {"documents": 13, "tokens": 99})


def table_of(study: Identity, model: hw.Model, **options) -> pl.DataFrame:
    state = State(study.conclude(gathered(study, model, **options), model, lambda _: None))
    return study.table(state, setting(model))


@pytest.fixture(scope="module")
def bert() -> hw.Model:
    return hw.load("tiny:bert")


@pytest.mark.parametrize(("family", "target", "offset"), [("bert", "input", 0), ("bert", "previous", 0),
                                                          ("bert", 1, -1), ("llama", "input", 0)])  # fmt: skip
def test_without_a_map_equals_loops_over_hidden_states(load, family: str, target: str | int, offset: int) -> None:
    model = load(f"tiny:{family}")
    study = Identity(maps=("none",), target=target, offsets=(offset,), folds=len(TEXTS), split=(60, 20, 8))
    table = table_of(study, model)
    hidden, ids = [], []
    for text in TEXTS:
        encoding = model.encode(text)
        with torch.no_grad():
            output = model.hf(**model.batch([encoding]).inputs, output_hidden_states=True)
        hidden.append(torch.stack([h[0] for h in output.hidden_states]).double().numpy())
        ids.append(list(encoding.ids))
    for distance in ("cosine", "l2"):
        for layer in range(model.layers()):
            goal = {"input": 0, "previous": layer}.get(target, 2)  # type: ignore[arg-type]
            # every sentence is tested alone, once: the mean over folds is the mean over sentences
            scores = [
                [np.mean(part) for part in twin.rates(h[layer + 1], h[goal], i, [len(i)], distance, offset)[:2]]
                for h, i in zip(hidden, ids, strict=True)
            ]
            row = table.filter(
                (pl.col("layer") == layer) & (pl.col("distance") == distance) & (pl.col("what") == "rate")
            )
            assert row.height == 1
            assert [row["value"][0], row["word"][0]] == pytest.approx(np.mean(scores, axis=0), abs=1e-9)
            assert row["chance"][0] == pytest.approx(
                sum(max(len(i) - abs(offset), 0) / len(i) for i in ids) / sum(max(len(i) - abs(offset), 0) for i in ids)
            )


def test_batches_and_shards_change_nothing(bert) -> None:
    study = Identity(folds=4)
    whole = table_of(study, bert)
    for options in ({"tokens": 1}, {"cut": 3}):
        other = table_of(study, bert, **options)
        np.testing.assert_allclose(other["value"].to_numpy(), whole["value"].to_numpy(), atol=1e-6)


def test_same_seed_same_table_and_another_seed_other_folds(bert) -> None:
    study = Identity(maps=("linear", "mlp"), solver="adam", folds=2, epochs=2, hidden=5, source=(0,), distances=("l2",))
    first, again = (table_of(study, bert) for _ in range(2))
    assert first.equals(again)
    state = gathered(Identity(), bert)
    material = [Identity(seed=seed)._material(state, list(range(13)), 3).roles for seed in (0, 1)]
    assert not torch.equal(*material)


def test_only_the_layers_asked_for_are_kept_and_none_in_the_result(bert) -> None:
    study = Identity(source=(2,), target="previous", folds=3, dtype="float16")
    state = gathered(study, bert)
    hidden = state["hidden"]
    assert isinstance(hidden, Pieces)
    assert hidden.tensors[0].shape[1:] == (2, 24)
    assert hidden.tensors[0].dtype == torch.float16
    concluded = State(study.conclude(state, bert, lambda _: None))
    assert not any(isinstance(statistic, Pieces) for statistic in concluded.values())
    assert set(study.table(concluded, setting(bert))["layer"]) == {2}


def test_sentences_and_keep_choose_by_number_not_by_shard(bert) -> None:
    few = Identity(sentences=5, folds=3)
    chosen = [few._chosen(gathered(few, bert, cut=cut))[0] for cut in (99, 2)]
    assert chosen[0] == chosen[1]
    assert len(chosen[0]) == 5
    kept = gathered(Identity(keep=0.5), bert)["ids"]
    assert isinstance(kept, Pieces)
    assert 0 < len(kept.numbers) < 13


def test_repeated_words_without_positions_count_as_a_share(load) -> None:
    """Llama's x is the word alone: the layer below the first, asked for itself, is found, but not which of two."""
    model = load("tiny:llama")
    state = gathered(Identity(), model, texts=("the sea the sea the sun", *TEXTS))
    material = Identity()._material(state, list(range(14)), 3)
    from headwise.studies.identity.recovery import Targets

    length = int(material.sentences.lengths[0])
    ids = material.sentences.ids[:length].tolist()
    twins = Targets.of(material.hidden[-1], material.sentences).twins[:length].tolist()
    assert twins == [ids.count(i) for i in ids]
    assert max(twins) > 1


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"sets": ("test", "train")}, {"fig2a", "fig2b", "fig8", "fig7", "matrix-linear-cosine", "frequency"}),
        ({"target": "previous"}, {"fig11"}),
        ({"offsets": (-1, 1), "maps": ("linear",)}, {"fig14", "fig17"}),
        ({"maps": ("mlp",), "epochs": 1, "hidden": 5}, {"fig2a", "fig9", "fig10", "matrix-mlp-l2"}),
        ({"maps": ("mlp",), "epochs": 1, "hidden": 5, "offsets": (2,)}, {"fig15", "fig16"}),
    ],
)
def test_figures_are_those_of_the_paper(bert, settings, names) -> None:
    study = Identity(folds=3, **settings)
    state = State(study.conclude(gathered(study, bert), bert, lambda _: None))
    charts = study.figures(state, setting(bert))
    assert names <= set(charts)
    for chart in charts.values():
        chart.to_dict()


def test_parts_of_speech_come_from_the_corpus(bert) -> None:
    parse = next(iter(sentences(DOG.splitlines())))
    study = Identity(folds=3, tags="corpus")
    state = gathered(study, bert, texts=("The dog sat.",) * 6, notes=[parse] * 6)
    tags = state["tags"]
    assert isinstance(tags, Pieces)
    names = {TAGS[int(number)] for number in tags.tensors[0]}
    assert names == {"special", "DET", "NOUN", "VERB", "PUNCT"}
    table = study.table(State(study.conclude(state, bert, lambda _: None)), setting(bert))
    assert set(table.filter(pl.col("what") == "tag")["group"]) == names


def test_own_contributions_are_asked_for_the_first_documents(bert) -> None:
    study = Identity(folds=3, attribution=3, tangents=2, maps=("none",))
    state = gathered(study, bert)
    own = state["own"]
    assert isinstance(own, Pieces)
    assert own.numbers == (0, 1, 2)
    assert own.tensors[0].shape == (len(bert.encode(TEXTS[0])), 3)
    table = study.table(State(study.conclude(state, bert, lambda _: None)), setting(bert))
    tokens = table.filter((pl.col("group") == "tokens") & (pl.col("layer") == 0))["value"]
    assert 0 < tokens.max() <= sum(len(bert.encode(text)) for text in TEXTS[:3])


def test_groups_by_hand() -> None:
    credit = torch.tensor([[1.0, 0.0, 1.0, torch.nan], [1.0, 1.0, 0.5, 0.0]]).double()
    sums = by_tag(credit, torch.tensor([0, 0, 3, -1]))
    assert sums.mean[:, 0].tolist() == [0.5, 1.0]
    assert sums.mean[:, 3].tolist() == [1.0, 0.5]
    assert sums.weight.sum(1).tolist() == [3, 3], "a token without a tag does not count"
    frequent = by_frequency(credit, torch.tensor([4, 4, 7, 4]))
    assert frequent.mean[0, :2].tolist() == [1.0, 0.5], "7 occurs once; 4 three times, tested twice"


def test_attribution_by_hand() -> None:
    own = torch.tensor([[0.1, 0.2, 0.3, 0.4]]).double()
    credit = torch.tensor([[0.0, 0.0, 1.0, 1.0]]).double()
    related = with_attribution(credit, own**3, own).mean[0].tolist()
    assert related[0] == pytest.approx(1.0)
    assert related[2:] == pytest.approx([0.35, 0.15, 4])
    assert with_attribution(torch.ones(1, 4).double(), own, own).mean[0, 1].isnan(), "nothing was lost"


def test_interval_is_student_s() -> None:
    """Of 1, 2, 3 with t(0.975, 2) = 4.303 from a printed table."""
    low, high = interval(torch.tensor([1.0, 2.0, 3.0]))
    assert (low, high) == pytest.approx((2 - 4.303 / 3**0.5, 2 + 4.303 / 3**0.5), abs=1e-3)


@pytest.mark.parametrize(
    ("rates", "ends"),
    [((0.8, 0.9, 1.0), (0.9 - 4.303 * 0.1 / 3**0.5, 1.0)), ((0.0, 0.1, 0.2), (0.0, 0.1 + 4.303 * 0.1 / 3**0.5)),
     ((0.4, 0.5, 0.6), (0.5 - 4.303 * 0.1 / 3**0.5, 0.5 + 4.303 * 0.1 / 3**0.5)), ((0.9,), (math.nan, math.nan))],
)  # fmt: skip
def test_the_interval_of_a_rate_ends_at_0_and_1(rates: tuple[float, ...], ends: tuple[float, float]) -> None:
    """A table had 0.914 [0.807, 1.02]."""
    folds, tested = torch.tensor(rates).double().repeat(len(READINGS), 2, 1, 1, 1), torch.tensor([1.0, 0.0])
    counted = tested.double()[:, None, None, None].expand_as(folds)
    state = State({"rate.none.cosine.0": Sums(folds * counted, counted), "layers": _numbers([0]),
                   "sizes": _numbers([8, 3, 0]), "chance.0": _numbers([0.1, 0.1])})  # fmt: skip
    (row,) = identity_table(state, "input").iter_rows(named=True)
    assert (row["low"], row["high"]) == pytest.approx(ends, abs=1e-4, nan_ok=True)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"source": (3,)}, "layers 0 to 2"),
        ({"target": "below"}, "input, previous or one"),
        ({"target": -1}, "0 or more, but -1"),
    ],
)
def test_a_layer_that_is_not_there_is_refused(bert, settings, told: str) -> None:
    with pytest.raises(InputError, match=told):
        Identity(**settings).check(bert)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"maps": ("affine",)}, "none, linear, mlp"),
        ({"distances": ("l1",)}, "cosine, l2"),
        ({"solver": "sgd"}, "closed-form, newton, adam"),
        ({"folds": 0}, "1 or more"),
        ({"fraction": 0.0}, "above 0 and up to 1"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, told: str) -> None:
    with pytest.raises(InputError, match=told):
        Identity(**settings)


def test_too_few_sentences_are_refused(bert) -> None:
    with pytest.raises(InputError, match="folds=4"):
        table_of(Identity(folds=10), bert, texts=TEXTS[:4])


def cut_to_one(state: State, documents: int) -> State:
    """The state as if the first documents had a single token, as a tokenizer without special tokens gives."""
    cut = State()
    for name, pieces in state.items():
        assert isinstance(pieces, Pieces)
        tensors = [t[:1] if at < documents else t for at, t in enumerate(pieces.tensors)]
        cut[name] = Pieces(pieces.numbers, tuple(tensors))
    return cut


def test_sentences_of_one_token_are_left_out_or_refused(bert) -> None:
    study = Identity(folds=3, maps=("none",))
    state = gathered(study, bert)
    concluded = State(study.conclude(cut_to_one(state, 2), bert, lambda _: None))
    assert concluded["sizes"].total.tolist()[1:] == [len(TEXTS) - 2, 2]  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="longer texts"):
        study.conclude(cut_to_one(state, len(TEXTS)), bert, lambda _: None)


def rows(width: int, layers: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "what": "rate", "map": "none", "distance": "l2", "target": "previous", "offset": 0, "set": "test",
            "layer": list(range(layers)), "tested": list(range(layers)), "value": 0.5, "width": width,
        }
    )  # fmt: skip


def test_two_models_on_one_plot() -> None:
    chart = two_models({"demo": rows(8, 3), "tuned": rows(8, 3)}).to_dict()
    assert "tuned against demo" in chart["title"]["text"]
    for other, told in ((rows(9, 3), "same width, but demo has 8 and tuned has 9"), (rows(8, 4), "3 and tuned has 4")):
        with pytest.raises(InputError, match=told):
            two_models({"demo": rows(8, 3), "tuned": other})


def test_run_and_open_again(bert, tmp_path: Path) -> None:
    corpus = tmp_path / "texts.txt"
    corpus.write_text("\n".join(TEXTS), encoding="utf-8")
    settings = {"identity": {"folds": 4}}
    result = hw.run("identity", bert, corpus=corpus, out=tmp_path / "out", settings=settings, shard_documents=5)
    again = hw.open(tmp_path / "out")
    assert again.table.equals(result.table)  # type: ignore[union-attr]
    assert "fig2a" in result.figures
    size = sum(path.stat().st_size for path in (tmp_path / "out").rglob("*.safetensors"))
    assert size < 50_000, "hidden tokens are not part of the result"
