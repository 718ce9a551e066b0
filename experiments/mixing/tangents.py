"""How many tangents the study needs: facts of a few texts by k tangents, beside many more (or all d: exact).

python experiments/mixing/tangents.py ../shared/data/mrpc/dev.tsv --texts 4 --reference 64
python experiments/mixing/tangents.py ../shared/data/cola/in_domain_dev.tsv --columns 3 --texts 6 --reference 384
"""

from __future__ import annotations

import argparse
import time

import polars as pl
import torch

import headwise as hw
from headwise.attributions import ORIGINS
from headwise.studies.mixing.facts import own_and_rank
from headwise.text.corpus import open_corpus

COUNTS = (2, 4, 8, 16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus")
    parser.add_argument("--columns", type=int, nargs="+")
    parser.add_argument("--texts", type=int, default=6)
    parser.add_argument("--reference", type=int, default=64)
    options = parser.parse_args()
    model = hw.load("demo")
    documents = sorted(
        open_corpus(options.corpus, columns=options.columns).documents(), key=lambda d: len(d.text) + len(d.pair or "")
    )
    chosen = documents[:: max(len(documents) // options.texts, 1)][: options.texts]
    maps: dict[int, list[torch.Tensor]] = {}
    seconds: dict[int, float] = {}
    for document in chosen:
        batch = model.batch([model.encode(document.text, document.pair)])
        for k in (*COUNTS, options.reference):
            start = time.perf_counter()
            found = ORIGINS["hidden-token"](model, batch, k=k, seed=k).maps[0].double()
            seconds[k] = seconds.get(k, 0.0) + time.perf_counter() - start
            maps.setdefault(k, []).append(found)
        print(f"text {document.index}: {batch.mask.sum()} tokens, {seconds}", flush=True)
    with pl.Config(tbl_rows=100, tbl_cols=20, tbl_width_chars=150, float_precision=4):
        print(compared(maps, seconds))


def compared(maps: dict[int, list[torch.Tensor]], seconds: dict[int, float]) -> pl.DataFrame:
    """One row a number of tangents and layer."""
    rows, last = [], max(maps)
    for name, found in maps.items():
        for layer in range(len(found[0])):
            own, rank = zip(*(own_and_rank(m[layer : layer + 1]) for m in found), strict=True)
            error = torch.cat([(m[layer] - e[layer]).abs().flatten() for m, e in zip(found, maps[last], strict=True)])
            values, ranks = torch.cat(own, -1)[0], torch.cat(rank, -1)[0]
            rows.append(
                {
                    "tangents": name,
                    "layer": layer,
                    "median own": float(values.median()),
                    "not own": float((ranks > 1).double().mean()),
                    "mean |error|": float(error.mean()),
                    "seconds a text": seconds[name] / len(found),
                }
            )
    return pl.DataFrame(rows)


if __name__ == "__main__":
    main()
