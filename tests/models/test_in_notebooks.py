"""In a notebook nothing is printed that nobody asked for."""

from __future__ import annotations

import subprocess
import sys

NOTEBOOK = """
import sys, types
sys.modules["ipywidgets"] = None  # as where only Jupyter is
sys.modules["ipykernel.zmqshell"] = types.ModuleType("zmqshell")
sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: None, version_info=(8, 0))
import headwise as hw
hw.load("tiny:bert").trace("the sea")
import tqdm.auto
print("tqdm.notebook" in sys.modules)
"""


def test_no_widget_is_asked_for_where_a_model_is_loaded() -> None:
    command = [sys.executable, "-W", "default", "-c", NOTEBOOK]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout == "True\n", "else this was no notebook, and nothing was tried"
    assert "IProgress" not in found.stderr
