"""Labels as classes: every way to name one, and none that is taken for another or left out in silence."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import headwise as hw
from headwise.errors import InputError
from headwise.interventions.labels import check_labels, class_of, told
from headwise.text.corpus import Document


def model(*names: str) -> Any:
    """As much of a model as the rule reads."""
    config = SimpleNamespace(label2id={name: at for at, name in enumerate(names)}, num_labels=len(names))
    return SimpleNamespace(name="mine", hf=SimpleNamespace(config=config))


STARS = model("1 star", "2 stars", "3 stars")
PLAIN = model("LABEL_0", "LABEL_1", "LABEL_2")
WORDS = model("NEGATIVE", "POSITIVE")
MIXED = model("0", "1", "one of 2")


@pytest.mark.parametrize(
    ("of", "label", "at"),
    [
        (STARS, "1 star", 0), (STARS, "1", 0), (STARS, "3", 2), (STARS, 3, 2), (STARS, "0", None), (STARS, "4", None),
        (PLAIN, "0", 0), (PLAIN, 2, 2), (PLAIN, "3", None), (PLAIN, "LABEL_1", 1), (PLAIN, "label_1", 1),
        (WORDS, "positive", 1), (WORDS, " NEGATIVE ", 0), (WORDS, "1", 1), (WORDS, "2", None), (WORDS, "good", None),
        (WORDS, "-2", None), (WORDS, "1.0", 1), (WORDS, "1.5", None), (STARS, "3.0", 2), (MIXED, "1", 1),
        (model("a", "A"), "a", 0), (model("a", "A"), "A", 1),
    ],
)  # fmt: skip
def test_a_label_is_a_class_by_name_or_number(of: Any, label: str | int, at: int | None) -> None:
    assert class_of(of, label) == at


@pytest.mark.parametrize("note", [None, "", " ", "-1", -1, 0.5])
def test_a_text_without_a_label(note: object) -> None:
    assert told(WORDS, note) is None


def test_a_model_of_one_number_has_no_classes() -> None:
    assert told(model("LABEL_0"), "3.2") is None
    check_labels(model("LABEL_0"), [Document(0, "a", notes="3.2")])


def test_what_is_no_class_is_counted_and_named() -> None:
    notes = ["1", "5", "2", "5", "7", "-1", "3"]
    with pytest.raises(InputError) as error:
        check_labels(STARS, [Document(at, "a", notes=note) for at, note in enumerate(notes)])
    assert str(error.value) == (
        "A label must be a class of mine (1 star, 2 stars, 3 stars, or its number, 1 to 3), but the corpus has '5' "
        "(2 of the first 6 texts), '7' (1); rename them in the file, or leave out --label."
    )
    with pytest.raises(InputError, match=r"has '9' \(1 of the first 2 texts\); rename it in the file"):
        check_labels(STARS, [Document(at, "a", notes=note) for at, note in enumerate("91")])
    many = [str(number) for number in range(4, 11)]
    with pytest.raises(InputError, match=r"'4' \(1 of the first 7 texts\), '5' \(1\), .*'8' \(1\), 2 others; rename"):
        check_labels(STARS, [Document(at, "a", notes=note) for at, note in enumerate(many)])
    check_labels(STARS, [Document(at, "a", notes=note) for at, note in enumerate(["1", "2 stars", "-1"])])


def test_a_run_is_refused_before_it_begins(load, tmp_path) -> None:
    file = tmp_path / "stars.csv"
    file.write_text("review,stars\n" + "".join(f"the old dog sat,{star}\n" for star in range(1, 6)))
    with pytest.raises(InputError, match=r"LABEL_0, LABEL_1, or its number, 0 to 1\), but the corpus has '\d' \(1 of"):
        hw.run("ablation", load("tiny:bert", "classification"), corpus=file, columns=["review"], label="stars",
               out=tmp_path / "out")  # fmt: skip
    assert not (tmp_path / "out").exists()
