"""The folder that the documentation's code runs in: small stand-ins under the names that the pages use."""

from __future__ import annotations

import wave
from itertools import cycle, islice
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from headwise.measures import ATTENTION, MIXING
from headwise.models.pictures import write_png
from headwise.models.tiny import tiny_model
from headwise.studies import STUDIES
from references.words import COREF_CONLLU, conll

MODELS = {  # a folder of this name stands before the hub
    "bert-base-uncased": ("bert", "masked-lm"),
    "gpt2": ("gpt2", "causal-lm"),
    "my-finetuned": ("bert", "classification"),
    "my-tagger": ("bert", "token-classification"),
    "opus-mt-de-en": ("marian", "translation"),
}
PARAGRAPHS = (
    "The quick brown fox jumps over the lazy dog, and nobody knows why.",
    "Attention maps are shown everywhere and trusted too easily. A token with a big weight can carry a tiny vector.",
    "The trophy does not fit in the suitcase because it is too big. The river was in the north of the old city.",
    "She gave the book to her sister, who had asked for it a year ago.",
)
PAIRS = (("The cat sat down.", "It purred."), ("He left early.", "Early in the day he left."), ("Stop!", "Go on."))
GERMAN = ("Das Haus ist alt .", "Wir sehen den Fluss .", "Sie liest ein Buch .")
ENGLISH = ("The house is old .", "We see the river .", "She reads a book .")
GOLD = ("1-1 2-2 3-3 4-4 5-5", "1-1 2-2 3p3 4-4 5-5", "1-1 2-2 3-3 4-4 5-5")
PARSE = """\
1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_
2\told\told\tADJ\tJJ\t_\t3\tamod\t_\t_
3\tdog\tdog\tNOUN\tNN\t_\t4\tnsubj\t_\t_
4\tsaw\tsee\tVERB\tVBD\t_\t0\troot\t_\t_
5\tthe\tthe\tDET\tDT\t_\t6\tdet\t_\t_
6\tcity\tcity\tNOUN\tNN\t_\t4\tobj\t_\t_
7\t.\t.\tPUNCT\t.\t_\t4\tpunct\t_\t_

"""
TALES = ("fable", "story", "tale", "yarn")  # some to choose the best head on, some to score it
CHUNKS = "The DT B-NP\nold JJ I-NP\ndog NN I-NP\nsaw VBD B-VP\nit PRP B-NP\n. . O\n\n"


def texts(count: int) -> str:
    return "\n\n".join(islice(cycle(PARAGRAPHS), count)) + "\n"


def tsv(count: int) -> str:
    """As GLUE's MRPC: label first, then two numbers, then the pair."""
    rows = [f"{number % 2}\t1\t2\t{one}\t{two}" for number, (one, two) in enumerate(islice(cycle(PAIRS), count))]
    return "\n".join(["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *rows]) + "\n"


FILES = {
    "wiki.txt": texts(12),
    "dev.txt": texts(12),
    "a.txt": texts(12),
    "b.txt": texts(10),
    "dev.tsv": tsv(6),
    "dev.csv": "review,label\n" + '"Good, I say",1\nBad,0\n' * 4,
    "en_ewt-ud-test.conllu": PARSE * 8,
    "train-and-test.conllu": PARSE * 12,
    "chunks.conll": CHUNKS * 4,
    "de": "\n".join(GERMAN) + "\n",
    "en": "\n".join(ENGLISH) + "\n",
    "gold.talp": "\n".join(GOLD) + "\n",
    "dev.pairs": "".join(f"{de} ||| {en}\n" for de, en in zip(GERMAN, ENGLISH, strict=True)),
    **{f"ontogum/conll/{tale}.conll": "\n".join(conll()) for tale in TALES},
    **{f"ontogum/conllu/{tale}.conllu": COREF_CONLLU for tale in TALES},
    "DATA/wikitext2/wiki.test.raw": " = River = \n" + texts(12),
    "DATA/mrpc/dev.tsv": tsv(6),
}


@pytest.fixture(scope="session")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    (folder / "cat.png").write_bytes(write_png(np.arange(48 * 48 * 3, dtype=np.uint8).reshape(48, 48, 3)))
    with wave.open(str(folder / "said.wav"), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes((8000 * np.sin(np.arange(8000) * 0.2)).astype("<i2").tobytes())
    for name, (family, task) in MODELS.items():
        model, tokenizer = tiny_model(family, task=task)
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return folder


@pytest.fixture(autouse=True)
def _registries_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page may register a measure or a study of its own; the next test does not know it."""
    for registry in (ATTENTION, MIXING, STUDIES):
        known = {name: registry.entry(name) for name in registry}  # filled first, as modules are imported only once
        monkeypatch.setattr(registry, "_entries", known)


@pytest.fixture
def world(stand_ins: Path, tmp_path: Path) -> Path:
    """A fresh copy for a page, as for a reader who begins with it."""
    return copytree(stand_ins, tmp_path / "world")
