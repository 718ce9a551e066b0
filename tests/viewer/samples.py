"""Small pages with distinct primes for every axis, so that a swapped one cannot pass."""

import numpy as np

from headwise.lamps import Head, lamps
from headwise.quantities import Quantity
from headwise.viewer.of_trace import shown
from headwise.viewer.payload import Facts, Maps, Page, Side, Stack

LAYERS, HEADS, TOKENS = 2, 3, 7
WORDS = ("[CLS]", "the", "un", "##seen", "[SEP]", "cats", "[SEP]")


def softmax(shape: tuple[int, ...], seed: int = 0, sharpness: float = 2.0) -> np.ndarray:
    scores = np.exp(sharpness * np.random.default_rng(seed).standard_normal(shape))
    return (scores / scores.sum(-1, keepdims=True)).astype(np.float32)


def side(tokens: tuple[str, ...] = WORDS) -> Side:
    special = tuple(token.startswith("[") for token in tokens)
    unit = np.cumsum([not token.startswith("##") for token in tokens]) - 1
    pieces = [[token for token, u in zip(tokens, unit, strict=True) if u == number] for number in range(unit[-1] + 1)]
    words = ["".join(piece.removeprefix("##") for piece in each) for each in pieces]
    segment = tuple(int(position > len(tokens) * 5 // 7) for position in range(len(tokens)))
    return Side(tokens, special, segment, tuple(int(u) for u in unit), tuple(words))


def quantity(name: str, kind: str, values: np.ndarray) -> Maps:
    known = {each.name: each for each in shown()}
    record = known.get(name) or Quantity(name, None, f"What {name} is.", kind=kind)  # pyright: ignore[reportArgumentType]
    assert record.kind == kind
    return Maps(record, values, tuple(range(values.shape[0])), tuple(range(values.shape[1])))


def facts(layers: int = LAYERS, heads: int = HEADS, n: int = TOKENS) -> Facts:
    table = np.arange(layers * heads).reshape(layers, heads)
    other = np.where(table == 0, 0.25, np.nan).astype(np.float32)
    return Facts(
        n=n,
        d_head=5,
        rank=np.full_like(table, 5),
        null_dim=np.full_like(table, n - 5),
        simplex_dim=np.full_like(table, n - 6),
        pearson=(table / 10).astype(np.float32),
        null_share=(table / 20).astype(np.float32),
        identifiable=table % 2 == 1,
        other_js=other,
        other_change=other * 1e-12,
        lamps=lit(table),
    )


def lit(table: np.ndarray) -> np.ndarray:
    """Of even heads a quarter changes nothing; of odd ones the weights are unique and all is carried, or a sink's."""
    found = np.empty(table.shape, object)
    for place, number in np.ndenumerate(table):
        odd = bool(number % 2)
        found[place] = lamps(
            Head(
                null_share=0.0 if odd else 0.25,
                unique_rows=float(odd),
                carried=0.9,
                parked=0.9 if number == 3 else 0.1,
                sent=0.1,
                on='"."',
            )
        )
    return found


def full_page(tokens: tuple[str, ...] = WORDS, layers: int = LAYERS, heads: int = HEADS) -> Page:
    """Every kind of quantity, facts, and an alternative for the first head."""
    n = len(tokens)
    raw = softmax((layers, heads, n, n))
    other = np.full_like(raw, np.nan)
    other[0, 0] = softmax((n, n), seed=5)
    shown = (
        quantity("raw", "attention", raw),
        quantity("effective", "attention", raw - 0.3 * softmax(raw.shape, seed=1)),
        quantity("norm", "attention", 3 * raw),
        quantity("alternative", "attention", other),
        quantity("norm-sum", "mixing", 2 * softmax((layers, 1, n, n), seed=2)),
        quantity("hidden-token", "origins", softmax((layers, 1, n, n), seed=3)),
    )
    stack = Stack("self", side(tokens), side(tokens), shown, facts(layers, heads, n))
    return Page("the unseen cats", "tiny", (stack,), missing=(("norm-residual", "This model has no residual."),))
