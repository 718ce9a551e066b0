"""The notebooks under examples/ run from the first cell to the last, in a real kernel."""

from __future__ import annotations

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


def test_there_are_notebooks():
    assert len(NOTEBOOKS) >= 3
