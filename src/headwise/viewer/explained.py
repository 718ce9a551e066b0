"""The page of an explanation: verdict on top, the coloured text, a chooser of targets and methods, the tests.

One file that needs no network: its script and style are named by their hashes in the page's policy, all text travels as
JSON that cannot end its element, and the script writes it with textContent alone.
"""

from __future__ import annotations

import html
import math
import tempfile
import webbrowser
from pathlib import Path
from typing import Any

from headwise.errors import InputError
from headwise.explanations.explanation import Explanation
from headwise.explanations.figures import curves_of
from headwise.results.files import write_files
from headwise.traces import WAYS
from headwise.viewer.build import ascii_text, bundle, policy, script_json
from headwise.viewer.view import in_notebook


@WAYS.add("explained.page", "The page of an explanation.")
def page(explanation: Explanation) -> str:
    """The whole page, in ASCII."""
    script, style = bundle("explained.js"), bundle("explained.css")
    return "".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{policy(script, style)}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n',
            f"<title>{ascii_text(explanation.targets[0].name)} - explained by headwise</title>\n",
            f'<style>{style}</style>\n</head>\n<body>\n<main id="app"></main>\n',
            "<noscript>This page colours its text with JavaScript, which is switched off here.</noscript>\n",
            f'<script type="application/json" id="data">{script_json(payload(explanation))}</script>\n',
            f"<script>{script}</script>\n</body>\n</html>\n",
        ]
    )


def payload(explanation: Explanation) -> dict[str, Any]:
    """What the page shows, as plain numbers and text."""
    methods = {explanation.method: explanation.scores, **explanation.columns, **explanation.others}
    trial, said = explanation.trial, explanation.verdict
    return {
        "model": explanation.model_name,
        "method": explanation.method,
        "unit": explanation.unit,
        "targets": [{"name": t.name, "kind": t.kind, "of": t.of, "rather": t.rather_name} for t in explanation.targets],
        "units": [{"name": unit.name, "given": unit.given} for unit in explanation.units],
        "scores": {name: [[_plain(x) for x in row] for row in scores.tolist()] for name, scores in methods.items()},
        "value": explanation.value.tolist(),
        "probability": explanation.log_probability.exp().tolist(),
        "adds": {name: parts.tolist() for name, parts in (explanation.adds or {}).items()},
        "adds_up": explanation.adds is not None,
        "error": explanation.error,
        "passes": explanation.passes,
        "note": explanation.note,
        "verdict": None if said is None else {"belief": said.belief, "sentence": said.sentence},
        "curves": [] if trial is None else curves_of(trial).to_dicts(),
        "tests": None if trial is None else {
            "removal": trial.removal, "passes": trial.passes, "orders": len(trial.random_deletion), "seed": trial.seed,
            "aopc": _plain(trial.aopc), "random": [_plain(min(trial.random_aopc)), _plain(max(trial.random_aopc))],
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
    source = html.escape(page(explanation), quote=True)
    return (
        f'<iframe srcdoc="{source}" sandbox="allow-scripts allow-downloads" title="headwise explanation" width="100%"'
        f' height="{height}" style="border:0;width:100%;height:{height}px" loading="lazy"></iframe>'
    )


@WAYS.add("explained.show", "The page of an explanation, in a notebook in place, elsewhere in the browser.")
def show(explanation: Explanation) -> Explanation | Path:
    """In a notebook the explanation itself, which the notebook displays; elsewhere a file opened in the browser."""
    if in_notebook():
        return explanation
    with tempfile.NamedTemporaryFile("w", suffix=".html", prefix="headwise-", delete=False) as file:
        file.write(page(explanation))
    webbrowser.open(Path(file.name).as_uri())
    return Path(file.name)
