"""What there is to list changes with the program only: it is made once, and read from then on without importing torch.

Lines are kept in the user's cache under a digest of every source file of headwise (path, size, time) and of the
packages that extend it, so that a new version, an edit or a plug-in makes them anew. A cache that cannot be written or
read is no error: the lines are made again.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path

from platformdirs import user_cache_dir

from headwise.errors import InputError

GROUPS = ("headwise.quantities", "headwise.studies", "headwise.readers")


def listed(name: str, make: Callable[[], list[list[str]]]) -> list[list[str]]:
    """The rows of a list: asked of the program where it is loaded (it may know more by now), else remembered."""
    return make() if "torch" in sys.modules else remembered(name, make)


def remembered(name: str, make: Callable[[], list[list[str]]], *, home: Path | None = None) -> list[list[str]]:
    """The rows of a list by its name."""
    folder = Path(user_cache_dir("headwise")) / "lists" if home is None else home
    path = folder / f"{name}-{digest()}.json"
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text("utf-8"))
        if _is_rows(found):
            return found
    rows = make()
    from headwise.results.files import write_files  # which imports torch, as `make` has done

    with suppress(OSError, InputError):  # a list that cannot be kept is made again
        write_files(folder, {path.name: json.dumps(rows, ensure_ascii=False).encode("utf-8")})
        for old in folder.glob(f"{name}-*.json"):
            if old != path:
                old.unlink()
    return rows


def _is_rows(found: object) -> bool:
    rows = found if isinstance(found, list) else [None]
    return all(isinstance(row, list) and all(isinstance(cell, str) for cell in row) for row in rows)


def digest(root: Path = Path(__file__).parents[1]) -> str:
    """Of the program as it stands, and of what extends it."""
    found = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        facts = path.stat()
        found.update(f"{path}\0{facts.st_size}\0{facts.st_mtime_ns}\0".encode())
    for group in GROUPS:
        for point in sorted(entry_points(group=group), key=str):
            version = point.dist.version if point.dist is not None else ""
            found.update(f"{point}\0{version}\0".encode())
    return found.hexdigest()[:20]
