"""Relations as patterns of `strongest`: beside loops over words of single texts, whatever the batch and blocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import headwise as hw
from headwise.models.model import Model
from headwise.studies.related import RELATIONS, _pairs
from headwise.text.conllu import Sentence, sentences, words_of
from headwise.text.coref import CorefDocument, Mention
from references.precision import nearness

PARSED = """# text = The old dog saw the cats of the city.
1	The	the	DET	DT	_	3	det	_	_
2	old	old	ADJ	JJ	_	3	amod	_	_
3	dog	dog	NOUN	NN	_	4	nsubj	_	_
4	saw	see	VERB	VBD	_	0	root	_	_
5	the	the	DET	DT	_	6	det	_	_
6	cats	cat	NOUN	NNS	_	4	obj	_	_
7	of	of	ADP	IN	_	9	case	_	_
8	the	the	DET	DT	_	9	det	_	_
9	city	city	NOUN	NN	_	6	nmod	_	SpaceAfter=No
10	.	.	PUNCT	.	_	4	punct	_	_

# text = She was there and it ran.
1	She	she	PRON	PRP	_	3	nsubj	_	_
2	was	be	AUX	VBD	_	3	cop	_	_
3	there	there	ADV	RB	_	0	root	_	_
4	and	and	CCONJ	CC	_	6	cc	_	_
5	it	it	PRON	PRP	_	6	nsubj	_	_
6	ran	run	VERB	VBD	_	3	conj	_	SpaceAfter=No
7	.	.	PUNCT	.	_	3	punct	_	_

"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("related") / "c.conllu"
    path.write_text(PARSED, "utf-8")
    return path


def naive(model: Model, sentence: Sentence) -> dict[str, np.ndarray]:
    """By relation [layer head]: from the tokens of a dependent to those of its head, in loops."""
    trace = model.trace(sentence.text)
    alpha, owner = trace.attention("raw").double().numpy(), words_of(trace.text, sentence.spans)
    found: dict[str, list[np.ndarray]] = {}
    for word, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True)):
        rows, columns = ([at for at, of in enumerate(owner) if of == which] for which in (word, head))
        if head >= 0 and rows and columns:
            weight = sum(alpha[:, :, row, column] for row in rows for column in columns) / len(rows)
            found.setdefault(relation, []).append(weight)
    return {relation: np.mean(each, axis=0) for relation, each in found.items() if relation in RELATIONS}


@pytest.mark.parametrize(("family", "batch"), [("tiny:bert", 2048), ("tiny:bert", 1), ("tiny:gpt2", 2048)])
def test_relations_are_those_of_loops_over_words(family: str, batch: int, corpus: Path, tmp_path: Path) -> None:
    model = hw.load(family, dtype="float64")
    table = hw.run("strongest", model, corpus=corpus, out=tmp_path / "out", figures=False, batch_tokens=batch,
                   settings={"strongest": {"shortest": 2}})["strongest"].table  # fmt: skip
    with corpus.open("rb") as file:
        texts = [naive(model, sentence) for sentence in sentences(line.decode() for line in file)]
    assert set(texts[0]) == {"det", "amod", "nsubj", "obj", "case"}
    seen = table.filter(pl.col("pattern").is_in(RELATIONS))
    expected = {(relation, number, layer, head): value
                for number, text in enumerate(texts) for relation, values in text.items()
                for (layer, head), value in np.ndenumerate(values) if value}  # fmt: skip
    found = {(row["pattern"], row["document"], row["layer"], row["head"]): row["value"] for row in seen.to_dicts()}
    assert found == pytest.approx(expected, abs=nearness(model))
    if family == "tiny:gpt2":
        assert not [key for key in found if key[0] == "det"], "the noun comes later, and cannot be seen"


def test_an_antecedent_is_the_mention_before_of_the_same_entity() -> None:
    mentions = (Mention(0, 2, 7), Mention(3, 4, 8), Mention(5, 6, 7), Mention(7, 8, 7), Mention(7, 8, 8))
    words = ("_",) * 9
    document = CorefDocument("", "", words, ((0, 0),) * 9, words, words, words, mentions, (1, 3, 5, 7, 7))
    named = [(RELATIONS[relation], asker, head) for relation, asker, head in _pairs(document)]
    assert named == [("coreference", 5, 1), ("coreference", 7, 5), ("coreference", 7, 3)]


def test_texts_without_a_parse_have_no_relations(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("The old dog saw the cats of the city.", "utf-8")
    table = hw.run("strongest", hw.load("tiny:bert"), corpus=tmp_path / "c.txt", out=tmp_path / "out", figures=False)
    assert not set(table["strongest"].table["pattern"]) & set(RELATIONS)
