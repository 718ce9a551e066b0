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


@pytest.mark.parametrize("task", ["lookup", "negation", "copy"])
def test_a_lesson_asks_only_what_can_be_seen(task: str) -> None:
    """Every question ends in "?", is answered by what stands before it, and its answer is what comes next."""
    names = {number: word for word, number in judge.IDS.items()}
    asked = 0
    for seed in range(40):
        rng = random.Random(seed)
        row, answers = judge.lesson(tasks.TASKS[task](rng), rng)
        words = [names[number] for number in row[1:]]
        first = words.index("?")
        for place, answer in answers.items():
            assert words[place - 1] == "?"
            told = answer_of(task, [*words[:first][: len(words[:first]) - (task != "copy")], *words[place - 2 : place]])
            assert told == names[answer], "no question rests on a masked word"
            assert place == len(row) - 1 or row[place + 1] == answer
        asked += len(answers)
    assert asked > (100 if task != "copy" else 39)
