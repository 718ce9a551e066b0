#!/usr/bin/env bash
# run.sh DATA OUT [CLASSIFIER]: the runs behind README.md, one thread each; resumable. DATA holds wikitext2, tatoeba-de-en and mrpc;
# CLASSIFIER is a model of experiments/finetune/finetune.py mrpc.
set -euo pipefail
data=${1:?folder with wikitext2/wiki.test.raw} out=${2:?folder for results} classifier=${3:-}
wiki=$data/wikitext2/wiki.test.raw
mkdir -p "$out"
awk -F'\t' 'NF == 4 { n = split($3, words, /[ ]+/); if (n >= 6 && n <= 14) print $3 " ||| " $4 }' "$data/tatoeba-de-en/challenge.txt" | sed -n 1,40p > "$out/tatoeba.pairs"
headwise run ablation,roles --model demo --corpus "$wiki" --first 24 --segments 64 --threads 1 --shard 4 \
  --set ablation.texts=12 --set ablation.ways=mean,zero --set ablation.curve=4 --set roles.texts=8 --out "$out/demo"
headwise run edges --model demo --corpus "$wiki" --first 12 --segments 64 --threads 1 --shard 2 --set texts=12 --out "$out/demo/edges"
headwise run ablation,roles --model demo-nmt --corpus "$out/tatoeba.pairs" --first 16 --threads 1 --shard 4 \
  --set ablation.texts=12 --set ablation.ways=mean,zero --set ablation.curve=4 --set roles.texts=8 --out "$out/demo-nmt"
headwise run ablation --model demo-llm --corpus "$wiki" --first 4 --max-tokens 32 --truncate --threads 1 --shard 1 \
  --set texts=4 --set ways=mean --set curve=1 --set draws=1 --out "$out/demo-llm/ablation"
headwise run roles --model demo-llm --corpus "$wiki" --first 4 --max-tokens 32 --truncate --threads 1 --shard 2 \
  --set texts=3 --set sequences=4 --out "$out/demo-llm/roles"
headwise run edges --model demo-llm --corpus "$wiki" --first 3 --max-tokens 32 --truncate --threads 1 --shard 1 \
  --set edges=8 --set texts=3 --out "$out/demo-llm/edges"
if [ -n "$classifier" ]; then
  headwise run ablation,roles --model "$classifier" --task classification --corpus "$data/mrpc/dev.tsv" --label Quality --first 24 \
    --threads 1 --shard 4 --set ablation.texts=24 --set ablation.ways=mean,zero --set ablation.curve=6 --set roles.texts=12 --out "$out/mrpc"
fi
