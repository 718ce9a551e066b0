"""What is kept of a long text is what the whole maps hold, and no mass is lost."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import headwise as hw
from headwise.errors import InputError
from headwise.interventions.answered import answered
from headwise.models.capture import Recorder, recording
from headwise.traces.long import BLOCK, Keeper, Top, block_sums, paired, strongest
from headwise.viewer.long import payload
from references.compare import assert_close

WORDS = "the old dog sat in the sun and it was said again , of the river"
CASES = [("tiny:gpt2", None), ("tiny:bert", None), ("tiny:llama", None), ("tiny:marian", "the dog sat in the sun")]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case[0])
def both(request) -> tuple[hw.Trace, hw.LongTrace]:
    name, pair = request.param
    model, text = hw.load(name), " ".join([WORDS] * 4)
    top = hw.Top(5, ("raw", "effective", "norm", "null"))
    return model.trace(text, pair), model.trace(text, pair, keep=top)


def test_the_strongest_of_every_row_and_its_rest(both) -> None:
    whole, kept = both
    assert kept.stacks == whole.stacks
    for stack in whole.stacks:
        for quantity in kept.quantities:
            maps, top = whole.attention(quantity, stack=stack), kept.top(quantity, stack=stack)
            assert_close(top.value, maps.gather(-1, top.key.long()), 1e-6)
            assert_close(top.value.abs(), maps.abs().sort(-1, descending=True).values[..., :5], 1e-6)
            assert_close(top.value.sum(-1) + top.rest, maps.sum(-1))
            assert all(len(set(row)) == len(row) for row in top.key.flatten(0, 2).tolist()), "no key twice"


def test_blocks_add_up_at_every_level(both) -> None:
    whole, kept = both
    for stack in whole.stacks:
        maps = whole.attention("raw", stack=stack)
        blocks = kept.blocks(stack=stack)
        for row in range(blocks.shape[2]):
            for column in range(blocks.shape[3]):
                cell = maps[..., BLOCK * row : BLOCK * (row + 1), BLOCK * column : BLOCK * (column + 1)]
                assert_close(blocks[..., row, column], cell.sum((-1, -2)))
        for level in (1, 2):
            assert_close(kept.blocks(level=level, stack=stack).sum((-1, -2)), maps.sum((-1, -2)))


def test_a_row_and_the_words_are_those_of_the_whole_where_all_is_kept(load) -> None:
    model = load("tiny:gpt2")
    whole, kept = model.trace(WORDS), model.trace(WORDS, keep=hw.Top(k=10**6))
    last = len(whole.tokens) - 1
    assert_close(kept.row(1, 2, last), whole.attention()[1, 2, last], 1e-6)
    assert_close(kept.words(layer=1, head=2).to_dense(), whole.words()[1, 2], 1e-6)
    assert kept.top().rest.abs().max() < 1e-5


def test_facts_of_heads_are_those_of_the_whole(both) -> None:
    whole, kept = both
    for stack in whole.stacks:
        ours, theirs = kept.heads(stack=stack), whole.heads(stack=stack)
        for name in {"entropy", "first", "previous", "current", "next", "null_share"} & {*ours.columns}:
            assert_close(torch.tensor(ours[name].to_list()), torch.tensor(theirs[name].to_list()))
        assert ("previous" in ours.columns) == (stack != "cross")
        assert ours["name"].to_list() == theirs["name"].to_list()


@pytest.mark.parametrize(("keys", "k"), [(5, 8), (64, 3), (640, 4), (700, 9), (1000, 16)])
def test_the_strongest_in_two_steps(keys: int, k: int) -> None:
    maps = torch.randn(2, 3, keys, generator=torch.Generator().manual_seed(keys))
    value, key = strongest(maps, k)
    order = maps.abs().argsort(-1, descending=True)[..., :k]
    assert torch.equal(key, order)
    assert torch.equal(value, maps.gather(-1, order))


def test_blocks_of_uneven_sizes() -> None:
    maps = torch.ones(1, 130, 65)
    assert block_sums(maps)[0].tolist() == [[64.0 * 64, 64.0], [64.0 * 64, 64.0], [2.0 * 64, 2.0]]
    assert paired(block_sums(maps)[None])[0, 0].tolist() == [[128.0 * 65], [2.0 * 65]]


def test_blocks_of_rows_give_what_the_whole_map_gives(load, monkeypatch) -> None:
    """The map comes in blocks of 64 rows where it would take more memory than is allowed."""
    model, text = load("tiny:llama"), " ".join([WORDS] * 6)
    whole = model.trace(text, keep="top")
    seen = []
    take = Keeper.__call__
    monkeypatch.setattr("headwise.traces.long.BLOCK_BYTES", 1)
    monkeypatch.setattr(Keeper, "__call__", lambda self, layer: (seen.append(layer.first_row), take(self, layer))[1])
    parts = model.trace(text, keep="top")
    assert set(seen) == set(range(0, len(whole.tokens), BLOCK)) != {0}
    for quantity in whole.quantities:
        for part in ("value", "rest", "blocks"):
            assert_close(getattr(parts.top(quantity), part), getattr(whole.top(quantity), part))
    for name, fact in whole.facts["self"].items():
        assert_close(parts.facts["self"][name], fact)


def test_no_logits_of_all_tokens_are_made(load) -> None:
    model, rows = load("tiny:llama", "causal-lm"), []
    hook = model.hf.get_output_embeddings().register_forward_hook(lambda _m, args, _out: rows.append(args[0].shape[1]))
    try:
        model.trace(WORDS, keep="top")
    finally:
        hook.remove()
    assert rows == [1, 1], "watched and not watched"


def test_it_opens_again(load, tmp_path) -> None:
    kept = load("tiny:marian").trace(WORDS, "the dog", keep="top")
    again = hw.open(kept.save(tmp_path / "long.safetensors"))
    assert isinstance(again, hw.LongTrace)
    assert (again.tokens, again.stacks, again.quantities) == (kept.tokens, kept.stacks, kept.quantities)
    for stack in kept.stacks:
        assert again.heads(stack=stack).equals(kept.heads(stack=stack))
        assert torch.equal(again.top("norm", stack=stack).key, kept.top("norm", stack=stack).key)


def unchecked(**given: object) -> None:
    """What `Top` says where no types are checked, as they are in tests."""
    top = Top()
    for name, value in given.items():
        object.__setattr__(top, name, value)
    top.__post_init__()


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda t, _: t.pop("self.raw.key"), "'key'"),
        (
            lambda t, _: t.update({n: t[n][:, :, :3] for n in ("self.raw.key", "self.raw.value", "self.raw.rest")}),
            "of raw is",
        ),
        (lambda t, _: t.update({"self.norm.value": t["self.norm.value"].double()}), "value of norm is"),
        (lambda t, _: t.update({"self.raw.key": t["self.raw.key"] + 10**6}), "keys that the text does not have"),
        (lambda t, _: t.update({"self.raw.key": t["self.raw.key"] - 1}), "keys that the text does not have"),
        (lambda t, _: t.pop("fact.self.entropy"), "numbers of its heads"),
        (lambda t, _: t.update({"fact.self.first": torch.zeros(1)}), "numbers of its heads"),
        (lambda _, facts: facts.update(maps={}), "keeps no map"),
        (lambda _, facts: facts.update(maps={"self": 3}), "not iterable"),
    ],
)
def test_a_damaged_file_is_one_line(load, tmp_path, damage, says: str) -> None:
    path = load("tiny:gpt2").trace(WORDS, keep="top").save(tmp_path / "long.safetensors")
    with safe_open(path, framework="pt") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    facts = json.loads(metadata["facts"])
    damage(tensors, facts)
    save_file({name: x.contiguous() for name, x in tensors.items()}, path, {**metadata, "facts": json.dumps(facts)})
    with pytest.raises(InputError, match="must be as it was saved") as error:
        hw.open(path)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda m: m.trace(WORDS, keep="most"), 'keep must be "all", "top" or hw.Top'),
        (lambda m: m.trace(WORDS, keep="top", layers=[0]), "leave out layers and change"),
        (lambda m: m.trace(WORDS, keep=Top(k=0)), "at least 1, but k=0"),
        (lambda _: unchecked(k=1.5), "at least 1, but k=1.5"),
        (lambda _: unchecked(quantities="raw"), "pass ('raw',)"),
        (lambda m: m.trace(WORDS, keep="top").blocks(level=-1), "Levels go up from 0"),
        (lambda m: m.trace(WORDS, keep=Top(quantities=())), "At least one quantity"),
        (lambda m: m.trace(WORDS, keep=Top(quantities=("rau",))), "rau"),
        (lambda m: m.trace(WORDS, keep="top").top("null"), "trace again with keep=hw.Top(quantities=('null',))"),
        (lambda m: m.trace(WORDS, keep="top").row(9, 0, 0), "Layers of this trace go from 0 to 2, but 9"),
        (lambda m: m.trace(WORDS, keep="top").row(0, 4, 0), "Heads of this trace go from 0 to 3, but 4"),
        (lambda m: m.trace(WORDS, keep="top").blocks(stack="cross"), "no stack 'cross'"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(load, ask, says: str) -> None:
    with pytest.raises(InputError if "rau" not in says else hw.HeadwiseError, match=None) as error:
        ask(load("tiny:gpt2"))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_in_one_call() -> None:
    kept = hw.trace(WORDS, model="tiny:bert", keep=Top(k=3, quantities=("raw",)))
    assert (kept.quantities, kept.top("raw").key.shape[-1]) == (("raw",), 3)


@pytest.mark.parametrize("family", ["llama", "bart", "albert"])
def test_residuals_of_earlier_layers_are_let_go(load, family: str) -> None:
    """Those of a long text would be as large as all that is kept of it; ALBERT's layers are one module."""
    model, held = load(f"tiny:{family}"), []
    batch = model.batch([model.encode(WORDS)], [model.encode_target(WORDS)] if model.is_encoder_decoder else [])
    masks = {"source": batch.mask, **({"target": batch.target_mask} if batch.targets else {})}
    recorder = Recorder(model.proof.sites, masks, lambda _: held.append(len(recorder.residuals)), lambda _: True, False)
    with torch.no_grad(), recording(model.hf, recorder):
        model.forward(batch)
    assert len(held) == len(model.proof.sites) > 2
    assert max(held) == 1
    assert not recorder.residuals


def test_the_page_has_the_models_own_answer(load) -> None:
    kept = load("tiny:gpt2", "causal-lm").trace(WORDS, keep="top")
    found = answered(kept.model, kept.text)
    assert found is not None
    assert payload(kept)["answer"] == found.says
    whole = kept.model.hf(**kept.model.batch([kept.text]).inputs).logits[0, -1].detach().softmax(-1)
    assert found.choices[0][1] == pytest.approx(float(whole.max()), rel=1e-5)


@pytest.mark.parametrize("keep", ["all", hw.Top(k=3)], ids=["whole", "long"])
def test_a_trace_begins_as_people_read_it(load, keep) -> None:
    """Without the tokenizer's marks, and with dots only where it goes on."""
    model = load("tiny:gpt2")
    assert repr(model.trace("of\nold", keep=keep)).endswith(": <s> o f ↵ o l d </s>>")
    assert repr(model.trace("the old\ndog", keep=keep)).endswith(": <s> t h e old ↵ d o …>")
