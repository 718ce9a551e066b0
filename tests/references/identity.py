"""Token identifiability the slow way: float64 loops over folds, sentences and tokens, and plain training loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch


def nearest(p: np.ndarray, targets: np.ndarray, distance: str) -> int:
    """The place of the target nearest to p."""
    if distance == "l2":
        apart = [float(np.sum((p - x) ** 2)) for x in targets]
    else:
        apart = [1 - float(p @ x) / (np.linalg.norm(p) * np.linalg.norm(x)) for x in targets]
    return int(np.argmin(apart))


def rates(
    mapped: np.ndarray, targets: np.ndarray, ids: Sequence[int], lengths: Sequence[int], distance: str, offset: int = 0
) -> tuple[list[float], list[float], list[int]]:
    """Credit by position and by word of every token that has the neighbour, and those tokens."""
    position, word, tokens, start = [], [], [], 0
    for length in lengths:
        for at in range(start, start + length):
            own = at + offset
            if not start <= own < start + length:
                continue
            found = start + nearest(mapped[at], targets[start : start + length], distance)
            twins = [j for j in range(start, start + length) if np.array_equal(targets[j], targets[own])]
            position.append(1 / len(twins) if found in twins else 0.0)
            word.append(float(ids[found] == ids[own]))
            tokens.append(at)
        start += length
    return position, word, tokens


def margin(p: np.ndarray, targets: np.ndarray, own: int, distance: str) -> float:
    """By how much the right target is nearer than the nearest wrong one."""
    if distance == "l2":
        apart = [float(np.sum((p - x) ** 2)) for x in targets]
    else:
        apart = [-float(p @ x) / (np.linalg.norm(p) * np.linalg.norm(x)) for x in targets]
    return min(a for j, a in enumerate(apart) if j != own) - apart[own]


def ridge(
    x: np.ndarray, y: np.ndarray, x_val: np.ndarray, y_val: np.ndarray, strengths: Sequence[float]
) -> tuple[np.ndarray, float]:
    """Solve for every strength, keep the one of the least validation loss."""
    best = None
    for strength in strengths:
        gram = x.T @ x
        w = np.linalg.solve(gram + strength * np.trace(gram) / len(gram) * np.eye(len(gram)), x.T @ y)
        loss = float(np.sum((x_val @ w - y_val) ** 2))
        if best is None or loss < best[0]:
            best = loss, w, strength
    assert best is not None
    return best[1], best[2]


def adam(
    x: torch.Tensor,
    y: torch.Tensor,
    train: torch.Tensor,
    validation: torch.Tensor,
    *,
    weights: list[torch.Tensor],
    loss: str,
    generator: torch.Generator,
    rate: float,
    batch: int,
    patience: int,
    epochs: int,
) -> tuple[list[torch.Tensor], int, list[float]]:
    """One problem by itself: the weights of the least validation loss, their epoch, and the losses of all epochs."""
    weights = [w.clone().requires_grad_() for w in weights]
    optimiser = torch.optim.Adam(weights, lr=rate)
    kept, best, best_epoch, losses = [w.detach().clone() for w in weights], float("inf"), 0, []
    for epoch in range(1, epochs + 1):
        order = train[torch.randperm(len(train), generator=generator)]
        for rows in order.split(batch):
            optimiser.zero_grad()
            apart(through(x[rows], weights), y[rows], loss).backward()
            optimiser.step()
        with torch.no_grad():
            losses.append(float(apart(through(x[validation], weights), y[validation], loss)))
        if losses[-1] < best:
            kept, best, best_epoch = [w.detach().clone() for w in weights], losses[-1], epoch
        if epoch - best_epoch >= patience:
            break
    return kept, best_epoch, losses


def through(x: torch.Tensor, weights: Sequence[torch.Tensor]) -> torch.Tensor:
    if len(weights) == 1:
        return x @ weights[0]
    w_1, b_1, w_2, b_2 = weights
    h = x @ w_1 + b_1
    return (h * 0.5 * (1 + torch.erf(h / 2**0.5))) @ w_2 + b_2


def apart(p: torch.Tensor, y: torch.Tensor, loss: str) -> torch.Tensor:
    if loss == "l2":
        return ((p - y) ** 2).sum(-1).mean()
    return (1 - (p * y).sum(-1) / (p.norm(dim=-1) * y.norm(dim=-1))).mean()
