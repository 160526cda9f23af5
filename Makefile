# The only commands anyone needs. Each sets up .venv with the tested versions.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

APART := --ignore tests/tuning/test_real_tunes.py --ignore tests/machines  # what is not run beside other tests
OLDEST_PYTHON ?= python3.10
NEWEST_PYTHON ?= python3.13

unexport PYTHONDONTWRITEBYTECODE  # without compiled modules each of a test's processes takes longer to start

.PHONY: demo test suite test-machines test-ray test-thorough test-oldest test-newest lint style types bench bench-quick bench-truth compatibility clean

demo: $(VENV)/.with-examples  ## tune a real example on real data, then train under the plan
	$(BIN)/hasten demo

test: style  ## everything that must hold before a change lands
	$(MAKE) --no-print-directory --jobs 2 types suite
	$(BIN)/python -m tests.once_more --durations=20 tests/tuning/test_real_tunes.py

suite: $(VENV)/.with-dev
	$(BIN)/python -m tests.once_more -n 4 --dist worksteal --durations=20 $(APART)

test-thorough: lint  ## and what takes long and seldom finds what the others miss (about an hour)
	$(BIN)/python -m tests.once_more -n 3 --dist worksteal --thorough $(APART)
	$(BIN)/python -m tests.once_more --thorough tests/tuning/test_real_tunes.py
	$(BIN)/python -m pytest --thorough -rs tests/machines --ignore tests/machines/test_ray.py

test-machines: $(VENV)/.with-dev  ## engines for real: torchrun, MPI and Slurm on hosts of network namespaces, as root
	sh tests/machines/install.sh
	$(BIN)/python -m tests.once_more -n 2 --dist loadfile -rs --durations=5 tests/machines --ignore tests/machines/test_ray.py

test-ray: $(VENV)/.with-dev  ## Ray on two such hosts, in an environment of its own (0.5 GB)
	test -x .venv-ray/bin/python || $(PYTHON) -m venv .venv-ray
	.venv-ray/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ray]' pytest pytest-timeout hypothesis
	.venv-ray/bin/python -m pytest -rs tests/machines/test_ray.py

test-oldest: VENV_OF := .venv-oldest
test-oldest: .venv-oldest/.with-dev  ## the suite with the oldest Python and torch that hasten supports
	$(SUITE)

test-newest: VENV_OF := .venv-newest
test-newest: .venv-newest/.with-dev  ## the suite with the newest Python that torch supports, and the newest torch
	$(SUITE)

define SUITE
$(VENV_OF)/bin/python -m tests.once_more -n 3 --dist worksteal $(APART)
$(VENV_OF)/bin/python -m tests.once_more tests/tuning/test_real_tunes.py
endef

# Without constraints.txt: its versions do not support every Python.
.venv-oldest/.with-dev: pyproject.toml
	test -x .venv-oldest/bin/python || $(OLDEST_PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' torch==2.9.0
	touch $@

.venv-newest/.with-dev: pyproject.toml
	test -x .venv-newest/bin/python || $(NEWEST_PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

lint: style types

style: $(VENV)/.with-dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check

types: $(VENV)/.with-dev
	$(BIN)/mypy

bench: $(VENV)/.with-dev  ## measure what the documents claim, and say what differs here; raw numbers go to benchmarks/results
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.observation
	$(BIN)/python -m benchmarks.examples fashion_cnn
	$(BIN)/python -m benchmarks.examples augmented_resnet
	$(BIN)/python -m benchmarks.cures
	$(BIN)/python -m benchmarks.diagnosis
	$(BIN)/python -m benchmarks.backends
	$(BIN)/python -m benchmarks.layouts

bench-quick: $(VENV)/.with-dev  ## before a change and after it: start-up, watching, a known gain, one tune, in five minutes
	$(BIN)/python -m benchmarks.quick

bench-truth: $(VENV)/.with-bench  ## are intervals and claims right? simulate, measure known effects, write docs/measuring.md
	$(BIN)/python -m benchmarks.coverage
	$(BIN)/python -m benchmarks.known_effects --rounds 4
	$(BIN)/python -m benchmarks.rounding
	$(BIN)/python -m benchmarks.measuring

compatibility: $(VENV)/.with-dev  ## run every script of tests/scripts, write docs/compatibility.md from that
	$(BIN)/python -m benchmarks.compatibility run
	$(BIN)/python -m benchmarks.compatibility write

$(VENV)/.with-%: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[$*]'
	touch $@

clean:
	rm -rf $(VENV) .venv-ray .venv-oldest .venv-newest build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
