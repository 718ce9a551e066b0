r"""Attention as a parser: probes that score every word as the head of every other (Clark et al. 2019 §5).

https://arxiv.org/abs/1906.04341, after the released code. For a dependent j and a candidate head i, with α^k the
word-level map of head k and v a word vector:

    attention            Σ_k w_k α^k_ij + u_k α^k_ji
    attention+vectors    Σ_k W_k·[v_i; v_j; 1] α^k_ij + U_k·[v_i; v_j; 1] α^k_ji
    distances+vectors    a·tanh(A [v_i; v_j; d_ij] + b), 256 wide, d_ij how far ahead or behind i is: no attention

Softmax over the candidates, cross-entropy, Adam. The root is one more candidate: its α is s · (attention to and from
the text's opening token) + e · (the closing one), with learned scalars s and e, its vector is zero, and a learned
constant is added for models that have no such tokens. A word is no candidate for itself.

Every parameter has a leading axis `replica`: the task and its control are learned in one go from the same features,
each as if it were alone (Adam treats every number by itself).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot
from torch.nn.utils.rnn import pad_sequence

OPENING, CLOSING, FRAME = 0, 1, 2  # rows of a frame: the two special tokens, then the words
IGNORED = -100
DISTANCE_FEATURES = 7
Parameters = dict[str, Tensor]
Maps = Float[Tensor, "_frame _frame head"]  # of one sentence, as long as it is
Targets = Int[Tensor, "replica _word"]
Scores = Float[Tensor, "replica batch word candidate"]


@dataclass(frozen=True)
class Example:
    """What a probe may know of one sentence.

    `maps[q, k, head]` is the attention from q to k at the level of words: 0 is the token that opens the text and 1 the
    one that closes it (zero where the model has none), 2 + i is word i. `vectors` are those of the words.
    """

    maps: Maps | None
    vectors: Float[Tensor, "_word dimension"] | None
    words: int


@dataclass(frozen=True)
class Padded:
    """Sentences of a batch, padded on the right."""

    maps: Float[Tensor, "batch frame frame head"] | None
    vectors: Float[Tensor, "batch word dimension"] | None
    mask: Bool[Tensor, "batch word"]

    @classmethod
    def of(cls, examples: Sequence[Example]) -> Padded:
        sizes = torch.tensor([example.words for example in examples])
        maps = [example.maps for example in examples if example.maps is not None]
        vectors = [example.vectors.float() for example in examples if example.vectors is not None]
        return cls(
            _padded_maps(maps) if maps else None,
            pad_sequence(vectors, batch_first=True) if vectors else None,
            torch.arange(int(sizes.max())) < sizes[:, None],
        )

    @property
    def candidates(self) -> Bool[Tensor, "batch word candidate"]:
        """Which heads each word may have: the root and every other word of its sentence."""
        words = self.mask.shape[1]
        others = self.mask[:, None, :] & ~torch.eye(words, dtype=torch.bool)
        return torch.cat([torch.ones_like(others[..., :1]), others], dim=-1)


def _padded_maps(maps: Sequence[Maps]) -> Float[Tensor, "batch frame frame head"]:
    if len(maps) == 1:
        return maps[0].float()[None]
    size = max(len(each) for each in maps)
    padded = torch.zeros(len(maps), size, size, maps[0].shape[-1])
    for row, each in zip(padded, maps, strict=True):
        row[: len(each), : len(each)] = each
    return padded


@dataclass(frozen=True)
class Probe(ABC):
    """A family of scores; `heads` are those of the model, `dimension` that of the word vectors."""

    name: ClassVar[str]
    uses: ClassVar[tuple[str, ...]]
    spread: ClassVar[float] = 0.1  # of the first parameters: scores start near zero, no candidate ahead of the others
    heads: int
    dimension: int

    @abstractmethod
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The parameters of one replica."""

    @abstractmethod
    def raw_scores(self, parameters: Parameters, batch: Padded) -> Scores:
        """The score of every candidate, the root first; those that are none included."""

    def scores(self, parameters: Parameters, batch: Padded) -> Scores:
        return self.raw_scores(parameters, batch).masked_fill(~batch.candidates, -torch.inf)

    def initial(self, replicas: int, seed: int) -> Parameters:
        """Glorot-uniform numbers, times `spread`; all replicas of a seed start alike."""
        generator = torch.Generator().manual_seed(seed)
        drawn = {name: self.spread * _glorot(shape, generator) for name, shape in self.shapes().items()}
        return {name: value.expand(replicas, *value.shape).clone() for name, value in drawn.items()}


def _glorot(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    fans = (shape[0], shape[-1]) if shape else (1, 1)
    reach = (6 / sum(fans)) ** 0.5
    return (2 * torch.rand(shape, generator=generator) - 1) * reach


@dataclass(frozen=True)
class AttentionProbe(Probe):
    """One weight a head and direction."""

    name: ClassVar[str] = "attention"
    uses: ClassVar[tuple[str, ...]] = ("maps",)

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"head_to_dependent": (self.heads,), "dependent_to_head": (self.heads,), "root": (3,)}

    def raw_scores(self, parameters: Parameters, batch: Padded) -> Scores:
        assert batch.maps is not None
        w, u = parameters["head_to_dependent"], parameters["dependent_to_head"]
        down = torch.einsum("bijk,rk->rbij", batch.maps, w)
        up = torch.einsum("bjik,rk->rbji", batch.maps, u)
        return _with_root(down.mT + up, parameters["root"])


@dataclass(frozen=True)
class AttentionVectorsProbe(Probe):
    """The weight of a head depends on the two words."""

    name: ClassVar[str] = "attention+vectors"
    uses: ClassVar[tuple[str, ...]] = ("maps", "vectors")

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        each = {"of_head": (self.dimension, self.heads), "of_dependent": (self.dimension, self.heads)}
        bias = {"head_to_dependent": (self.heads,), "dependent_to_head": (self.heads,), "root": (3,)}
        return {**{f"{way}_{of}": shape for way in ("down", "up") for of, shape in each.items()}, **bias}

    def raw_scores(self, parameters: Parameters, batch: Padded) -> Scores:
        assert batch.maps is not None
        assert batch.vectors is not None
        vectors = torch.nn.functional.pad(batch.vectors, (0, 0, FRAME, 0))  # those of the special tokens are zero
        weigh = {
            name: torch.einsum("bid,rdk->rbik", vectors, parameters[name])
            for name in ("down_of_head", "down_of_dependent", "up_of_head", "up_of_dependent")
        }
        heads = weigh["down_of_head"] + parameters["head_to_dependent"][:, None, None]
        dependents = weigh["up_of_dependent"] + parameters["dependent_to_head"][:, None, None]
        by_query = torch.stack([heads, dependents], dim=1)
        by_key = torch.stack([weigh["down_of_dependent"], weigh["up_of_head"]], dim=1)
        down, up = _weighted(batch.maps, by_query, by_key).unbind(1)
        return _with_root(down.mT + up, parameters["root"])


def _weighted(
    maps: Float[Tensor, "batch frame frame head"],
    by_query: Float[Tensor, "replica way batch frame head"],
    by_key: Float[Tensor, "replica way batch frame head"],
) -> Float[Tensor, "replica way batch frame frame"]:
    """Σ_k maps[q, k'] (by_query[q] + by_key[k']), without a weight for every pair."""
    return torch.einsum("bqkh,rwbqh->rwbqk", maps, by_query) + torch.einsum("bqkh,rwbkh->rwbqk", maps, by_key)


def _with_root(
    frame: Float[Tensor, "replica batch frame frame"], root: Float[Tensor, "replica 3"]
) -> Float[Tensor, "replica batch word candidate"]:
    """The words' rows of a frame of scores [dependent, head], its two special columns made one: the root."""
    rows = frame[:, :, FRAME:]
    opening, closing, constant = root[:, None, None].unbind(-1)
    score = opening * rows[..., OPENING] + closing * rows[..., CLOSING] + constant
    return torch.cat([score[..., None], rows[..., FRAME:]], dim=-1)


@dataclass(frozen=True)
class DistanceVectorsProbe(Probe):
    """What word vectors and word order alone give: one hidden layer, no attention."""

    name: ClassVar[str] = "distances+vectors"
    uses: ClassVar[tuple[str, ...]] = ("vectors",)
    spread: ClassVar[float] = 1.0
    width: int = 256

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {
            "of_head": (self.dimension, self.width), "of_dependent": (self.dimension, self.width),
            "of_distance": (DISTANCE_FEATURES, self.width), "bias": (self.width,), "root": (self.width,),
            "out": (self.width,),
        }  # fmt: skip

    def raw_scores(self, parameters: Parameters, batch: Padded) -> Scores:
        assert batch.vectors is not None
        heads, dependents = (
            torch.einsum("bid,rdw->rbiw", batch.vectors, parameters[name]) for name in ("of_head", "of_dependent")
        )
        apart = torch.einsum("bjif,rfw->rbjiw", distance_features(batch.mask), parameters["of_distance"])
        dependents = dependents + parameters["bias"][:, None, None]
        words = dependents[:, :, :, None] + heads[:, :, None] + apart
        root = dependents[:, :, :, None] + parameters["root"][:, None, None, None]
        hidden = torch.cat([root, words], dim=3).tanh()
        return torch.einsum("rbjiw,rw->rbji", hidden, parameters["out"])


def distance_features(mask: Bool[Tensor, "batch word"]) -> Float[Tensor, "batch dependent candidate feature"]:
    """How far ahead and how far behind a candidate is, as a share of the sentence, and whether by 1 or 2 or 0 words."""
    place = torch.arange(mask.shape[1])
    ahead = place[None, :] - place[:, None]
    share = ahead / mask.sum(-1)[:, None, None]
    near = one_hot((ahead + 2).clamp(-1, 5) + 1, 7)[..., 1:6].float()
    return torch.cat([share.clamp(min=0)[..., None], (-share).clamp(min=0)[..., None],
                      near.expand(len(mask), -1, -1, -1)], dim=-1)  # fmt: skip


PROBES: Mapping[str, type[Probe]] = {
    kind.name: kind for kind in (AttentionProbe, AttentionVectorsProbe, DistanceVectorsProbe)
}


@dataclass(frozen=True)
class Training:
    """How a probe is trained: the paper's Adam and one sentence a step; `epochs` passes over the sentences."""

    epochs: int = 1
    rate: float = 0.002
    batch: int = 1
    seed: int = 0


def trained(
    probe: Probe,
    examples: Sequence[Example],
    targets: Sequence[Targets],
    training: Training,
    report: Callable[[int, float], None] = lambda _epoch, _loss: None,
) -> Parameters:
    """Parameters learned from the heads of all words: `targets` are candidates, 0 for the root and 1 + i for word i."""
    replicas = len(targets[0])
    parameters = {name: value.requires_grad_() for name, value in probe.initial(replicas, training.seed).items()}
    optimiser = torch.optim.Adam(list(parameters.values()), lr=training.rate, fused=True)
    generator = torch.Generator().manual_seed(training.seed)
    for epoch in range(training.epochs):
        total = words = 0.0
        for chosen in _steps(len(examples), training.batch, generator):
            batch = Padded.of([examples[index] for index in chosen])
            loss = _loss(probe.scores(parameters, batch), [targets[index] for index in chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total, words = total + float(loss.detach()), words + float(batch.mask.sum()) * replicas
        report(epoch, total / words)
    return {name: value.detach() for name, value in parameters.items()}


def _steps(count: int, size: int, generator: torch.Generator) -> Iterator[list[int]]:
    order = torch.randperm(count, generator=generator)
    return (chosen.tolist() for chosen in order.split(size))


def _loss(scores: Scores, targets: Sequence[Targets]) -> Float[Tensor, ""]:
    """Cross-entropy, summed over words, sentences and replicas."""
    padded = pad_sequence([target.mT for target in targets], batch_first=True, padding_value=IGNORED)
    wanted = padded.permute(2, 0, 1)  # replica batch word
    return cross_entropy(scores.flatten(0, 2), wanted.flatten(), ignore_index=IGNORED, reduction="sum")


def predicted(
    probe: Probe, parameters: Parameters, examples: Sequence[Example]
) -> Iterator[Float[Tensor, "replica word candidate"]]:
    """The scores of each sentence, one at a time."""
    with torch.inference_mode():
        for example in examples:
            yield probe.scores(parameters, Padded.of([example]))[:, 0]
