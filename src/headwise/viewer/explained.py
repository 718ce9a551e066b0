"""The page of an explanation: verdict on top, the coloured text, a chooser of targets and methods, the tests.

One file that needs no network: its script and style are named by their hashes in the page's policy, all text travels as
JSON that cannot end its element, and the script writes it with textContent alone.
"""

from __future__ import annotations

import math
import tempfile
import webbrowser
from pathlib import Path
from typing import Any

from headwise.errors import InputError
from headwise.explanations.explanation import Explanation
from headwise.explanations.figures import curves_of
from headwise.explanations.verdict import needed
from headwise.interventions.answered import seen
from headwise.models.packaged import called
from headwise.results.files import write_files
from headwise.traces import WAYS
from headwise.viewer.build import framed, small_page
from headwise.viewer.view import in_notebook


@WAYS.add("explained.page", "The page of an explanation.")
def page(explanation: Explanation) -> str:
    """The whole page, in ASCII."""
    title = f"{seen(explanation.targets[0].name)} - explained by headwise"
    return small_page("explained", title, payload(explanation), does="colours its text")


def payload(explanation: Explanation) -> dict[str, Any]:
    """What the page shows, as plain numbers and text."""
    methods = {explanation.method: explanation.scores, **explanation.columns, **explanation.others}
    trial, said = explanation.trial, explanation.verdict
    return {
        "model": called(explanation.model_name),
        "method": explanation.method,
        "unit": explanation.unit,
        "targets": [
            {"name": seen(t.name), "kind": t.kind, "of": t.of, "rather": t.rather_name and seen(t.rather_name)}
            for t in explanation.targets
        ],
        "units": [{"name": seen(unit.name), "given": unit.given} for unit in explanation.units],
        "scores": {name: [[_plain(x) for x in row] for row in scores.tolist()] for name, scores in methods.items()},
        "value": explanation.value.tolist(),
        "probability": explanation.log_probability.exp().tolist(),
        "adds": {name: parts.tolist() for name, parts in (explanation.adds or {}).items()},
        "adds_up": explanation.adds is not None,
        "error": explanation.error,
        "passes": explanation.passes,
        "says": explanation.says,
        "note": explanation.note,
        "verdict": None if said is None else {"belief": said.belief, "sentence": said.sentence},
        "curves": [] if trial is None else curves_of(trial).to_dicts(),
        "tests": None if trial is None else {
            "removal": trial.removal, "passes": trial.passes, "orders": len(trial.random_deletion),
            "all_orders": trial.all_orders, "seed": trial.seed,
            "aopc": _plain(trial.aopc), "random": [_plain(min(trial.random_aopc)), _plain(max(trial.random_aopc))],
            "beaten": [trial.orders_beaten(side) for side in ("deletion", "insertion")], "needed": needed(trial),
            "naopc": _plain(trial.naopc), "agreement": {n: _plain(x) for n, x in (trial.agreement or {}).items()},
        },
    }  # fmt: skip


def _plain(x: float | None) -> float | None:
    """A number for JSON, which knows no NaN."""
    return None if x is None or not math.isfinite(x) else float(f"{x:.6g}")


@WAYS.add("explained.save_html", "The page of an explanation, as a file.")
def save(explanation: Explanation, path: Path) -> Path:
    if not path.parent.is_dir():
        raise InputError(f"The folder of a page must exist, but {path.parent} does not; make it first.")
    write_files(path.parent, {path.name: page(explanation).encode("ascii")})
    return path


@WAYS.add("explained.frame", "The page of an explanation as a notebook's cell.")
def frame(explanation: Explanation, *, height: int = 640) -> str:
    """The page as an element for a notebook's cell."""
    return framed(page(explanation), height=height, title="headwise explanation")


@WAYS.add("explained.show", "The page of an explanation, in a notebook in place, elsewhere in the browser.")
def show(explanation: Explanation) -> Explanation | Path:
    """In a notebook the explanation itself, which the notebook displays; elsewhere a file opened in the browser."""
    if in_notebook():
        return explanation
    with tempfile.NamedTemporaryFile("w", suffix=".html", prefix="headwise-", delete=False) as file:
        file.write(page(explanation))
    webbrowser.open(Path(file.name).as_uri())
    return Path(file.name)
