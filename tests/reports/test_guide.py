"""The guide names what a report runs; the page and the four files beside it say the same of one judgement."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import headwise as hw
from headwise.reports.plan import agenda
from headwise.studies import STUDIES
from headwise.text.corpus import open_corpus

TEXTS = (
    "the river was old and the city was in the north",
    "the old man saw the dog in the city and it ran",
    "she was there and late in the day",
    "it was not so old in the north of the city",
)


def test_the_guide_names_every_study_and_what_a_report_runs(load, demo) -> None:
    """It left out two studies that every report runs."""
    guide = (Path(__file__).parents[2] / "docs" / "report.md").read_text("utf-8")
    (section,) = re.findall(r"## What is run\n(.*?)\n## ", guide, re.DOTALL)
    rows = re.findall(r"^\| (`.*?) \| (.*?) \|$", section, re.MULTILINE)
    named = {of: set(re.findall(r"`(\w+)`", studies)) for studies, of in rows}
    assert set().union(*named.values()) == set(STUDIES)
    assert named.pop("only where they are named") == {name for name in STUDIES if STUDIES[name].by_name}
    usual = named["every model and corpus"] | named["four texts or more"]

    def more(*names: str) -> set[str]:
        (found,) = [of for of in named.values() if set(names) == of]
        return found

    answers, language = more("faithfulness", "adversary") | more("reasons"), more("importance") | more("reasons")
    for model, also in (
        (demo, set()),
        (load("tiny:bert"), set()),
        (load("tiny:bert", "classification"), answers),
        (load("tiny:bert", "masked-lm"), language),
        (load("tiny:gpt2", "causal-lm"), answers | language),
    ):
        assert set(agenda(model, open_corpus("sample")).settings) == usual | also


def test_a_vote_about_the_answer_is_told_alike_in_the_report_and_in_every_file(load, tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("\n\n".join(TEXTS), "utf-8")
    path = hw.report(
        load("tiny:bert", "classification"), corpus=tmp_path / "c.txt", out=tmp_path / "out",
        studies=["norms", "nullspace", "lamps", "faithfulness"], progress=False,
    )  # fmt: skip
    found = json.loads((path.parent / "verdict.json").read_text("utf-8"))
    votes = {tested: because for _, tested, _, because in found["votes"]}
    gain = r"[+-]\d\.\d{3,4} \([+-]\d\.\d{3,4} to [+-]\d\.\d{3,4}\)"
    close = "(; close: its interval holds 0, where this turns)?"
    assert re.search(f"random ones.*{gain}.*, over 4 texts{close}$", votes["matters"])
    lines = [
        found["instead"], *votes.values(), *found["may"], *found["may_not"], *(one["says"] for one in found["numbers"]),
    ]  # fmt: skip
    files = [path, *(path.parent / name for name in ("verdict.html", "verdict.md", "card.md"))]
    read = {file.name: unescape(file.read_text("utf-8")) for file in files}
    assert not [(name, line) for name, said in read.items() for line in lines if line not in said]
