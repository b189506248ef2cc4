# infermeter. `make` alone lists what can be made; every target installs what it needs into .venv first.

VENV        ?= .venv
# Evaluated only when .venv has to be made: the newest Python that is new enough and can make one.
PYTHON      ?= $(shell for p in python3.14 python3.13 python3.12 python3.11 python3 python; do \
                 if $$p -c $(NEW_ENOUGH) 2>/dev/null; then echo $$p; break; fi; done)
NEW_ENOUGH  := 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))'
CONFIG      ?=
UV_VERSION  := 0.13.9

BIN     := $(VENV)/bin
RUNTIME := $(VENV)/.installed-requirements.lock
DEV     := $(VENV)/.installed-requirements-dev.lock

# Hashes or nothing, wheels only (building an sdist would bring in build tools that no hash covers), and no
# word from pip but its errors.
PIP_INSTALL := $(BIN)/python -m pip install -qq --no-input --disable-pip-version-check --no-deps
FROM_LOCK   := --require-hashes --only-binary :all: -r
export PIP_ROOT_USER_ACTION := ignore

MAKEFLAGS += --no-print-directory
.DELETE_ON_ERROR:
.PHONY: help venv demo serve test lint format lock bench clean
.DEFAULT_GOAL := help

help: ## This list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

venv: $(RUNTIME) ## Install what infermeter needs into .venv (PYTHON=python3.12 chooses the Python)

demo: $(RUNTIME) ## A simulated fleet and infermeter over it (DEMO_ARGS="--fault memory_creep@node-2")
	@exec $(BIN)/infermeter demo $(DEMO_ARGS)

serve: $(RUNTIME) ## infermeter on your own exporters (CONFIG=FILE; else infermeter.yaml, else what is found)
	@exec $(BIN)/infermeter serve $(if $(CONFIG),--config $(CONFIG)) $(SERVE_ARGS)

test: $(DEV) ## All tests (PYTEST_ARGS="tests/sql -x")
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(DEV) ## ruff check, ruff format --check, mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict

format: $(DEV) ## Let ruff format the code and mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV) ## Time the scrape loop against Prometheus
	$(BIN)/python -m benchmarks.scrape $(BENCH_ARGS)

clean: ## Remove .venv, caches and build output; data and configuration stay
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The development lock holds every line of the runtime lock, so it serves both.
$(RUNTIME): requirements.lock pyproject.toml $(BIN)/python
	@$(call install,requirements.lock)
	@touch $@

$(DEV): requirements-dev.lock pyproject.toml $(BIN)/python
	@$(call install,requirements-dev.lock)
	@touch $@ $(RUNTIME)

define install
	echo "Installing $(1) into $(VENV) (a minute or so the first time) …" && \
	$(PIP_INSTALL) $(FROM_LOCK) $(1) && \
	$(PIP_INSTALL) --no-build-isolation --editable .
endef

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "infermeter needs Python 3.11 or newer with venv and pip, and found none." \
	  "Install one (Debian, Ubuntu: apt install python3 python3-venv), or name one:" \
	  "make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c $(NEW_ENOUGH) 2>/dev/null || { echo "PYTHON=$(PYTHON) is not Python 3.11 or newer with" \
	  "venv and pip. Name another, or leave PYTHON away." >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV)

# Both locks are resolved for every Python from 3.11 and every platform at once. Pins stay as they are unless
# LOCK_ARGS=--upgrade (all) or LOCK_ARGS="--upgrade-package duckdb" (one).
COMPILE := build/uv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
           --no-emit-index-url --custom-compile-command "make lock"
lock: build/uv/bin/uv ## Resolve requirements.lock and requirements-dev.lock (LOCK_ARGS=--upgrade)
	echo 'setuptools>=77' | $(COMPILE) $(LOCK_ARGS) pyproject.toml - -o requirements.lock
	echo 'setuptools>=77' | $(COMPILE) $(LOCK_ARGS) --extra dev -c requirements.lock pyproject.toml - -o requirements-dev.lock

build/uv/bin/uv: Makefile
	@$(PYTHON) -m venv --clear build/uv
	@build/uv/bin/python -m pip install -qq --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@
