"""How far attention can be moved while the answer stays, in words."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

import polars as pl

from headwise.results.shown import number
from headwise.studies.answers import BELIEVE, Answer, Number, Vote, graded
from headwise.studies.tables import between, counted

FAR, SOME = 0.35, 0.1  # nats of Jensen–Shannon divergence, of at most ln 2 = 0.69: about half of the way, and a bit


def answers(table: pl.DataFrame) -> Iterator[Answer]:
    whole = table.filter((pl.col("form") == "per-instance") & pl.col("head").is_null())
    found = {row["what"]: row for row in whole.iter_rows(named=True)}
    if not {"js", "tvd"} <= set(found) or not isfinite(found["js"]["value"]):
        return
    js, tvd = found["js"], found["tvd"]
    verdict = graded(-js["value"], care=-FAR, yes=-SOME)
    moved = f"all weights can be moved by {js['value']:.2f} of at most 0.69 nats and the answer stays"
    held = "no attention far from the model's own gives its answer"
    because = f"{held if verdict == 'yes' else moved} ({counted(js['count'], 'text')})"
    says = "nats (of at most 0.69) is how far attention can be moved while the answer stays"
    far = Number("moved", says, js["value"], js["low"], js["high"], int(js["count"]), share=False)
    yield Answer(
        BELIEVE,
        f"For one text at a time, attention can be moved by {js['value']:.2f} nats of Jensen–Shannon divergence "
        f"({between(js['low'], js['high'])}; at most 0.69) while the prediction moves by "
        f"{number(tvd['value'], '.3f')} (total variation), in the mean over {counted(js['count'], 'text')}.",
        vote=Vote(
            "matters",
            verdict,
            because,
            (far,),
            turns=(SOME, FAR),
        ),
    )
