"""Put the trained model into the package as `demo-nmt`, with its card; to be run after train.py and evaluate.py.

    python experiments/nmt/train.py --out ~/.cache/headwise/nmt-tatoeba --sources tatoeba
    python experiments/nmt/package.py --work ~/.cache/headwise/nmt-tatoeba

Copies the model to src/headwise/models/weights/demo-nmt (the wheel takes all files below src/headwise) and writes
README.md there. Only a model that learned from Tatoeba alone is taken: its sentences may be used by anybody who names
their source (CC BY 2.0 FR). The captions of Multi30k are not for commercial use, and the demo set states no licence.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from headwise.errors import InputError
from headwise.results.files import write_files

TARGET = Path(__file__).parents[2] / "src" / "headwise" / "models" / "weights" / "demo-nmt"
LARGEST = 40_000_000  # bytes of weights
FILES = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
CARD = Path(__file__).with_name("card.md")


def card(work: Path) -> str:
    """The model's README, from what training and evaluation wrote down."""
    recipe = json.loads((work / "recipe.json").read_text())
    lines = [json.loads(line) for line in (work / "log.jsonl").read_text().splitlines()]
    last = lines[-1]
    scores = json.loads((work / "bleu.json").read_text())
    rows = [f"| {name} | {s['pairs']} | {s['bleu']} | {s['chrf']} |" for name, s in scores["scores"].items()]
    facts = {
        "megabytes": (work / "model" / "model.safetensors").stat().st_size / 1e6,
        "minutes": last["cpu_seconds"] / 60,
        "steps": last["step"],
        "tokens": last["target_tokens"],
        "bleu": "\n".join(rows),
        "sacrebleu": scores["sacrebleu"],
    }
    return CARD.read_text("utf-8").format(**recipe, **facts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="the folder that train.py worked in")
    parser.add_argument("--out", type=Path, default=TARGET)
    asked = parser.parse_args()
    sources = json.loads((asked.work / "recipe.json").read_text()).get("sources")
    if sources != ["tatoeba"]:
        raise InputError(f"Only weights learned from Tatoeba alone are packaged, but these learned from {sources}.")
    files = {name: (asked.work / "model" / name).read_bytes() for name in FILES}
    if len(files["model.safetensors"]) > LARGEST:
        raise InputError(f"The weights must be under {LARGEST / 1e6:.0f} MB to be packaged; train a smaller model.")
    write_files(asked.out, {**files, "README.md": card(asked.work).encode()})
    print(f"wrote {asked.out}")


if __name__ == "__main__":
    main()
