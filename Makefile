# Everything from nothing but Python 3.11+, make and git.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help install demo test check bench wheel docs site clean

help:
	@echo "make demo      a lake, a finding and plots, from nothing"
	@echo "make test      all checks and tests, and a short benchmark"
	@echo "make bench     speed and memory, side by side with the reference"
	@echo "make install   the command alone, in $(VENV)"
	@echo "make check     format, lint, types, walls, SQL, generated files"
	@echo "make wheel     dist/, built and checked"
	@echo "make docs      write the generated files anew"
	@echo "make site      dist/site, the documentation as a site"

# What the command itself needs.
$(VENV)/.core: requirements.lock pyproject.toml
	PYTHON=$(PYTHON) scripts/install core

# What tests, checks and benchmarks need on top.
$(VENV)/.dev: requirements-dev.lock pyproject.toml
	PYTHON=$(PYTHON) scripts/install dev

# Prefect, whose pins do not agree with the dashboard's: only its tests run there.
.venv-prefect/.prefect: requirements-prefect.lock pyproject.toml
	PYTHON=$(PYTHON) scripts/install prefect

install: $(VENV)/.core

demo: $(VENV)/.core
	$(BIN)/gpulake demo --out demo

test: $(VENV)/.dev .venv-prefect/.prefect
	scripts/check
	scripts/test --all
	scripts/bench --smoke
	scripts/wheel
	scripts/site

check: $(VENV)/.dev
	scripts/check

bench: $(VENV)/.dev
	scripts/bench

wheel: $(VENV)/.dev
	scripts/wheel

docs: $(VENV)/.dev
	scripts/docs

site: $(VENV)/.dev
	scripts/site

clean:
	rm -rf $(VENV) .venv-prefect demo bench/out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .sqlfluff_cache
