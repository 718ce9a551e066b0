"""The pages of the documentation as data: their code blocks, and the commands in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from mkdocs.commands.build import build
from mkdocs.config import load_config

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
NOT_RUN = ("text", "json", "html", "toml")  # shown, not run: what a program prints, files


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, and the line of the page where it begins."""

    language: str
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    """Fenced and indented blocks in order; an indented one has no language."""
    for token in MarkdownIt().parse(page.read_text("utf-8")):
        if token.type in ("fence", "code_block"):
            assert token.map
            yield Block(token.info.strip(), token.content, token.map[0] + 1)


def commands(text: str) -> Iterator[list[str]]:
    """The commands of a shell block as words; a backslash goes on with the line, a comment is left out."""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        if words := shlex.split(line, comments=True):
            yield words


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def built(folder: Path) -> Path:
    """The site, written to `folder`; a link that leads nowhere or a page that the contents do not name is an error."""
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    return folder
