# `make help` lists what there is. Two environments of Python stand behind it: .venv, and one a version in .venvs.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python

# One thread a process: the tests run in as many processes as there are cores.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MPLBACKEND := Agg
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Byte code of what is installed is written at first import: compiling all of it takes as long as the rest.
INSTALL := $(RUN) -m pip install -q --no-compile
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help bench test test-here lint format docs clean stale

help: ## List the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{printf "%-18s %s\n", $$1, $$2}'

bench: $(VENV)/.core ## Play the main tournament, core install only; tables and figures in results/bench
	$(VENV)/bin/dp-experts bench --out results/bench

test: $(VENV)/.dev ## Run the whole suite, then the core suite on every other Python 3.10 to 3.13 of this machine
	$(RUN) .ci/suites.py

test-here: $(VENV)/.dev ## Run the whole suite on the Python of .venv only
	$(RUN) .ci/suites.py --here

lint: $(VENV)/.dev ## Check layout, faults and types
	@failed=; for check in "ruff format --check ." "ruff check ." mypy; do \
		echo "$$check"; \
		if [ "$$check" = mypy ] && $(RUN) -c 'import sys; sys.exit(sys.version_info >= (3, 11))'; then \
			echo "NOT RUN: the types of numpy for Python 3.10 are older than those that the code is checked against"; \
		else $(RUN) -m $$check || failed=1; fi; \
	done; test -z "$$failed"

format: $(VENV)/.dev ## Lay the code out, and mend what can be mended
	$(RUN) -m ruff format .
	$(RUN) -m ruff check --fix .

docs: $(VENV)/.docs ## Build the documentation into site/
	$(RUN) -m sphinx -E -W --keep-going -q -b html docs site
	@echo "open site/index.html"

clean: ## Remove all that make made, but results/
	rm -rf $(VENV) .venvs site dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment is bound to this folder and to the Python it was made from: where either has moved, or PYTHON= asks
# for another version, it is made anew.
ASKED := $(if $(filter command% environment%,$(origin PYTHON)),$(PYTHON))
USABLE := $(shell $(RUN) -V >/dev/null 2>&1 && grep -qsF '$(CURDIR)/$(VENV)/' $(VENV)/bin/pip && \
	{ [ -z '$(ASKED)' ] || [ "`$(ASKED) -V`" = "`$(RUN) -V`" ]; } && echo yes)
ifneq ($(USABLE),yes)
$(RUN): stale
endif

$(RUN):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed but this is " \
		+ sys.version.split()[0] + "; name another, as in: make PYTHON=python3.12")'
	$(PYTHON) -m venv --clear $(VENV)

$(VENV)/.core: pyproject.toml $(RUN)
	@echo "Installing the core into $(VENV), half a gigabyte: a minute or so"
	$(INSTALL) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt $(RUN)
	@echo "Installing the core and the development tools into $(VENV), two gigabytes: two minutes or so"
	$(INSTALL) -c constraints.txt -e '.[dev]'
	@touch $(VENV)/.core $@

$(VENV)/.docs: pyproject.toml $(RUN)
	@echo "Installing the core and the documentation tools into $(VENV): a minute or so"
	$(INSTALL) -e '.[docs]'
	@touch $(VENV)/.core $@
