#!/bin/bash
# The runs behind the tables of this folder: bash run.sh DATA OUT [full]   (resumable: the same command goes on)
set -euo pipefail
data=${1:-../shared/data} out=${2:-out/probe}
mkdir -p "$out/corpora"

# Sentences for training come first, those for testing after them; one corpus, cut by --set train.
first() { awk -v most="$1" 'BEGIN { RS = ""; ORS = "\n\n" } NR <= most' "$data/ud-ewt/en_ewt-ud-$2.conllu"; }
{ first 1500 train; first 700 test; } > "$out/corpora/ewt-1500.conllu"
{ first 400 train; first 250 test; } > "$out/corpora/ewt-400.conllu"

headwise run probe --model demo --corpus "$out/corpora/ewt-1500.conllu" --set train=1500 --set seeds=2 --set epochs=1 \
  --threads 1 --out "$out/demo"
headwise run probe --model demo-llm --corpus "$out/corpora/ewt-400.conllu" --set train=400 --set seeds=2 --set epochs=1 \
  --set structural_epochs=5 --threads 1 --out "$out/demo-llm"

if [ "${3:-}" = full ]; then  # what the tables should come from: the whole test split, three seeds, three epochs
  { first 4000 train; first 9999 test; } > "$out/corpora/ewt-4000.conllu"  # 4,000 + 2,077
  headwise run probe --model demo --corpus "$out/corpora/ewt-4000.conllu" --set train=4000 --threads 1 --out "$out/demo-full"
fi
