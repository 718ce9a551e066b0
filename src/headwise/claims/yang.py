"""Yang, adversarial attention on sequence tagging, after Jain & Wallace 2019 and Wiegreffe & Pinter 2019."""

from __future__ import annotations

from headwise.claims.claim import Item, Paper
from headwise.claims.data import CHUNKS_GET

HOW = f"see experiments/adversary/README.md; it needs {CHUNKS_GET}"
PAPER = Paper(
    "yang",
    "Yang, adversarial attention on a tagging task",
    "",
    (
        Item("model", "a one-layer tagger on CoNLL-2000, F1", None, command=HOW),
        Item("table1", "adversaries trained from scratch, over λ", None, command=HOW),
        Item("fig1", "loss of prediction against divergence of attention, the knee", None, command=HOW),
        Item("table2", "frozen attention guiding a fresh model", None, command=HOW),
        Item(
            "parents",
            "JSD against TVD, seeds, uniform attention, per-instance adversaries, Kendall τ",
            None,
            command=HOW,
        ),
        Item("open", "rankings before and after the knee; a probe with no query or key of its own", None, command=HOW),
    ),
)
