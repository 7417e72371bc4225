# Every target installs what it needs into .venv, with uv if it is there, else with python3 -m venv and pip.
# "serve" needs the program and the plugins, "test" also the test tools. Each is installed once, and again
# when its pyproject.toml changes. PYTHON names another python, and PLUGINS fewer plugins to serve:
# make serve PLUGINS="hello image_generation"

PYTHON ?= python3
ALL := $(patsubst plugins/%/pyproject.toml,%,$(sort $(wildcard plugins/*/pyproject.toml)))
PLUGINS ?= $(ALL)
VENV := .venv
PY := $(VENV)/bin/python
DONE := $(VENV)/installed
SERVES := $(DONE)/jobrunner $(addprefix $(DONE)/,$(PLUGINS))
SHOWS := $(DONE)/jobrunner $(addprefix $(DONE)/,$(ALL))
TESTS := $(SHOWS) $(DONE)/tools
STEPS := $(notdir $(if $(filter serve,$(MAKECMDGOALS)),$(SERVES),$(if $(filter demo,$(MAKECMDGOALS)),$(SHOWS),$(TESTS))))
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
UV := $(shell command -v uv 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help setup serve test check demo bench overload prove generators dist system clean
.NOTPARALLEL:

help:
	@echo "make serve   run the service (CONFIG=file, else config.toml; PLUGINS=names, else all)"
	@echo "make test    lint, types, tests"
	@echo "make check   lint and types only"
	@echo "make demo    one job of each kind, results in demo-out/"
	@echo "make bench   measure this machine (WITH=options, as in WITH='--only W2')"
	@echo "make overload  measure it under ever more clients (needs a C compiler)"
	@echo "make prove   the long proofs"
	@echo "make generators  clients made of the OpenAPI document by other tools, tried (needs node, npm, java)"
	@echo "make dist    the service as one file, dist/jobrunner.pyz (ADD=plugins, to lie in plugins.d beside it)"
	@echo "make system  install what some tests need beyond Python (Debian: chromium, nginx, caddy, promtool, systemd)"
	@echo "make setup   only what the others need, test tools included"
	@echo "make clean   remove what was made, not the data"

setup: $(TESTS)

serve: $(SERVES)
	@exec $(VENV)/bin/jobrunner serve $(if $(CONFIG),--config $(CONFIG))

test: $(TESTS)
	@$(MAKE) --no-print-directory check & checked=$$!; \
	$(PY) -m tests.compiled >/dev/null; \
	$(PY) -m pytest --numprocesses=auto --dist=worksteal; tested=$$?; \
	wait $$checked && exit $$tested

check: $(TESTS)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy jobrunner tests $(wildcard plugins/*/jobrunner_*)

demo: $(SHOWS)
	$(PY) -m jobrunner.bench.demo --into demo-out

bench: $(DONE)/jobrunner
	$(VENV)/bin/jobrunner bench $(WITH)

overload: $(DONE)/jobrunner
	$(PY) -m jobrunner.bench.overload

prove: $(TESTS)
	$(PY) -m pytest -m long --override-ini faulthandler_timeout=0

generators: $(TESTS)
	$(PY) -m tests.generators

dist: $(TESTS)
	$(PY) deploy/one_file.py $(if $(ADD),--add "$(ADD)")

system:
	$(SUDO) apt-get install --yes --no-install-recommends \
		caddy chromium nginx-light openssl prometheus systemd

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist .coverage demo-out .generators
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ---------------------------------------------------------------- set-up

# One step: print the progress, and what the installer says. uv shows its own progress. Of pip's output only
# the fetched files and their sizes are shown, unless it fails.
ifneq ($(UV),)
INSTALL = $(UV) pip install --python $(PY) $(2)
else
INSTALL = $(PY) -m pip --version >$(DONE)/.said 2>&1 || $(PY) -m ensurepip >$(DONE)/.said; \
	{ $(PY) -m pip install --disable-pip-version-check --no-compile --progress-bar off $(2); \
	echo $$? >$(DONE)/.said; } | grep --line-buffered -E '^ *(Downloading|Using cached) ' || true; \
	exit $$(cat $(DONE)/.said)
endif

define install
	@echo "[$$(printf '%s\n' $(STEPS) | grep -nx $(@F) | cut -d: -f1)/$(words $(STEPS))] $(1)"
	@$(INSTALL)
	@du -sm $(VENV) | awk '{ print "  " $$1 " MB in $(VENV) so far" }'
	@touch $@
endef

$(DONE)/python:
	@echo "$(VENV) is made, in $(words $(STEPS)) steps; with all plugins it takes a minute and some 800 MB"
	@$(if $(UV),$(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV),$(PYTHON) -m venv $(VENV))
	@mkdir -p $(DONE) && touch $@

$(DONE)/jobrunner: pyproject.toml | $(DONE)/python
	$(call install,jobrunner,-e .)

$(DONE)/tools: pyproject.toml | $(DONE)/jobrunner
	$(call install,tools for tests,-e ".[dev]")

$(DONE)/%: plugins/%/pyproject.toml | $(DONE)/jobrunner
	$(call install,plugin $*,-e ./plugins/$*)
