"""Brunner et al. 2019, "On the Validity of Self-Attention as Explanation" (https://arxiv.org/abs/1908.04211v1)."""

from __future__ import annotations

from headwise.papers.brunner2020 import mixing_rows, own_share_falls
from headwise.papers.claim import Claim, Item, Job, Paper, Seen, Table
from headwise.papers.data import MRPC, MRPC_GET


def still_first(table: Table) -> Seen:
    """After two thirds of the layers, rounded down; the last layer of a classifier, where only [CLS] counts, is out."""
    ranks = mixing_rows(table, "rank", "median")
    words = "median rank " + ", ".join(f"{value:.0f}" for value in ranks) + ", layer by layer"
    return Seen(ranks[max(0, 2 * len(ranks) // 3 - 1)], words)


CLASSIFIER = "a sequence classifier fine-tuned on MRPC (experiments/finetune makes one)"
JOB = Job(
    "mixing", MRPC, MRPC_GET, {"quantities": ("output-weighted",), "texts": 0}, task="classification", model=CLASSIFIER
)
TAGGED = Job(
    "mixing", MRPC, MRPC_GET, {"quantities": ("output-weighted",), "texts": 0, "tags": "spacy"},
    task="classification", model=CLASSIFIER,
)  # fmt: skip
PAPER = Paper(
    "brunner2019",
    "Brunner, Liu, Pascual, Richter and Wattenhofer 2019, On the Validity of Self-Attention as Explanation",
    "https://arxiv.org/abs/1908.04211v1",
    (
        Item("fig2a", "a token's share in its hidden token, weighted by the output", JOB, ("fig2a",), (
            Claim("the token's own share falls with depth", "medians 42.6, 15.8, 7.5 % (layers 1, 5, 11)",
                  "median share after the last layer in which all tokens count over that after the first",
                  own_share_falls, below=0.75),
        )),
        Item("fig2b", "the rank of the token among its contributors", JOB, ("fig2b",), (
            Claim("the token is its own main contributor up to two thirds of the depth", "all 1 up to layer 8 of 12",
                  "median rank after two thirds of the layers", still_first, below=1.5, form="number"),
        )),
        Item("fig3", "shares by part of speech", TAGGED, ("fig3", "fig5-15"), also=("fig5–15",)),
        Item("fig4", "ranks by part of speech, last layer", TAGGED, ("fig4",)),
    ),
)  # fmt: skip
