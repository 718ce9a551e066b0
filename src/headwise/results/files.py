"""Files that are either whole or not there.

A file is written under another name, forced to disk, and renamed over its own name: a reader, and a run after
a crash or a power cut, sees the old file or the new one. Several files are first all staged, then all
renamed, so that a full disk is met before anything has changed. What a killed process had staged is removed by the
next one that writes the same file.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from headwise.errors import writing_to


def write_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files, name → bytes, in this order; all are staged before the first is renamed."""
    staged: list[tuple[Path, Path]] = []
    with writing_to(folder):
        try:
            for name, content in contents.items():
                path = folder / name
                sweep(path)
                temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
                staged.append((temporary, path))
                stage(temporary, content)
            for temporary, path in staged:
                os.replace(temporary, path)
            for parent in {path.parent for _, path in staged}:
                sync_folder(parent)
        finally:
            for temporary, _ in staged:
                temporary.unlink(missing_ok=True)


def sweep(path: Path) -> None:
    """Remove what processes that are no more had staged for `path`."""
    begin, end = f".{path.name}.", ".tmp"
    for left in path.parent.glob(f"{glob.escape(begin)}*{end}"):
        process = left.name.removeprefix(begin).removesuffix(end)
        if process.isdecimal() and not alive(int(process)):
            left.unlink(missing_ok=True)


def alive(process: int) -> bool:
    """Whether there is such a process; one of another user is."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def stage(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Force the renames themselves to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def digest(*contents: bytes) -> str:
    """SHA-256 of the contents one after another, in hex."""
    total = hashlib.sha256()
    for content in contents:
        total.update(content)
    return total.hexdigest()


def digest_of(path: Path) -> str:
    """The same of a file, a piece at a time."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
