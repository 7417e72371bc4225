# All set-up happens by itself: the virtual environment in .venv is made by uv where there is one,
# else by python3 -m venv, and renewed when a pyproject.toml changes. PYTHON chooses another python.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.ready
PLUGINS := $(sort $(dir $(wildcard plugins/*/pyproject.toml)))
PROJECTS := pyproject.toml $(addsuffix pyproject.toml,$(PLUGINS))
EDITABLE := $(foreach plugin,$(PLUGINS),-e ./$(plugin:/=))
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
UV := $(shell command -v uv 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help setup serve test check demo bench overload prove system clean

help:
	@echo "make serve   run the service (CONFIG=file, else config.toml)"
	@echo "make test    lint, types, tests"
	@echo "make check   lint and types only"
	@echo "make demo    one job of each kind, results in demo-out/"
	@echo "make bench   measure this machine (WITH=options, as in WITH='--only W2')"
	@echo "make overload  measure it under ever more clients (needs a C compiler)"
	@echo "make prove   the long proofs"
	@echo "make system  install what some tests need beyond Python (Debian: nginx, caddy, systemd)"
	@echo "make setup   only what the others need"
	@echo "make clean   remove what was made, not the data"

setup: $(STAMP)

$(STAMP): $(PROJECTS) Makefile
ifneq ($(UV),)
	$(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
	$(UV) pip install --quiet --python $(PY) -e ".[dev]" $(EDITABLE)
else
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -e ".[dev]" $(EDITABLE)
endif
	@touch $@

serve: $(STAMP)
	@exec $(VENV)/bin/jobrunner serve $(if $(CONFIG),--config $(CONFIG))

test: check
	$(PY) -m pytest --numprocesses=auto --dist=worksteal

check: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy jobrunner tests $(wildcard plugins/*/jobrunner_*)

demo: $(STAMP)
	$(PY) -m jobrunner.bench.demo --into demo-out

bench: $(STAMP)
	$(VENV)/bin/jobrunner bench $(WITH)

overload: $(STAMP)
	$(PY) -m jobrunner.bench.overload

prove: $(STAMP)
	$(PY) -m pytest -m long --override-ini faulthandler_timeout=0

system:
	$(SUDO) apt-get install --yes --no-install-recommends caddy nginx-light openssl systemd

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist .coverage demo-out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
