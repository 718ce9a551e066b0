# make demo | test | check | bench; everything lives in .venv, and the second run is quick.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
export HF_HUB_OFFLINE ?= 1

.PHONY: demo test check bench clean

demo: $(READY)
	@mkdir -p out
	$(BIN)/headwise inspect "The trophy does not fit in the suitcase because it is too big, although the man who bought it had measured both of them twice." "He was angry, and went back to the shop." --figure out/inspect.svg
	@echo "Open out/inspect.svg in a browser: the [CLS] column of the raw map is gone from the effective one."

test: $(READY)
	$(BIN)/python -m pytest

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -m pytest

bench: $(READY)
	$(BIN)/python benchmarks/foundation.py

# torch comes only through the pin: unpinned it would pull gigabytes of CUDA.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,llm,ray,linguistics,trees,experiments,serve]'
	touch $(READY)

clean:
	rm -rf .venv out
