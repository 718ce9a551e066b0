"""German–English sentence pairs from ../shared/data, cleaned, and with nothing of the later tests left in training.

Three sources: Tatoeba (everyday sentences), Multi30k (captions) and the demo set of seq2seq-attn, which is a mix of
Europarl, Common Crawl and news (its `val` is newstest2012, its `test` newstest2014).

The gold alignments of `align-de-en` are tokenised ("Das stimmt nicht !") and spelt as before 1996 ("daß"). So that a
model can read them as they are, every pair of the demo set comes twice: as written, and as the gold set would have it.
"""

from __future__ import annotations

import gzip
import html
import random
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from sacremoses import MosesDetokenizer

SOURCES = ("tatoeba", "multi30k", "demo")
HELD_OUT_TATOEBA = 500
SPLIT_SEED = 0  # subtle: not the recipe's, or another run's held-out pairs would be among those learned from
VALIDATION = 150  # pairs of each source whose loss is watched during training
MOST_WORDS = 60
WIDEST_RATIO = 2.0  # of the two lengths in characters, after ten are added to each: short sentences vary more


class Pair(NamedTuple):
    german: str
    english: str


@dataclass(frozen=True)
class Corpus:
    """What is learned from, what is watched during training, and what is translated for BLEU; by source."""

    train: tuple[Pair, ...]
    validation: Mapping[str, tuple[Pair, ...]]
    test: Mapping[str, tuple[Pair, ...]]


def read_corpus(folder: Path, learned: Collection[str] = SOURCES) -> Corpus:
    """All pairs under `folder` (../shared/data), split so that no held-out sentence is learned from.

    Only the sources named in `learned` are trained on; all of them are validated and tested on. A training pair is
    dropped where either side of it occurs, up to case and punctuation, in a held-out pair or in `align-de-en`: Tatoeba
    and captions have many translations of one sentence.
    """
    tatoeba = list(unique(filter(plausible, _tatoeba(folder / "tatoeba-de-en"))))
    random.Random(SPLIT_SEED).shuffle(tatoeba)
    held_out, tatoeba = tatoeba[:HELD_OUT_TATOEBA], tatoeba[HELD_OUT_TATOEBA:]
    demo = {part: list(_demo(folder / "europarl-demo-en-de", part)) for part in ("train", "val", "test")}
    captions = {part: list(_captions(folder / "multi30k", part)) for part in ("train", "val", "test_2016_flickr")}

    validation = {
        "tatoeba": held_out[:VALIDATION],
        "multi30k": captions["val"][:VALIDATION],
        "demo": [as_written(pair) for pair in demo["val"][:VALIDATION]],
    }
    test = {
        "tatoeba": held_out[VALIDATION:],
        "multi30k": captions["test_2016_flickr"],
        "demo": [as_written(pair) for pair in demo["test"]],
    }
    tokenised = [*demo["train"], *demo["val"][VALIDATION:]]
    pairs = {
        "tatoeba": tatoeba,
        "multi30k": [*captions["train"], *captions["val"][VALIDATION:]],
        "demo": [*map(as_written, tokenised), *map(as_in_gold, tokenised)],
    }
    train = chain(*(pairs[source] for source in SOURCES if source in learned))

    forbidden = [*_gold(folder / "align-de-en"), *chain(*validation.values(), *test.values())]
    german, english = {key(pair.german) for pair in forbidden}, {key(pair.english) for pair in forbidden}
    kept = (p for p in train if plausible(p) and key(p.german) not in german and key(p.english) not in english)
    return Corpus(tuple(unique(kept)), _frozen(validation), _frozen(test))


def key(text: str) -> str:
    """A sentence up to case, punctuation, spacing and the spelling reform.

    >>> key("Ich weiß , daß es stimmt !") == key("Ich weiß, dass es stimmt.")
    True
    """
    return re.sub(r"\W|_", "", text.casefold())  # casefold writes ß as ss


def plausible(pair: Pair) -> bool:
    """Whether the two sides may be translations of each other, to judge by their length, and hold any letter.

    >>> plausible(Pair("Geh!", "Go.")), plausible(Pair("Ja.", "Yes, I think that this is so."))
    (True, False)
    """
    short, long = sorted(len(side) + 10 for side in pair)
    words = max(len(side.split()) for side in pair)
    return words <= MOST_WORDS and long <= WIDEST_RATIO * short and all(key(side) for side in pair)


def unique(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """Each pair once, in order."""
    return iter(dict.fromkeys(pairs))


def as_written(tokenised: Pair) -> Pair:
    """The pair as people write it.

    >>> as_written(Pair("Das ist Peters Haus , oder ?", "That is Peter 's house , isn 't it ?"))
    Pair(german='Das ist Peters Haus, oder?', english="That is Peter's house, isn't it?")
    """
    return Pair(_DETOKENISE["de"](tokenised.german.split()), _DETOKENISE["en"](tokenised.english.split()))


def as_in_gold(tokenised: Pair) -> Pair:
    """The pair as `align-de-en` would have it: tokens between blanks, German as before the reform of 1996.

    >>> as_in_gold(Pair("Der Ausschuss weiß , dass er muss .", "The committee knows that it must ."))
    Pair(german='Der Ausschuß weiß , daß er muß .', english='The committee knows that it must .')
    """
    return Pair(re.sub(r"ss(?=t?\b)", "ß", tokenised.german), tokenised.english)


_DETOKENISE = {language: MosesDetokenizer(lang=language).detokenize for language in ("de", "en")}


def _tatoeba(folder: Path) -> Iterator[Pair]:
    for line in _lines(folder / "challenge.txt"):
        _, _, german, english = line.split("\t")
        yield _pair(german, english)
    for line in _lines(folder / "deu.txt")[1:]:
        english, german = line.split("\t")
        yield _pair(german, english)


def _captions(folder: Path, part: str) -> Iterator[Pair]:
    return map(_pair, _lines(folder / f"{part}.de.gz"), _lines(folder / f"{part}.en.gz"))


def _demo(folder: Path, part: str) -> Iterator[Pair]:
    return map(_pair, _lines(folder / f"h_targ-{part}.txt"), _lines(folder / f"h_src-{part}.txt"))


def _gold(folder: Path) -> Iterator[Pair]:
    return map(_pair, _lines(folder / "de", "latin-1"), _lines(folder / "en", "latin-1"))


def _pair(german: str, english: str) -> Pair:
    """Without the entities (&quot;) of the demo set, and with single blanks only."""
    return Pair(*(" ".join(html.unescape(side).split()) for side in (german, english)))


def _lines(path: Path, encoding: str = "utf-8") -> list[str]:
    """subtle: lines end at line feeds alone; `splitlines` would also end them at the odd U+2028 of web text."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return raw.decode(encoding).removesuffix("\n").split("\n")


def _frozen(parts: Mapping[str, list[Pair]]) -> dict[str, tuple[Pair, ...]]:
    return {name: tuple(pairs) for name, pairs in parts.items()}
