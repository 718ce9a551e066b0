"""What a study says of a table that was made by hand."""

from __future__ import annotations

from typing import Any

import polars as pl

from headwise.studies import STUDIES
from headwise.studies.answers import Answer
from headwise.studies.study import Setting
from references.undefined import nothing_undefined_is_said

NB = "\u00a0"


def setting(documents: int = 3, tokens: int = 60, stack: str = "self") -> Setting:
    return Setting("model", {stack: (2, 2, 8)}, False, {"documents": documents, "tokens": tokens})


def answered(
    study: str, table: pl.DataFrame, question: str, *, of: Setting | None = None, **settings: Any
) -> list[Answer]:
    nothing_undefined_is_said(study, table, of or setting(), **settings)
    answers = STUDIES[study](**settings).answers(table, of or setting())
    return [answer for answer in answers if answer.question == question]


def said(study: str, table: pl.DataFrame, question: str, **settings: Any) -> list[str]:
    return [answer.says for answer in answered(study, table, question, **settings)]
