#!/usr/bin/env bash
# run.sh DATA OUT [CLASSIFIER]: the runs behind README.md, one thread each; resumable. DATA holds wikitext2, tatoeba-de-en and mrpc;
# CLASSIFIER is a model of experiments/finetune/finetune.py mrpc.
set -euo pipefail
data=${1:?folder with wikitext2/wiki.test.raw} out=${2:?folder for results} classifier=${3:-}
wiki=$data/wikitext2/wiki.test.raw
mkdir -p "$out"
awk -F'\t' 'NF == 4 { n = split($3, words, /[ ]+/); if (n >= 6 && n <= 14) print $3 " ||| " $4 }' "$data/tatoeba-de-en/challenge.txt" | sed -n 1,40p > "$out/tatoeba.pairs"
headwise run ablation --model demo --corpus "$wiki" --first 44 --segments 64 --threads 1 --shard 4 \
  --set texts=20 --set ways=mean --set curve=10 --out "$out/demo/ablation"
headwise run roles --model demo --corpus "$wiki" --first 24 --segments 64 --threads 1 --shard 4 --set texts=8 --out "$out/demo/roles"
headwise run edges --model demo --corpus "$wiki" --first 12 --segments 64 --threads 1 --shard 2 --set texts=12 --out "$out/demo/edges"
headwise run ablation --model demo-nmt --corpus "$out/tatoeba.pairs" --first 28 --threads 1 --shard 4 \
  --set texts=28 --set ways=mean --set curve=12 --out "$out/demo-nmt/ablation"
headwise run roles --model demo-nmt --corpus "$out/tatoeba.pairs" --first 16 --threads 1 --shard 4 --set texts=8 --out "$out/demo-nmt/roles"
headwise run roles --model demo --corpus "$data/ud-ewt/en_ewt-ud-test.conllu" --first 60 --threads 1 --set texts=12 --out "$out/demo/roles-labelled"
headwise run roles --model demo --corpus "$data/ontogum" --truncate --max-tokens 128 --first 40 --threads 1 --set texts=12 --out "$out/demo/roles-coref"
# rwth.pairs: lines `de ||| en ||| links` of align-de-en with 6 to 16 words a side, links counted from 0
headwise run roles --model demo-nmt --corpus "$out/rwth.pairs" --first 24 --threads 1 --set texts=12 --out "$out/demo-nmt/roles-labelled"
headwise run edges --model demo-nmt --corpus "$out/tatoeba.pairs" --first 28 --threads 1 --shard 4 --set texts=28 --out "$out/demo-nmt/edges"
headwise run ablation --model demo-llm --corpus "$wiki" --first 8 --max-tokens 32 --truncate --threads 1 --shard 1 \
  --set texts=8 --set ways=mean --set curve=1 --set draws=1 --out "$out/demo-llm/ablation"
headwise run roles --model demo-llm --corpus "$wiki" --first 6 --max-tokens 32 --truncate --threads 1 --shard 2 \
  --set texts=6 --set sequences=12 --out "$out/demo-llm/roles"
headwise run edges --model demo-llm --corpus "$wiki" --first 8 --max-tokens 32 --truncate --threads 1 --shard 1 \
  --set edges=4 --set texts=8 --out "$out/demo-llm/edges"
if [ -n "$classifier" ]; then
  headwise run ablation,roles --model "$classifier" --task classification --corpus "$data/mrpc/dev.tsv" --label Quality --first 24 \
    --threads 1 --shard 4 --set ablation.texts=24 --set ablation.ways=mean,zero --set ablation.curve=6 --set roles.texts=12 --out "$out/mrpc"
fi
