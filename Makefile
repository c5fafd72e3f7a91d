# Two commands for a new user: `make run` (a broker on localhost:9092) and `make test`. The rest is for people who work on it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test check bench fuzz chaos sim compat clean

run: $(VENV)/.run
	$(BIN)/kafkapy start

test: $(VENV)/.test
	$(BIN)/pytest

check: $(VENV)/.check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.test
	$(BIN)/python -m bench

fuzz: $(VENV)/.test
	$(BIN)/python -m tests.fuzz

# Kill, pause and cut off real brokers under load: make chaos MINUTES=30 SEED=7 BROKERS=5
MINUTES ?= 3
BROKERS ?= 3
chaos: $(VENV)/.test
	$(BIN)/python -m chaos --minutes $(MINUTES) --brokers $(BROKERS) $(if $(SEED),--seed $(SEED))

sim: $(VENV)/.test
	$(BIN)/python -m sim $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),200)) $(if $(FIRST),--first $(FIRST)) \
	  $(if $(filter command,$(origin MINUTES)),--minutes $(MINUTES)) $(if $(PLANT),--plant $(PLANT))

compat: $(VENV)/.test
	$(BIN)/pytest compat_tests --target=kafkapy

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	$(BIN)/python -m compileall -q kafkapy  # so that even the first start is a quick one
	touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check -e .[test]
	touch $@

$(VENV)/.check: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check -e .[test,check]
	touch $@
