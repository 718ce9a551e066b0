"""Exact paths: a target as a sum over input tokens and biases, by one forward and one backward pass.

In the frozen network (frozen.py) the logits are linear in what enters it: word, position and segment embeddings, and
the biases. So a target, which is linear in the logits (targets.py), is

    target  =  Σ_i c_i + bias + rest,      c_i = Σ over the embeddings e of token i of  e · ∂target/∂e,

exactly. The same backward pass gives what passes through each head: with o_h the head's output before W_O, its total
part is o_h · ∂target/∂o_h. With every attention and feed-forward output made a leaf of its own (a second pass), the
parts are the direct ones, which add up too:  target = Σ heads + Σ feed-forward + Σ embeddings + bias + rest.

That the parts add up is checked for every explanation: to 1e-5 of the largest logit, or of the sum of their sizes, in
float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from headwise.attributions.prediction import attend_all
from headwise.attributions.value_zeroing import block_of
from headwise.errors import ModelError
from headwise.explanations.frozen import Freezing, Frozen, Leaves, freezing
from headwise.explanations.question import Question
from headwise.measures.gradients import differentiating
from headwise.models.capture import Call

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-6}  # many families take the softmax and RMSNorm in float32 anyway


@dataclass(frozen=True)
class Parts:
    """What each target is made of; `tokens` are those of the text and then of a decoder's prefix.

    `value` is what the parts must add up to: tokens + bias + rest, where the rest is −H(p) of a log-probability and 0
    otherwise. `error` is how far they are from it, relative to the largest logit that is read or to Σ |parts|.
    """

    tokens: Float64[Tensor, "target token"]
    bias: Float64[Tensor, " target"]
    rest: Float64[Tensor, " target"]
    value: Float64[Tensor, " target"]
    error: Float64[Tensor, " target"]


@dataclass(frozen=True)
class HeadParts:
    """What passes through each head of each attention call, in the order of `Model.proof.sites`.

    `total`: by all paths. `direct`: by those that meet no later attention and no feed-forward block; these add up with
    `feed_forward` (a number for each site it follows), `embedding` and `bias` to the target. `keys`: the total by the
    position whose value the head reads.
    """

    total: list[Float64[Tensor, " head"]]
    direct: list[Float64[Tensor, " head"]]
    keys: list[Tensor]  # [head key]
    feed_forward: list[float]
    embedding: float
    bias: float
    rest: float
    value: float


@differentiating()
def paths(question: Question, how: Freezing | None = None) -> Parts:
    """The parts of every target of a question, or an error where they do not add up for this model."""
    how = how or Freezing()
    with freezing(question.model, how) as mode, _seam(question, mode) as seam, question.running(), mode:
        logits = question.logits()[0]
    whole = len(question.targets) > 1  # the first target is the sum of the others then, and so are its parts
    asked = range(whole, len(question.targets))
    numbers = [_number(question, logits, at) for at in asked]
    slopes = _slopes(question, mode.leaves, numbers, seam)
    found = [_parts_of(question, mode, logits, at, slope) for at, slope in zip(asked, slopes, strict=True)]
    columns = [torch.stack(column) for column in zip(*found, strict=True)]
    tokens, bias, rest = (torch.cat([x.sum(0, keepdim=True), x]) if whole else x for x in columns[:3])
    value = question.answers[:, 0]
    # subtle: a sum is rounded by its terms; in deep models parts cancel that are far larger than any logit
    size = torch.stack([columns[3].max().expand_as(value), value.abs(), tokens.abs().sum(-1) + bias.abs()]).amax(0)
    error = (tokens.sum(-1) + bias + rest - value).abs() / size
    check(question, error, how)
    return Parts(tokens, bias, rest, value, error)


def check(question: Question, error: Float64[Tensor, " target"], how: Freezing) -> None:
    worst, tolerance = float(error.max()), TOLERANCE[question.model.hf.dtype]
    if not worst <= tolerance:
        raise ModelError(
            f"Exact paths must add up to the model's own number to {tolerance:g} of its largest logit, but those of "
            f"{question.model.name} ({how.attention} attention) miss by {worst:.1e}; choose another method, e.g. "
            "integrated-gradients."
        )


@dataclass
class Seam:
    """What the output layer reads, and how many constants were noted before it."""

    hidden: Tensor | None = None
    constants: int = 0


@contextmanager
def _seam(question: Question, mode: Frozen) -> Iterator[Seam]:
    """Notes the seam where several targets of one row each have a common output layer."""
    seam, layer = Seam(), question.model.hf.get_output_embeddings()
    if layer is None or len(question.targets) < 3:
        yield seam
        return

    def note(_module: nn.Module, args: tuple[Tensor, ...]) -> None:
        seam.hidden, seam.constants = args[0], len(mode.leaves.constants)

    handle = layer.register_forward_pre_hook(note)
    try:
        yield seam
    finally:
        handle.remove()


def _number(question: Question, logits: Tensor, at: int) -> Tensor:
    """A target as a linear form of the logits, without its rest."""
    target = question.targets[at]
    return (target.weights(logits)[0] * logits[list(target.rows)]).sum()


def _slopes(question: Question, leaves: Leaves, numbers: list[Tensor], seam: Seam) -> Iterator[Sequence[Tensor | None]]:
    """∂number/∂leaf of every target, embeddings first.

    Through the output layer one pass goes back for all of them: each target reads a row of its own, so that the slope
    of their sum there is each target's at its row.
    """
    inputs = [leaf for _, leaf in leaves.embedded] + leaves.constants
    if seam.hidden is None:
        for number in numbers:
            yield torch.autograd.grad(number, inputs, allow_unused=True, retain_graph=number is not numbers[-1])
        return
    later = leaves.constants[seam.constants :]
    inputs = inputs[: len(inputs) - len(later)]
    total = torch.stack(numbers).sum()
    (slope,) = torch.autograd.grad(total, seam.hidden, retain_graph=True)
    every = slope.shape[-2] != len(question.rows)
    for row, number in zip(question.rows if every else range(len(question.rows)), numbers, strict=True):
        own = torch.zeros_like(slope)
        own[..., row, :] = slope[..., row, :]
        before = torch.autograd.grad(seam.hidden, inputs, own, allow_unused=True, retain_graph=True)
        after = torch.autograd.grad(number, later, allow_unused=True, retain_graph=True) if later else ()
        yield (*before, *after)


def _parts_of(
    question: Question, mode: Frozen, logits: Tensor, at: int, slopes: Sequence[Tensor | None]
) -> tuple[Tensor, ...]:
    """Tokens, bias, rest and the largest logit that is read, of one target."""
    target, leaves = question.targets[at], mode.leaves
    _, rest = target.weights(logits)
    inputs = [leaf for _, leaf in leaves.embedded] + leaves.constants
    parts = [None if g is None else leaf.detach().double() * g.double() for leaf, g in zip(inputs, slopes, strict=True)]
    count = len(leaves.embedded)
    tokens = torch.zeros(len(question), dtype=torch.float64)
    bias = sum((float(part.sum()) for part in parts[count:] if part is not None), 0.0)
    for (stack, _), part in zip(leaves.embedded, parts[:count], strict=True):
        if part is None:
            continue
        where = _tokens_of(question, stack, part)
        if where is None:
            bias += float(part.sum())
        else:
            tokens[where] += part.sum(-1).reshape(-1).cpu()
    largest = float(logits.detach()[list(target.rows)].abs().max())
    return tokens, *(torch.tensor(x, dtype=torch.float64) for x in (bias, rest, largest))


def _tokens_of(question: Question, stack: str, part: Tensor) -> slice | None:
    """Which tokens a looked-up embedding belongs to; None where it is of something else (relative positions)."""
    first = len(question.text)
    where = slice(first, len(question)) if stack == "target" else slice(0, first)
    count = where.stop - where.start
    return where if tuple(part.shape[:-1]) in ((1, count), (count,)) else None


# Heads.


@dataclass
class Nodes:
    """What is made a leaf in the pass of direct parts, in the order of the pass."""

    heads: list[Tensor] = field(default_factory=list)
    feed_forward: list[tuple[int, Tensor]] = field(default_factory=list)  # attention calls before it, the activation
    inside: int = 0  # blocks that are running


@differentiating()
def head_parts(question: Question, at: int = 0, how: Freezing | None = None) -> HeadParts:
    """Through which heads a target's parts pass, by two passes forward and back."""
    how = how or Freezing()
    total, keys = _total(question, at, how)
    nodes = Nodes()
    logits, mode = direct_pass(question, nodes, how)
    target = question.targets[at]
    weights, rest = target.weights(logits)
    number = (weights * logits[list(target.rows)]).sum()
    groups = [
        nodes.heads,
        [x for _, x in nodes.feed_forward],
        [x for _, x in mode.leaves.embedded],
        mode.leaves.constants,
    ]
    sums = products(number, groups)
    feed_forward = [0.0] * len(nodes.heads)
    for (calls, _), part in zip(nodes.feed_forward, sums[1], strict=True):
        feed_forward[max(calls - 1, 0)] += float(part.sum())
    found = HeadParts(
        total=total,
        direct=[part.sum((0, 1, 3)) for part in sums[0]],
        keys=keys,
        feed_forward=feed_forward,
        embedding=sum(float(part.sum()) for part in sums[2]),
        bias=sum(float(part.sum()) for part in sums[3]),
        rest=rest,
        value=float(question.answers[at, 0]),
    )
    added = float(sum(part.sum() for part in found.direct)) + sum(feed_forward) + found.embedding + found.bias + rest
    scale = max(float(logits.detach().abs().max()), abs(found.value))
    check(question, torch.tensor([abs(added - found.value) / scale], dtype=torch.float64), how)
    return found


def _total(question: Question, at: int, how: Freezing) -> tuple[list[Tensor], list[Tensor]]:
    seen: list[tuple[Tensor, Tensor, Tensor]] = []

    def watch(call: Call) -> tuple[Tensor, Tensor]:
        out, alpha = attend_all(call)
        seen.append((out, alpha, call.value))
        return out, alpha

    with freezing(question.model, how) as mode, question.running(watch), mode:
        logits = question.logits()[0]
    target = question.targets[at]
    weights, _ = target.weights(logits)
    number = (weights * logits[list(target.rows)]).sum()
    gradients = torch.autograd.grad(number, [out for out, _, _ in seen], allow_unused=True)
    total, keys = [], []
    for (out, alpha, value), g in zip(seen, gradients, strict=True):
        slope = torch.zeros_like(out) if g is None else g
        total.append((out.detach().double() * slope.double()).sum((0, 1, 3)))
        wide = value.detach().repeat_interleave(alpha.shape[1] // value.shape[1], dim=1).double()
        pulled = torch.einsum("bhqk,bqhd->bhkd", alpha.detach()[..., : wide.shape[2]].double(), slope.double())
        keys.append((pulled * wide).sum((0, 3)))
    return total, keys


def direct_pass(question: Question, nodes: Nodes, how: Freezing) -> tuple[Tensor, Frozen]:
    """The frozen network cut at every head and every feed-forward block: what is left between is sums and norms."""

    def watch(call: Call) -> tuple[Tensor, Tensor]:
        out, alpha = attend_all(call)
        leaf = out.detach().requires_grad_()
        nodes.heads.append(leaf)
        return leaf, alpha

    def cut(x: Tensor) -> Tensor:
        if not nodes.inside:
            return x
        leaf = x.detach().requires_grad_()
        nodes.feed_forward.append((len(nodes.heads), leaf))
        return leaf

    blocks = dict.fromkeys(block_of(question.model, site.module) for site in question.model.proof.sites)
    handles = [h for block in blocks for h in (_counted(block, nodes))]
    try:
        with freezing(question.model, how, cut=cut) as mode, question.running(watch), mode:
            return question.logits()[0], mode
    finally:
        for handle in handles:
            handle.remove()


def _counted(block: nn.Module, nodes: Nodes) -> list[torch.utils.hooks.RemovableHandle]:
    def enter(*_: object) -> None:
        nodes.inside += 1

    def leave(*_: object) -> None:
        nodes.inside -= 1

    return [block.register_forward_pre_hook(enter), block.register_forward_hook(leave)]


def products(number: Tensor, groups: Sequence[Sequence[Tensor]]) -> list[list[Tensor]]:
    """leaf · ∂number/∂leaf, number by number, for groups of leaves."""
    flat = [leaf for group in groups for leaf in group]
    gradients = iter(torch.autograd.grad(number, flat, allow_unused=True, retain_graph=True))
    made = []
    for group in groups:
        row = []
        for leaf in group:
            g = next(gradients)
            row.append(leaf.detach().double() * (torch.zeros_like(leaf) if g is None else g).double())
        made.append(row)
    return made
