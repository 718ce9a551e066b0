# make demo | test | quick | check | portable | chaos | mutants | docs | site | pictures | evidence | bench | release; everything lives in .venv (or VENV=…), and the second run is quick.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
CORE := $(VENV)/core
export HF_HUB_OFFLINE ?= 1
# Bytecode is kept even where the environment says otherwise: each of the many processes would compile everything anew.
export PYTHONDONTWRITEBYTECODE :=
# One test process a core, each with one thread: tests of one file stay together, so that models are loaded once.
WORKERS ?= $(shell nproc)
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: demo test quick check portable chaos mutants docs site pictures bench release clean evidence hashed audit

demo: $(CORE)
	$(BIN)/headwise report --first 64 --segments 64 --out out/demo
	@echo "Open out/demo/report.html in a browser: its first page says what may be read from this model's attention."

test: $(READY)
	$(PYTEST)

# What a developer runs while writing: no browser, no documentation, no training, nothing marked slow.
quick: $(READY)
	$(PYTEST) -m "not browser and not slow" --ignore tests/browser --ignore tests/docs --ignore tests/experiments

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	mkdir -p out
	$(BIN)/python release/supply.py licences > out/licences.txt || { tail -1 out/licences.txt; false; }
	$(PYTEST)

# Another processor, other threads, another order, a busy machine: the suite must pass on all of them.
portable: $(READY)
	ATEN_CPU_CAPABILITY=default OMP_NUM_THREADS=1 $(PYTEST) -p randomly
	ATEN_CPU_CAPABILITY=avx2 OMP_NUM_THREADS=2 $(PYTEST) -p randomly
	yes > /dev/null & load=$$!; trap "kill $$load" EXIT; OMP_NUM_THREADS=1 $(PYTEST)
	OMP_NUM_THREADS=2 $(PYTEST) -p randomly

# What docs/reliability.md promises, tried at random for ten minutes: kills, damage, a full disk, Ray, texts, clients.
MINUTES ?= 10
chaos: $(READY)
	$(BIN)/python benchmarks/chaos.py --minutes $(MINUTES)

# Small mistakes made on purpose: which would the tests miss? make mutants MUTANTS="--only plots --count 40 --seed 1"
mutants: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python tools/mutants.py $(MUTANTS)

docs: $(READY)
	$(BIN)/mkdocs build --quiet
	@echo "Open out/site/index.html in a browser."

# A version of the site on branch gh-pages, beside the others, and `latest` led to it; a person then pushes that branch.
VERSION ?= $(shell sed -n 's|^version = "\([0-9]*\.[0-9]*\).*"|\1|p' pyproject.toml)
site: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check mike==2.2.0
	$(BIN)/mike deploy --config-file mkdocs.versioned.yml --update-aliases $(VERSION) latest
	$(BIN)/mike set-default --config-file mkdocs.versioned.yml latest
	@echo "On branch gh-pages: $$(git ls-tree --name-only gh-pages | tr '\n' ' '). To publish: git push origin gh-pages"

# The pictures of the README and of the front pages, as the packaged model gives them now.
pictures: $(READY)
	$(BIN)/python tools/pictures.py

evidence: $(READY)
	$(BIN)/python experiments/evidence.py
	$(BIN)/python experiments/matter/tables.py

bench: $(READY)
	$(BIN)/python benchmarks/bench.py $(BENCH)

# Builds twice, checks (the same bytes, licences, twine), and says what is left to a person. It needs the core alone.
release: $(CORE)
	rm -rf dist out/again
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build twine
	mkdir -p out
	$(BIN)/python release/supply.py licences > out/licences.txt || { tail -1 out/licences.txt; false; }
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m build --outdir out/again .
	for file in dist/*; do cmp $$file out/again/$${file#dist/} || exit 1; done
	$(BIN)/python -m twine check --strict dist/*
	sha256sum dist/*
	@$(BIN)/python release/steps.py

# What a user has: the demo needs no more. Compiled, for shells that forbid Python to keep what it compiled. torch comes only through the pin: unpinned it would pull gigabytes of CUDA.
$(CORE): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	$(BIN)/python -m compileall -q src/headwise
	touch $(CORE)

$(READY): $(CORE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,llm,ray,linguistics,trees,experiments,serve,train,docs]'
	touch $(READY)

# What CI installs first: every archive by its hash. `trees` is GPLv3: a tool of the tests, no part of headwise.
hashed:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	mkdir -p out && $(BIN)/python -m pip install --quiet packaging && $(BIN)/python release/supply.py archives > out/hashed.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r out/hashed.txt

# Known holes of what is pinned; asks a service on the network, so it is no part of `make check`.
audit: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-audit
	$(BIN)/python -m pip_audit --disable-pip --require-hashes -r constraints.hashed.txt

clean:
	rm -rf .venv out
