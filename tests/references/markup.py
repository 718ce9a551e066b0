"""What a reader sees of a page: its words element by element, and words that stand where none belong."""

from __future__ import annotations

from html.parser import HTMLParser

HOLDERS = {"html", "head", "body", "main", "header", "section", "article", "div", "ul", "ol", "dl", "table", "thead",
           "tbody", "tr", "details", "figure", "nav"}  # fmt: skip
VOID = {"meta", "link", "img", "br", "hr", "input", "wbr"}


class Reader(HTMLParser):
    """Collects (element, words) of every run of text."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.runs = [], []

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.runs.append((self.open[-1] if self.open else "", " ".join(data.split())))


def words(html: str) -> list[tuple[str, str]]:
    """(element, words) in the order of the page, without scripts and styles."""
    reader = Reader()
    reader.feed(html)
    return [run for run in reader.runs if run[0] not in ("script", "style")]


def stray(html: str) -> list[str]:
    """Words that no heading, paragraph, cell or item holds: a slip in the markup."""
    return [said for element, said in words(html) if element in HOLDERS or not element]
