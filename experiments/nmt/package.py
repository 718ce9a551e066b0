"""Put the trained model into the package as `demo-nmt`, with its card; to be run after train.py and evaluate.py.

    python experiments/nmt/package.py

Copies ~/.cache/headwise/nmt-de-en/model to src/headwise/models/weights/demo-nmt (the wheel takes all files below
src/headwise) and writes README.md there. Read its section on licences first: it says why the result should not be
published as part of an Apache-2.0 package as long as the recipe's data are what they are.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from train import FOLDER

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
    parser.add_argument("--work", type=Path, default=FOLDER, help="the folder that train.py worked in")
    parser.add_argument("--out", type=Path, default=TARGET)
    asked = parser.parse_args()
    files = {name: (asked.work / "model" / name).read_bytes() for name in FILES}
    if len(files["model.safetensors"]) > LARGEST:
        raise InputError(f"The weights must be under {LARGEST / 1e6:.0f} MB to be packaged; train a smaller model.")
    write_files(asked.out, {**files, "README.md": card(asked.work).encode()})
    print(f"wrote {asked.out}; read the licences in its README.md before you publish it")


if __name__ == "__main__":
    main()
