"""The bytes of a corpus: a file, decompressed where it is gzip or zstandard, or a copy of what comes through a pipe."""

from __future__ import annotations

import atexit
import gzip
import io
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwise.errors import InputError

Stream = io.BufferedIOBase


def spooled(fill: Callable[[Stream], Any], suffix: str) -> Path:
    """A temporary file that `fill` writes and this process removes when it ends."""
    handle, name = tempfile.mkstemp(prefix="headwise-corpus-", suffix=suffix)
    owner = os.getpid()
    atexit.register(lambda: os.getpid() == owner and Path(name).unlink(missing_ok=True))
    try:
        with os.fdopen(handle, "wb") as file:
            fill(file)
    except OSError as error:
        raise InputError(f"A corpus must fit into {tempfile.gettempdir()}; got: {error}. Set TMPDIR.") from None
    return Path(name)


def copy_stdin(file: Stream) -> None:
    if sys.stdin.isatty():
        raise InputError("Corpus '-' must come from a pipe or a file; got the terminal. Use `< FILE`.")
    shutil.copyfileobj(sys.stdin.buffer, file)


def copy_pipe(path: Path, file: Stream) -> None:
    """Of a pipe that has a name, as `<(…)` makes one: it can be read only once."""
    with path.open("rb") as pipe:
        shutil.copyfileobj(pipe, file)


@contextmanager
def readable(name: str, path: Path) -> Iterator[Stream]:
    """The decompressed bytes of a file; whatever goes wrong while reading becomes an InputError."""
    try:
        with path.open("rb") as file, decompressed(file) as stream:
            yield stream
    except FileNotFoundError:
        raise InputError(
            f"A corpus must be a file, '-', 'sample' or hf:PATH:SPLIT; there is no {name}. Check it."
        ) from None
    except IsADirectoryError:
        raise InputError(f"A corpus must be one file; {name} is a folder. Name a file in it.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"Corpus {name} must be readable; got: {error}. Check the file.") from error


def decompressed(file: Stream) -> Stream:
    """The file itself, or what gzip or zstandard make of it."""
    magic = file.read(4)
    file.seek(0)
    if magic[:2] == b"\x1f\x8b":
        return gzip.GzipFile(fileobj=file)
    if magic == b"\x28\xb5\x2f\xfd":
        return io.BufferedReader(ZstdStream(file))
    return file


class ZstdStream(io.RawIOBase):
    """A zstandard file of one or more frames as a raw stream, for a BufferedReader."""

    def __init__(self, file: Stream):
        self._pieces = zstd_pieces(file)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            if (piece := next(self._pieces, None)) is None:
                return 0
            self._left = memoryview(piece)
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size


def zstd_pieces(file: Stream) -> Iterator[bytes]:
    """subtle: zstandard's own stream_reader ends a truncated file without a word; frames are followed."""
    import zstandard

    frame = zstandard.ZstdDecompressor().decompressobj()
    try:
        while data := file.read(1 << 14):
            while data:
                frame = zstandard.ZstdDecompressor().decompressobj() if frame.eof else frame
                yield frame.decompress(data)
                data = frame.unused_data if frame.eof else b""
    except zstandard.ZstdError as error:
        raise OSError(f"not a zstandard file ({error})") from None
    if not frame.eof:
        raise EOFError("zstandard file ended before its end marker")
