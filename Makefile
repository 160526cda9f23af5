# The only commands anyone needs. Each sets up .venv with the tested versions by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint bench clean

demo: $(STAMP)  ## tune a real example on real data, train it under the plan
	$(BIN)/hasten demo

test: lint  ## everything that must hold before a change lands
	$(BIN)/python -m pytest

lint: $(STAMP)
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy

bench: $(STAMP)  ## measure again what the documents claim; raw numbers go to benchmarks/results
	$(BIN)/python -m benchmarks.accuracy
	$(BIN)/python -m benchmarks.startup

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
