"""`report --controls`: the papers' claims held against networks that learned nothing."""

from __future__ import annotations

import re
from pathlib import Path

import headwise as hw
from headwise.papers.controls import Beside, controlled, networks
from headwise.reports.page import _controls
from references.markup import stray


def test_the_claims_of_a_report_have_controls(load, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"Cat number {n} sat on the mat, and it purred.\n" for n in range(8)), "utf-8")
    said: list[str] = []
    page = hw.report(
        load("tiny:bert"), corpus=texts, studies=["surface"], out=tmp_path / "held", controls=1, say=said.append,
        progress=False,
    ).read_text("utf-8")  # fmt: skip
    folders = {path.name for path in (tmp_path / "held" / "untrained").iterdir()}
    assert folders == {"untrained-0", "shuffled-0"}
    assert [line for line in said if "control" in line] == [
        "the control: untrained, seed 0", "the control: shuffled, seed 0",
    ]  # fmt: skip
    rows = re.findall(r"<tr><td><a [^>]*>clark2019</a> (.*?)</tr>", page)
    held = [row for row in rows if "not comparable" not in row]
    assert len(held) >= 3
    assert all(re.search(r"untrained: \S.*shuffled: \S", row) for row in held)
    assert not any('class="yes"' in row for row in held), "nothing holds of a network that learned nothing"
    assert not stray(page)


def test_only_what_shares_the_one_pass_and_is_claimed_has_controls() -> None:
    assert controlled(["surface", "identity", "mixing", "norms", "lamps"]) == ["surface", "norms"]


def test_networks_are_of_two_kinds_and_as_many_seeds(load) -> None:
    found = [(kind, seed) for kind, seed, _ in networks(load("tiny:bert"), 2)]
    assert found == [("untrained", 0), ("untrained", 1), ("shuffled", 0), ("shuffled", 1)]


def test_the_page_says_what_the_claims_were_held_against() -> None:
    assert _controls(None).startswith("A report runs no untrained network beside the model, so a claim")
    assert "--controls 3" in _controls(None)
    assert _controls(Beside({"surface": {}, "norms": {}}, 3, 64)) == (
        "Beside the model, 6 networks of its shape that learned nothing (3 drawn anew, 3 with the weights shuffled) "
        "read up to 64 of the texts, for surface, norms; for the rest <code>headwise reproduce PAPER --data "
        "DATA</code> runs them."
    )
    assert "for no study;" in _controls(Beside({}, 1, 64))
