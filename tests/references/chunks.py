"""Chunk scoring word by word, as the conlleval script goes through a file: the naive twin of tagging/chunks.py."""

from __future__ import annotations

from collections.abc import Sequence


def parted(tag: str) -> tuple[str, str]:
    place, _, kind = tag.partition("-")
    return place, kind


def starts(before: str, tag: str) -> bool:
    (place_before, kind_before), (place, kind) = parted(before), parted(tag)
    if place == "B":
        return True
    return place == "I" and (place_before == "O" or kind_before != kind)


def ends(tag: str, after: str) -> bool:
    (place, kind), (place_after, kind_after) = parted(tag), parted(after)
    if place == "O":
        return False
    return place_after in ("O", "B") or kind_after != kind


def conlleval(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> dict[str, float]:
    """(gold, guessed) of each sentence → the numbers that the script prints, as fractions."""
    found = gold = guessed = words = right = 0
    for true, said in pairs:
        inside, true, said = False, ["O", *true, "O"], ["O", *said, "O"]
        for at in range(1, len(true)):
            if inside:
                both = ends(true[at - 1], true[at]) and ends(said[at - 1], said[at])
                if both:
                    found, inside = found + 1, False
                elif ends(true[at - 1], true[at]) != ends(said[at - 1], said[at]):
                    inside = False
            if starts(true[at - 1], true[at]) and starts(said[at - 1], said[at]):
                inside = parted(true[at])[1] == parted(said[at])[1]
            gold += starts(true[at - 1], true[at])
            guessed += starts(said[at - 1], said[at])
            if at < len(true) - 1:
                words += 1
                right += true[at] == said[at]
    precision, recall = found / guessed if guessed else 0.0, found / gold if gold else 0.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return {"precision": precision, "recall": recall, "f1": f1, "accuracy": right / words}
