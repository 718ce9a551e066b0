"""Changes of a model: each equals the same thing done by hand, composes with others, and is gone afterwards."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

import headwise as hw
from headwise.attributions.value_zeroing import zeroing
from headwise.changes import Change, attend, cut, from_json, mean, resample, scale, to_json, without, zero
from headwise.errors import InputError, ModelError
from headwise.models.editing import head_outputs
from headwise.models.tiny import FAMILIES
from headwise.text.corpus import open_corpus
from references.captures import TARGETS, TEXTS, Captured, captured
from references.compare import assert_close

TEXT = TEXTS[0]
FEW = ("albert", "bert", "modernbert", "mpnet", "gemma2", "gpt-neox", "gpt-oss", "gpt2", "llama", "opt", "bart", "t5")


@pytest.fixture(params=FAMILIES)
def case(request: pytest.FixtureRequest) -> Captured:
    return captured(request.param)


@pytest.fixture(params=FEW)
def few(request: pytest.FixtureRequest) -> Captured:
    """One family of every kind: shared layers, windows, norms, parallel blocks, sinks, folded tokens, two stacks."""
    return captured(request.param)


def output(model: hw.Model, *changes: Change, texts: Sequence[int] = (0,)) -> Tensor:
    """The last hidden tokens of some of the texts, the first of them unpadded."""
    targets = [model.encode_target(TARGETS[i]) for i in texts] if model.is_encoder_decoder else []
    batch = model.batch([model.encode(TEXTS[i]) for i in texts], targets)
    with torch.no_grad(), model.changed(*changes):
        return model.hf(**batch.inputs)[0][0]


def hooks(model: hw.Model) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.hf.modules())


def with_slice_of_w_o_zero(model: hw.Model, stack: str, head: int) -> hw.Model:
    """A copy in which no layer of the stack reads that head."""
    hf = copy.deepcopy(model.hf)
    names = {module: name for name, module in model.hf.named_modules()}
    for site in model.sites(stack):
        weight = hf.get_submodule(names[site.projection]).weight.data
        size = site.circuit.w_o.shape[1]
        part = slice(head * size, (head + 1) * size)
        if isinstance(site.projection, Conv1D):
            weight[part] = 0
        else:
            weight[:, part] = 0
    return hw.load((hf, model.tokenizer))


def test_zero_is_a_slice_of_w_o_set_to_zero(case: Captured) -> None:
    stack = case.model.stacks[-1]
    bare = with_slice_of_w_o_zero(case.model, stack, 1)
    heads = [f"L{layer}.H1" for layer in range(case.model.layers(stack))]
    changed = output(case.model, zero(*heads, stack=stack))
    assert_close(changed, output(bare), 1e-5)
    assert (changed - output(case.model)).abs().max() > 1e-3, "it matters"
    assert_close(output(bare, zero(*heads, stack=stack)), output(bare), 1e-6)  # a head that W_O does not read


def test_attention_with_the_same_output_changes_nothing(case: Captured) -> None:
    changes = [attend("effective", "all", stack=stack) for stack in case.model.stacks]
    assert_close(
        output(case.model, *changes, attend("raw", "L0", stack=case.model.stacks[-1])), output(case.model), 1e-5
    )


def test_the_farthest_rival_changes_nothing_though_it_is_another_map(case: Captured) -> None:
    stack, target = case.model.stacks[-1], TARGETS[0] if case.model.is_encoder_decoder else None
    trace = case.model.trace(TEXT, target, change=attend("far", "L1.H2", stack=stack))
    assert_close(trace.hidden["decoder" if stack == "cross" else stack][-1], output(case.model), 1e-5)
    own = case.traces[0].attention(stack=stack)[1, 2]
    if own.shape[-1] > case.model.head_size(stack) + 2 and not case.family.startswith(("gemma", "gpt-oss", "mis")):
        assert (trace.attention(stack=stack)[1, 2] - own).abs().max() > 1e-2  # (windows of 8 leave no freedom)


def test_uniform_attention_is_uniform_over_what_is_seen(few: Captured) -> None:
    stack = few.model.stacks[0]
    target = TARGETS[0] if few.model.is_encoder_decoder else None
    trace = few.model.trace(TEXT, target, change=attend("uniform", "L1", stack=stack))
    seen = trace.of(stack)[1].visible[0].float()
    assert_close(trace.attention(stack=stack)[1, 0], seen / seen.sum(-1, keepdim=True), 1e-6)


def test_an_edge_cut_is_a_value_set_to_zero(few: Captured) -> None:
    """For all queries and heads of every layer of the first stack, by value zeroing's own way."""
    model, key = few.model, 2
    if model.is_encoder_decoder:
        pytest.skip("value zeroing there would take the decoder's tokens too")
    batch = model.batch([model.encode(TEXT)])
    with torch.no_grad(), zeroing(model, torch.tensor([key])):
        expected = model.hf(**batch.inputs)[0][0]
    assert_close(output(model, cut((None, key), renormalise=False)), expected, 1e-5)


def test_renormalised_rows_keep_their_sum_and_lose_the_edge(few: Captured) -> None:
    stack, target = few.model.stacks[0], TARGETS[0] if few.model.is_encoder_decoder else None
    before = few.model.trace(TEXT, target).attention(stack=stack)
    after = few.model.trace(TEXT, target, change=cut((5, 4), (5, 3), heads="L0.H1", stack=stack)).attention(stack=stack)
    assert after[0, 1, 5, 3] == after[0, 1, 5, 4] == 0 < before[0, 1, 5, 4]
    assert_close(after[0, 1].sum(-1), before[0, 1].sum(-1), 1e-6)
    assert torch.equal(after[0, 0], before[0, 0]), "other heads keep their own numbers"
    kept = torch.ones_like(before[0, 1, 5], dtype=torch.bool)
    kept[[3, 4]] = False
    ratio = (after[0, 1, 5] / before[0, 1, 5])[kept & (before[0, 1, 5] > 1e-6)]
    assert_close(ratio, ratio[:1].expand_as(ratio), 1e-4)


def test_the_same_text_resampled_and_a_scale_of_one_change_nothing(few: Captured) -> None:
    pair = TARGETS[0] if few.model.is_encoder_decoder else None
    for stack in few.model.stacks:
        again = resample("all", text=TEXT, pair=pair, stack=stack)
        assert_close(output(few.model, again, scale("L0.H0", by=1, stack=stack)), output(few.model), 1e-6)


def test_padding_and_batch_mates_play_no_part(few: Captured) -> None:
    changes = [attend("effective", "L1.H0"), cut((2, 1), heads="L0"), scale("L2.H3", by=0.3), zero("L0.H2")]
    alone = output(few.model, *changes, texts=[1])
    together = output(few.model, *changes, texts=[1, 0])[: len(alone)]
    assert_close(together, alone, 5e-5)


def test_changes_compose_and_are_undone_also_after_an_error(few: Captured) -> None:
    model, before, there = few.model, output(few.model), hooks(few.model)
    one, two = zero("L0.H1"), scale("L1.H2", by=0.5)
    both = output(model, one, two)
    with model.changed(one):
        assert_close(output(model, two), both, 1e-6)
    assert torch.equal(output(model), before)
    with pytest.raises(ZeroDivisionError), model.changed(one, cut((1, 0)), without("attention", 1)):
        raise ZeroDivisionError
    assert torch.equal(output(model), before)
    assert hooks(model) == there


def test_a_block_removed_is_its_weights_at_zero(few: Captured) -> None:
    if few.family == "albert":
        pytest.skip("layers share their weights")
    hf = copy.deepcopy(few.model.hf)
    names = {module: name for name, module in few.model.hf.named_modules()}
    stack = few.model.stacks[0]
    for parameter in hf.get_submodule(names[few.model.sites(stack)[1].projection]).parameters():
        parameter.data.zero_()
    gone = output(few.model, without("attention", 1, stack=stack))
    assert_close(gone, output(hw.load((hf, few.model.tokenizer))), 1e-5)


@pytest.mark.parametrize(
    ("family", "module"),
    [("bert", "encoder.layer.1.output.dense"), ("llama", "layers.1.mlp.down_proj"), ("gpt-neox", "layers.1.mlp"),
     ("gemma2", "layers.1.mlp"), ("opt", "decoder.layers.1.fc2"), ("t5", "encoder.block.1.layer.1.DenseReluDense.wo")],
)  # fmt: skip
def test_a_feed_forward_block_removed_is_its_weights_at_zero(family: str, module: str) -> None:
    model = captured(family).model
    hf = copy.deepcopy(model.hf)
    for parameter in hf.get_submodule(module).parameters():
        parameter.data.zero_()
    assert_close(output(model, without("feed-forward", 1)), output(hw.load((hf, model.tokenizer))), 1e-5)


def test_every_layer_of_every_family_has_a_feed_forward_block(few: Captured) -> None:
    for stack in few.model.stacks:
        for layer in range(few.model.layers(stack)) if stack != "cross" else ():
            assert (output(few.model, without("feed-forward", layer, stack=stack)) - output(few.model)).any()


def test_a_mean_is_that_of_all_tokens_of_the_corpus(load) -> None:
    model = load("tiny:llama")
    texts = [document.text for document in open_corpus("sample").documents()][:3]
    rows = [head_outputs(model, model.batch([model.encode(t, truncate=True)]))["self", 1][0].double() for t in texts]
    expected = torch.cat(rows).mean(0)[2]

    def put(_module: nn.Module, args: tuple[Tensor]) -> tuple[Tensor]:
        x = args[0].clone()
        x[..., 12:18] = expected.float()  # head 2 of size 6
        return (x,)

    handle = model.sites()[1].projection.register_forward_pre_hook(put)
    by_hand = output(model)
    handle.remove()
    assert_close(output(model, mean("L1.H2", corpus="sample", first=3)), by_hand, 1e-5)


def test_a_resampled_head_takes_the_other_text_position_by_position(load) -> None:
    """The other text is shorter: it begins again."""
    model = load("tiny:gpt2")
    other = head_outputs(model, model.batch([model.encode(TEXTS[2])]))["self", 0][0]
    mine = model.batch([model.encode(TEXT)])
    with torch.no_grad(), model.changed(resample("L0.H3", text=TEXTS[2])):
        found = head_outputs(model, mine)["self", 0][0]
    for position in range(len(found)):
        assert torch.equal(found[position, 3], other[position % len(other), 3])
    assert torch.equal(found[:, :3], head_outputs(model, mine)["self", 0][0][:, :3])


def test_causal_masks_hold(load) -> None:
    """Cutting what is not seen changes nothing, and nothing before a cut edge moves."""
    model = load("tiny:llama")
    before = output(model)
    assert_close(output(model, cut((3, 7))), before, 1e-6)
    assert_close(output(model, cut((6, 2)))[:6], before[:6], 1e-6)
    assert (output(model, cut((6, 2)))[6] - before[6]).abs().max() > 1e-4


def test_blocks_of_rows_are_changed_as_the_whole(load) -> None:
    model = load("tiny:llama")
    batch, parts, whole = model.batch([model.encode(TEXT)]), [], []
    with torch.no_grad(), model.changed(cut((6, 2), (9, 9), heads="L1")):
        model.run(batch, parts.append, rows=5)
        model.run(batch, whole.append, rows=0)
    rows = torch.cat([layer.alpha for layer in parts if layer.index == 1], dim=2)
    assert_close(rows, whole[1].alpha)  # float32: blocks are other kernels
    assert rows[0, :, 9, 9].abs().max() == 0


def test_quantities_that_need_passes_are_those_of_the_changed_model(load) -> None:
    model = load("tiny:bert")
    changed = model.trace(TEXT, change=zero("L0.H1")).mixing("value-zeroing")
    with model.changed(zero("L0.H1")):
        assert_close(changed, model.trace(TEXT).mixing("value-zeroing"), 1e-6)
    assert (changed - model.trace(TEXT).mixing("value-zeroing")).abs().max() > 1e-3


def test_changes_are_json() -> None:
    changes = (
        zero("L3.H4", "L5"), mean("all", corpus="wiki.txt", first=7), resample("L0", text="a", pair="b"),
        scale("L1.H1", by=0.5, stack="decoder"), cut((5, 2), (None, 0), heads=["L1", "L2.H0"], renormalise=False),
        attend("far", "L1"), without("feed-forward", 2, 3), without("attention", 1, to="mean", corpus="sample"),
    )  # fmt: skip
    assert from_json(json.loads(json.dumps(to_json(changes)))) == changes


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: zero("L9.H0"), "Layers of tiny:bert go from 0 to 2, but 9 was asked for."),
        (lambda: zero("L1.H4"), "Heads of tiny:bert go from 0 to 3, but L1.H4 was asked for."),
        (lambda: zero("3.4"), "A head is named L3.H4, all heads of a layer L3, and all of them 'all', but got '3.4'."),
        (lambda: zero(), "At least one head must be named, but none was; write L3.H4, L3 for a layer, or 'all'."),
        (lambda: zero("L0", stack="cross"), "There is no stack 'cross' in tiny:bert; there are self."),
        (lambda: mean("L0"), "A mean is taken over a corpus, but none was given; pass corpus='sample' or a file's "
                             "name."),
        (lambda: cut((40, 2)), "An edge must lie in the text, whose query positions go from 0 to 24, but query 40 was "
                               "asked for."),
        (lambda: cut((4, -1)), "An edge must lie in the text, whose key positions go from 0 to 24, but key -1 was "
                               "asked for."),
        (lambda: cut(), "At least one edge must be cut, but none was given; pass (query, key) positions."),
        (lambda: cut(3), "An edge is a pair (query, key) of positions, but got 3."),
        (lambda: attend("norm", "L0"), "Attention can be replaced by raw, effective, uniform, far, but 'norm' was "
                                       "asked for."),
        (lambda: without("mlp", 1), "A block of a layer is attention or feed-forward, but 'mlp' was asked for."),
        (lambda: without("attention", 7), "Layers of tiny:bert go from 0 to 2, but 7 was asked for."),
        (lambda: without("attention"), "At least one layer must be named, but none was; pass its zero-based number."),
        (lambda: without("attention", 1, to="half"), "A block is replaced by zero or its mean, but 'half' was asked "
                                                     "for."),
    ],
)  # fmt: skip
def test_bad_changes_are_one_line(load, make, said: str) -> None:
    model = load("tiny:bert")
    with pytest.raises(InputError) as error:
        model.trace(TEXT, change=make())
    assert str(error.value) == said


def test_a_stack_may_stand_before_a_head() -> None:
    assert zero("cross L1.H1", "cross L2") == zero("L1.H1", "L2", stack="cross")
    assert cut((1, 0), heads="encoder L1.H1") == cut((1, 0), heads="L1.H1", stack="encoder")
    for heads, stack in ((("cross L1.H1", "L2"), None), (("cross L1.H1",), "encoder")):
        with pytest.raises(InputError, match=r"of one stack, but got cross and (no stack|encoder); pass a change for"):
            zero(*heads, stack=stack)
    with pytest.raises(InputError, match=r"but got 'side L1.H1'"):
        zero("side L1.H1")


def test_a_cross_attention_layer_has_no_feed_forward_block_of_its_own(load) -> None:
    with pytest.raises(ModelError, match="cross layer 1 of tiny:marian none was"):
        load("tiny:marian").trace(TEXT, TARGETS[0], change=without("feed-forward", 1, stack="cross"))
