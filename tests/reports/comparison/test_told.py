"""A stored comparison in the shell's words: both models, both corpora, how many texts of each, and nothing untested."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwise.cli.run import _of, _summary
from headwise.cli.tables import print_table
from headwise.reports.comparison.gate import document
from headwise.reports.comparison.run import compare


def side(model: str, corpus: str, texts: int, tokens: int, /, folder: str = "", **skipped: int) -> dict[str, Any]:
    return {"model": {"name": model}, "corpus": {"name": corpus, "path": folder + corpus}, "documents": texts,
            "tokens": tokens, "skipped": skipped, "settings": {}}  # fmt: skip


def stored(a: dict[str, Any], b: dict[str, Any], study: str = "profile") -> Any:
    manifest = {
        "study": "compare", "settings": {"study": study, "texts": 48}, "sides": {"a": a, "b": b},
        "model": {"name": f"{a['model']['name']} → {b['model']['name']}"}, "plan": {"corpus": {"name": "neither"}},
        "documents": a["documents"], "tokens": a["tokens"], "skipped": a["skipped"],
    }  # fmt: skip
    return SimpleNamespace(manifest=manifest, folder=Path("out"), table=[], figures=())


@pytest.mark.parametrize(
    ("a", "b", "summary", "caption"),
    [
        (
            side("./clf", "x.csv", 30, 423), side("../w1/stars", "x.csv", 30, 430),
            "compare: ./clf → ../w1/stars on x.csv, 30 texts, 423 and 430 tokens read; no text was skipped",
            "clf → stars on x.csv, 30 texts",
        ),
        (
            side("./clf", "x.csv", 30, 423), side("./clf", "y.csv", 1, 14, empty=2),
            "compare: ./clf on x.csv, 30 texts → ./clf on y.csv, 1 text, 423 and 14 tokens read; a: no text was "
            "skipped; b: 2 texts were skipped (2 empty)",
            "clf on x.csv, 30 texts → clf on y.csv, 1 text",
        ),
        (
            side("demo", "x.csv", 1200, 4230), side("/models/mine", "x.csv", 1100, 4000),
            "compare: demo on x.csv, 1,200 texts → /models/mine on x.csv, 1,100 texts, 4,230 and 4,000 tokens read; no "
            "text was skipped",
            "all-MiniLM-L6-v2 on x.csv, 1,200 texts → mine on x.csv, 1,100 texts",
        ),
        (
            side("./one/clf", "x.csv", 30, 423), side("./two/clf", "x.csv", 30, 423, folder="other/"),
            "compare: ./one/clf on x.csv, 30 texts → ./two/clf on x.csv, 30 texts, 423 and 423 tokens read; no text "
            "was skipped",
            "./one/clf on x.csv, 30 texts → ./two/clf on x.csv, 30 texts",
        ),
    ],
    ids=["two models", "two corpora", "other counts", "folders of one name"],
)  # fmt: skip
def test_both_sides_are_named_with_what_each_read(a, b, summary: str, caption: str, capsys, monkeypatch) -> None:
    """Two models on 30 texts were "stars on x.csv, 30 texts.": the first was cut with the path before it."""
    monkeypatch.setenv("COLUMNS", "200")
    _summary(stored(a, b))
    assert capsys.readouterr().out.splitlines()[0] == summary
    assert _of(stored(a, b)) == caption


def test_of_heads_taken_away_the_texts_that_were_asked_are_told() -> None:
    one = {**side("demo", "x.csv", 30, 423), "settings": {"texts": 12}}
    assert _of(stored(one, one, "ablation")).endswith("on x.csv, the first 12 of 30 texts")


def test_what_nobody_tested_is_not_said_not_to_be_clear(load, tmp_path: Path, monkeypatch, capsys) -> None:
    """Every row was "clear False" where there are no intervals."""
    monkeypatch.setattr("headwise.reports.comparison.run.figures_of", lambda *_: {})
    path = tmp_path / "lines.txt"
    path.write_text("The dog was in the sea.\nThe old cat was there too.\n")
    model, settings = load("tiny:bert"), {"surface": {"quantities": ("raw",)}}
    result = compare(model, model, corpus=path, out=tmp_path / "out", study="surface", settings=settings)
    assert result.table["clear"].null_count() == len(result.table)
    print_table(result, whole=False)
    assert "clear" not in capsys.readouterr().out
    assert not any(row["clear"] is not False for row in document(result, [])["differences"])
