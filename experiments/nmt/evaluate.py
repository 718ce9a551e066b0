"""BLEU and chrF of a trained model on held-out pairs, by sacrebleu, with a few translations to read.

    python experiments/nmt/evaluate.py --model ~/.cache/headwise/nmt-de-en/model --data ../shared/data

Writes bleu.json beside the model's folder and prints it. Translations are by beam search (4), as the model's
generation_config.json says.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import torch
from data import Pair, read_corpus
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from train import FOLDER
from transformers import AutoTokenizer, MarianMTModel, PreTrainedTokenizerFast

BATCH = 32
SHOWN = 8


@torch.no_grad()
def translate(model: MarianMTModel, tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]) -> list[str]:
    """Translations in the order of the texts; texts of like length go through the model together."""
    order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
    found = [""] * len(texts)
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        inputs = tokenizer([texts[at] for at in rows], padding=True, truncation=True, return_tensors="pt")
        most = 2 * inputs["input_ids"].shape[1] + 10  # an early model that repeats itself would go on to the limit
        ids = cast(Any, model).generate(**inputs, max_length=min(most, tokenizer.model_max_length))
        for at, text in zip(rows, tokenizer.batch_decode(ids, skip_special_tokens=True), strict=True):
            found[at] = text
    return found


def score(model: MarianMTModel, tokenizer: PreTrainedTokenizerFast, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Corpus scores of one source, with their sacrebleu signature, and the first few translations."""
    found = translate(model, tokenizer, [pair.german for pair in pairs])
    references = [[pair.english for pair in pairs]]
    bleu, chrf = BLEU(), CHRF()
    return {
        "pairs": len(pairs),
        "bleu": round(bleu.corpus_score(found, references).score, 2),
        "chrf": round(chrf.corpus_score(found, references).score, 2),
        "signature": str(bleu.get_signature()),
        "examples": [
            {"german": pair.german, "reference": pair.english, "translation": text}
            for pair, text in list(zip(pairs, found, strict=True))[:SHOWN]
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=FOLDER / "model")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--pairs", type=int, default=300, help="the first so many held-out pairs of each source")
    asked = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(asked.model)
    model = MarianMTModel.from_pretrained(asked.model, dtype=torch.float32).eval()
    scores = {
        name: score(model, tokenizer, pairs[: asked.pairs]) for name, pairs in read_corpus(asked.data).test.items()
    }
    text = json.dumps({"sacrebleu": version("sacrebleu"), "scores": scores}, indent=2, ensure_ascii=False)
    (asked.model.parent / "bleu.json").write_text(text + "\n", "utf-8")
    print(text)


if __name__ == "__main__":
    main()
