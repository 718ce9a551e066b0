"""Texts in capitals, a line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headwise.text.readers import READERS, Source, Stream, Text, read_lines


@READERS.add("shouted", "A line is a text; it is read in small letters.")
def shouted(source: Source, stream: Stream, skipped: Counter[str]) -> Iterator[Text]:
    for text in read_lines(source, stream, skipped):
        yield text._replace(text=text.text.lower())
