#!/bin/bash
# The runs behind the tables of this folder: bash run.sh DATA OUT   (resumable: the same command goes on)
set -euo pipefail
data=${1:-../shared/data} out=${2:-out/linguistics}
mkdir -p "$out/corpora"

# The best head is chosen on the dev split (the first sentences) and scored on the test split (the rest).
cat "$data"/ud-ewt/en_ewt-ud-{dev,test}.conllu > "$out/corpora/ewt.conllu"                       # 2,001 + 2,077
for split in dev test; do                                                                         # every fourth: 501 + 520
  awk 'BEGIN { RS = ""; ORS = "\n\n" } NR % 4 == 1' "$data/ud-ewt/en_ewt-ud-$split.conllu"
done > "$out/corpora/ewt-fourth.conllu"

# Sentences of more than 30 words: more tokens than a head of the demo model has dimensions, so that effective and raw
# attention differ. Chosen on 600 of the train split, scored on those of dev and test.
long() { awk 'BEGIN { RS = ""; ORS = "\n\n"; FS = "\n" } { n = 0; for (i = 1; i <= NF; i++) n += $i ~ /^[0-9]+\t/ } n > 30' "$@"; }
{ long "$data/ud-ewt/en_ewt-ud-train.conllu" | awk 'BEGIN { RS = ""; ORS = "\n\n" } NR <= 600'
  long "$data"/ud-ewt/en_ewt-ud-{dev,test}.conllu; } > "$out/corpora/ewt-long.conllu"

# Coreference chooses on half of the documents, by a hash of their numbers; 128 tokens of each, as in the paper.
headwise run syntax --model demo --corpus "$out/corpora/ewt.conllu" --set choose_first=2001 --threads 1 --out "$out/demo/syntax"
headwise run coref --model demo --corpus "$data/ontogum" --truncate --max-tokens 128 --threads 1 --out "$out/demo/coref"
headwise run coref --model demo-llm --corpus "$data/ontogum" --truncate --max-tokens 128 --threads 1 --out "$out/demo-llm/coref"
headwise run syntax --model demo-llm --corpus "$out/corpora/ewt-fourth.conllu" --set choose_first=501 --threads 1 --out "$out/demo-llm/syntax"

headwise run syntax --model demo --corpus "$out/corpora/ewt-long.conllu" --set choose_first=600 --threads 1 --out "$out/demo/syntax-long"

# Whole documents in windows, so that antecedents further off than 128 tokens can be found too; GUM's own test split.
mkdir -p "$out/corpora/gum-test/conll" "$out/corpora/gum-test/conllu"
awk '/^## / { split_name = $2 } split_name == "test" && /^  \* / { print $2 }' "$data/ontogum/splits.md" | while read -r name; do
  cp "$data/ontogum/conll/$name.conll" "$out/corpora/gum-test/conll/"
  cp "$data/ontogum/conllu/$name.conllu" "$out/corpora/gum-test/conllu/"
done
headwise run coref --model demo --corpus "$out/corpora/gum-test" --truncate --set windows=true --set window_tokens=256 \
  --set overlap=128 --threads 1 --out "$out/demo/coref-windows"
