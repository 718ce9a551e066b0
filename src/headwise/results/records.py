"""JSON that people or disks may have damaged: one reader, which gives a record of the right shape or one reason.

A shape names the fields that must be there and their kind: a type, or a shape again; EVERY stands for every field
that is there. More fields may be there.

    read_record(path, {"digest": str, "plan": {"corpus": dict}, "files": {EVERY: {"bytes": int}}})
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

Shape = Mapping[str, Any]
EVERY = "*"
MOST_BYTES = 64 * 2**20  # of a note about a run; a larger file is none of ours


class DamagedError(ValueError):
    """A file that is there but is not what was written; its text is the reason, to be put into a sentence."""


def read_record(path: Path, shape: Shape) -> dict[str, Any]:
    """The JSON object in a file. Raises FileNotFoundError where there is none, DamagedError where it is another."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(path) from None
    except OSError as error:  # a folder or a loop of links in its place
        raise DamagedError(str(error.strerror).lower()) from None
    except ValueError:
        raise DamagedError("its path has a NUL") from None
    if len(content) > MOST_BYTES:
        raise DamagedError(f"it has more than {MOST_BYTES >> 20} MB")
    return parse_record(content, shape)


def parse_record(content: bytes | str, shape: Shape) -> dict[str, Any]:
    """The same of what is in memory."""
    try:
        record = json.loads(content)
    except RecursionError:
        raise DamagedError("it is nested too deeply") from None
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise DamagedError("it is not JSON") from None
    except ValueError as error:  # a number of a million digits
        raise DamagedError(str(error).splitlines()[0]) from None
    fits(record, shape)
    return record


def fits(record: Any, shape: Shape, where: str = "it") -> None:
    """Refuse a record without a field of the shape, or with one of another kind."""
    if not isinstance(record, dict):
        raise DamagedError(f"{where} must be an object, got {type(record).__name__}")
    wanted = [(name, kind) for key, kind in shape.items() for name in (record if key == EVERY else [key])]
    for name, kind in wanted:
        if name not in record:
            raise DamagedError(f"{where} has no {name!r}")
        value = record[name]
        if isinstance(kind, Mapping):
            fits(value, kind, repr(name))
        elif not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise DamagedError(f"{name!r} must be {getattr(kind, '__name__', kind)}, got {type(value).__name__}")


def inside(folder: Path, name: str) -> Path:
    """The file called `name` below a folder; refused, before anything is opened, where the name leads out of it."""
    path = PurePosixPath(name)
    if not name or "\0" in name or path.is_absolute() or ".." in path.parts:
        raise DamagedError(f"{name!r} is not a file of this folder")
    there = folder / path
    try:
        real = there.resolve()
    except (OSError, RuntimeError):  # a loop of links
        raise DamagedError(f"{name!r} is a loop of links") from None
    if not real.is_relative_to(folder.resolve()):
        raise DamagedError(f"{name!r} leads out of this folder")
    return there
