"""Links of aligners that look at no attention, as Pharaoh files for `headwise align --beside`.

    python experiments/alignment/baselines.py --data ../shared/data --model MODEL --out FOLDER

- eflomal (pip install 'headwise[aligners]'; Östling and Tiedemann 2016): on the test pairs alone, and on these with the
  pairs that the translation model learned from, which is what it is fair to compare with. Both directions; `eflomal` is
  from source to target turned so that each target word has one source word, `…-grown` grown along the diagonal.
- nearest neighbours of contextual vectors (headwise.studies.alignment.embeddings): the translation model's own encoder
  and decoder, every decoder layer, and the packaged `demo` encoder, which knows no German.

Everything is lower-cased for eflomal. The layer of the vectors is chosen on the pairs that choose in the study.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

import headwise as hw
from headwise.results.files import write_files
from headwise.studies.alignment.embeddings import nearest
from headwise.studies.alignment.extract import grown
from headwise.studies.alignment.scores import matrix
from headwise.studies.hits import chooses
from headwise.text.alignments import Link, Pair, read_links, read_pairs, score, write_links

sys.path.insert(0, str(Path(__file__).parents[1] / "nmt"))


def words(text: str) -> str:
    """Words apart as the gold set has them, for sentences as people write them."""
    import regex

    return " ".join(regex.findall(r"[\p{L}\p{M}\p{N}]+(?:['-][\p{L}\p{M}\p{N}]+)*|[^\s\p{L}\p{M}\p{N}]", text)).lower()


def eflomal(pairs: Sequence[Pair], extra: Sequence[tuple[str, str]]) -> Iterator[tuple[str, list[set[Link]]]]:
    """Links of `pairs`, learned from them and the `extra` sentences."""
    from eflomal import Aligner

    both = [(pair.source.lower(), pair.target.lower()) for pair in pairs] + [(words(s), words(t)) for s, t in extra]
    with tempfile.TemporaryDirectory() as folder:
        forward, reverse = (str(Path(folder) / name) for name in ("forward", "reverse"))
        Aligner().align(
            [s for s, _ in both],
            [t for _, t in both],
            links_filename_fwd=forward,
            links_filename_rev=reverse,
            quiet=True,
        )
        one, other = (_first(Path(path), pairs) for path in (forward, reverse))
    lengths = [pair.lengths for pair in pairs]
    yield "", other
    yield (
        "-grown",
        [
            {
                (int(s), int(t))
                for t, s in zip(*grown(matrix(frozenset(a), n), matrix(frozenset(b), n)).nonzero(), strict=True)
            }
            for a, b, n in zip(one, other, lengths, strict=True)
        ],
    )


def _first(path: Path, pairs: Sequence[Pair]) -> list[set[Link]]:
    """The links of the first pairs of a larger file."""
    lines = path.read_text().split("\n")[: len(pairs)]
    path.write_text("\n".join(lines) + "\n")
    return [set(links.possible) for links in read_links(path, [pair.lengths for pair in pairs], 0).links]


def vectors(pairs: Sequence[Pair], name: str, choose: float) -> tuple[int, list[set[Link]]]:
    """Links of the layer that aligns the choosing pairs best, and that layer."""
    model = hw.load(name)
    stack = "decoder" if model.is_encoder_decoder else "self"
    few = [pair for pair, chosen in zip(pairs, chooses(range(len(pairs)), choose), strict=True) if chosen]
    rates = [
        score(nearest(model, few, layer=layer, way="argmax"), [pair.links for pair in few if pair.links]).aer
        for layer in range(model.layers(stack) + 1)
    ]
    best = min(range(len(rates)), key=rates.__getitem__)
    return best, nearest(model, pairs, layer=best, way="argmax")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--model", help="the translation model, for its vectors")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--choose", type=float, default=0.2, help="as in the study")
    parser.add_argument("--only", default="eflomal,own,demo")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    gold = asked.data / "align-de-en"
    pairs, _ = read_pairs(gold / "de", gold / "en", gold / "alignmentDeEn.talp")
    found: dict[str, list[set[Link]]] = {}
    if "eflomal" in asked.only:
        from data import read_corpus

        found |= {f"eflomal-test-only{kind}": links for kind, links in eflomal(pairs, [])}
        learned = [(pair.german, pair.english) for pair in read_corpus(asked.data).train]
        found |= {f"eflomal{kind}": links for kind, links in eflomal(pairs, learned)}
    for title, name in (("own", asked.model), ("demo", "demo")):
        if title in asked.only:
            layer, links = vectors(pairs, name, asked.choose)
            found[f"{title}-vectors-L{layer}"] = links
    for name, links in found.items():
        write_files(asked.out, {f"{name}.txt": write_links(links)})
        print(name, f"AER {score(links, [pair.links for pair in pairs if pair.links]).aer:.3f} on all pairs")


if __name__ == "__main__":
    main()
