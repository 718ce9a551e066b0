"""The dependency probes against loops, and on synthetic sentences whose answer is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from headwise.studies.probe.dependency import (
    PROBES,
    AttentionProbe,
    AttentionVectorsProbe,
    DistanceVectorsProbe,
    Example,
    Padded,
    Parameters,
    Probe,
    Training,
    predicted,
    trained,
)
from headwise.studies.probe.trees import best_heads
from references.probes_dependency import (
    naive_attention_score,
    naive_distance_score,
    naive_loss,
    naive_vectors_score,
)

HEADS, DIMENSION = 5, 3


def sentence(words: int, seed: int) -> Example:
    generator = torch.Generator().manual_seed(seed)
    maps = torch.rand(2 + words, 2 + words, HEADS, generator=generator)
    return Example(maps, torch.randn(words, DIMENSION, generator=generator), words)


def replica(parameters: Parameters, number: int) -> dict[str, np.ndarray]:
    return {name: value[number].double().numpy() for name, value in parameters.items()}


def different(probe: Probe) -> Parameters:
    """Parameters of two replicas that are not alike."""
    generator = torch.Generator().manual_seed(3)
    return {
        name: value + 0.3 * torch.randn(value.shape, generator=generator)
        for name, value in probe.initial(2, seed=1).items()
    }


SCORES: dict[type[Probe], Callable[[dict[str, np.ndarray], Example, int, int], float]] = {
    AttentionProbe: lambda weights, x, j, i: naive_attention_score(weights, x.maps.double().numpy(), j, i),
    AttentionVectorsProbe: lambda weights, x, j, i: naive_vectors_score(
        weights, x.maps.double().numpy(), x.vectors.double().numpy(), j, i
    ),
    DistanceVectorsProbe: lambda weights, x, j, i: naive_distance_score(weights, x.vectors.double().numpy(), j, i),
}


@pytest.mark.parametrize("kind", PROBES.values(), ids=PROBES)
def test_scores_are_those_of_a_loop(kind: type[Probe]) -> None:
    probe, example = kind(HEADS, DIMENSION), sentence(7, 0)
    parameters = different(probe)
    found = probe.scores(parameters, Padded.of([example]))[:, 0]
    for number in range(2):
        weights = replica(parameters, number)
        for dependent in range(7):
            for head in range(-1, 7):
                score = float(found[number, dependent, 1 + head])
                if head == dependent:
                    assert score == -np.inf
                else:
                    assert score == pytest.approx(SCORES[kind](weights, example, dependent, head), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("kind", PROBES.values(), ids=PROBES)
def test_batch_mates_and_padding_change_nothing(kind: type[Probe]) -> None:
    probe, examples = kind(HEADS, DIMENSION), [sentence(words, words) for words in (3, 1, 6)]
    parameters = different(probe)
    together = probe.scores(parameters, Padded.of(examples))
    for row, (example, alone) in enumerate(zip(examples, predicted(probe, parameters, examples), strict=True)):
        words = example.words
        torch.testing.assert_close(together[:, row, :words, : 1 + words], alone, rtol=1e-4, atol=1e-5)
        assert (together[:, row, :words, 1 + words :] == -torch.inf).all()


def test_one_step_goes_down_the_gradient_of_the_naive_loss() -> None:
    """Adam's first step is the rate, against the sign of the gradient, which differences of the naive loss give."""
    probe, example = AttentionProbe(HEADS, 0), sentence(4, 2)
    heads = [1, -1, 1, 2]
    targets = torch.tensor([heads, heads]) + 1
    start = replica(probe.initial(2, seed=0), 0)
    after = replica(trained(probe, [example], [targets], Training(epochs=1, rate=0.01, seed=0)), 0)

    def loss(weights: dict[str, np.ndarray]) -> float:
        maps = example.maps.double().numpy()
        scores = [
            [-np.inf if i == j else naive_attention_score(weights, maps, j, i) for i in range(-1, 4)] for j in range(4)
        ]
        return naive_loss(scores, [head + 1 for head in heads])

    for name, value in start.items():
        for index in range(len(value)):
            moved = {key: array.copy() for key, array in start.items()}
            moved[name][index] += 1e-6
            slope = (loss(moved) - loss(start)) / 1e-6
            assert after[name][index] - value[index] == pytest.approx(-0.01 * np.sign(slope), rel=1e-3)


def planted(words: int, seed: int, gold: int, way: str) -> tuple[Example, torch.Tensor]:
    """A sentence of noise in which head `gold` attends from every word to its syntactic head (or the other way).

    The root's word attends to the opening token.
    """
    random = np.random.default_rng(seed)
    heads = [-1, *(int(random.integers(0, word)) for word in range(1, words))]
    places = random.permutation(words)  # so that position tells nothing
    heads = [int(-1 if heads[p] < 0 else np.flatnonzero(places == heads[p])[0]) for p in places]
    example = sentence(words, seed)
    maps = example.maps.clone()
    maps[..., gold] = 0
    for word, head in enumerate(heads):
        pair = (2 + word, 0 if head < 0 else 2 + head)
        maps[(*(pair if way == "dependent_to_head" else pair[::-1]), gold)] = 1
    return Example(maps, example.vectors, words), torch.tensor(heads)


@pytest.mark.parametrize("way", ["head_to_dependent", "dependent_to_head"])
def test_a_head_that_is_the_parse_is_found(way: str) -> None:
    data = [planted(4 + seed % 5, seed, gold=3, way=way) for seed in range(60)]
    probe = AttentionProbe(HEADS, 0)
    targets = [heads.expand(2, -1) + 1 for _, heads in data]
    learned = trained(
        probe, [example for example, _ in data[:50]], targets[:50], Training(epochs=15, rate=0.1, batch=5)
    )
    examples = [example for example, _ in data[50:]]
    for (_, heads), scores in zip(data[50:], predicted(probe, learned, examples), strict=True):
        assert best_heads(scores[0].double().numpy()).tolist() == heads.tolist()
    weights = torch.cat([learned["head_to_dependent"][0], learned["dependent_to_head"][0]]).abs()
    best = int(weights.argmax())
    assert best == 3 + HEADS * (way == "dependent_to_head")
    assert weights[best] > 3 * weights[torch.arange(2 * HEADS) % HEADS != 3].max()


def test_replicas_learn_as_if_alone() -> None:
    data = [planted(5, seed, gold=1, way="head_to_dependent") for seed in range(12)]
    examples, heads = [example for example, _ in data], [heads for _, heads in data]
    others = [torch.tensor([-1, 0, 0, 0, 0])] * len(data)
    probe, training = AttentionVectorsProbe(HEADS, DIMENSION), Training(epochs=2, seed=4)
    both = trained(probe, examples, [torch.stack(pair) + 1 for pair in zip(heads, others, strict=True)], training)
    for number, targets in enumerate((heads, others)):
        alone = trained(probe, examples, [target[None] + 1 for target in targets], training)
        for name, value in alone.items():
            torch.testing.assert_close(both[name][number], value[0], rtol=1e-4, atol=1e-5)


def test_the_same_seed_gives_the_same_probe_and_batches_go_in_any_order() -> None:
    data = [planted(4 + seed % 3, seed, gold=1, way="head_to_dependent") for seed in range(9)]
    examples, targets = [example for example, _ in data], [heads[None] + 1 for _, heads in data]
    probe, training = AttentionProbe(HEADS, 0), Training(epochs=3, batch=9, seed=5)
    first, again = (trained(probe, examples, targets, training) for _ in range(2))
    turned = trained(probe, examples[::-1], targets[::-1], training)
    for name, value in first.items():
        assert torch.equal(value, again[name])
        torch.testing.assert_close(value, turned[name], rtol=1e-4, atol=1e-5)


def test_vectors_tell_which_head_to_trust() -> None:
    """Words of one kind have their head in map 0, those of another kind in map 1: only word vectors know which."""
    random = np.random.default_rng(0)
    examples, targets = [], []
    words = 6
    for _ in range(150):
        heads = [-1, *(int(random.integers(0, word)) for word in range(1, words))]
        wrong = [-1, *(int(random.integers(0, word)) for word in range(1, words))]
        kinds = random.integers(0, 2, words)
        maps = torch.zeros(2 + words, 2 + words, 2)
        for word in range(words):
            for which, head in ((kinds[word], heads[word]), (1 - kinds[word], wrong[word])):
                maps[2 + word, 0 if head < 0 else 2 + head, which] = 1
        vectors = torch.nn.functional.one_hot(torch.from_numpy(kinds), 2).float()
        examples.append(Example(maps, vectors, words))
        targets.append(torch.tensor(heads)[None] + 1)

    def accuracy(probe: Probe) -> float:
        learned = trained(probe, examples[:100], targets[:100], Training(epochs=20, rate=0.05, batch=20))
        found = predicted(probe, learned, examples[100:])
        pairs = zip(found, targets[100:], strict=True)
        right = [(scores[0].argmax(-1) == target[0]).double().mean() for scores, target in pairs]
        return float(torch.stack(right).mean())

    assert accuracy(AttentionVectorsProbe(2, 2)) > 0.97
    assert accuracy(AttentionProbe(2, 0)) < 0.85
