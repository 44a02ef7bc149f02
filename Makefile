# Two commands: `make up` runs the product, `make test` runs every test. All targets set up what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# An environment without pip is what a Debian without python3-venv leaves behind: it is made anew.
NEW_VENV = $(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)

.PHONY: up test lint types unit suites setup setup-dev lock clean soak

up: setup ## run the sidecar and the shipped server with its embedded engine
	$(BIN)/deltawire up $(ARGS)

test: lint types unit ## every check: linter, types, tests with real Redis, helm and clients

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup-dev
	$(BIN)/mypy

unit: setup-dev
	$(BIN)/python -m pytest $(ARGS)

suites: setup-dev ## suites of others against the server, their exceptions held exactly
	$(BIN)/python -m pytest --suites tests/e2e/test_suites.py $(ARGS)

soak: setup-dev ## random agents, faults and restarts for MINUTES (30), every turn checked
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),30) $(ARGS)

setup: $(VENV)/.runtime
setup-dev: $(VENV)/.dev

$(VENV)/.runtime: requirements.lock requirements-build.lock pyproject.toml
	$(NEW_VENV)
	$(PIP) --require-hashes -r requirements.lock -r requirements-build.lock
	$(PIP) --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.dev: requirements-dev.lock pyproject.toml
	$(NEW_VENV)
	$(PIP) --require-hashes -r requirements-dev.lock
	$(PIP) --no-deps --no-build-isolation -e .
	touch $@

COMPILE := uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock"

lock: ## write the lock files anew (needs uv)
	$(COMPILE) --extra fast pyproject.toml -o requirements.lock
	$(COMPILE) pyproject.toml --group dev -o requirements-dev.lock
	$(COMPILE) --group build -o requirements-build.lock
	$(COMPILE) --group suites -o requirements-suites.lock

clean:
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
