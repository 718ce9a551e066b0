"""The notebooks under examples/ run from the first cell to the last, in a real kernel."""

from __future__ import annotations

from html.parser import HTMLParser

import nbformat
import pytest
from nbclient import NotebookClient

from docs.pages import ROOT, name
from references.patience import patience

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_a_notebook_runs(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells), f"{name(path)} is kept without outputs; clear them"
    client = NotebookClient(notebook, timeout=int(patience(300)), resources={"metadata": {"path": tmp_path}})
    client.execute()  # a failing cell raises
    assert any(cell.get("outputs") for cell in notebook.cells)


def test_an_explanation_shows_its_page_in_a_cell(tmp_path):
    """`.show()` in a kernel: the cell's output is the page itself in a frame that may run its own script alone."""
    code = (
        "import headwise as hw\n"
        'made = hw.explain("the old <b>dog</b> sat", model="tiny:gpt2", task="causal-lm", tests=False, beside=())\n'
        "made.show()"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    NotebookClient(notebook, timeout=int(patience(300)), resources={"metadata": {"path": tmp_path}}).execute()
    (output,) = (one for one in notebook.cells[0].outputs if one.output_type == "execute_result")
    frame = _Frame()
    frame.feed(output.data["text/html"])
    (attributes,) = frame.found
    assert attributes["sandbox"] is not None
    assert "allow-same-origin" not in attributes["sandbox"]
    page = attributes["srcdoc"]
    assert page.startswith("<!doctype html>")
    assert "tiny:gpt2" in page
    assert "<b>dog" not in page, "what a text says is no markup"


class _Frame(HTMLParser):
    """The attributes of every iframe, as a browser reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, str]] = []

    def handle_starttag(self, tag, attrs):
        if tag == "iframe":
            self.found.append(dict(attrs))


def test_there_are_notebooks():
    assert len(NOTEBOOKS) >= 3
