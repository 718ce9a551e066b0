"""Pages say what the rules make of the stored tables: `make evidence` would change nothing."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from headwise.papers import PAPERS
from headwise.papers.claim import settled
from headwise.papers.evidence import between, claims_by_models, from_table, whole
from references.scripts import script

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def evidence() -> ModuleType:
    return script("experiments/evidence.py")


def test_pages_are_as_the_rules_make_them(evidence: ModuleType) -> None:
    made = evidence.contents()
    assert len(made) == len(evidence.pages()) + 2
    for path, content in made.items():
        page = path.read_text("utf-8")
        assert page == between(page, evidence.MARK, content), f"{path}: run `make evidence`"


def test_a_claim_and_model_have_one_verdict_and_a_reason_where_it_is_open(evidence: ModuleType) -> None:
    told = [one for page in evidence.pages().values() for one in page]
    assert len({one.model for one in told}) >= 4
    for one in told:
        assert one.judged.why or one.judged.verdict in ("holds", "does not hold")
        if one.judged.verdict == "holds":
            assert one.judged.numbers
            assert one.judged.numbers.controls is not None


def test_what_holds_has_an_interval_and_a_control_that_could_tell(evidence: ModuleType) -> None:
    """As the table of rules on docs/evidence.md has it; its exceptions say themselves what they are."""
    for one in evidence.on_top(evidence.pages()):
        found = one.judged.numbers
        if one.judged.verdict != "holds" or found is None:
            continue
        assert not math.isnan(found.low)
        told = [value for value in (*(found.controls or ()), *found.shuffled) if not math.isnan(value)]
        assert told or found.control in ("the diagonal, in the number", "none applies"), one.claim.says


def test_a_cell_says_what_the_claim_was_read_of_and_leads_to_its_numbers(evidence: ModuleType) -> None:
    told = evidence.on_top(evidence.pages())
    page = claims_by_models(told, evidence.MODELS, evidence.reason, root="../experiments/")
    rows = {tuple(row.strip("| ").split(" | ")[:2]): row.strip("| ").split(" | ")[3:] for row in page.splitlines()[2:]}
    llm = {key: cells[evidence.MODELS.index("demo-llm")] for key, cells in rows.items()}
    named = {(item, says[:9]): cell for (item, says), cell in llm.items()}
    assert "; the previous token only: the next is not seen; " in named["clark2019 rel-pos", "some head"]
    assert "; the first token: there are no separators; " in named["clark2019 fig3", "the loss "]
    demo = next(cells[0] for (item, _), cells in rows.items() if item == "clark2019 fig3")
    assert "; by a masked-LM head that was trained here: perplexity 1,161, frequencies alone 1,743; " in demo
    for cells in rows.values():
        for cell in cells:
            if cell[0] == "[":
                link = re.match(r"\[[✅❌❔➖]\]\(\.\./experiments/([\w-]+/README\.md)\) ", cell)
                assert link, cell
                assert (ROOT / "experiments" / link[1]).is_file()
            else:
                assert not set(cell) & set("✅❌❔➖"), cell


def test_nothing_holds_of_a_control_that_is_stored(evidence: ModuleType) -> None:
    """Put in the model's place, with an interval of no width and the others as its controls, none of them holds."""
    networks = 0
    for one in evidence.on_top(evidence.pages()):
        numbers = one.judged.numbers
        if numbers is None or numbers.controls is None:
            continue
        for value in (*numbers.controls, *numbers.shuffled):
            if not math.isnan(value):
                networks += 1
                found = settled(one.claim, replace(numbers, value=value, low=value, high=value), "")
                assert found.verdict != "holds", f"{one.model}, {one.item.id}: {one.claim.says}"
    assert networks > 100


def test_every_cell_has_its_numbers_or_a_reason_of_its_own(evidence: ModuleType) -> None:
    """n, interval and control; or nothing to compare; or why not, in more words than that it was not run."""
    told = evidence.on_top(evidence.pages())
    rows = claims_by_models(told, evidence.MODELS, evidence.reason).splitlines()[2:]
    assert len(rows) == sum(len(item.claims) for paper in PAPERS.values() for item in paper.items)
    for row in rows:
        cells = row.strip("| ").split(" | ")[3:]
        assert len(cells) == len(evidence.MODELS), row
        assert all(cell and cell != "not run" for cell in cells), row
        assert re.search(r"(above|below) \S+.*, from \d+ .*\(interval: ", row.split(" | ")[2]), "the bar, in words"
    for one in told:
        assert whole(one) or evidence.reason(one.item, one.model), f"{one.model}, {one.item.id}: say why in REASONS"


def test_the_most_special_reason_is_told(evidence: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    items = {item.id: item for item in PAPERS["brunner2020"].items}
    monkeypatch.setitem(
        evidence.REASONS, "demo", {"mixing fig3b": "of the item", "mixing": "of its study", "": "of the model"}
    )
    assert [evidence.reason(items[name], "demo") for name in ("fig3b", "fig3a", "rank")] == [
        "of the item", "of its study", "of the model",
    ]  # fmt: skip
    assert evidence.reason(items["mnli-identity"], "demo") == evidence.NO_MNLI
    alignment = next(item for item in PAPERS["kobayashi2020"].items if item.id == "fig7")
    assert evidence.reason(alignment, "demo") == "takes a German–English translation model"
    assert evidence.reason(PAPERS["yang"].items[0], "demo") == "trains taggers of its own"


def rates(value: float) -> pl.DataFrame:
    """Ten folds of a map that finds `value` of the tokens in the one layer there is."""
    return pl.DataFrame(
        {"what": "rate", "set": "test", "map": ["linear", "none"], "distance": "cosine", "layer": 0, "tested": 0,
         "offset": 0, "value": value, "low": value - 0.01, "high": value + 0.01}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("controls", "verdict"),
    [
        (None, "undecided"),  # none was run
        ([0.3, 0.31, 0.3], "holds"),
        ([0.3, 0.95, 0.3], "undecided"),  # one passes
    ],
)
def test_controls_of_a_table_are_told_apart_by_kind_and_seed(controls: list[float] | None, verdict: str) -> None:
    networks = None
    if controls is not None:
        networks = pl.concat(
            rates(value).with_columns(kind=pl.lit(kind), seed=pl.lit(seed))
            for kind in ("shuffled", "untrained")
            for seed, value in enumerate(controls)
        )
    manifest = {"documents": 100, "settings": {"folds": 10}}
    found = from_table("brunner2020", ["fig38"], rates(0.97), manifest, model="x", page="y", controls=networks)
    assert [one.judged.verdict for one in found] == [verdict]
    if controls is not None:
        numbers = found[0].judged.numbers
        assert numbers is not None
        assert numbers.controls == numbers.shuffled == tuple(controls)


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="must have <!-- verdicts -->"):
        between("no markers", "verdicts", "x")
