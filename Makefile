# Everything that a person types. `make demo` and `make test` set themselves up on a fresh machine.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PYTEST := $(PY) -m pytest
# Where the machine's own Go is not on the path (a plain `tar -C /usr/local` install).
export PATH := $(PATH):/usr/local/go/bin

.PHONY: help demo demo-down test test-full check unit engine control-plane e2e venv ready binaries model \
        images generate bench bench-operator cluster-up cluster-down

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

demo: ## a real cluster here, the chart, one LLMService, a streamed answer
	@$(PYTHON) -m e2e.machine
	@$(MAKE) -s ready
	@$(PY) -m e2e.demo up

demo-down: $(VENV)/.ready ## remove every trace of the demo
	@$(PY) -m e2e.demo down

# --- tests, in tiers -------------------------------------------------------------------------------------
test: ready ## what a merge needs: every tier, one representative of each matrix
	@$(PY) -m e2e.tiers

test-full: ready ## all matrices
	@$(PY) -m e2e.tiers --full

check: $(VENV)/.ready ## static: ruff, mypy --strict, import-linter, generated files up to date
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PY) -m llmservice_operator.api.crd --check
	$(PY) -m e2e.reference --check

unit engine control-plane e2e: $(VENV)/.ready ## one tier of the tests
	@$(PY) -m e2e.tiers --only $@

# --- parts -----------------------------------------------------------------------------------------------
venv: $(VENV)/.ready ## the virtual environment, in the tree

# Kubernetes is built while torch is fetched: both take minutes on a fresh machine, and neither needs the other.
ready:
	@$(MAKE) -s $(VENV)/.tools
	@$(MAKE) -s -j2 $(VENV)/.ready binaries

binaries: $(VENV)/.tools ## Kubernetes, etcd, Helm and their like, from Go modules
	@$(PY) -m e2e.cluster build

$(VENV)/.ready: $(VENV)/.tools pyproject.toml
	@echo "python: the operator, the engine (torch, 5 GB) and the tools"
	@$(VENV)/bin/uv pip install -q --python $(PY) -e '.[operator,fetch,engine,dev]'
	@touch $@

$(VENV)/.tools: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null || \
	  { echo "$(PYTHON) must be Python 3.11, 3.12 or 3.13; PYTHON=python3.12 make test names another"; exit 2; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	  { echo "$(PYTHON) cannot make virtual environments: apt-get install python3-venv"; exit 2; }
	@$(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python -m pip install -q 'uv>=0.8'
	@$(VENV)/bin/uv pip install -q --python $(PY) --group pyproject.toml:cluster
	@touch $@

model: $(VENV)/.ready ## the real model's folder (printed as the last line)
	@$(PY) -m e2e.model

images: $(VENV)/.ready ## the operator's and the engine's images from their Dockerfiles
	@$(PY) -m e2e.images operator
	@$(PY) -m e2e.images engine

generate: $(VENV)/.ready ## the CRD, the chart's copy of it, the reference pages
	$(PY) -m llmservice_operator.api.crd
	$(PY) -m e2e.reference

bench: $(VENV)/.ready ## the engine's four loads against a server on this machine
	@$(PY) -m e2e.bench_engine

bench-operator: $(VENV)/.ready ## the operator with 100, 300 and 1,000 services on kwok's nodes (N="100" for fewer)
	@$(PY) -m e2e.scale $(N)

cluster-up: $(VENV)/.ready ## a cluster named dev (TIER=control-plane for the small one)
	@$(PY) -m e2e.cluster up --name dev --tier $${TIER:-node}

cluster-down: $(VENV)/.ready
	@$(PY) -m e2e.cluster down --name dev
