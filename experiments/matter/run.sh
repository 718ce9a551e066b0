#!/usr/bin/env bash
# The runs behind README.md: DATA holds wikitext2/ and tatoeba pairs (or any .pairs file); resumable, one thread.
set -euo pipefail
data=${1:?folder with wikitext2/wiki.test.raw} out=${2:?folder for results} pairs=${3:-}
wiki=$data/wikitext2/wiki.test.raw
headwise run ablation,roles --model demo --corpus "$wiki" --first 40 --segments 128 --threads 1 --shard 4 \
  --set ablation.texts=12 --out "$out/demo"
headwise run edges --model demo --corpus "$wiki" --first 24 --segments 128 --threads 1 --shard 4 --out "$out/demo-edges"
headwise run ablation,roles --model demo-llm --corpus "$wiki" --first 24 --max-tokens 64 --truncate --threads 1 --shard 2 \
  --set ablation.texts=6 --set ablation.ways=mean --set ablation.curve=2 --set ablation.draws=2 --set roles.texts=6 \
  --set roles.sequences=8 --out "$out/demo-llm"
headwise run edges --model demo-llm --corpus "$wiki" --first 8 --max-tokens 128 --truncate --threads 1 --shard 1 \
  --set edges=8 --set texts=4 --out "$out/demo-llm-edges"
if [ -n "$pairs" ]; then
  headwise run ablation,roles --model demo-nmt --corpus "$pairs" --first 40 --threads 1 --shard 4 --out "$out/demo-nmt"
fi
