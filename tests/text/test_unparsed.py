"""Coreference as people have it: without a parse, and GAP's table; tables by the names of their columns."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from headwise.errors import InputError
from headwise.text.alignments import read_links
from headwise.text.coref import CorefDocument, Mention
from headwise.text.corpus import open_corpus

SHARED = """#begin document (bc/x); part 000
bc/x 0 0 The DT (TOP(S(NP* - - - spk * (3
bc/x 0 1 king NN *) - - - spk * -
bc/x 0 2 of IN * - - - spk * -
bc/x 0 3 France NNP * - - - spk * 3)

bc/x 0 0 He PRP * - - - spk * (3)
bc/x 0 1 slept VBD * - - - spk * -

#end document
"""
HEADER = "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL\n"
TEXT = "Mary Ann met Jo's aunt; she smiled."


def notes(path: Path) -> list[CorefDocument]:
    return [document.notes for document in open_corpus(path).documents()]


def test_the_shared_tasks_own_file_needs_no_parse(tmp_path: Path) -> None:
    path = tmp_path / "x.conll"
    path.write_text(SHARED, "utf-8")
    (found,) = notes(path)
    assert found.text == "The king of France He slept"
    assert found.mentions == (Mention(0, 4, 3), Mention(4, 5, 3))
    assert [found.forms[head] for head in found.heads] == ["king", "He"]
    assert found.types == ("nominal", "pronoun")
    assert found.text[slice(*found.spans[3])] == "France"


def test_without_tags_words_tell_names_and_pronouns(tmp_path: Path) -> None:
    """LitBank: the same columns, with `-` for what it has not; a name is capitalised."""
    path = tmp_path / "emma.conll"
    bare = SHARED.replace(" DT ", " - ").replace(" NN ", " - ").replace(" IN ", " - ").replace(" NNP ", " - ")
    path.write_text(bare.replace(" PRP ", " - ").replace("king", "Emma").replace("\t", " "), "utf-8")
    (found,) = notes(path)
    assert found.types == ("proper", "pronoun")


def test_gap_is_read_by_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "gap.tsv"
    row = f"t-1\t{TEXT}\tshe\t24\tMary Ann\t0\tTRUE\tJo\t13\tFALSE\thttp://x\n"
    neither = f"t-2\t{TEXT}\tshe\t24\tMary Ann\t0\tFALSE\tJo\t13\tFALSE\thttp://x\n"
    path.write_text(HEADER + row + neither, "utf-8")
    spec, skipped = open_corpus(path), Counter()
    (found,) = [document.notes for document in spec.documents(skipped)]
    assert spec.kind == "gap"
    assert skipped == {"neither name is meant": 1}
    assert [found.written(at) for at in range(3)] == ["mary ann", "jo's", "she"]
    assert [mention.entity for mention in found.mentions] == [0, 2, 0]
    assert found.types == ("proper", "proper", "pronoun")
    path.write_text(HEADER + row.replace("\t24\t", "\t23\t"), "utf-8")
    with pytest.raises(InputError, match="Line 2: 'she' must stand at character 23"):
        open_corpus(path)


def test_columns_are_found_in_any_case_and_glue_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "dev.tsv"
    path.write_text(
        "index\tgenre\tSentence1\tsentence2\tGold_Label\n0\tfiction\tIt rains.\tIt is wet.\tentailment\n", "utf-8"
    )
    (found,) = open_corpus(path, label="gold_label").documents()
    assert (found.text, found.pair, found.notes) == ("It rains.", "It is wet.", "entailment")
    path.write_text("index\tquestion\tsentence\tlabel\n0\tWho?\tHe did.\tentailment\n", "utf-8")
    (found,) = open_corpus(path).documents()
    assert (found.text, found.pair) == ("Who?", "He did.")


def test_a_table_without_its_suffix_asks(tmp_path: Path) -> None:
    path = tmp_path / "dev.txt"
    path.write_text("1\tIt rains.\n0\tIt is dry.\n", "utf-8")
    with pytest.raises(InputError, match="looks like a table, with 2 fields a line"):
        open_corpus(path)
    assert [one.text for one in open_corpus(path, kind="tsv", columns=[1]).documents()] == ["It rains.", "It is dry."]
    assert next(open_corpus(path, kind="lines").documents()).text == "1\tIt rains."


def test_links_of_the_naacl_format(tmp_path: Path) -> None:
    path = tmp_path / "gold.wa"
    path.write_text("0001 1 2 S\n0001 2 1 P\n0002 1 1\n\n", "utf-8")
    found = read_links(path, [(2, 2), (1, 1)])
    assert [str(links) for links in found.links] == ["0-1 1p0", "0-0"]
    assert found.base == 1
    with pytest.raises(InputError, match="line 3: a sentence must be one of the 1 pairs"):
        read_links(path, [(2, 2)])
