#!/bin/sh
# Every run of this page, from the root of the project: sh experiments/identity/run.sh DATA OUT [PART …]
# DATA holds the folders mrpc and cola (see README.md); a run that is done is opened, one that was stopped goes on.
set -eu
DATA=$1
OUT=$2
shift 2
PARTS=${*:-input squares previous neighbours attribution llm finetuned fractions adam mlp}
headwise=${HEADWISE:-.venv/bin/headwise}
mkdir -p "$OUT"
[ -f "$OUT/cola-dev.tsv" ] || cat "$DATA/cola/in_domain_dev.tsv" "$DATA/cola/out_of_domain_dev.tsv" > "$OUT/cola-dev.tsv"

mrpc() { # NAME [option …]
  name=$1
  shift
  $headwise run identity --corpus "$DATA/mrpc/dev.tsv" --threads 1 --out "$OUT/mrpc-$name" "$@"
}
cola() {
  name=$1
  shift
  $headwise run identity --corpus "$OUT/cola-dev.tsv" --kind tsv --columns 3 --threads 1 --out "$OUT/cola-$name" "$@"
}
both() {
  mrpc "$@"
  cola "$@"
}

for part in $PARTS; do
  case $part in
    input) both input --set solver=newton --set sets=test,train --set tags=spacy ;;
    squares) both squares --set maps=linear ;;
    previous) both previous --set solver=newton --set target=previous ;;
    neighbours) both neighbours --set maps=linear --set solver=newton --set folds=4 --set offsets=-3,-2,-1,1,2,3 ;;
    attribution) mrpc attribution --set cross=false --set attribution=64 --set tangents=2 ;;
    llm) mrpc llm --model demo-llm --set solver=newton --set source=0,4,9,14,19,24,28,29 --set sentences=200 --set keep=0.55 --set dtype=float16 ;;
    finetuned)
      mrpc finetuned --model "$HOME/.cache/headwise/finetuned/mrpc" --task classification --set maps=none --set target=previous
      cola finetuned --model "$HOME/.cache/headwise/finetuned/cola" --task classification --set maps=none --set target=previous
      ;;
    fractions)
      for share in 0.25 0.5 0.8 0.9; do
        mrpc "fraction-$share" --set maps=linear --set folds=4 --set solver=newton --set cross=false --set fraction=$share
      done
      ;;
    adam) mrpc adam --set maps=linear --set solver=adam --set source=5 --set folds=1 --set sets=test,train ;;
    mlp) mrpc mlp --set maps=mlp --set source=5 --set folds=1 --set sets=test,train ;;
    *) echo "there is no part $part" >&2; exit 2 ;;
  esac
done
