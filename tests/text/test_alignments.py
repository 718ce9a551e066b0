"""Links and AER: by hand, against sets, from files of either encoding, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.errors import InputError
from headwise.text.alignments import (
    Counts,
    Links,
    Pair,
    count,
    parse_pair,
    read_links,
    read_pairs,
    read_sentences,
    score,
    write_links,
    write_pairs,
)
from headwise.text.corpus import open_corpus

link = st.tuples(st.integers(0, 4), st.integers(0, 6))


def links(sure: str, possible: str = "") -> Links:
    """links("00 12", "21") has the sure links 0-0 and 1-2 and the possible one 2-1."""
    both = [{(int(pair[0]), int(pair[1])) for pair in written.split()} for written in (sure, possible)]
    return Links(frozenset(both[0]), frozenset(both[0] | both[1]))


# --- AER ---


def test_aer_by_hand() -> None:
    gold = links("00 11 22", "12 21")
    assert count(gold.sure, gold).aer == 0, "A = S"
    assert count(gold.possible, gold).aer == 0, "possible links cost nothing"
    assert count(set(), gold) == Counts(0, 0, 0, 3)
    assert count(set(), gold).aer == 1, "no link at all"
    assert math.isnan(count(set(), gold).precision)
    found = count({(0, 0), (1, 2), (0, 2), (0, 1)}, gold)  # one sure, one possible, two wrong
    assert found == Counts(1, 2, 4, 3)
    assert (found.precision, found.recall) == (0.5, 1 / 3)
    assert found.aer == pytest.approx(1 - 3 / 7)


def test_counts_are_summed_before_they_are_divided() -> None:
    gold = [links("00"), links("00 11 22")]
    total = score([{(0, 0)}, {(0, 1), (1, 1)}], gold)
    assert total == Counts(2, 2, 3, 4)
    assert total.aer == pytest.approx(1 - 4 / 7)
    assert total.aer != pytest.approx((0 + (1 - 2 / 5)) / 2), "not the mean of the pairs"
    assert math.isnan(score([], []).aer)


@given(st.sets(link), st.sets(link), st.sets(link))
def test_aer_of_any_links_lies_between_its_bounds(found: set, sure: set, more: set) -> None:
    counts = count(found, Links(frozenset(sure), frozenset(sure | more)))
    if found or sure:
        assert 0 <= counts.aer <= 1
        assert (counts.aer == 0) == (sure <= found <= sure | more)
    if found and sure and not more:
        f1 = 2 * counts.precision * counts.recall / (counts.precision + counts.recall) if found & sure else 0.0
        assert counts.aer == pytest.approx(1 - f1), "without possible links AER is 1 − F1"


# --- files ---


def written(folder: Path, **files: str | bytes) -> dict[str, Path]:
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return {name: folder / name for name in files}


def test_latin_1_and_utf_8_read_alike_and_are_told_apart(tmp_path: Path) -> None:
    text = "daß es\xa0ß ist\u0085so\nÜbel .\n"  # U+0085 and U+00A0 end no line
    paths = written(tmp_path, latin=text.encode("latin-1"), utf=b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert read_sentences(paths["latin"]).lines == read_sentences(paths["utf"]).lines == text.split("\n")[:2]
    assert [read_sentences(path).encoding for path in paths.values()] == ["latin-1", "utf-8"]
    with pytest.raises(InputError, match="must be utf-8"):
        read_sentences(paths["latin"], "utf-8")
    with pytest.raises(InputError, match="that Python knows"):
        read_sentences(paths["latin"], "utf-88")


def test_talp_counts_from_one_and_pharaoh_from_zero(tmp_path: Path) -> None:
    paths = written(tmp_path, de="Das stimmt nicht\nJa\n\n", en="that is wrong\nyes\n\n",
                    talp="3-3 1-1 2p2\n1-1\n\n", pharaoh="0-0 2-2 1?1\n0-0\n")  # fmt: skip
    expected = [links("00 22", "11"), links("00")]
    for name, base in (("talp", 1), ("pharaoh", 0)):
        gold = read_links(paths[name], [(3, 3), (1, 1)])
        assert (gold.links, gold.base, gold.detected) == (expected, base, True)
        assert read_links(paths[name], [(3, 3), (1, 1)], base).detected is False
    pairs, said = read_pairs(paths["de"], paths["en"], paths["talp"])
    assert [pair.links for pair in pairs] == expected
    assert said == [f"{paths['talp']} counts words from 1"]
    assert read_pairs(paths["de"], paths["en"])[0] == [Pair("Das stimmt nicht", "that is wrong"), Pair("Ja", "yes")]


def test_an_open_base_is_not_guessed(tmp_path: Path) -> None:
    path = written(tmp_path, gold="1-1 2-2\n")["gold"]
    with pytest.raises(InputError, match=r"from 0 or from 1.*--base"):
        read_links(path, [(4, 4)])
    assert read_links(path, [(4, 4)], 0).links == [links("11 22")]
    assert read_links(path, [(4, 4)], 1).links == [links("00 11")]
    with pytest.raises(InputError, match="but 2 was given"):
        read_links(path, [(4, 4)], 2)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"de": "a\nb\nc\n"}, "de has 3 and .*en has 2"),
        ({"de": "a\n\n", "en": "a\n\nb\n"}, "line 2 is empty"),
        ({"de": "\n"}, "it is empty"),
        ({"gold": "0-0\n"}, "2 pairs and 1 lines"),
        ({"gold": "0-0\n0-0\n0-0\n"}, "2 pairs and 3 lines"),
        ({"gold": "0-0\n0-7\n"}, "gold, line 2: the target has 3 words, counted from 0, but link 0-7"),
        ({"gold": "0-0\n9p0\n"}, "gold, line 2: the source has 2 words.*9p0"),
        ({"gold": "0-0\n0/0\n"}, "line 2: a link must be written.*'0/0'"),
        ({"gold": "0-0\n-1-0\n"}, "line 2: a link must be written"),
    ],
)
def test_files_that_do_not_fit_are_one_line(tmp_path: Path, files: dict[str, str], said: str) -> None:
    fit = {"de": "eins\nzwei drei\n", "en": "one\ntwo three four\n", "gold": "0-0\n0-0\n"}
    paths = written(tmp_path, **{**fit, **files})
    with pytest.raises(InputError, match=said) as caught:
        read_pairs(paths["de"], paths["en"], paths["gold"])
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_sentences(tmp_path / "none")


# --- a corpus of pairs ---


@given(st.lists(st.tuples(st.text("aß|1. \t", min_size=1), st.text("bé2, ", min_size=1)), min_size=1, max_size=3))
def test_pairs_are_read_as_they_were_written(sides: list[tuple[str, str]]) -> None:
    kept = [Pair(a.strip(), b.strip(), Links(frozenset(), frozenset({(0, 0)}))) for a, b in sides
            if a.strip() and b.strip() and "|" not in a]  # fmt: skip
    lines = write_pairs(kept).decode().split("\n")[:-1]
    assert [parse_pair(line, "here") for line in lines] == kept


def test_a_corpus_of_pairs_carries_its_links(tmp_path: Path) -> None:
    (tmp_path / "x.pairs").write_text("Das Haus ||| the house ||| 0-0 1p1\n\nJa . ||| yes\n", "utf-8")
    one, two = open_corpus(tmp_path / "x.pairs").documents()
    assert (one.text, one.pair, one.notes.links) == ("Das Haus", "the house", links("00", "11"))
    assert (two.index, two.notes.links, two.notes.lengths) == (1, None, (2, 1))
    (tmp_path / "y.pairs").write_text("a ||| b\nc\n", "utf-8")
    with pytest.raises(InputError, match="line 2: a pair must be written"):
        list(open_corpus(tmp_path / "y.pairs").documents())
    with pytest.raises(InputError, match="Line 1: a sentence must not hold"):
        write_pairs([Pair("a ||| b", "c")])


def test_pharaoh_lines() -> None:
    assert write_links([{(2, 1), (0, 3)}, []]) == b"0-3 2-1\n\n"
    assert str(links("21 00", "11")) == "0-0 1p1 2-1"
