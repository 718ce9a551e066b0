"""The states of single shards, so that a run that was killed goes on where it was.

    shard-00042.safetensors   the state
    shard-00042.json          its completion mark, written after it: the caller's note (`meta`), and a SHA-256
                              of the shard's number, that note and the state's own

A shard whose files are missing, truncated, altered or from another write counts as not done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save
from torch import Tensor

from headwise.results.files import digest, digest_of, write_files


def write_shard(folder: str | Path, number: int, state: Mapping[str, Tensor], meta: Mapping[str, Any]) -> None:
    """Write the state of one shard, then its mark."""
    content = save({name: value.contiguous() for name, value in state.items()})
    mark = {"sha256": seal(number, meta, digest(content)), "meta": meta}
    write_files(Path(folder), {state_file(number): content, mark_file(number): json.dumps(mark).encode()})


def read_shard(folder: str | Path, number: int) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """State (memory-mapped) and note of a shard, or None where it must be computed again."""
    state = Path(folder) / state_file(number)
    try:
        mark = json.loads((Path(folder) / mark_file(number)).read_bytes())
        whole = mark["sha256"] == seal(number, mark["meta"], digest_of(state))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return (load_file(state), mark["meta"]) if whole else None


def seal(number: int, meta: Mapping[str, Any], content: str) -> str:
    """The SHA-256 of a shard's number, its note and the SHA-256 of its state."""
    return digest(f"{number} {json.dumps(meta, sort_keys=True)} {content}".encode())


def state_file(number: int) -> str:
    return f"shard-{number:05d}.safetensors"


def mark_file(number: int) -> str:
    return f"shard-{number:05d}.json"
