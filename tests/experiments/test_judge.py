"""The judge: what is planted decides the answer and nothing else does; its scores by hand."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "experiments" / "judge"


def module(name: str):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made  # dataclasses look themselves up there, and judge.py its tasks
    spec.loader.exec_module(made)
    return made


tasks, judge = module("tasks"), module("judge")


def answer_of(task: str, words: list[str]) -> str:
    """The task done by a person, from the words alone."""
    if task == "copy":
        return words[words.index("mark") + 1]
    if task == "shortcut":
        return "yes" if "left" in words else "no"
    if task == "count":
        return f"d{words.count('item')}"
    asked = words[-2]
    rest = words[words.index(asked) + 1 :]
    if task == "lookup":
        return rest[0]
    flipped = rest[0] == "not"
    return "yes" if (rest[flipped] == "good") != flipped else "no"


@pytest.mark.parametrize("task", list(tasks.TASKS))
def test_the_evidence_decides_and_the_rest_does_not(task: str) -> None:
    for seed in range(40):
        text = tasks.TASKS[task](random.Random(seed))
        assert answer_of(task, list(text.words)) == text.answer
        plain = [word if at in text.evidence else "w3" for at, word in enumerate(text.words)]
        assert answer_of(task, plain) == text.answer
        assert 0 < len(text.evidence) < len(text.words)


def test_scores_by_hand() -> None:
    evidence = [True, False, True, False]
    assert judge.auroc([3, 2, 1, 0], evidence) == 0.75  # of four pairs one is the wrong way round
    assert judge.auroc([1, 1, 1, 1], evidence) == 0.5
    assert judge.precision([3, 2, 1, 0], evidence) == 0.5
    assert judge.interval([0.0, 1.0]) == pytest.approx((0.5, 1.96 * 0.5))
