# Two commands to know: `make demo` and `make test`. Both do all set-up themselves.
#   PYTHON=/path/to/python3.12 make ...   use this interpreter for the environment
#   make unit ARGS="-k outcome -x"        hand arguments to pytest

SHELL := /bin/sh
PY := .venv/bin/python
# The folders that exist so far: pytest refuses a missing one.
QUICK_TESTS = $(wildcard tests/unit tests/in_process)
LIVE_TESTS = $(wildcard tests/live tests/conformance)
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup servers demo test lint types layers docs docs-serve unit live bench-quick fmt clean
# One recipe line after another: the checks print in the order they are listed.
.NOTPARALLEL:

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-20s %s\n", $$1, $$2}'

setup: ## the environment .venv with everything in it
	@sh scripts/setup.sh .venv dev

servers: setup ## the servers that the live tests start: found, or installed
	@$(PY) -m scripts.server_binaries

demo: setup ## the refunds service, with no server at all
	@$(PY) -m examples.refunds.demo

test: lint types layers docs servers ## everything: checks, then all tests
	$(PY) -m pytest $(ARGS)

lint: setup ## ruff: lint and format
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: setup ## pyright strict, and no ignore comments in the package
	$(PY) -m basedpyright
	@! grep -rnE '(type|pyright): *ignore' src || { echo "types: nothing is ignored in src, see above" >&2; exit 1; }

layers: setup ## which room may import which
	$(PY) .venv/bin/lint-imports --no-logo

docs: setup ## the documentation site, in site/; a warning is an error
	$(PY) -m zensical build --strict --clean
	$(PY) -m scripts.docs_check site

docs-serve: setup ## the site on a local port, built anew when a page changes
	$(PY) -m zensical serve

unit: setup ## tests without a server
	$(PY) -m pytest $(QUICK_TESTS) $(ARGS)

live: servers ## tests against real servers
	$(PY) -m pytest $(LIVE_TESTS) $(ARGS)

bench-quick: servers ## benchmarks/results/latest.json, in under two minutes
	@sh scripts/setup.sh .venv-bench bench
	.venv-bench/bin/python -m benchmarks --quick

fmt: setup ## format, and fix what ruff can fix
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

clean: ## remove the environments and every cache
	rm -rf .venv .venv-bench site .cache .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
