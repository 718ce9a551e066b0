r"""Is the parse in the geometry of the hidden tokens? The structural probe of Hewitt & Manning 2019.

https://aclanthology.org/N19-1419. A linear map B, of rank k, is learned such that squared distances between mapped
words are distances in the tree:

    ‖B (h_i − h_j)‖² ≈ d_T(i, j),      loss: mean over sentences of  1/n² Σ_ij | d_T(i, j) − ‖B (h_i − h_j)‖² |

The tree read back is the minimum spanning tree of those distances. Every dimension of a layer is standardised over the
training words first, which B could undo: it changes the path of the optimiser and nothing else.

Every layer, and the task and its control, are learned side by side, each as if it were alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

Hidden = Float[Tensor, "_word layer d_model"]  # words are as many as the sentence has
Tree = Float[Tensor, "replica _word _word"]
Maps = Float[Tensor, "replica layer d_model rank"]
Distances = Float[Tensor, "replica layer word other"]


@dataclass(frozen=True)
class Scale:
    """Mean and spread of every dimension over the words it was made of."""

    mean: Float[Tensor, "layer d_model"]
    spread: Float[Tensor, "layer d_model"]

    @classmethod
    def of(cls, sentences: Sequence[Hidden]) -> Scale:
        count, total, squares = 0, torch.zeros(()).double(), torch.zeros(()).double()
        for hidden in sentences:
            count, total = count + len(hidden), total + hidden.double().sum(0)
            squares = squares + hidden.double().square().sum(0)
        mean = total / count
        spread = (squares / count - mean.square()).clamp(min=0).sqrt()
        return cls(mean.float(), torch.where(spread > 0, spread, 1.0).float())

    def __call__(self, hidden: Hidden) -> Hidden:
        return (hidden.float() - self.mean) / self.spread


@dataclass(frozen=True)
class Scaled(Sequence[Hidden]):
    """Sentences that are standardised when they are looked at, so that they may stay on disk."""

    sentences: Sequence[Hidden]
    scale: Scale

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, index: int) -> Hidden:  # type: ignore[override] - slices are not needed
        return self.scale(self.sentences[index])


@dataclass(frozen=True)
class StructuralTraining:
    """The rank of B, and how it is trained."""

    rank: int = 64
    epochs: int = 10
    rate: float = 0.001
    batch: int = 20
    seed: int = 0


def squared_distances(
    hidden: Float[Tensor, "batch word layer d_model"], maps: Maps
) -> Float[Tensor, "replica layer batch word other"]:
    """‖B (h_i − h_j)‖² for every two words."""
    mapped = torch.einsum("bwld,rldk->rlbwk", hidden, maps)
    squares = mapped.square().sum(-1)
    return (squares[..., :, None] + squares[..., None, :] - 2 * mapped @ mapped.mT).clamp(min=0)


def fitted(
    sentences: Sequence[Hidden],
    trees: Sequence[Tree],
    training: StructuralTraining,
    report: Callable[[int, float], None] = lambda _epoch, _loss: None,
) -> Maps:
    """B of every replica and layer, for sentences that are standardised; `trees` are distances in their trees."""
    generator = torch.Generator().manual_seed(training.seed)
    replicas, (_, layers, d_model) = len(trees[0]), sentences[0].shape
    start = (2 * torch.rand(d_model, training.rank, generator=generator) - 1) * 0.05
    maps = start.expand(replicas, layers, -1, -1).clone().requires_grad_()
    optimiser = torch.optim.Adam([maps], lr=training.rate, fused=True)
    for epoch in range(training.epochs):
        total = 0.0
        for part in torch.randperm(len(sentences), generator=generator).split(training.batch):
            chosen = part.tolist()
            loss = _loss(maps, [sentences[k] for k in chosen], [trees[k] for k in chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += float(loss.detach()) * len(chosen)
        report(epoch, total / len(sentences) / replicas / layers)
    return maps.detach()


def _loss(maps: Maps, sentences: Sequence[Hidden], trees: Sequence[Tree]) -> Float[Tensor, ""]:
    """Mean over sentences, sum over replicas and layers."""
    found = squared_distances(pad_sequence(list(sentences), batch_first=True), maps)
    wanted = found.new_zeros(len(maps), 1, *found.shape[2:])
    weight = found.new_zeros(found.shape[2:])
    for row, tree in enumerate(trees):
        words = tree.shape[-1]
        wanted[:, 0, row, :words, :words] = tree
        weight[row, :words, :words] = 1 / words**2
    return ((found - wanted).abs() * weight).sum() / len(trees)


def distances(maps: Maps, sentences: Sequence[Hidden]) -> Iterator[Distances]:
    """The squared distances of each sentence, one at a time."""
    with torch.inference_mode():
        for hidden in sentences:
            yield squared_distances(hidden[None], maps)[:, :, 0]
