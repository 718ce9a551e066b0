"""A budget of minutes is kept by what the forecast of a run says."""

from __future__ import annotations

import pytest

from headwise.engine.forecast import Pass, of_texts
from headwise.reports.plan import _over, _within
from headwise.studies import STUDIES

TOLD = Pass(0.01, 12, 1.0)


def told(chosen, documents: int):
    studies = [STUDIES[name].from_settings(given) for name, given in chosen.items()]
    return of_texts([12.0] * documents, studies, 72, TOLD, parts=8, shard=1)


@pytest.mark.parametrize(
    ("minutes", "texts", "read", "out"),
    [(10.0, 100, 200, []), (2.0, 32, 200, []), (0.3, 4, 65, []), (0.2, None, 200, ["faithfulness"]),
     (0.07, None, 52, ["faithfulness"])],
)  # fmt: skip
def test_a_budget_is_kept_by_what_is_foretold(minutes: float, texts: int | None, read: int, out: list[str]) -> None:
    """Of two minutes 12 to 24 were foretold: fewer texts are asked, then read, then the dearest study goes."""
    chosen = {"surface": {}, "faithfulness": {"texts": 100}}
    kept, left_out, documents = _within(minutes, chosen, 200, told, ["faithfulness"], named=False)
    assert (kept.get("faithfulness", {}).get("texts"), documents, list(left_out)) == (texts, read, out)
    assert told(kept, documents).whole <= 60 * minutes
    assert _over(told(kept, documents).whole, minutes) == ""


def test_what_no_budget_is_enough_for_is_said_and_what_was_named_stays() -> None:
    chosen = {"surface": {}, "faithfulness": {"texts": 100}}
    kept, left_out, documents = _within(0.1, chosen, 200, told, ["faithfulness"], named=True)
    assert (kept["faithfulness"], left_out, documents) == ({"texts": 4}, {}, 8)
    assert _over(told(kept, documents).whole, 0.1) == " What is run takes about 14 s at least, more than --budget 0.1."
    kept, left_out, documents = _within(0.2, chosen, 200, told, [], named=False)
    assert left_out == {"faithfulness": "it would take about 21 s of the 0.2 minutes of --budget."}
