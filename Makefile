# Every target makes its own virtual environment first: Python 3.11 or newer, make and git are all a machine needs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SITE ?= site
TESTS ?=
# With this variable, every process that a test starts would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE
# One worker more than there are cores: some tests wait for processes that they start.
WORKERS := $(shell $(PYTHON) -c 'import os; print(min(4, os.cpu_count() + 1))')
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: help demo quick test test-all lint types docs check format browser bench onednn clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

demo: $(READY)  ## set everything up, fit digits, and compare the methods on TwoMoon (about two minutes)
	$(BIN)/metapl demo

quick: $(READY)  ## the everyday tests: about a minute on 2 cores
	$(PYTEST) -m "not slow and not exhaustive" $(TESTS)

test: $(READY)  ## every kind of test: minutes on 2 cores
	$(PYTEST) -m "not exhaustive" $(TESTS)

test-all: $(READY)  ## all tests, as CI runs them
	$(PYTEST)

lint: $(READY)  ## ruff: format and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(READY)  ## mypy
	$(BIN)/mypy

docs: $(READY)  ## build the docs' site, strictly, into site/
	$(BIN)/properdocs build --strict --quiet --site-dir $(SITE)

check: lint types docs test-all  ## what CI runs

format: $(READY)  ## let ruff mend what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

browser:  ## install Chromium, for the tests of pages (apt-get, as root); without it they are skipped
	.ci/browser

bench: $(READY)  ## TwoMoon against a plain PyTorch loop (installs PyTorch)
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/python benchmarks/two_moons.py

onednn: $(READY)  ## install oneDNN's convolutions (needs a C++ compiler) and run their tests
	$(BIN)/python -m pip install --quiet ./extensions/onednn
	$(BIN)/python -c 'from metapl.models import onednn; assert onednn.available()'
	$(PYTEST) tests/models/test_convolution.py tests/models/test_pixel_sums.py tests/models/test_resnet.py tests/models/test_efficientnet.py tests/algorithms/test_feedback.py

clean:  ## remove the virtual environment
	rm -rf $(VENV)

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "metapl needs Python 3.11 or newer; try: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(READY)
