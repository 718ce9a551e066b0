"""Parts of speech of tokens: the text behind an encoding, words found in it, and what does not match."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwise.errors import InputError, ModelError
from headwise.models.packaged import packaged_folder
from headwise.text import tags
from headwise.text.conllu import sentences
from headwise.text.tags import Tagged, by_sentence, by_spacy, source, tag_file, token_tags

DONT = """# sent_id = s-7
# text = They don't run.
1\tThey\tthey\tPRON\tPRP\t_\t4\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t_\t_
4\trun\trun\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No
5\t.\t.\tPUNCT\t_\t_\t4\tpunct\t_\t_
"""
(SENTENCE,) = sentences(DONT.splitlines())
TEXTS = ("They don't run.", "the  old\tdog – naïve, 365 cups!", "so-so", "It was said: “no”.")


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "llama", "t5", "modernbert"])
@pytest.mark.parametrize("text", TEXTS)
def test_source_is_the_text_with_blanks_for_white_space(load, family: str, text: str) -> None:
    assert source(load(f"tiny:{family}").encode(text)) == text.replace("\t", " ")


def test_source_of_a_pair_is_either_text(load) -> None:
    pair = load("tiny:bert").encode("the old dog", "It was, so.")
    assert [source(pair, segment) for segment in (0, 1)] == ["the old dog", "It was, so."]


def test_source_of_a_cut_text_is_its_beginning(load) -> None:
    text = "the old dog and the young cat"
    cut = source(load("tiny:bert").encode(text, limit=6, truncate=True))
    assert text.startswith(cut)
    assert 0 < len(cut) < len(text)


def test_every_token_has_the_tag_of_its_word_and_special_tokens_are_their_own(load) -> None:
    text = load("tiny:bert").encode("They don't run.")
    found = token_tags(text, [by_sentence("They don't run.", SENTENCE)])
    by_character = ["PRP", "PRP", "PRP", "PRP", "_", "VBP", "VBP", "RB", "RB", "RB", "_", "VB", "VB", "VB", "_"]
    for at, (start, stop) in enumerate(text.offsets):
        if text.special[at]:
            assert found[at] == text.tokens[at]
        else:
            kinds = {by_character[char] for char in range(start, stop)}
            assert (found[at] or "_") in kinds  # the period has no xpos, so no tag


def test_tags_of_a_pair_come_from_its_own_side(load) -> None:
    text = load("tiny:bert").encode("old dog", "it was")
    sides = [Tagged(((0, 3), (4, 7)), ("JJ", "NN")), Tagged(((0, 2), (3, 6)), ("PRP", "VBD"))]
    runs = [tag for at, tag in enumerate(token_tags(text, sides)) if at == 0 or tag != token_tags(text, sides)[at - 1]]
    assert runs == ["[CLS]", "JJ", "NN", "[SEP]", "PRP", "VBD", "[SEP]"]


@pytest.mark.parametrize(("tagset", "first"), [("xpos", "PRP"), ("upos", "PRON")])
def test_tagset(tagset: str, first: str) -> None:
    assert by_sentence("They don't run.", SENTENCE, tagset=tagset).tags[0] == first


def test_words_are_found_whatever_the_white_space() -> None:
    text = "  They \tdon't run ."
    found = by_sentence(text, SENTENCE)
    assert [text[a:b] for a, b in found.spans] == ["They", "do", "n't", "run", "."]


@pytest.mark.parametrize("cut", range(1, len("They don't run.")))
def test_a_cut_text_has_the_tags_of_the_words_it_kept(cut: int) -> None:
    text = "They don't run."[:cut]
    whole = by_sentence("They don't run.", SENTENCE)
    found = by_sentence(text, SENTENCE)
    kept = sum(stop <= cut for _, stop in whole.spans)
    assert found == Tagged(whole.spans[:kept], whole.tags[:kept])


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("They did not run.", "word 2, 'do', should be there is 'did not run.'"),
        ("They don't run. Ever.", "its end should be there is 'Ever.'"),
        ("Nothing alike", "word 1, 'They', should be there is 'Nothing alike'"),
    ],
)
def test_words_that_do_not_spell_the_text_are_named(text: str, named: str) -> None:
    with pytest.raises(InputError, match=r"sentence s-7 \(line 1\)") as caught:
        by_sentence(text, SENTENCE)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_tag_file(tmp_path: Path) -> None:
    path = tmp_path / "tags.conllu"
    path.write_text(DONT + "\n" + DONT.replace("s-7", "s-8"), encoding="utf-8")
    assert [sentence.name for sentence in tag_file(str(path))] == ["s-7", "s-8"]
    with pytest.raises(InputError, match=r"Tags must be corpus, none, spacy or a readable CoNLL-U file"):
        tag_file(str(tmp_path / "missing.conllu"))


def test_missing_spacy_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "spacy", None)
    with pytest.raises(InputError, match=r"pip install 'headwise\[linguistics\]'"):
        tags.check_spacy()


def test_spacy_tags_words_at_their_characters() -> None:
    pytest.importorskip("spacy")
    try:
        folder = packaged_folder("spacy-en")
    except ModelError as error:
        pytest.skip(str(error))
    text = "She  doesn't like old dogs."
    found = by_spacy(text, folder)
    words = [text[a:b] for a, b in found.spans]
    assert words == ["She", "does", "n't", "like", "old", "dogs", "."]
    assert dict(zip(words, found.tags, strict=True)) == {
        "She": "PRP", "does": "VBZ", "n't": "RB", "like": "VB", "old": "JJ", "dogs": "NNS", ".": ".",
    }  # fmt: skip
    assert by_spacy(text, folder, tagset="upos").tags[-2:] == ("NOUN", "PUNCT")
