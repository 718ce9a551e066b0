"""Brackets, heads, types and rules on a written example; what is refused; the round trip."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.errors import InputError
from headwise.text.coref import Mention, brackets_of, clusters, documents, files, mentions_of, read
from headwise.text.sieves import attributes, head_match, nearest, sieves
from references.words import COREF_BRACKETS, COREF_CONLLU, conll, told


def written() -> list[str]:
    document = told()
    return [document.written(number) for number in range(len(document.mentions))]


def test_mentions_heads_and_types() -> None:
    document = told()
    assert document.name == "tale"
    assert written() == [
        "anna lee", "the cat", "the old dog", "her and the cat", "her", "the cat", "they", "anna",
        "the mother of the cat", "the cat",
    ]  # fmt: skip
    heads = [document.forms[head] for head in document.heads]
    assert heads == ["Anna", "cat", "dog", "her", "her", "cat", "they", "Anna", "mother", "cat"]
    assert document.types == (
        "proper", "nominal", "nominal", "pronoun", "pronoun", "nominal", "pronoun", "proper", "nominal", "nominal"
    )  # fmt: skip
    assert dict(clusters(document)) == {1: [0, 4, 7, 8], 2: [1, 5, 9], 3: [2], 4: [3, 6]}
    assert [document.text[a:b] for a, b in document.spans] == list(document.forms)


def test_rules_on_the_written_example() -> None:
    document = told()
    earlier = lambda mention: list(range(mention))  # noqa: E731
    assert nearest(document, 6, earlier(6)) == 5  # they: the cat
    assert nearest(document, 0, []) is None
    assert head_match(document, 6, earlier(6)) is None
    assert head_match(document, 7, earlier(7)) == 0  # Anna: Anna Lee
    assert sieves(document, 5, earlier(5)) == 1  # the cat: the same string, though "her and the cat" is nearer
    assert sieves(document, 7, earlier(7)) == 0  # Anna: no equal string, but the head word
    assert sieves(document, 4, earlier(4)) == 3  # her: same head word form
    assert sieves(document, 4, [0, 1, 2]) == 2  # her: number and person agree, gender is unknown; the nearest
    assert attributes(document, 4) == ("Sing", "Fem", "3")
    assert attributes(document, 1) == ("Sing", None, "3")
    assert sieves(document, 6, [0, 1, 2]) == 2  # they: nothing agrees in number, so any, the nearest


@st.composite
def mentions(draw: st.DrawFn) -> tuple[list[Mention], int]:
    """Any mentions but those of one entity that cross each other, which brackets cannot tell from nested ones."""
    words = draw(st.integers(1, 9))
    spans = st.tuples(st.integers(0, words - 1), st.integers(0, words - 1), st.integers(0, 3))
    found = {Mention(min(a, b), max(a, b) + 1, entity) for a, b, entity in draw(st.lists(spans, max_size=8))}
    kept: list[Mention] = []
    for one in sorted(found):
        crossing = [o for o in kept if o.entity == one.entity and o.start < one.start < o.stop < one.stop]
        kept += [] if crossing else [one]
    return sorted(kept, key=lambda mention: (mention.order, mention.entity)), words


@given(mentions())
def test_brackets_round_trip(given_: tuple[list[Mention], int]) -> None:
    found, words = given_
    assert mentions_of(brackets_of(found, words)) == found


def test_the_shared_task_s_layout() -> None:
    rows = [line.split("\t") for line in conll()[1:]]
    wide = [" ".join(["doc", "0", row[0], row[1], *["-"] * 7, row[2].replace("_", "-")]) for row in rows]
    lines = ["#begin document (doc); part 000", *wide[:6], "", *wide[6:], "", "#end document"]
    (document,) = documents(lines, COREF_CONLLU.splitlines())
    assert document.mentions == told().mentions
    assert document.name == "(doc); part 000"


@pytest.mark.parametrize(
    ("word", "column", "reason"),
    [
        (4, "_", r"Document tale, line 5: \(2 must be closed"),
        (3, "_", r"Document tale, line 6: 2\) must close"),
        (2, "(x)", r"Document tale, line 4: .*got '\(x\)'"),
    ],
)
def test_unbalanced_brackets_are_refused_with_document_and_line(word: int, column: str, reason: str) -> None:
    brackets = list(COREF_BRACKETS)
    brackets[word] = column
    with pytest.raises(InputError, match=reason):
        list(documents(conll(brackets), COREF_CONLLU.splitlines(), name="tale"))


def test_words_that_differ_from_the_parse_are_refused() -> None:
    lines = conll()
    with pytest.raises(InputError, match=r"tale.*same 26 words"):
        list(documents(lines[:-1], COREF_CONLLU.splitlines(), name="tale"))
    lines[2] = "1\tLeigh\t1)"
    with pytest.raises(InputError, match=r"word 1 must be the same.*'Leigh' and 'Lee'"):
        list(documents(lines, COREF_CONLLU.splitlines(), name="tale"))
    with pytest.raises(InputError, match=r"line 3.*three columns, got 1"):
        list(documents([*lines[:2], "word"], COREF_CONLLU.splitlines(), name="tale"))


def test_a_folder_is_read_and_what_is_broken_is_counted(tmp_path: Path) -> None:
    for folder in ("conll", "conllu"):
        (tmp_path / folder).mkdir()
    blank = COREF_CONLLU
    for word in sorted({form for line in conll()[1:] for form in [line.split("\t")[1]]}, key=len, reverse=True):
        blank = blank.replace(f"\t{word}\t", f"\t{'_' * len(word)}\t")
    blank = "\n".join(line for line in blank.splitlines() if not line.startswith("#"))
    withheld = [line if line.startswith("#") else f"0\t{'_' * len(line.split()[1])}\t_" for line in conll()]
    texts = {"good": (conll(), COREF_CONLLU), "broken": (conll(["1)", *COREF_BRACKETS[1:]]), COREF_CONLLU),
             "withheld": (withheld, blank)}  # fmt: skip
    for name, (brackets, parse) in texts.items():
        (tmp_path / "conll" / f"{name}.conll").write_text("\n".join(brackets))
        (tmp_path / "conllu" / f"{name}.conllu").write_text(parse)
    skipped: Counter[str] = Counter()
    assert [document.name for document in read(tmp_path, skipped)] == ["good"]
    assert skipped["text withheld"] == 1
    assert [reason for reason in skipped if reason.startswith("Document broken, line 2: 1) must close")]
    with pytest.raises(InputError, match="broken"):
        list(read(tmp_path / "conll" / "broken.conll"))
    (tmp_path / "conllu" / "good.conllu").unlink()
    (alone,) = read(tmp_path / "conll" / "good.conll")  # without a parse, by its words alone
    assert alone.mentions == tuple(mentions_of(COREF_BRACKETS))
    with pytest.raises(InputError, match="nowhere"):
        files(tmp_path / "nowhere")
