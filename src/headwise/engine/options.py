"""The numbers that a run takes, and what each may be."""

from __future__ import annotations

from headwise.allowed import SEED, Allowed

OPTIONS = {
    "first": (int, Allowed(least=1)),
    "segments": (int, Allowed(least=1, most=10**6)),
    "max_tokens": (int, Allowed(least=1)),
    "threads": (int, Allowed(least=1, most=1024)),
    "workers": (int, Allowed(least=1, most=10**5)),
    "shard_documents": (int, Allowed(least=1)),
    "batch_tokens": (int, Allowed(least=1)),
    "seed": (int, Allowed(least=0, most=SEED)),
}
