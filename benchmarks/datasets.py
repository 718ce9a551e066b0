"""What holds on the real data sets, which are too large or not ours to put beside the tests.

    python benchmarks/datasets.py --data ../shared/data          # stops at the first that does not hold

The tests read nothing outside the repository; these checks are for whoever has the data.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

import headwise as hw
from headwise.text.alignments import read_pairs
from headwise.text.conllu import sentences
from headwise.text.coref import brackets_of, mentions_of, read

ROOT = Path(__file__).resolve().parent.parent


def treebank(data: Path) -> str:
    with (data / "ud-ewt" / "en_ewt-ud-test.conllu").open(encoding="utf-8") as file:
        found = list(sentences(file))
    assert len(found) == 2077
    assert sum(map(len, found)) == 25094  # UD's own count of words
    for sentence in found:
        assert "".join(sentence.text[a:b] for a, b in sentence.spans) == "".join(sentence.text.split())
        assert sentence.heads.count(-1) == 1
    return "UD English EWT is read whole, each sentence with one root"


def gold_links(data: Path) -> str:
    folder = data / "align-de-en"
    pairs, said = read_pairs(folder / "de", folder / "en", folder / "alignmentDeEn.talp")
    assert len(pairs) == 508
    assert [note.rsplit(maxsplit=1)[1] for note in said] == ["latin-1", "latin-1", "1"]
    told = [pair.links for pair in pairs if pair.links is not None]
    assert sum(len(gold.sure) for gold in told) == 9613
    blocks = (folder / "alignmentDeEn").read_text("ascii").replace("S 21 -100", "S 21 0").split("SENT:")[1:]  # a slip
    for gold, block in zip(told, blocks, strict=True):
        rows = re.findall(r"^([SP]) (\d+) (\d+)$", block, re.MULTILINE)
        assert gold.possible == {(int(s), int(t)) for _, s, t in rows}
        assert gold.sure == {(int(s), int(t)) for kind, s, t in rows if kind == "S"}
    return "both files of the German–English gold set hold the same links"


def coreference(data: Path) -> str:
    (document,) = read(data / "ontogum" / "conll" / "GUM_bio_byron.conll")
    assert [document.written(number) for number in (0, 1, 3)] == ["education", "byron", "his"]
    assert document.mentions[1].entity == document.mentions[3].entity
    assert mentions_of(brackets_of(document.mentions, len(document))) == list(document.mentions)
    return "a document of OntoGUM is read, and written as it was"


def held_out(data: Path) -> str:
    sys.path.insert(0, str(ROOT / "experiments" / "nmt"))
    import data as nmt  # experiments/nmt/data.py

    corpus = nmt.read_corpus(data)
    seen = {nmt.key(side) for pair in corpus.train for side in pair}
    parts = [*corpus.validation.values(), *corpus.test.values()]
    gold = [(data / "align-de-en" / side).read_text("latin-1").rstrip("\n").split("\n") for side in ("de", "en")]
    texts = [*(side for part in parts for pair in part for side in pair), *gold[0], *gold[1]]
    assert not [text for text in texts if nmt.key(text) in seen]
    part = nmt.read_corpus(data, ["tatoeba"])
    assert set(part.train) < set(corpus.train)
    assert part.test == corpus.test
    return "demo-nmt learned from nothing that is held out"


def probe(data: Path) -> str:
    text = (data / "ud-ewt" / "en_ewt-ud-test.conllu").read_text("utf-8")
    settings = {"quantities": ("raw",), "random": False, "structural_epochs": 0, "seeds": 1, "epochs": 4, "batch": 4,
                "rate": 0.01, "vectors": "model"}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "some.conllu"
        corpus.write_text("\n\n".join(text.split("\n\n")[:80]) + "\n\n", "utf-8")
        result = hw.run("probe", "demo", corpus=corpus, out=Path(folder) / "out", settings={"probe": settings})
        uas = result.table.filter(what="uas", decoder="argmax")
    attention, right = (uas.filter(probe=name) for name in ("attention", "right-branching"))
    assert attention["value"].item() > right["value"].item() + 5
    assert attention["selectivity"].item() > 0
    return "a probe on the demo model parses better than its control and than right-branching"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    asked = parser.parse_args()
    for check in (treebank, gold_links, coreference, held_out, probe):
        print(f"holds: {check(asked.data)}", flush=True)
