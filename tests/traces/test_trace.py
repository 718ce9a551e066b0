"""One text: its null space, other attention, intervals, words, targets; and what cannot be asked."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable

import pytest
import torch

import headwise as hw
from headwise.errors import HeadwiseError, InputError, ModelError, UnknownNameError
from headwise.measures import ATTENTION, MIXING
from headwise.models.tiny import FAMILIES
from references import numbers_of_rows, polytope, quantities
from references.compare import assert_close

TEXT, SHORT = "The old dog and the young cat sat in the sun.", "the sea"
Load = Callable[..., hw.Model]


def one_line(error: pytest.ExceptionInfo[HeadwiseError]) -> str:
    message = str(error.value)
    assert "\n" not in message
    assert message
    return message


def test_weights_of_bert_by_hand(load: Load) -> None:
    """softmax(q kᵀ / √d) v, from the model's own parameters."""
    model = load("tiny:bert")
    trace = model.trace(TEXT)
    for layer in trace.layers:
        module = model.hf.encoder.layer[layer.index].attention.self
        x = trace.hidden["self"][layer.index]
        q, k, v = (
            (x @ p.weight.T + p.bias).detach().reshape(-1, 4, 6) for p in (module.query, module.key, module.value)
        )
        for head in range(4):
            scores = q[:, head] @ k[:, head].T / math.sqrt(6)
            assert_close(layer.alpha[0, head], scores.softmax(-1))
            assert_close(layer.value[0, head], v[:, head])


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "mistral"])
@pytest.mark.parametrize("text", [TEXT, SHORT])
def test_nullspace_equals_its_twin(load: Load, family: str, text: str) -> None:
    trace = load(f"tiny:{family}").trace(text)
    facts = trace.nullspace()
    assert facts.n == max(layer.visible.sum(-1).max() for layer in trace.layers)
    assert facts.d_head == 6
    assert facts.tolerance == pytest.approx(max(facts.n, 6) * 2**-23)
    for number, layer in enumerate(trace.layers):
        seen = layer.visible[0].sum(-1)
        widest = int(seen.argmax())
        ranks, simplex = quantities.rank(layer)[0], quantities.simplex_rank(layer)[0]
        raw, reached = quantities.raw(layer)[0], quantities.effective(layer)[0]
        pairs = layer.visible[0].numpy()
        for head in range(4):
            assert facts.rank[number, head] == ranks[head, widest]
            assert facts.null_dim[number, head] == seen[widest] - ranks[head, widest]
            assert facts.simplex_dim[number, head] == seen[widest] - simplex[head, widest]
            pearson = numbers_of_rows.pearson(raw[head], reached[head], pairs)
            assert facts.pearson[number, head] == pytest.approx(pearson, abs=1e-4)
            share = ((raw - reached)[head][pairs] ** 2).sum() / (raw[head][pairs] ** 2).sum()
            assert facts.null_share[number, head] == pytest.approx(share, abs=1e-4)
            pinned = simplex[head] == seen.numpy()
            assert facts.identifiable_rows[number, head] == pytest.approx(pinned.mean())
            assert facts.identifiable[number, head] == pinned.all()


def test_short_texts_are_identifiable_and_long_ones_are_not(load: Load) -> None:
    model = load("tiny:bert")
    short, long = model.trace(SHORT).nullspace(), model.trace(TEXT).nullspace()
    assert short.n <= 6 < long.n
    assert short.identifiable.all()
    assert (short.pearson - 1).abs().max() < 1e-6
    assert not short.null_share.any()
    assert not long.identifiable.any()
    assert (long.null_dim == long.n - 6).all()
    assert (long.simplex_dim == long.n - 7).all()
    assert (long.pearson < 1).all()


@pytest.mark.parametrize("kind", ["far", "random"])
@pytest.mark.parametrize(
    ("family", "stack"),
    [
        ("bert", "self"),
        ("llama", "self"),
        ("mistral", "self"),
        ("gpt-oss", "self"),
        ("marian", "cross"),
        ("t5", "decoder"),
    ],
)
def test_alternative_attention(load: Load, family: str, stack: str, kind: str) -> None:
    trace = load(f"tiny:{family}").trace(
        TEXT, "It is said that they all came to see." if FAMILIES[family].kind == "encoder-decoder" else None
    )
    layer = trace.of(stack)[1]
    for head in (0, 3):
        other = trace.alternative_attention(1, head, kind=kind, stack=stack)
        alpha = layer.alpha[0, head]
        assert (other.alpha >= 0).all()
        assert_close(other.alpha.sum(-1), alpha.sum(-1))
        assert not other.alpha[~layer.visible[0]].any()
        vectors = torch.tensor(quantities.sent(layer, 0)[head])
        before, after = alpha.double() @ vectors, other.alpha.double() @ vectors
        assert ((after - before).norm(dim=-1) <= 1e-5 * before.norm(dim=-1).clamp(min=1)).all()
        assert other.change < 1e-5
        moved = (after - before).norm(dim=-1) / before.norm(dim=-1)
        assert other.change == pytest.approx(moved.max().item(), rel=1e-6), "of the weights that are given, rounded"
        assert (other.js <= math.log(2) + 1e-9).all()
        for query in (0, len(alpha) // 2, len(alpha) - 1):
            js = numbers_of_rows.js_divergence(alpha[query].tolist(), other.alpha[query].tolist())
            assert other.js[query].item() == pytest.approx(js, abs=1e-6)
        free = layer.visible[0].sum(-1) > layer.value.shape[-1] + 1
        assert free.any()
        assert (other.js[free] > 0).all(), "more than d_v + 1 keys: another distribution exists"
        assert torch.equal(other.alpha[~free], alpha[~free])
        if kind == "far":
            assert ((other.alpha * alpha).sum(-1) <= (alpha * alpha).sum(-1) + 1e-6).all()


def test_random_alternatives_come_from_their_seed(load: Load) -> None:
    trace = load("tiny:bert").trace(TEXT)
    first, again, other = (trace.alternative_attention(0, 0, kind="random", seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.alpha, again.alpha)
    assert not torch.equal(first.alpha, other.alpha)


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_interval_contains_the_weights_and_both_alternatives(load: Load, family: str) -> None:
    trace = load(f"tiny:{family}").trace(TEXT)
    layer, query = trace.layers[1], len(trace.text) - 2
    low, high = trace.attention_interval(1, 2, query)
    rows = [layer.alpha[0, 2, query]]
    rows += [trace.alternative_attention(1, 2, kind=kind).alpha[query] for kind in ("far", "random")]
    for row in rows:
        assert (low - 1e-6 <= row).all()
        assert (row <= high + 1e-6).all()
    assert (high - low).max() > 1e-3
    assert not high[~layer.visible[0, query]].any()


def test_interval_equals_the_enumeration_of_vertices(load: Load) -> None:
    """A llama query that sees ten keys of six dimensions: C(10, 7) candidates."""
    trace = load("tiny:llama").trace(TEXT)
    layer = trace.layers[0]
    seen = layer.visible[0, 9]
    assert seen.sum() == 10
    low, high = trace.attention_interval(0, 3, 9)
    expected = polytope.interval(
        layer.alpha[0, 3, 9, seen].double().numpy(), quantities.head_values(layer, 0, 3)[seen.numpy()]
    )
    assert_close(low[seen], expected[0], 1e-5)
    assert_close(high[seen], expected[1], 1e-5)


def test_a_head_that_is_switched_off_still_has_an_answer(load: Load) -> None:
    """W_O of one head is zero (a pruned head): any distribution gives its output, which is zero before and after."""
    model = load("tiny:bert")
    hf = copy.deepcopy(model.hf)
    hf.encoder.layer[1].attention.output.dense.weight.data[:, 6:12] = 0
    trace = hw.load((hf, model.tokenizer)).trace(TEXT)
    assert trace.nullspace().rank[1].tolist() == [6, 0, 6, 6]
    low, high = trace.attention_interval(1, 1, 3)
    assert_close(low, torch.zeros_like(low))
    assert_close(high, torch.ones_like(high))
    assert trace.alternative_attention(1, 1).change == 0
    assert not trace.attention("effective")[1, 1].any()


@pytest.mark.parametrize("family", ["bert", "llama", "t5"])
@pytest.mark.parametrize(("to", "from_"), [("sum", "mean"), ("sum", "first"), ("mean", "mean"), ("sum", "sum")])
def test_words_equal_their_twin(load: Load, family: str, to: str, from_: str) -> None:
    trace = load(f"tiny:{family}").trace(
        "The oxen don't jump, so they say.", "Whatever they say." if family == "t5" else None
    )
    for stack in trace.stacks:
        rows, columns = trace.queries(stack), trace.keys(stack)
        for quantity in ("raw", "norm-sum"):
            tokens = trace.quantity(quantity, stack=stack)
            words = trace.words(quantity, to=to, from_=from_, stack=stack)
            assert words.shape == (*tokens.shape[:2], len(rows.words), len(columns.words))
            expected = numbers_of_rows.words(tokens[1, -1].numpy(), rows.unit, columns.unit, to, from_)
            assert_close(words[1, -1], expected)


@pytest.mark.parametrize("family", ["bert", "roberta", "t5", "gemma2", "marian", "mpnet"])
def test_word_rows_still_sum_to_one(load: Load, family: str) -> None:
    trace = load(f"tiny:{family}").trace(
        "Don't jump: 😀 naïve oxen, שלום!", "Whatever, they say." if FAMILIES[family].kind != "decoder" else None
    )
    for stack in trace.stacks:
        for name in ("raw", "raw-mean"):
            words = trace.words(name, stack=stack)
            assert_close(words.sum(-1), torch.ones_like(words.sum(-1)))
        assert len(trace.queries(stack).words) < len(trace.queries(stack)), "some word has several tokens"


def test_special_tokens_are_words_of_their_own(load: Load) -> None:
    trace = load("tiny:bert").trace("oxen", "jump")
    assert trace.text.words == ("[CLS]", "oxen", "[SEP]", "jump", "[SEP]")
    assert trace.words().shape == (3, 4, 5, 5)


def test_left_padding_tokenizer_gives_the_same_answer(load: Load) -> None:
    model = load("tiny:llama")
    left = copy.deepcopy(model.tokenizer)
    left.padding_side = "left"
    other = hw.load((model.hf, left))
    layers: dict[str, list] = {"right": [], "left": []}
    for name, one in (("right", model), ("left", other)):
        with torch.no_grad():
            one.run(one.batch([one.encode(TEXT), one.encode(SHORT)]), layers[name].append)
        assert one.trace(TEXT).tokens == model.trace(TEXT).tokens
    for a, b in zip(layers["right"], layers["left"], strict=True):
        assert torch.equal(a.alpha, b.alpha)
        assert torch.equal(a.visible, b.visible)


def test_target_is_what_the_decoder_reads(load: Load) -> None:
    """Teacher forcing: the start token, then the target without its last token."""
    model = load("tiny:marian")
    trace = model.trace("the old dog", "they came home")
    own = model.tokenizer(text_target="they came home")["input_ids"]
    start = model.hf.config.decoder_start_token_id
    assert trace.target is not None
    assert trace.target.ids == (start, *own[:-1])
    assert trace.target.words[:3] == ("<pad>", "they", "came")
    assert len(trace.target.words) == max(trace.target.unit) + 1
    n, m = len(trace.target), len(trace.text)
    assert trace.attention("raw", stack="encoder").shape == (3, 4, m, m)
    assert trace.attention("raw", stack="decoder").shape == (3, 4, n, n)
    assert trace.attention("raw", stack="cross").shape == (3, 4, n, m)
    assert (trace.queries("cross"), trace.keys("cross")) == (trace.target, trace.text)
    assert (trace.queries("decoder"), trace.keys("decoder")) == (trace.target, trace.target)
    assert (trace.queries("encoder"), trace.keys("encoder")) == (trace.text, trace.text)


@pytest.mark.parametrize("family", ["t5", "marian"])
def test_target_can_be_written_by_the_model(load: Load, family: str) -> None:
    model = load(f"tiny:{family}", "translation")
    trace = model.trace("the old dog is here")
    assert trace.target is not None
    coded = model.tokenizer("the old dog is here", return_tensors="pt")
    written = model.hf.generate(**coded, max_new_tokens=128, num_beams=1, do_sample=False)
    text = model.tokenizer.decode(written[0], skip_special_tokens=True)
    assert trace.target == model.encode_target(text)
    assert trace.attention("raw", stack="cross").shape[2:] == (len(trace.target), len(trace.text))


def test_a_target_is_needed_where_none_can_be_written(load: Load) -> None:
    with pytest.raises(InputError, match="translation") as error:
        load("tiny:t5").trace("the old dog")
    one_line(error)


@pytest.mark.parametrize("name", ["cohere", "gpt-neox", "phi"])
@pytest.mark.parametrize("quantity", ["norm-residual", "norm-residual-ln"])
def test_parallel_residual_has_no_norm_with_the_residual(load: Load, name: str, quantity: str) -> None:
    with pytest.raises(ModelError, match=r"parallel.*norm-sum") as error:
        load(f"tiny:{name}").trace(SHORT).mixing(quantity)
    one_line(error)


@pytest.mark.parametrize("quantity", ["norm-residual", "norm-residual-ln"])
def test_cross_attention_has_no_norm_with_the_residual(load: Load, quantity: str) -> None:
    with pytest.raises(ModelError, match="norm-sum") as error:
        load("tiny:t5").trace(SHORT, SHORT).mixing(quantity, stack="cross")
    one_line(error)


@pytest.mark.parametrize(
    "ask",
    [
        lambda trace: trace.attention("efective"),
        lambda trace: trace.mixing("raw"),
        lambda trace: trace.quantity("nothing"),
        lambda trace: trace.attention("raw", stack="decoder"),
        lambda trace: trace.words("raw", to="first"),
        lambda trace: trace.words("raw", from_="max"),
        lambda trace: trace.alternative_attention(3, 0),
        lambda trace: trace.alternative_attention(-1, 0),
        lambda trace: trace.alternative_attention(0, 4),
        lambda trace: trace.alternative_attention(0, -1),
        lambda trace: trace.alternative_attention(0, 0, kind="near"),
        lambda trace: trace.attention_interval(0, 0, len(trace.text)),
        lambda trace: trace.attention_interval(0, 0, -1),
        lambda trace: trace.nullspace(stack="cross"),
    ],
)
def test_out_of_range(load: Load, ask: Callable[[hw.Trace], object]) -> None:
    with pytest.raises(InputError) as error:
        ask(load("tiny:bert").trace(SHORT))
    one_line(error)


def test_did_you_mean(load: Load) -> None:
    trace = load("tiny:bert").trace(SHORT)
    with pytest.raises(UnknownNameError, match="Did you mean 'effective'"):
        trace.attention("efective")
    with pytest.raises(UnknownNameError, match="norm-sum"):
        trace.quantity("norm-sums")


@pytest.mark.parametrize("layers", [[3], [-1], [0, 9], []])
def test_layers_that_are_not_there(load: Load, layers: list[int]) -> None:
    with pytest.raises(InputError) as error:
        load("tiny:bert").trace(SHORT, layers=layers)
    one_line(error)


def test_some_layers_only(load: Load) -> None:
    model = load("tiny:bert")
    whole, part = model.trace(TEXT), model.trace(TEXT, layers=[2])
    assert [layer.index for layer in part.layers] == [2]
    assert_close(part.attention("raw"), whole.attention("raw")[2:])
    assert part.alternative_attention(2, 0).alpha.shape == (len(part.text), len(part.text))
    with pytest.raises(InputError):
        part.attention_interval(0, 0, 0)


def test_a_trace_that_would_not_fit_is_refused(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwise.models.model.MAP_BYTES", 4 * 3 * 4 * 12**2 - 1)
    model = load("tiny:bert")
    text = "the dog is in the sea and so"
    assert len(model.encode(text)) == 12
    with pytest.raises(InputError, match=r"layers=") as error:
        model.trace(text)
    one_line(error)
    assert model.trace(text, layers=[1]).attention().shape == (1, 4, 12, 12)


@pytest.mark.parametrize("text", ["", " \n", "a\ud800"])
@pytest.mark.parametrize("family", ["bert", "llama", "t5"])
def test_unreadable_text(load: Load, family: str, text: str) -> None:
    model = load(f"tiny:{family}")
    for texts in ((text, "it is"), ("it is", text)):
        with pytest.raises(InputError) as error:
            model.trace(*texts)
        one_line(error)


def test_text_that_gives_no_token_of_its_own(load: Load) -> None:
    with pytest.raises(InputError, match="token of its own"):
        load("tiny:bert").trace("\u200b")


@pytest.mark.parametrize("text", ["[CLS]", "</s>", "😀👨‍👩‍👧", "שלום עולם", "مرحبا بالعالم", "x"])
@pytest.mark.parametrize("family", ["bert", "gpt2", "t5"])
def test_odd_text_has_an_answer(load: Load, family: str, text: str) -> None:
    trace = load(f"tiny:{family}").trace(text, text if family == "t5" else None)
    for stack in trace.stacks:
        for name in (*ATTENTION, "raw-mean", "norm-sum"):
            assert trace.words(name, stack=stack).isfinite().all()
        facts = trace.nullspace(stack=stack)
        assert facts.identifiable_rows.isfinite().all()


def test_a_single_token_is_fully_identified(load: Load) -> None:
    """n = 1: the weight is 1, all of it effective, and the correlation of a constant is undefined."""
    model = load("tiny:gpt2")
    tokenizer = copy.deepcopy(model.tokenizer)
    tokenizer.backend_tokenizer.post_processor = None
    trace = hw.load((model.hf, tokenizer)).trace("a")
    assert len(trace.text) == 1
    assert trace.attention("effective").flatten().tolist() == [1.0] * 12
    assert trace.nullspace().pearson.isnan().all()
    assert trace.nullspace().identifiable.all()
    low, high = trace.attention_interval(0, 0, 0)
    assert (low.item(), high.item()) == (1.0, 1.0)


def test_traces_are_one_by_one(load: Load) -> None:
    model = load("tiny:bert")
    both = model.traces([TEXT, SHORT], [None, TEXT])
    assert_close(both[1].attention("norm"), model.trace(SHORT, TEXT).attention("norm"))
    assert model.traces([]) == []
    with pytest.raises(InputError, match="2 texts and 1 pairs"):
        model.traces([TEXT, SHORT], [None])


def test_every_quantity_has_its_axes(load: Load) -> None:
    trace = load("tiny:llama").trace(TEXT)
    n = len(trace.text)
    for name in ATTENTION:
        assert trace.attention(name).shape == trace.quantity(name).shape == (3, 4, n, n)
    for name in MIXING:
        assert trace.mixing(name).shape == (3, n, n)
        assert trace.quantity(name).shape == (3, 1, n, n)


def test_demo_loses_identifiability_where_the_paper_says(demo: hw.Model) -> None:
    """Real weights: d_v = 32; up to 32 tokens effective is raw to the last bit, beyond 33 no head is identifiable."""
    assert (demo.layers(), demo.heads(), demo.head_size(), demo.limit) == (6, 12, 32, 512)
    short, long = demo.trace(f"{TEXT} Nobody else was there.", "It purred."), demo.trace(f"{TEXT} " * 4)
    assert 20 < len(short.text) <= 32
    assert torch.equal(short.attention("effective"), short.attention("raw"))
    assert short.nullspace().identifiable.all()
    facts = long.nullspace()
    assert facts.n > 33
    assert (facts.null_dim >= facts.n - 32).all()
    assert not facts.identifiable.any()
    layer = long.layers[3]
    two_heads = dataclasses.replace(
        layer, alpha=layer.alpha[:, :2], value=layer.value[:, :2], memo={}, text_memo={},
        circuit=dataclasses.replace(layer.circuit, stored=layer.circuit.w_o[:2]),
    )  # fmt: skip
    assert_close(long.attention("effective")[3, :2], quantities.effective(two_heads)[0], 1e-4)
    assert_close(long.mixing("norm-residual-ln")[3], quantities.norm_residual_ln(layer)[0], 1e-4)
