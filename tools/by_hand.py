"""Mistakes in what people read, made by hand, most of them such as no test noticed once.

`python tools/mutants.py --by-hand` makes them one at a time and runs the tests that must fail.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Slip:
    """`before` stands once in the module; with `after` in its place one of the tests must fail."""

    what: str
    path: str
    before: str
    after: str
    tests: str


SLIPS = (
    Slip(
        "the verdict of a report is turned round", "headwise/reports/answers.py",
        '{"no": "No, not the raw weights"', '{"no": "Yes."', "tests/reports/test_verdict.py",
    ),
    Slip(
        "a claim holds where it does not", "headwise/papers/verdict.py",
        "if not bar.cleared(bar.best(found.low, found.high)):", "if bar.cleared(bar.best(found.low, found.high)):",
        "tests/papers/test_verdict.py",
    ),
    Slip(
        "the bar of a claim is read from the other side", "headwise/papers/verdict.py",
        "reach if bar.above else", "reach if not bar.above else", "tests/papers/test_verdict.py",
    ),
    Slip(
        "the axes of a grid of heads are swapped", "headwise/plots/grid.py",
        'x=alt.X("head:O", title="head", axis=axis),\n            y=alt.Y("layer:O"',
        'y=alt.Y("head:O", title="head", axis=axis),\n            x=alt.X("layer:O"', "tests/plots/test_charts.py",
    ),
    Slip(
        "heads that park their attention are counted wrongly", "headwise/studies/surface.py",
        'f"separators: {len(parked)} of', 'f"separators: {len(rows)} of', "tests/studies/test_answers.py",
    ),
    Slip(
        "the heads whose weights mostly change nothing are the others", "headwise/studies/nullspace/answers.py",
        'half = share.filter(pl.col("value") > HALF)', 'half = share.filter(pl.col("value") < HALF)',
        "tests/studies/test_answers.py",
    ),
    Slip(
        "the viewer opens at the dullest head", "headwise/viewer/telling.py",
        "kind.score).argmax())", "kind.score).argmin())", "tests/viewer/test_telling.py",
    ),
    Slip(
        "inspect shows the head with least in the null space", "headwise/cli/inspect.py",
        'table["null_share"].arg_max()', 'table["null_share"].arg_min()', "tests/cli/test_choices.py",
    ),
)  # fmt: skip
