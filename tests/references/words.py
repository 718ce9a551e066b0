"""Word maps and a head's choice by plain loops in float64, and small parsed texts to ask about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from headwise.text.conllu import Sentence, sentences
from headwise.text.coref import CorefDocument, documents

CONLLU = """\
# sent_id = one
# text = The old dog didn't sit on the cat's mat.
1	The	the	DET	DT	_	3	det	_	_
2	old	old	ADJ	JJ	_	3	amod	_	_
3	dog	dog	NOUN	NN	Number=Sing	6	nsubj	_	_
4-5	didn't	_	_	_	_	_	_	_	_
4	did	do	AUX	VBD	_	6	aux	_	_
5	n't	not	PART	RB	_	6	advmod	_	_
6	sit	sit	VERB	VB	_	0	root	_	_
6.1	sit	sit	VERB	VB	_	_	_	_	_
7	on	on	ADP	IN	_	11	case	_	_
8	the	the	DET	DT	_	9	det	_	_
9-10	cat's	_	_	_	_	_	_	_	_
9	cat	cat	NOUN	NN	Number=Sing	11	nmod:poss	_	_
10	's	's	PART	POS	_	9	case	_	_
11	mat	mat	NOUN	NN	Number=Sing	6	obl	_	SpaceAfter=No
12	.	.	PUNCT	.	_	6	punct	_	_

# sent_id = two
1	It	it	PRON	PRP	Gender=Neut|Number=Sing|Person=3	3	nsubj	_	_
2	was	be	AUX	VBD	_	3	cop	_	_
3	big	big	ADJ	JJ	_	0	root	_	SpaceAfter=No
4	!	!	PUNCT	.	_	3	punct	_	_

# sent_id = three
# text = so
1	so	so	ADV	RB	_	0	root	_	_
"""

COREF_CONLLU = """\
# text = Anna Lee saw the cat.
1	Anna	Anna	PROPN	NNP	Number=Sing	3	nsubj	_	_
2	Lee	Lee	PROPN	NNP	Number=Sing	1	flat	_	_
3	saw	see	VERB	VBD	_	0	root	_	_
4	the	the	DET	DT	_	5	det	_	_
5	cat	cat	NOUN	NN	Number=Sing	3	obj	_	SpaceAfter=No
6	.	.	PUNCT	.	_	3	punct	_	_

# text = The old dog saw her and the cat, and they sat.
1	The	the	DET	DT	_	3	det	_	_
2	old	old	ADJ	JJ	_	3	amod	_	_
3	dog	dog	NOUN	NN	Number=Sing	4	nsubj	_	_
4	saw	see	VERB	VBD	_	0	root	_	_
5	her	her	PRON	PRP	Gender=Fem|Number=Sing|Person=3	4	obj	_	_
6	and	and	CCONJ	CC	_	8	cc	_	_
7	the	the	DET	DT	_	8	det	_	_
8	cat	cat	NOUN	NN	Number=Sing	5	conj	_	SpaceAfter=No
9	,	,	PUNCT	,	_	12	punct	_	_
10	and	and	CCONJ	CC	_	12	cc	_	_
11	they	they	PRON	PRP	Number=Plur|Person=3	12	nsubj	_	_
12	sat	sit	VERB	VBD	_	4	conj	_	SpaceAfter=No
13	.	.	PUNCT	.	_	4	punct	_	_

# text = Anna was the mother of the cat.
1	Anna	Anna	PROPN	NNP	Number=Sing	4	nsubj	_	_
2	was	be	AUX	VBD	_	4	cop	_	_
3	the	the	DET	DT	_	4	det	_	_
4	mother	mother	NOUN	NN	Number=Sing	0	root	_	_
5	of	of	ADP	IN	_	7	case	_	_
6	the	the	DET	DT	_	7	det	_	_
7	cat	cat	NOUN	NN	Number=Sing	4	nmod	_	SpaceAfter=No
8	.	.	PUNCT	.	_	4	punct	_	_
"""
# 1: Anna; 2: the cat; 3: the dog; 4: her and the cat, a line a sentence
COREF_BRACKETS = [
    "(1", "1)", "_", "(2", "2)", "_",
    "(3", "_", "3)", "_", "(4(1)", "_", "(2", "2)4)", "_", "_", "(4)", "_", "_",
    "(1)", "_", "(1", "_", "_", "(2", "2)1)", "_",
]  # fmt: skip


def parsed() -> list[Sentence]:
    return list(sentences(CONLLU.splitlines()))


def conll(brackets: Sequence[str] = COREF_BRACKETS, name: str = "") -> list[str]:
    """The bracket file that goes with COREF_CONLLU."""
    forms = [form for sentence in sentences(COREF_CONLLU.splitlines()) for form in sentence.forms]
    rows = [f"{number}\t{form}\t{column}" for number, (form, column) in enumerate(zip(forms, brackets, strict=True))]
    return [f"# begin document {name}", *rows]


def told() -> CorefDocument:
    return next(documents(conll(), COREF_CONLLU.splitlines(), name="tale"))


def naive_owner(span: tuple[int, int], words: Sequence[tuple[int, int]]) -> int:
    """The word with most characters in common, the first of equals, −1 for none."""
    shared = [len(set(range(*span)) & set(range(*word))) for word in words]
    return int(np.argmax(shared)) if max(shared, default=0) > 0 else -1


def naive_word_map(tokens: np.ndarray, of_token: Sequence[int], words: int, *, first: bool = False) -> np.ndarray:
    """Sum to a word, mean (or first) from a word; rows of words without a token are NaN."""
    result = np.full((words, words), np.nan)
    for query in range(words):
        rows = [at for at, owner in enumerate(of_token) if owner == query][: 1 if first else None]
        for key in range(words):
            columns = [at for at, owner in enumerate(of_token) if owner == key]
            if rows:
                result[query, key] = np.mean([sum(tokens[row, column] for column in columns) for row in rows])
    return result


def naive_choice(values: Iterable[float], allowed: Sequence[int]) -> int | None:
    """The allowed position with the largest value, the first of equals."""
    values = list(values)
    best = None
    for at in allowed:
        if best is None or values[at] > values[best]:
            best = at
    return best
