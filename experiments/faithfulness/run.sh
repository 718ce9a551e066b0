#!/bin/sh
# run.sh DATA OUT: the faithfulness study on the fine-tuned models (experiments/finetune), resumable.
set -e
data=$1 out=$2 models=${HEADWISE_CACHE:-$HOME/.cache/headwise}/finetuned
mkdir -p "$out"
cat "$data/cola/in_domain_dev.tsv" "$data/cola/out_of_domain_dev.tsv" > "$out/cola-dev.tsv"
headwise run faithfulness --model "$models/cola" --task classification --corpus "$out/cola-dev.tsv" --columns 3 \
  --threads 1 --out "$out/cola"
headwise run faithfulness --model "$models/mrpc" --task classification --corpus "$data/mrpc/dev.tsv" \
  --threads 1 --out "$out/mrpc"
headwise run faithfulness --model "$models/cola" --task classification --corpus "$out/cola-dev.tsv" --columns 3 \
  --set removal=delete --threads 1 --out "$out/cola-delete"
