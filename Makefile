# `make demo` and `make test` work from a fresh clone in either order; nothing is done twice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SOURCES := $(shell find benchmark methods tasks conf -type f -not -name '*.pyc')
TESTS := $(shell find tests -name '*.py')

# one more than there are cores: while a test waits for a process that it started, no core is idle
WORKERS := --numprocesses $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) + 1 ))) --dist worksteal

# tests start hundreds of processes, each of which would compile the project anew
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test thorough environment docs site package families shapes unshaped lint load lowest performance clean

demo: runs/.demo

runs/.demo: $(STAMP) $(SOURCES)
	$(BIN)/python -m benchmark limit=60
	@touch $@

test: $(VENV)/.tested

$(VENV)/.tested: $(STAMP) $(SOURCES) $(TESTS)
	$(BIN)/python -m pytest $(WORKERS) -m "not thorough"
	@touch $@

# what `make test` leaves out: the rest of products of cases, long simulations, more kills
thorough: $(STAMP)
	$(BIN)/python -m pytest $(WORKERS) -m thorough

environment: $(STAMP)

# the pages as a site; a link that leads nowhere ends it
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --nitpicky -c docs/site docs docs/_build/html

$(VENV)/.docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@

# the project's own bundles and the site of its leaderboard: three comparisons from nothing
site: $(STAMP)
	$(BIN)/python -m docs.bundles --site docs/_build/leaderboard

# every family of the installed transformers: the logits of transformers, or one line
families: $(STAMP)
	EVERY_FAMILY=1 $(BIN)/python -m pytest tests/models/test_every_family.py $(WORKERS)

# what computes arrays, with every annotated shape checked: imports and calls take twice as long, so thorough tests run without
SHAPED := tests/methods/test_contract.py tests/replicas tests/models

shapes: $(STAMP)
	$(BIN)/python -m pytest $(SHAPED) $(WORKERS) -m "not mistyped and not thorough" \
		--jaxtyping-packages=methods,benchmark.models,benchmark.evaluations,beartype.beartype

# all other tests: with `shapes` each once
unshaped: $(STAMP)
	$(BIN)/python -m pytest $(addprefix --ignore=,$(SHAPED)) $(WORKERS)
	$(BIN)/python -m pytest $(SHAPED) -m "mistyped or thorough" $(WORKERS)

# the commands from a wheel, and the versions that there are for each Python
package: $(STAMP)
	$(BIN)/python .ci/wheel
	$(BIN)/python .ci/resolve

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python .ci/audit

# many jobs on one folder, killed at random: minutes, on cores that do nothing else
load: $(STAMP)
	KILL_RAY=1 $(BIN)/python -m pytest tests/engines/test_endings.py
	$(BIN)/python -m tests.load

# the lowest versions that pyproject.toml allows, in an environment of their own: minutes, and gigabytes to fetch
lowest:
	$(PYTHON) .ci/lowest

performance: $(STAMP)
	$(BIN)/python -m pytest tests/performance -o addopts=-q

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.11 ..." if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) runs .pytest_cache .mypy_cache .ruff_cache
