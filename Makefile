# make demo      drape a sheet over a cylinder; everything it needs is installed into .venv first
# make test      the checks of make lint, and the tests, on all cores
# make test-all  the same with the slow tests
# make lint      style, types, import directions, kernel signatures, lengths and format
# make docs      the documentation as a site, into out/site
# make gallery   run the shipped scenes that have changed, and show them in docs/gallery; SCENES=... names some
# make lock      choose versions anew and write the lock files (needs uv)
# make clean     remove .venv, results and caches
#
# PYTHON=... names the interpreter to use, PYTEST=... adds options for pytest.

# The first that runs and is new enough. A name alone proves nothing: version managers leave names that do not run.
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3 python; do \
  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$python && break; done)

ifeq ($(OS),Windows_NT)
  BIN := .venv/Scripts
  VENV_PYTHON := $(BIN)/python.exe
else
  BIN := .venv/bin
  VENV_PYTHON := $(BIN)/python
endif
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
UV ?= uv
LOCK = $(UV) pip compile pyproject.toml --universal --python-version 3.11 --fork-strategy fewest --generate-hashes \
  --no-emit-index-url --no-emit-find-links --no-header --quiet --upgrade --group build

.PHONY: demo test test-all lint docs gallery lock clean
.DELETE_ON_ERROR:

demo: .venv/demo.stamp
	$(BIN)/toile run drape --out out/drape

test: lint
	$(BIN)/python -m pytest -n auto -m "not slow" $(PYTEST)

test-all: lint
	$(BIN)/python -m pytest -n auto $(PYTEST)

lint: .venv/test.stamp
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_structure.py
	$(BIN)/ruff format --check .

docs: .venv/test.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo out/site/index.html

gallery: .venv/test.stamp
	OPENBLAS_NUM_THREADS=1 $(BIN)/python docs/_pages/gallery.py $(SCENES)

$(VENV_PYTHON):
	@test -n "$(PYTHON)" || { echo "Toile needs Python 3.11 or newer, and none was found. \
	Install one, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is not Python 3.11 or newer. \
	Name one that is: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv

.venv/demo.stamp: requirements-demo.lock pyproject.toml | $(VENV_PYTHON)
	$(INSTALL) --require-hashes -r requirements-demo.lock
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# What the tests need holds what the demo needs, at the same versions.
.venv/test.stamp: requirements.lock pyproject.toml | $(VENV_PYTHON)
	$(INSTALL) --require-hashes -r requirements.lock
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@ .venv/demo.stamp

lock:
	$(LOCK) --all-extras -o requirements.lock
	$(LOCK) --extra cholmod --extra usd --extra video --extra viewer -c requirements.lock -o requirements-demo.lock

clean:
	rm -rf .venv out dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find toile tests docs examples benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} +
