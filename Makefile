# Everything runs in .venv, which is built from the locks in requirements/ and rebuilt when they change.
#
#   PYTHON=python3.12    the Python that .venv is made from (3.11 or newer)
#   VARIANT=cpu|cuda     which lock; by default cuda where nvidia-smi lists a GPU, cpu elsewhere
#   ARGS="..."           more arguments for `make train`:  make train ARGS="--trainer.max_epochs 3"
#   PYTEST_ARGS="..."    arguments for `make test`:        make test PYTEST_ARGS="-k certify -m slow"
#   PACKAGE=layers       which unit tests `make quick` runs, a path in tests/unit; all by default
#   WORKERS=3            processes of `make test`; by default half as many again as there are processors

SHELL := /bin/sh
PYTHON ?= python3
ifndef VARIANT
VARIANT := $(shell nvidia-smi -L 2>/dev/null | grep -q '^GPU' && echo cuda || echo cpu)
endif
ARGS ?=
PYTEST_ARGS ?=
PACKAGE ?=
# Many tests wait for a process that they start or kill: as many workers as processors leave some of these idle.
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$((n + (n + 1) / 2)))
export PYTHON VARIANT

# Stamps carry checksums (of all but comments), not dates: a new clone or a changed branch cannot confuse them.
HASH := \#
checksum = $(shell grep -hv '^ *$(HASH)' $(1) 2>/dev/null | cksum | cut -d ' ' -f 1)
CPU_BUILD := $(if $(filter cpu,$(VARIANT)),requirements/torch-cpu.txt)
RUNTIME := .venv/.runtime-$(VARIANT)-$(call checksum,requirements/$(VARIANT).txt $(CPU_BUILD))
DEV := .venv/.dev-$(call checksum,requirements/dev.txt)
DOCS := .venv-docs/.docs-$(call checksum,requirements/docs.txt)
PROGRAM := .venv/bin/steadfast
RUN := .venv/bin/python

.PHONY: help .venv install dev train test quick lint types format docs lock clean
.DEFAULT_GOAL := help

help:
	@echo 'make train    train on configs/default.yaml (ARGS="..." for more arguments)'
	@echo 'make test     run the tests (PYTEST_ARGS="..." for more arguments)'
	@echo 'make quick    run two cells of each unit test but the long ones (PACKAGE=layers: all cells of one package)'
	@echo 'make lint     ruff, the import contracts, figures in pages, and known weaknesses of the locked versions'
	@echo 'make types    mypy'
	@echo 'make format   let ruff format and repair what it can'
	@echo 'make install  only build .venv, with the command .venv/bin/steadfast'
	@echo 'make dev      the same with the tools of tests and lint'
	@echo 'make docs     build the site of the pages into site/ (ARGS=serve: show it at http://127.0.0.1:8000/)'
	@echo 'make lock     resolve the locks anew from pyproject.toml (needs uv; ARGS="--upgrade")'
	@echo 'make clean    delete .venv and caches; runs stay'
	@echo
	@echo 'PYTHON=$(PYTHON) VARIANT=$(VARIANT)'

$(RUNTIME):
	@bash requirements/install.sh runtime $@

$(DEV): $(RUNTIME)
	@bash requirements/install.sh dev $@ $(RUNTIME)

$(DOCS):
	@bash requirements/install.sh docs $@

# Last: the steps before it may build .venv anew.
$(PROGRAM): | $(RUNTIME)
	@bash requirements/install.sh program $@

.venv install: $(RUNTIME) $(PROGRAM)

dev: $(RUNTIME) $(DEV) $(PROGRAM)

train: $(RUNTIME) $(PROGRAM)
	@$(RUN) -m app train --config configs/default.yaml $(ARGS)

# pytest rewrites the asserts of every test file, and keeps the result only where Python may keep bytecode.
test quick: export PYTHONDONTWRITEBYTECODE :=

test: dev
	@$(RUN) -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

quick: dev
	@$(RUN) -m pytest --numprocesses auto --dist worksteal -m "not slow and not long" $(if $(PACKAGE),,--cells 2) \
		$(PYTEST_ARGS) tests/unit/$(PACKAGE)

lint: dev
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()'
	@$(RUN) -m app study table --check docs README.md
	@$(RUN) -m requirements.audit

types: dev
	@$(RUN) -m mypy

format: dev
	@$(RUN) -m ruff format .
	@$(RUN) -m ruff check --fix .

# It reads the packages without importing them: no torch. mkdocs prints advice about its successors.
docs: $(DOCS)
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs $(or $(ARGS),build) --strict

lock:
	@$(PYTHON) requirements/lock.py $(ARGS)

clean:
	rm -rf .venv .venv-docs site build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
