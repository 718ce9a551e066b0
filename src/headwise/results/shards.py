"""The states of single shards, so that a run that was killed goes on where it was.

    shard-00042.safetensors   the state
    shard-00042.json          its completion mark, written after it: the digest of the plan and model that it belongs
                              to, the caller's note (`meta`), and a SHA-256 of the shard's number, these and the state

A shard whose files are missing, truncated, altered, from another write or of another plan counts as not done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save
from torch import Tensor

from headwise.results.files import digest, digest_of, write_files
from headwise.results.records import DamagedError, read_record


def write_shard(
    folder: str | Path, number: int, state: Mapping[str, Tensor], meta: Mapping[str, Any], *, plan: str
) -> None:
    """Write the state of one shard of the plan with this digest, then its mark."""
    content = save({name: value.contiguous() for name, value in state.items()})
    mark = {"sha256": seal(number, plan, meta, digest(content)), "plan": plan, "meta": meta}
    write_files(Path(folder), {state_file(number): content, mark_file(number): json.dumps(mark).encode()})


def read_shard(folder: str | Path, number: int, *, plan: str) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """State (memory-mapped) and note of a shard, or None where it must be computed again."""
    state = Path(folder) / state_file(number)
    try:
        mark = read_record(Path(folder) / mark_file(number), {"sha256": str, "plan": str, "meta": dict})
        whole = mark["plan"] == plan and mark["sha256"] == seal(number, plan, mark["meta"], digest_of(state))
    except (OSError, DamagedError, RecursionError):
        return None
    return (load_file(state), mark["meta"]) if whole else None


def seal(number: int, plan: str, meta: Mapping[str, Any], content: str) -> str:
    """The SHA-256 of a shard's number, its plan's digest, its note and the SHA-256 of its state."""
    return digest(f"{number} {plan} {json.dumps(meta, sort_keys=True)} {content}".encode())


def state_file(number: int) -> str:
    return f"shard-{number:05d}.safetensors"


def mark_file(number: int) -> str:
    return f"shard-{number:05d}.json"
