"""Results on disk: manifest, table, state and figures; written whole or not at all, checked when opened."""

from headwise.results.lock import claim
from headwise.results.provenance import provenance
from headwise.results.result import RUN, STUDY, Result, Results, open_result, write_result
from headwise.results.shards import read_shard, write_shard

__all__ = [
    "RUN",
    "STUDY",
    "Result",
    "Results",
    "claim",
    "open_result",
    "provenance",
    "read_shard",
    "write_result",
    "write_shard",
]
