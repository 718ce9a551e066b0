# make demo | test | check | docs | bench; everything lives in .venv, and the second run is quick.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
export HF_HUB_OFFLINE ?= 1

.PHONY: demo test check docs bench clean

demo: $(READY)
	$(BIN)/headwise report --first 64 --out out/demo
	@echo "Open out/demo/report.html in a browser: its first page says what may be read from this model's attention."

test: $(READY)
	$(BIN)/python -m pytest

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -m pytest

docs: $(READY)
	$(BIN)/mkdocs build --quiet
	@echo "Open out/site/index.html in a browser."

bench: $(READY)
	$(BIN)/python benchmarks/foundation.py

# torch comes only through the pin: unpinned it would pull gigabytes of CUDA.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,llm,ray,linguistics,trees,experiments,serve,docs]'
	touch $(READY)

clean:
	rm -rf .venv out
