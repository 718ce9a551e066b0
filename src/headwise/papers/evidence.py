"""Verdicts as pages: a table of one run, and all claims by all models, from numbers that are stored.

The rules are applied when the page is made, to the stored numbers; so a page never says what the rules do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from headwise.papers import PAPERS, Claim, Evidence, Item, Job, Judged, Paper, Training, judge
from headwise.papers.claim import counts_of
from headwise.papers.rows import judged_again

SIGNS = {"holds": "✅", "does not hold": "❌", "undecided": "❔", "not comparable": "➖"}
KEY = "✅ holds · ❌ does not hold · ❔ undecided, and why · ➖ not comparable · no sign: why there is no number"


@dataclass(frozen=True)
class Told:
    """A claim of an item of a paper, for a model, and the page that has its numbers."""

    paper: Paper
    item: Item
    claim: Claim
    model: str
    judged: Judged
    page: str


def from_table(
    paper: str,
    items: Sequence[str],
    table: pl.DataFrame,
    manifest: Mapping[str, Any],
    *,
    model: str,
    page: str,
    controls: pl.DataFrame | None = None,
) -> list[Told]:
    """The claims of the items, judged by a study's table, with intervals where it has them.

    `controls`: tables of the same of networks that learned nothing, all in one, by `kind` and `seed`.
    """
    networks: dict[str, list[pl.DataFrame]] = {}
    if controls is not None:
        for (kind, _), rows in sorted(controls.partition_by("kind", "seed", as_dict=True).items(), key=str):
            networks.setdefault(str(kind), []).append(rows.drop("kind", "seed"))
    evidence = Evidence(table, counts_of(manifest), (), networks.get("untrained"), networks.get("shuffled", ()))
    return [
        Told(PAPERS[paper], item, claim, model, judge(claim, evidence), page)
        for item, claim in _claims(paper, items)
        if isinstance(item.job, Job)
    ]


def from_trained(tables: Mapping[str, pl.DataFrame], *, seeds: int, model: str, page: str) -> list[Told]:
    """The claims of the paper that trains its own models."""
    return [
        Told(PAPERS["yang"], item, claim, model, judge(claim, Evidence(tables[item.job.table], {"seeds": seeds})), page)
        for item, claim in _claims("yang", ())
        if isinstance(item.job, Training)
    ]


def from_verdicts(verdicts: pl.DataFrame, *, model: str, page: str) -> list[Told]:
    """The claims of `verdicts.parquet` of `headwise reproduce`, by today's rules."""
    stored = {(row["paper"], row["item"], row["claim"]): row for row in verdicts.iter_rows(named=True)}
    found = []
    for name, paper in PAPERS.items():
        for item, claim in _claims(name, ()):
            if (row := stored.get((name, item.id, claim.says))) is not None:
                found.append(Told(paper, item, claim, model, judged_again(claim, row), page))
    return found


def _claims(paper: str, items: Sequence[str]) -> Iterable[tuple[Item, Claim]]:
    return ((item, claim) for item in PAPERS[paper].items if not items or item.id in items for claim in item.claims)


def one_run(told: Sequence[Told]) -> str:
    """The table of a page: one row a claim and model."""
    head = "| item | claim | holds if | paper | here | n | control | verdict |\n|---|---|---|---|---|---|---|---|\n"
    return head + "".join(_row(one) for one in told)


def _row(one: Told) -> str:
    found = one.judged
    verdict = f"{SIGNS[found.verdict]} {found.verdict}" + (f": {found.why}" if found.why and found.numbers else "")
    cells = (f"{one.paper.name} {one.item.id}", one.claim.says, one.claim.rule, one.claim.theirs,
             f"{one.model}: {found.ours}", found.n, found.control, verdict)  # fmt: skip
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def claims_by_models(
    told: Sequence[Told], models: Sequence[str], reason: Callable[[Item, str], str], *, root: str = ""
) -> str:
    """The page on top: a row a claim with its rule in words, a column a model; cells lead to the page of the numbers.

    `root`: the way from this page to the folder of those. `reason` says why a model has no number of an item, or one
    without an interval or a control; "" where it knows none.
    """
    found = {(one.paper.name, one.item.id, one.claim.says, one.model): one for one in told}
    lines = [f"| | claim | holds if | {' | '.join(models)} |\n|---|---|---|{'---|' * len(models)}\n"]
    for paper in PAPERS:
        for item, claim in _claims(paper, ()):
            mine = {model: found.get((paper, item.id, claim.says, model)) for model in models}
            cells = [_filled(one, reason(item, model), root) for model, one in mine.items()]
            rule = claim.rule.replace("|", "\\|")
            lines.append(f"| {paper} {item.id} | {claim.says} | {rule} | {' | '.join(cells)} |\n")
    return "".join(lines)


def _filled(one: Told | None, reason: str, root: str) -> str:
    if one is None:
        return reason or "not run"
    cell = _cell(one, root)
    return cell if whole(one) or not reason else f"{cell}: {reason}"


def whole(one: Told) -> bool:
    """Whether a cell has an interval, n and a control, or says that there is nothing to compare."""
    found = one.judged.numbers
    return found is None or not (math.isnan(found.low) or math.isnan(found.high) or found.controls is None)


def absent(item: Item) -> str:
    """Why no model but the one that was made for it has a number of an item; "" where any could."""
    if isinstance(item.job, Training):
        return "trains taggers of its own"
    return f"takes {item.job.model}" if item.job.model else ""


def in_order(told: Iterable[Told], models: Sequence[str]) -> list[Told]:
    """As the papers have their claims, and the models as they are named."""
    claims = [(name, item.id, claim.says) for name in PAPERS for item, claim in _claims(name, ())]
    return sorted(
        told, key=lambda one: (claims.index((one.paper.name, one.item.id, one.claim.says)), models.index(one.model))
    )


def _cell(one: Told, root: str) -> str:
    """The sign, the number with its interval, what it was read of, n, the control, and why it is not decided."""
    found = one.judged
    sign = f"[{SIGNS[found.verdict]}]({root}{one.page})"
    if found.numbers is None:
        return f"{sign} {found.why}"
    parts = [found.number, found.instead, found.n, found.control, found.why]
    return f"{sign} {'; '.join(part for part in parts if part)}".replace("|", "\\|")


def between(page: str, name: str, content: str) -> str:
    """The page with `content` between its two markers of this name.

    >>> between("<!-- x -->\\nold\\n<!-- /x -->", "x", "new\\n")
    '<!-- x -->\\n\\nnew\\n\\n<!-- /x -->'
    """
    before, begin, rest = page.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    if not begin or not end:
        raise ValueError(f"the page must have <!-- {name} --> and <!-- /{name} -->")
    return f"{before}{begin}\n{content}\n{end}{after}"
