# Everything a contributor runs. Needs Python 3.11+, git and make; the rest is installed into .venv.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
TEMPLATE := cd template && ../$(BIN)

.PHONY: help demo test test-browser test-all test-nightly crash mutants check format bench release clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.venv/.scaffolder: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[demo]' -c constraints.txt
	@touch $@

.venv/.tools: .venv/.scaffolder template/pyproject.toml.jinja template/constraints.txt
	$(BIN)/python -c "from tools.pin import *; print(*requirements(), sep='\n')" > .venv/template.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]' \
	  -r .venv/template.txt -c constraints.txt -c template/constraints.txt
	@touch $@

demo: .venv/.scaffolder ## Generate an app, deliver a webhook, park one, retry it
	@$(BIN)/python -m tools.demo

test: check ## Check, then all tests that fit 20 minutes on 2 cores
	$(BIN)/python -m tools.run_tests

test-browser: .venv/.tools ## Tests of the pages in Chromium
	$(BIN)/python -m tools.run_tests browser

test-all: check ## Every test, the browser's too
	$(BIN)/python -m tools.run_tests scaffolder upgrade acceptance template generated minimal browser

test-nightly: check ## Tests at full size, the crash run, the mutants; two hours
	$(TEMPLATE)/python -m tests.crash
	TEST_SIZE=nightly $(BIN)/python -m tools.run_tests template
	UPGRADE_EXAMPLES=10000 UPGRADE_KILLS=2000 UPGRADE_OWN_TESTS=full \
	  $(BIN)/python -m tools.run_tests upgrade
	$(BIN)/python -m tools.mutants

crash: .venv/.tools ## Kill, freeze and cut off everything for minutes; print the ledger
	$(TEMPLATE)/python -m tests.crash

mutants: .venv/.tools ## Take out one guard at a time; a test must turn red for each
	$(BIN)/python -m tools.mutants

check: .venv/.tools ## Lint, format, types, import contracts, house rules, conformance page
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(TEMPLATE)/ruff check .
	$(TEMPLATE)/ruff format --check .
	$(TEMPLATE)/mypy
	$(TEMPLATE)/lint-imports
	$(BIN)/python -m tools.house_rules
	$(BIN)/python -m tools.conformance --check

format: .venv/.tools ## Format and fix what can be fixed
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .
	$(TEMPLATE)/ruff check --fix . && $(TEMPLATE)/ruff format .

bench: .venv/.tools ## Measure speed beside limits and peers, which it installs; 12 minutes
	$(BIN)/python -m benchmarks --rounds 3; own=$$?; $(BIN)/python -m benchmarks.peers && exit $$own

release: .venv/.tools ## Seal VERSION=x.y.z into releases/ and move on to the next .dev0
	$(BIN)/python -m tools.release $(VERSION)

clean: ## Remove what was built here
	rm -rf .venv .work dist build
