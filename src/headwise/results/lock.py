"""One run a folder.

The lock is the kernel's (`flock`) on the file `.lock`, so it ends with its process, even one that was killed;
the file only tells others who holds it. It is removed on release, so a run that was waiting may hold a file
that is no longer the folder's: hence the look at the inode after locking.
"""

from __future__ import annotations

import fcntl
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwise.errors import InputError, writing_to

LOCK = ".lock"


@contextmanager
def claim(folder: str | Path) -> Iterator[None]:
    """Hold a folder (made if need be) for this process; refuse one that another run holds."""
    folder = Path(folder)
    handle = locked(folder)
    try:
        yield
    finally:
        (folder / LOCK).unlink(missing_ok=True)
        os.close(handle)


def locked(folder: Path) -> int:
    """A descriptor that holds the lock on the folder's present lock file."""
    while True:
        with writing_to(folder):
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        if not try_lock(handle):
            holder = os.pread(handle, 200, 0).decode(errors="replace").strip() or "another process"
            os.close(handle)
            raise InputError(
                f"Folder {folder} must have one run at a time; {holder} holds it. Wait, or choose another."
            )
        if is_current(handle, folder / LOCK):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()} on {platform.node()}\n".encode(), 0)
            return handle
        os.close(handle)


def try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_current(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False
