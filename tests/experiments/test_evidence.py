"""Pages say what the rules make of the stored tables: `make evidence` would change nothing."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from headwise.papers.evidence import between, claims_by_models

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def evidence() -> ModuleType:
    spec = importlib.util.spec_from_file_location("evidence", ROOT / "experiments" / "evidence.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_are_as_the_rules_make_them(evidence: ModuleType) -> None:
    made = evidence.contents()
    assert len(made) == 10
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
    rows = claims_by_models(told, link=True).splitlines()
    assert len({row.count(" | ") for row in rows[2:]}) == 1, "every row has a cell a model"


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="must have <!-- verdicts -->"):
        between("no markers", "verdicts", "x")
