"""Words timed by one head, as Whisper times them: openai/whisper, timing.py, with one head in the place of eight.

Weights within the sound are z-normalised over the tokens of the sentence, smoothed by a median over seven frames, and
the monotonic path of most weight is found (dynamic time warping). A word begins where the path enters its first row
and ends where it enters the next word's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

WIDTH = 7  # frames of the median


def word_times(
    within: Float[np.ndarray, "head row frame"], words: Sequence[int], frame: float
) -> Float[np.ndarray, "head word 2"]:
    """Start and end in seconds of every word. `words` numbers the word of each row but the last, the end."""
    weights = (within - within.mean(-2, keepdims=True)) / np.maximum(within.std(-2, keepdims=True), 1e-12)
    entered = path_enters(-smoothed(weights)) * frame
    first = [row for row, word in enumerate(words) if row == 0 or words[row - 1] != word]
    return np.stack([entered[:, first], entered[:, [*first[1:], len(words)]]], axis=-1)


def smoothed(weights: Float[np.ndarray, "head row frame"]) -> Float[np.ndarray, "head row frame"]:
    """The median of each frame and its neighbours; ends are mirrored."""
    half = WIDTH // 2
    padded = np.pad(weights, ((0, 0), (0, 0), (half, half)), mode="reflect")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, WIDTH, axis=-1), axis=-1)


def path_enters(cost: Float[np.ndarray, "head row frame"]) -> Int[np.ndarray, "head row"]:
    """The frame at which the cheapest monotonic path enters each row.

    D(i, j) = cost(i, j) + min(D(i−1, j−1), D(i−1, j), D(i, j−1)).

    >>> path_enters(-np.array([[[9.0, 9, 0, 0], [0, 0, 9, 9]]])).tolist()
    [[0, 2]]
    """
    heads, rows, frames = cost.shape
    total = np.full((heads, rows + 1, frames + 1), np.inf)
    total[:, 0, 0] = 0
    came = np.zeros((heads, rows + 1, frames + 1), int)
    for i in range(1, rows + 1):
        for j in range(1, frames + 1):
            before = np.stack([total[:, i - 1, j - 1], total[:, i - 1, j], total[:, i, j - 1]])
            came[:, i, j] = before.argmin(0)
            total[:, i, j] = cost[:, i - 1, j - 1] + before.min(0)
    return np.stack([_walked(came[head], rows, frames) for head in range(heads)])


def _walked(came: Int[np.ndarray, "row frame"], rows: int, frames: int) -> Int[np.ndarray, " row"]:
    entered, i, j = np.zeros(rows, int), rows, frames
    while i > 0:
        entered[i - 1] = j - 1
        step = came[i, j]
        i, j = i - (step != 2), j - (step != 1)
    return entered
