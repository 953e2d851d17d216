# One virtual environment, made and brought up to date as needed: it is installed anew when pyproject.toml
# is newer than its stamp. pip's own settings (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, ...) and PIP_ARGS pass through.

PYTHON ?= python3
VENV ?= .venv
PIP_ARGS ?=
CONFIG ?= configs/pocket.yaml
ARGS ?=

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_TEST := $(VENV)/.installed-test
SHELL_SCRIPTS := scripts/tts-stream .ci/run

.DEFAULT_GOAL := help
.PHONY: help serve test lint format pytest install clean

help:
	@echo "make serve    start the server (CONFIG=$(CONFIG), ARGS='--port 8001')"
	@echo "make test     lint, types, import contracts, then every test"
	@echo "make lint     ruff, mypy, import contracts, shellcheck"
	@echo "make pytest   the tests alone (ARGS='tests/unit -x')"
	@echo "make format   let ruff mend and format the code"
	@echo "make install  only make $(VENV)"
	@echo "make clean    remove $(VENV) and every cache"
	@echo "PYTHON=python3.12 picks the Python (3.11 or newer), PIP_ARGS=... goes to pip install."

serve: $(INSTALLED)
	$(BIN)/sonant serve --config $(CONFIG) $(ARGS)

test: lint pytest

lint: $(INSTALLED_TEST)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/shellcheck $(SHELL_SCRIPTS)

pytest: $(INSTALLED_TEST)
	$(BIN)/python -m pytest $(ARGS)

format: $(INSTALLED_TEST)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

install: $(INSTALLED)

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find engine server tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

# pip is the last thing that venv puts in place, so a half-made environment is made again.
$(BIN)/pip:
	@command -v $(PYTHON) >/dev/null || { echo "Sonant needs Python 3.11 or newer, and there is no '$(PYTHON)'."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Sonant needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."; \
	  echo "Name a newer one: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): pyproject.toml | $(BIN)/pip
	$(BIN)/python -m pip install $(PIP_ARGS) -e .
	@touch $@

$(INSTALLED_TEST): $(INSTALLED)
	$(BIN)/python -m pip install $(PIP_ARGS) -e '.[test]'
	@touch $@
